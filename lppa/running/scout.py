"""A process that looks at data and people's own code before a run, so that its launcher need not.

PyTorch, the data and a problem that somebody brings take hundreds of megabytes; the process that
launches a run lives as long as the run does, and this one only until the nodes are started. Not a
node: it takes no part in anything.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from lppa.own_code import OwnCode, found, names_of
from lppa.protocol.errors import LppaError, WrongUse
from lppa.protocol.settings import Settings
from lppa.running.facts import Facts, look
from lppa.running.launch import describe_exit, end_with_the_run, fork, fork_context, warm_up
from lppa.running.signals import uninterrupted


class Scout:
    """Asks a process of its own about a run's code and data; started by the first question."""

    def __init__(self, code: OwnCode | None = None) -> None:
        self.code = code
        self.processes: list[BaseProcess] = []
        self.pipe: Connection | None = None

    def names(self) -> dict[str, str]:
        """What settings call the code that the run brings: its rule, its problem as a data set."""
        names: dict[str, str] = self._ask("names")
        return names

    def look(self, settings: Settings, nodes: int, seed: int) -> Facts | None:
        """What is known of the run's data and network; wrong use is told right here."""
        facts: Facts | None = self._ask("look", settings, nodes, seed)
        return facts

    def keep_code(self, path: Path) -> None:
        """Writes the code to a file that local nodes take it from."""
        self._ask("keep_code", path)

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        with uninterrupted():
            for process in self.processes:
                process.kill()
                process.join()
                process.close()
            self.processes = []
            if self.pipe is not None:
                self.pipe.close()
                self.pipe = None

    def _ask(self, errand: str, *given: Any) -> Any:
        pipe = self._start() if self.pipe is None else self.pipe
        try:
            pipe.send((errand, given))
            well, value = pipe.recv()
        except (EOFError, OSError):
            (process,) = self.processes
            process.join()
            how = describe_exit(process.exitcode or 0)
            raise WrongUse(
                f"the process that looks at data and code before the run {how}: is there enough "
                "memory, and does nothing in the problem end the process that it is in?"
            ) from None
        if not well:
            raise value
        return value

    def _start(self) -> Connection:
        packed = None if self.code is None else self.code.pack()
        warm_up()
        ours, theirs = fork_context().Pipe()
        handlers = logging.getLogger("lppa").handlers
        level = handlers[0].level if handlers else None
        self.pipe = ours
        fork(scout_process, (theirs, level), self.processes)
        theirs.close()
        if packed is not None:
            self._ask("bring", packed)
        return ours


class Errands:
    """What a scout can be asked, as it is done in its own process."""

    def __init__(self) -> None:
        self.packed = b""
        self.code = OwnCode()

    def bring(self, packed: bytes) -> None:
        """Finds the code of the run, and makes it known here."""
        given: OwnCode = pickle.loads(packed)
        self.code = found(given)
        # What was named by its file is kept as it is now: the file may change while nodes start.
        named = isinstance(given.problem, str) or isinstance(given.rule, str)
        self.packed = self.code.pack() if named else packed

    def names(self) -> dict[str, str]:
        """See `Scout`."""
        return names_of(self.code)

    def look(self, settings: Settings, nodes: int, seed: int) -> Facts | None:
        """See `Scout`."""
        return look(settings, nodes, seed, self.code.made)

    def keep_code(self, path: Path) -> None:
        """See `Scout`."""
        path.write_bytes(self.packed)


def scout_process(pipe: Connection, level: int | None) -> None:
    """Answers questions until nobody asks any more; runs in the child."""
    # Ctrl-C in a terminal reaches the whole group; the launching process decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_the_run()
    if level is not None:
        from lppa.shell import start_logging

        start_logging(level)
    errands = Errands()
    known: dict[str, Callable[..., Any]] = {
        "bring": errands.bring,
        "names": errands.names,
        "look": errands.look,
        "keep_code": errands.keep_code,
    }
    with contextlib.suppress(EOFError):
        while True:
            errand, given = pipe.recv()
            pipe.send(_answer(known[errand], given))
            sys.stdout.flush()


def _answer(errand: Callable[..., Any], given: tuple[Any, ...]) -> tuple[bool, Any]:
    """Whether it went well, and what came of it: a value, or the error."""
    try:
        return True, errand(*given)
    except SystemExit as error:
        return False, WrongUse(f"the problem leaves by sys.exit({error.code!r})")
    except Exception as error:
        return False, _portable(error)


def _portable(error: Exception) -> Exception:
    """An error as another process can raise it, with where it came from as its cause."""
    there = "".join(traceback.format_exception(error))
    if not isinstance(error, LppaError):
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return multiprocessing.ProcessError(there)
    return _With(error, there)


class _With(Exception):
    """Becomes the error itself when it is unpickled; a traceback does not travel."""

    def __init__(self, error: Exception, there: str) -> None:
        self.error, self.there = error, there

    def __reduce__(self) -> tuple[Callable[..., Exception], tuple[Exception, str]]:
        return _caused, (self.error, self.there)


def _caused(error: Exception, there: str) -> Exception:
    error.__cause__ = multiprocessing.ProcessError(f"in another process:\n{there}")
    return error
