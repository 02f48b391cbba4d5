"""The architecture as the folders show it: who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "protocol": {"protocol"},
    "models": {"models", "protocol"},  # of protocol only the errors that people see
    "node": {"node", "models", "protocol"},
    "coordinator": {"coordinator", "models", "protocol"},
}


def modules(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path):
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield statement.module or ""


@pytest.mark.parametrize("folder", ALLOWED)
def test_imports_point_one_way(folder):
    for path in modules(folder):
        ours = [name.split(".") for name in imports(path) if name.startswith("lppa.")]
        assert {parts[1] for parts in ours} <= ALLOWED[folder], path
        if folder == "models":
            named = {".".join(parts[1:]) for parts in ours if parts[1] == "protocol"}
            assert named <= {"protocol.errors"}, path


@pytest.mark.parametrize("folder", ["models", "node", "coordinator"])
def test_only_the_protocol_knows_zeromq(folder):
    for path in modules(folder):
        assert not [name for name in imports(path) if name.split(".")[0] == "zmq"], path


@pytest.mark.parametrize("folder", ALLOWED)
def test_every_module_says_what_it_is_for_and_stays_short(folder):
    for path in modules(folder):
        text = path.read_text()
        assert not text.strip() or ast.get_docstring(ast.parse(text)), path
        assert len(text.splitlines()) <= 500, path


@pytest.mark.parametrize(
    "module", ["lppa.coordinator.cli", "lppa.coordinator.run_command", "lppa.node.command"]
)
def test_commands_start_without_pytorch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
