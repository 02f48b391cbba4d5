"""Starts local nodes as processes of their own, through a fork server that imported PyTorch once.

What a node does is imported in the child alone.
"""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import selectors
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from lppa.protocol.book import AddressBook
from lppa.protocol.errors import LppaError
from lppa.protocol.files import forget_unfinished, make_private, open_privately
from lppa.running.chaos import Chaos, trouble_of
from lppa.running.launcher import GRACE
from lppa.running.limits import allow_files
from lppa.running.signals import postponed

# This module first: a child finds in it what it is to do. The last one closes what is shared.
PRELOAD = ["lppa.running.launch", "lppa.own_code", "lppa.node.preload"]


def warm_up() -> None:
    """Starts the fork server; returns at once, while PyTorch is still being imported there."""
    allow_files()
    fork_context().set_forkserver_preload(PRELOAD)
    # Until it has set up its own handling, a Ctrl-C would end it with a traceback. The tracker goes
    # first: starting it, which the fork server would do, clears the mask.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def fork_context() -> multiprocessing.context.ForkServerContext:
    """Where local processes are forked from."""
    return multiprocessing.get_context("forkserver")


def fork(target: Callable[..., None], given: tuple[Any, ...], noted: list[BaseProcess]) -> None:
    """Starts a process and notes it."""
    process = fork_context().Process(target=target, args=given)
    with postponed(), main_hidden():
        process.start()
        noted.append(process)


@contextlib.contextmanager
def main_hidden() -> Iterator[None]:
    """Keeps a child from running its parent's main script once more.

    Nothing of ours is in it, and a script that calls us at its top level would start a run in every
    node.
    """
    main = sys.modules["__main__"]
    kept = {name: vars(main)[name] for name in ("__file__", "__spec__") if name in vars(main)}
    for name in kept:
        setattr(main, name, None)
    if "__file__" in kept:
        del main.__file__
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(main, name, value)


def stop_fork_server() -> None:
    """It would end with this process; stopped by hand, nothing outlives a command."""
    stop = getattr(forkserver._forkserver, "_stop", None)
    if stop is None:
        return
    # At once: it has nothing to keep, and takes half a second to let go of PyTorch by itself.
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    stop()


@dataclass(frozen=True)
class Given:
    """What the nodes of a local run are started with.

    `code` is a file with what the run brings itself; with `resume` they go on from checkpoints.
    """

    folder: Path
    timeout: float
    attackers: tuple[int, ...] = ()
    code: Path | None = None
    chaos: Chaos = ()
    resume: bool = False


class LocalNodes:
    """The node processes of a run on this machine; none before `start`.

    They are all nodes of the book, or those that are named.
    """

    def __init__(
        self,
        book: AddressBook,
        secrets: Sequence[str | None],
        given: Given,
        nodes: Sequence[int] | None = None,
        first_place: int = 0,
    ) -> None:
        self.book = book
        self.given = given
        self.folder = given.folder
        self.nodes = tuple(range(len(secrets)) if nodes is None else nodes)
        self.secrets = tuple(secrets)
        self.first_place = first_place
        self.processes: list[BaseProcess] = []
        self.running = selectors.DefaultSelector()
        self.dead: dict[int, str] = {}

    def start(self, coordinator: str = "", meanwhile: Callable[[], None] = lambda: None) -> None:
        """Starts all; whoever calls this calls `end` too, also after an interruption."""
        warm_up()
        peer, book = self.book.coordinator, self.book
        book = replace(book, coordinator=replace(peer, endpoint=coordinator or peer.endpoint))
        calls = zip(self.nodes, self.secrets, strict=True)
        for place, (node, secret) in enumerate(calls, self.first_place):
            fork(node_process, (book, node, secret, self.given, place), self.processes)
            self.running.register(self.processes[-1].sentinel, selectors.EVENT_READ, node)
            meanwhile()

    def deaths(self) -> dict[int, str]:
        """Processes that have ended badly, and how; asked often, and there may be a thousand."""
        if not self.processes:
            return dict(self.dead)
        for key, _ in self.running.select(0):
            node: int = key.data
            code = self.processes[self.nodes.index(node)].exitcode
            if code is None:
                continue
            self.running.unregister(key.fileobj)
            if code:
                self.dead[node] = describe_exit(code) + self._last_words(node)
        return dict(self.dead)

    def _last_words(self, node: int) -> str:
        """What a process said before it ended, from its output file."""
        try:
            lines = output_file(self.folder, node).read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return f" ({lines[-1].strip()})" if lines else ""

    def end(self, patience: float = GRACE) -> None:
        """Waits for all processes to end, then makes them; every one is reaped."""
        self._wait(patience)
        for number, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, math.inf)):
            for process in self.processes:
                if process.exitcode is None and process.pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, number)
            self._wait(seconds)
        for node, process in zip(self.nodes, self.processes, strict=False):
            process.close()
            output = output_file(self.folder, node)
            if output.exists() and output.stat().st_size == 0:
                output.unlink()
            # Whoever was killed may have been writing.
            for place in (output.parent, output.parent / "checkpoints"):
                forget_unfinished(place)
        self.processes = []
        self.running.close()

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process in self.processes:
            left = max(0.0, deadline - time.monotonic())
            process.join(left if math.isfinite(left) else None)


def end_with_the_run(last_words: str = "") -> None:
    """Ends this process when the one that started it is gone: nobody else would.

    At once, wherever it is: it goes on from its checkpoints, as after any other end.
    """
    run = multiprocessing.parent_process()
    assert run is not None, "this process is started by another one"

    def watch() -> None:
        run.join()
        if last_words:
            print(last_words, file=sys.stderr, flush=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="the run").start()


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def output_file(folder: Path, node: int) -> Path:
    """Where a local node's standard output and error go; kept only if anything was said."""
    return folder / "nodes" / str(node) / "output.log"


def node_process(
    book: AddressBook, node: int, secret: str | None, given: Given, place: int
) -> None:
    """The life of a local node, the one at this place on this machine; runs in the child."""
    # Ctrl-C in a terminal reaches the whole group; the coordinator decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = output_file(given.folder, node)
    make_private(output.parent)
    with open_privately(output, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    logging.getLogger("lppa").setLevel(logging.INFO)
    end_with_the_run("the run that this node belongs to was killed")
    # Imported late: only the child is a node.
    from lppa.node.blame import blame
    from lppa.node.client import Means, run_node
    from lppa.node.policy import Policy
    from lppa.own_code import unpack

    try:
        means = Means(
            given.folder,
            given.timeout,
            record=node in given.attackers,
            resume=given.resume,
            problem=None if given.code is None else unpack(given.code.read_bytes()).made,
            at_round=trouble_of(given.chaos, node),
            place=place,
            supervised=True,
            # One person starts all of them: what the plan says is what that person has said.
            policy=Policy(allow_reveal_batches=True, trusts_folders=True),
        )
        run_node(book, node, secret, means)
    except Exception as error:
        if not isinstance(error, LppaError):
            traceback.print_exc()
            # The last line is what the coordinator shows, if it hears nothing else.
            print(blame(error) or f"{type(error).__name__}: {error}", file=sys.stderr)
            sys.exit(1)
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
