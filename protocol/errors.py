"""The errors that people see: one small family, each with its exit code.

Raised anywhere, shown by the commands as one line without a traceback. Programming errors are not
here: those keep Python's own exceptions.
"""

from __future__ import annotations

# How the error begins of a run whose own numbers grew beyond their type.
BLEW_UP = "training diverged"


class LppaError(Exception):
    """Something a person can act on; the message says what is wrong, where, and what to do."""

    exit_code = 1


class WrongUse(LppaError):
    """The command, a setting or an input file is wrong; nothing was started."""

    exit_code = 2


class RunFailed(LppaError):
    """A run was started and could not be finished."""

    def __init__(self, reason: str, *, node: int | None = None, round: int | None = None) -> None:
        super().__init__(reason)
        self.node = node
        self.round = round
