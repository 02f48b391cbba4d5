"""Hosts behind commands, such as ssh or srun: a launcher that talks with each through a pipe.

Which commands these are is not known here. A command's standard input stays open: its end, however
it comes, ends the host and its nodes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lppa.engines.frames import (
    BadFrame,
    End,
    Ended,
    Here,
    Refused,
    Started,
    Word,
    read_words,
    skip_to_greeting,
    to_bytes,
    write_frame,
)
from lppa.engines.host import Death
from lppa.engines.mirror import (
    BadPiece,
    Gone,
    Piece,
    drop_old_checkpoints,
    write_change,
)
from lppa.engines.parcel import Parcel
from lppa.protocol.errors import RunFailed
from lppa.protocol.names import name_all
from lppa.protocol.patience import Patience
from lppa.running.launcher import GRACE
from lppa.running.signals import postponed

log = logging.getLogger("lppa.engines")

HERE_EVERY = 5.0  # seconds
START = 60.0  # seconds at least for a host to load what it needs
SILENT = 30.0  # seconds without a word after which a host that is ending is given up
LONGEST_WORDS = 300
NO_LPPA = "install lppa there, or say which Python has it: python=PATH"
LAST_LINES, MOST_LINE = 20, 4096


class PipedHost:
    """One host, the command that it is behind, and a thread that hears it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        parcel: Parcel,
        run: Path,
        advice: Mapping[int, str],
    ) -> None:
        self.name = name
        self.advice = advice
        self.command = list(command)
        self.parcel = parcel
        self.run = run
        self.dead: dict[int, str] = {}
        self.started = False  # all of its nodes
        self.ended = False  # with nothing left to send
        self.asked_to_end = False
        self.why = ""  # it is no more
        self.heard = threading.Event()
        # By whoever waits: a run that was stopped itself has not read what hosts have said.
        self.silence = Patience(SILENT)
        self.process: subprocess.Popen[bytes] | None = None
        self.thread = threading.Thread(target=self._live, daemon=True, name=name)
        self.listener = threading.Thread(target=self._listen, daemon=True, name=name)
        self.said: deque[str] = deque(maxlen=LAST_LINES)
        self.lock = threading.Lock()
        self.may_write = False

    def start(self, coordinator: str) -> None:
        """Starts the command; returns at once."""
        self.packed = self.parcel.to(coordinator).pack()
        # A session of its own: Ctrl-C is for the run, which then ends its hosts in order.
        with postponed():
            try:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                raise RunFailed(f"{self.command[0]} cannot be started: {error.strerror}") from None
            self.listener.start()
            self.thread.start()

    @property
    def deaths(self) -> dict[int, str]:
        """Its nodes that are no more, and why."""
        if not self.why:
            return dict(self.dead)
        return {node: self.dead.get(node, self.why) for node in self.parcel.nodes}

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return not self.thread.is_alive()

    def is_silent(self) -> bool:
        """Whether nothing has come of it for too long, as far as anybody has looked."""
        if self.heard.is_set():
            self.heard.clear()
            self.silence.renew()
        return self.silence.look() <= 0

    def tell(self, word: Word) -> None:
        """Gives an order; one that cannot hear it any more is noticed by the thread."""
        process = self.process
        if process is None or process.stdin is None or not self.may_write:
            return
        with self.lock, contextlib.suppress(OSError, ValueError):
            write_frame(process.stdin, to_bytes(word))

    def ask_to_end(self, patience: float) -> None:
        """Tells the host to end, or ends the command if no node has begun: nothing is lost."""
        self.asked_to_end, self.silence = True, Patience(SILENT + patience)
        if self.started:
            self.tell(End(float(patience)))
            return
        assert self.process is not None and self.process.stdin is not None
        if self.may_write:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        # The command alone: what it has started is its own to end, or sees the end of its pipe.
        self.process.terminate()

    def kill(self, number: int) -> None:
        """Ends the command; the host sees the end of its pipe."""
        if self.process is not None and (self.process.poll() is None or not self.over):
            # Whatever still holds its pipe too, though the command itself may be gone.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def reap(self) -> None:
        """Returns when the command is no more."""
        if self.process is None:
            return
        for file in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if file is not None:
                    file.close()
        for patience, number in ((SILENT, signal.SIGTERM), (GRACE, signal.SIGKILL)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
            self.kill(number)
        self.process.wait()

    def _live(self) -> None:
        """The thread: all that is heard of a host, to its end."""
        trouble = "nobody could hear it any more"  # should anything at all go wrong here
        try:
            trouble = self._converse()
        finally:
            if not (self.ended and self.asked_to_end):
                # Set as the last thing: from now on its nodes are dead.
                self.why = f"was lost with host {self.name}: {trouble}"

    def _converse(self) -> str:
        """Sends the parcel and hears the host to its end; what went wrong with it, if it did."""
        assert self.process is not None and self.process.stdin is not None
        assert self.process.stdout is not None
        trouble = ""
        try:
            with self.lock, contextlib.suppress(BrokenPipeError):
                write_frame(self.process.stdin, self.packed)
                self.may_write = True
            self.packed = b""
            if skip_to_greeting(self.process.stdout):
                for word in read_words(self.process.stdout):
                    self.heard.set()
                    self._hear(word)
        except (BadFrame, BadPiece) as error:
            trouble = f"it sends what no host does: {error}"
        except (Refusal, OSError, ValueError) as error:
            trouble = str(error)
        if self.ended and self.asked_to_end:
            return ""
        if trouble:
            self.kill(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE)
        return trouble or self._last_words()

    def _listen(self) -> None:
        """Another thread: what the command says to people, of which the last is told."""
        assert self.process is not None and self.process.stderr is not None
        with self.process.stderr as file:
            while line := file.readline(MOST_LINE):
                self.said.append(line.decode(errors="replace"))

    def _hear(self, word: Word) -> None:
        if isinstance(word, Piece | Gone):
            write_change(self.run, word, self.parcel.nodes)
        elif isinstance(word, Death) and word.node in self.parcel.keys:
            self.dead[word.node] = word.how[:LONGEST_WORDS]
        elif isinstance(word, Started):
            self.started = True
        elif isinstance(word, Refused):
            raise Refusal(word.why)
        elif isinstance(word, Ended):
            self.ended = True
        else:
            raise BadFrame("a word out of place")

    def _last_words(self) -> str:
        """How the command ended, and what it said before."""
        self.listener.join(GRACE)
        code = None if self.process is None else self.process.poll()
        words = [line.strip() for line in self.said if line.strip()]
        how = "its pipe was closed" if code is None else _ending(self.command[0], code)
        last = words[-1][:LONGEST_WORDS] if words else ""
        advice = NO_LPPA if last.endswith("No module named lppa") else ""
        if not advice and code is not None and not self.started:
            advice = self.advice.get(code, "")
        told = f"{how} ({last})" if last else how
        return f"{told}; {advice}" if advice else told


class Refusal(Exception):
    """A host's own words about why it cannot do it."""


def _ending(command: str, code: int) -> str:
    name = Path(command).name
    if code < 0:
        return f"{name} was killed by {signal.Signals(-code).name}"
    return f"{name} ended with exit code {code}"


class PipedHosts:
    """The nodes of a run on hosts behind commands: a `Launcher`.

    `commands` and `parcels` are by the names of the hosts; `advice` is what to do about a command
    that ends with an exit code before it has started anything.
    """

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        parcels: Mapping[str, Parcel],
        run: Path,
        advice: Mapping[int, str] | None = None,
    ) -> None:
        self.run = run
        self.hosts = [
            PipedHost(name, commands[name], parcels[name], run, advice or {}) for name in parcels
        ]
        self.patience = max([START, *(parcel.timeout for parcel in parcels.values())])
        self.over = threading.Event()

    def start(self, coordinator: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Starts all; whoever calls this calls `end` too, also after an interruption."""
        for host in self.hosts:
            host.start(coordinator)
        threading.Thread(target=self._keep_up, daemon=True, name="hosts").start()
        patience = Patience(self.patience)
        while waiting := [host for host in self.hosts if not host.started]:
            for host in self.hosts:
                if host.why:
                    node = host.parcel.nodes[0]
                    raise RunFailed(f"node {node} {host.why}", node=node, round=0)
            if patience.look() <= 0:
                names = ", ".join(host.name for host in waiting)
                raise RunFailed(f"no nodes were started within {self.patience:g} s on {names}")
            meanwhile()
            self.over.wait(0.05)

    def _keep_up(self) -> None:
        """Tells hosts that somebody is there, and forgets checkpoints that nobody needs."""
        while not self.over.wait(HERE_EVERY):
            for host in self.hosts:
                host.tell(Here())
            self._forget()

    def _forget(self) -> None:
        lost = self.deaths()
        nodes = [node for host in self.hosts for node in host.parcel.nodes if node not in lost]
        with contextlib.suppress(OSError):
            drop_old_checkpoints(self.run, nodes, lost)

    def deaths(self) -> dict[int, str]:
        """Nodes whose process has ended badly or whose host is lost, and how."""
        return {node: how for host in self.hosts for node, how in host.deaths.items()}

    def end(self, patience: float = GRACE) -> None:
        """Waits for all nodes to end, then makes them; returns when all files are here."""
        begun = [host for host in self.hosts if host.process is not None]
        for host in begun:
            host.ask_to_end(patience)
        while left := [host for host in begun if not host.over]:
            for host in left:
                if host.is_silent():
                    host.kill(signal.SIGKILL)
            time.sleep(0.02)
        self.over.set()
        for host in self.hosts:
            host.reap()
            if host.why and host.started:
                whose = name_all(set(host.parcel.nodes))
                log.warning(
                    "warning: files of %s may be missing: what ran there %s", whose, host.why
                )
