"""A problem or a rule that people bring themselves: found by name, and handed to local nodes.

Code is taken from whoever starts a process, and never from the network. The only module beside the
commands' table that imports by name.
"""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cloudpickle

from lppa.node.blame import blame
from lppa.protocol.errors import LppaError, WrongUse
from lppa.protocol.settings import OWN, RULES

# PyTorch takes seconds, and most runs bring no code.
if TYPE_CHECKING:
    from lppa.models.problem import Problem

    Brought = Problem | Callable[[], Problem]


@dataclass
class OwnCode:
    """What a run brings: a problem, or a function that makes one, and a class of rule.

    Either may be the name of where it is, as FILE.py:NAME: then nothing of it is loaded yet.
    """

    problem: Brought | str | None = None
    rule: type | str | None = None

    @cached_property
    def made(self) -> Problem | None:
        """The problem itself."""
        return None if self.problem is None else make_problem(self.problem)

    def pack(self) -> bytes:
        """For a process on this machine; classes and functions of scripts and notebooks too."""
        try:
            # Not what a function has made here: every process makes it for itself.
            packed: bytes = cloudpickle.dumps(OwnCode(self.problem, self.rule))
            return packed
        except Exception as error:
            raise WrongUse(
                f"the problem cannot be handed to other processes: {error}; give a function that "
                "makes it instead"
            ) from None


def unpack(packed: bytes) -> OwnCode:
    """What `pack` made, found where it was named; the rule is known in this process from here."""
    try:
        given: OwnCode = pickle.loads(packed)
    except Exception as error:
        # On another machine: of modules only the name has come.
        raise WrongUse(
            f"the code that the run brings cannot be loaded by Python {platform.python_version()} "
            f"on {platform.node()} ({type(error).__name__}: {error}): have there what it imports, "
            "and the same Python, or put all of it into one file"
        ) from error
    return found(given)


def found(code: OwnCode) -> OwnCode:
    """The same with what it names; the rule is known in this process from here on."""
    problem, rule = code.problem, code.rule
    if isinstance(problem, str):
        # Found even if it is never made: what is not there is told now.
        problem = find(problem, "problem")
    if isinstance(rule, str):
        spec, rule = rule, find(rule, "--rule")
        if not isinstance(rule, type):
            raise WrongUse(f"--rule {spec} names no class")
    if rule is not None:
        register(rule)
    return OwnCode(problem, rule)


def names_of(code: OwnCode) -> dict[str, str]:
    """What settings call the code of a run, which must have been found."""
    names = {}
    if isinstance(code.rule, type):
        names["rule"] = register(code.rule)
    if code.made is not None:
        names |= {"dataset": OWN + code.made.name, "model": "own"}
    return names


def make_problem(given: object) -> Problem:
    """A problem as it was given, or as the function that was given makes it.

    A text says where to find either.
    """
    from lppa.models.problem import Problem

    if isinstance(given, str):
        given = find(given, "problem")
    made: Any = given
    if not isinstance(given, Problem) and callable(given):
        try:
            made = given()
        except LppaError:
            raise
        except Exception as error:
            whose = blame(error) or f"{type(error).__name__}: {error}"
            raise WrongUse(f"the problem cannot be made: {whose}") from error
    if not isinstance(made, Problem):
        raise WrongUse(f"a problem must be an lppa.Problem, not a {type(made).__name__}")
    return made


def register(rule: type) -> str:
    """Makes a rule known in this process; returns what settings call it."""
    from lppa.node.rules import rule as named

    name: str = getattr(rule, "rule_name", OWN + rule.__name__)
    named(name.removeprefix(OWN), getattr(rule, "rule_noise", "none"))(rule)
    return name


def find(spec: str, what: str) -> Any:
    """The object that FILE.py:NAME or package.module:NAME names."""
    where, colon, name = spec.rpartition(":")
    if not colon or not where or not name:
        raise WrongUse(f"{what} {spec!r} is not like FILE.py:NAME or package.module:NAME")
    module = _from_file(Path(where), what) if where.endswith(".py") else _by_name(where, what)
    if not hasattr(module, name):
        raise WrongUse(f"{what}: there is no {name} in {where}")
    return getattr(module, name)


def is_spec(rule: str) -> bool:
    """Whether a rule is given as FILE.py:NAME, rather than as the name of one."""
    return ":" in rule and rule not in RULES and not rule.startswith(OWN)


def _from_file(path: Path, what: str) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise WrongUse(f"{what}: {path} does not exist")
    name = f"lppa_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise WrongUse(f"{what}: {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # What stands beside the file can be imported from it, as if it were run.
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise WrongUse(f"{what}: {blame(error) or f'{type(error).__name__}: {error}'}") from error
    finally:
        sys.path.remove(str(path.parent))
    # Nobody else can import it by that name.
    cloudpickle.register_pickle_by_value(module)
    return module


def _by_name(name: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise WrongUse(f"{what}: {name} cannot be imported: {error}") from None
