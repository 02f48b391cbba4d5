"""The architecture as the folders show it: who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from lppa.protocol.settings import RULES

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "protocol": {"protocol"},
    "models": {"models", "protocol"},  # of protocol only the errors that people see
    "node": {"node", "models", "protocol"},
    "coordinator": {"coordinator", "models", "protocol"},
    "lppa": None,  # what people use: it may know all
}
LAYERS = [name for name in ALLOWED if name != "lppa"]


def modules(folder):
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, folder
    return found


def imports(path):
    """The names of all modules that a file imports, at its top or anywhere inside."""
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{path}: a relative import hides where it points"
            for alias in statement.names:
                yield f"{statement.module}.{alias.name}"


def layer(name):
    """The layer that a module of ours is in, None for others."""
    parts = name.split(".")
    if parts[0] != "lppa":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "lppa"


@pytest.mark.parametrize("folder", LAYERS)
def test_imports_point_down_only(folder):
    for path in modules(folder):
        ours = [name for name in imports(path) if name.split(".")[0] == "lppa"]
        assert {layer(name) for name in ours} <= ALLOWED[folder], path
        if folder == "models":
            named = [name for name in ours if layer(name) == "protocol"]
            assert all(name.startswith("lppa.protocol.errors.") for name in named), path


@pytest.mark.parametrize("folder", ALLOWED)
def test_no_module_is_imported_by_a_string_but_the_commands_and_peoples_own_code(folder):
    for path in modules(folder):
        if path in (ROOT / "lppa" / "cli.py", ROOT / "lppa" / "own_code.py"):
            continue
        for name in imports(path):
            assert not name.startswith(("importlib.import_module", "importlib.__import__")), path
            assert name not in ("importlib", "runpy"), path
        called = [
            node.func
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        ]
        assert "__import__" not in {f.id for f in called if isinstance(f, ast.Name)}, path


LISTS = ("models/rules.py", "node/rules.py", "protocol/settings.py")
NAMES_RULES = {
    *LISTS,
    "lppa/reproduce/experiments.py",  # the paper compares just these
    "lppa/reproduce/paper.py",
    "lppa/bench/measures.py",  # what rounds are measured against
    "lppa/bench/rounds.py",
}


def rules_named(path):
    """The rules of ours that a module has as strings.

    Loggers and packages are called lppa too: that one counts where something is compared with it,
    or looked up by it.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and node.value in set(RULES) - {"lppa"}:
            yield node.value
        elif isinstance(node, ast.Compare | ast.Dict):
            parts = node.keys if isinstance(node, ast.Dict) else [node.left, *node.comparators]
            inside = [part for one in parts if one for part in ast.walk(one)]
            if any(isinstance(one, ast.Constant) and one.value == "lppa" for one in inside):
                yield "lppa"


@pytest.mark.parametrize("folder", ALLOWED)
def test_what_a_rule_does_is_asked_of_its_facts_and_not_of_its_name(folder):
    for path in modules(folder):
        if path.relative_to(ROOT).as_posix() not in NAMES_RULES:
            assert not set(rules_named(path)), path


@pytest.mark.parametrize("path", sorted(NAMES_RULES))
def test_modules_that_may_name_rules_do_so(path):
    assert set(rules_named(ROOT / path)), path
    assert path not in LISTS or "dsgd" in set(rules_named(ROOT / path))


@pytest.mark.parametrize("folder", ["models", "node", "coordinator", "lppa"])
def test_only_the_protocol_knows_zeromq(folder):
    for path in modules(folder):
        if path.is_relative_to(ROOT / "lppa" / "bench"):
            continue  # it measures ZeroMQ bare
        known = [name for name in imports(path) if name.split(".")[0] == "zmq"]
        known += [name for name in imports(path) if name.startswith("lppa.protocol.zeromq")]
        assert not known, path


@pytest.mark.parametrize("folder", ALLOWED)
def test_every_module_says_what_it_is_for_and_stays_short(folder):
    for path in modules(folder):
        text = path.read_text()
        assert not text.strip() or ast.get_docstring(ast.parse(text)), path
        assert len(text.splitlines()) <= 500, path


@pytest.mark.parametrize("module", ["lppa", "lppa.cli", "lppa.commands.run", "lppa.commands.node"])
def test_commands_start_without_pytorch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
