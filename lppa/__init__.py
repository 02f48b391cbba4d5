"""Decentralized federated learning with lossless privacy-preserving aggregation.

    import lppa

    run = lppa.run(dataset="digits", nodes=5, topology="ring", rounds=20, seed=1)
    run.summary["accuracy"], run.history["loss"], run.model(0), run.report()

A problem of one's own is an `lppa.Problem`; a rule of one's own is a class under `@lppa.rule`.
Names are loaded when they are first used: importing this costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from lppa.api import audit, load, resume, run
    from lppa.finished import History, Run
    from lppa.models.problem import Problem
    from lppa.node.rules import rule
    from lppa.node.updates import Local
    from lppa.protocol.errors import LppaError, RunFailed, WrongUse
    from lppa.running.listener import Listener

__all__ = [
    "History",
    "Listener",
    "Local",
    "LppaError",
    "Problem",
    "Run",
    "RunFailed",
    "WrongUse",
    "audit",
    "load",
    "resume",
    "rule",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lppa' has no attribute {name!r}")
    module: ModuleType
    if name in ("audit", "load", "resume", "run"):
        from lppa import api

        module = api
    elif name in ("History", "Run"):
        from lppa import finished

        module = finished
    elif name == "Problem":
        from lppa.models import problem

        module = problem
    elif name == "rule":
        from lppa.node import rules

        module = rules
    elif name == "Local":
        from lppa.node import updates

        module = updates
    elif name == "Listener":
        from lppa.running import listener

        module = listener
    else:
        from lppa.protocol import errors

        module = errors
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
