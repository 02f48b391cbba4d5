"""Real processes for tests: every one has a deadline, and none outlives its test."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from ports import Ports

from lppa.protocol.book import read_book
from lppa.protocol.messages import Progress
from lppa.protocol.network import NetworkLinks
from lppa.running.launch import warm_up

COMMANDS = Path(sys.executable).parent
MARK = "LPPA_TEST_MARK"
# Seconds for what is sure to come: a machine with much else to do takes long to import PyTorch.
PATIENCE = 300.0


def eventually(condition: Callable[[], Any], seconds: float = PATIENCE, what: str = "") -> Any:
    """What the condition says as soon as that is true; fails when it does not become so."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {seconds:g} s: {what or condition}")
        pause.wait(0.05)
    return result


@dataclass(frozen=True)
class Ended:
    """How a process ended, and all that it said."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines that tell a person what is wrong."""
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


class Command:
    """One command as a process of its own; what it says goes to files, so it never blocks."""

    def __init__(self, said: Path) -> None:
        self.out_file, self.err_file = said.with_suffix(".out"), said.with_suffix(".err")

    @property
    def err(self) -> str:
        """What it has said on standard error so far."""
        # It may be in the middle of a line, and so of a letter.
        return self.err_file.read_text(errors="replace") if self.err_file.exists() else ""

    def says(self, text: str, seconds: float = PATIENCE) -> None:
        """Returns when it has said that on standard error."""

        def said() -> bool:
            # In this order: it may speak and end between two looks.
            ended = self.poll() is not None
            if text in self.err:
                return True
            if ended:
                raise AssertionError(f"ended without saying {text!r}: {self.err}")
            return False

        eventually(said, seconds, f"{text!r} in {self.err}")

    def end(self, seconds: float = PATIENCE) -> Ended:
        """Waits for the process; one that does not end in time is a failure."""
        eventually(lambda: self.poll() is not None, seconds, f"the end of {self}; {self.err}")
        return Ended(self.poll(), self.out_file.read_text(), self.err)

    def signal(self, number: int) -> None:
        """Sends a signal to this process only."""
        os.kill(self.pid, number)


@contextlib.contextmanager
def heeding_ctrl_c() -> Iterator[None]:
    """A shell that runs the tests in the background makes all that they start deaf to Ctrl-C."""
    deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if deaf:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if deaf:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


class Spawned(Command):
    """A console script, started from scratch in a session of its own."""

    def __init__(self, argv: list[str], said: Path, here: Path, environment: dict) -> None:
        super().__init__(said)
        with self.out_file.open("wb") as out, self.err_file.open("wb") as err, heeding_ctrl_c():
            self.process = subprocess.Popen(
                [COMMANDS / argv[0], *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=here,
                env=environment,
                start_new_session=True,
            )
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.poll()

    def signal_group(self, number: int) -> None:
        """Sends a signal to all processes that it started too, as a terminal does."""
        os.killpg(self.pid, number)


class Forked(Command):
    """A command forked from a server that has PyTorch in memory: the same process, sooner."""

    def __init__(
        self,
        argv: list[str],
        said: Path,
        here: Path,
        temporary: Path,
        life: Callable | None = None,
        given: tuple = (),
    ) -> None:
        super().__init__(said)
        warm_up()
        self.process = multiprocessing.get_context("forkserver").Process(
            target=life or run_command,
            args=(*given, argv, self.out_file, self.err_file, here, temporary),
        )
        self.process.start()
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode


def run_command(
    argv: list[str], out_file: Path, err_file: Path, here: Path, temporary: Path
) -> None:
    """The life of a forked command; runs in the child."""
    os.setsid()
    os.chdir(here)
    tempfile.tempdir = str(temporary)
    # As in a process of its own: the fork server keeps interruptions off its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for path, descriptor in ((out_file, 1), (err_file, 2)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    (entry,) = metadata.entry_points(group="console_scripts", name=argv[0])
    entry.load()(argv[1:], prog_name=argv[0])


def run_held_node(gate: Path, round: int, *given: Any) -> None:
    """The life of `lppa-node` that sends nothing of a round or later ones before a file is there.

    It goes on receiving meanwhile. Runs in the child.
    """
    honest = NetworkLinks.send

    def send(self: NetworkLinks, message: Any, *receivers: int) -> None:
        while message.round >= round and not gate.exists():
            self._gather(0.05)
        honest(self, message, *receivers)

    NetworkLinks.send = send
    run_command(*given)


def run_talkative_node(*given: Any) -> None:
    """The life of `lppa-node` that is heard of while it waits for others; runs in the child.

    A coordinator that nobody tells anything gives up about when its nodes do; who is quicker to
    say so is not what a test should depend on.
    """
    honest = NetworkLinks._gather

    def gather(self: NetworkLinks, seconds: float, count: int = 0, boxes: Any = ()) -> None:
        self.reports(Progress(self.round))
        honest(self, min(seconds, 1.0), count, boxes)

    NetworkLinks._gather = gather
    run_command(*given)


class Started:
    """The processes of one test; a context manager that leaves none of them behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.here = folder / "here"
        self.temporary = folder / "t"
        self.said = folder / "said"
        for made in (self.here, self.temporary, self.said):
            made.mkdir()
        self.mark = uuid.uuid4().hex
        self.commands: list[Command] = []
        self.ports = Ports()
        self.gate = folder / "gate"

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *error: Any) -> None:
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for command in self.commands:
            command.end()
            if isinstance(command, Forked):
                command.process.close()
        self.ports.close()
        eventually(lambda: not marked(self.mark), what="processes that were killed are gone")

    def command(self, *argv: Any) -> Spawned:
        """Starts a console script from scratch."""
        environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.temporary)}
        said = self.said / str(len(self.commands))
        self.commands.append(Spawned([str(a) for a in argv], said, self.here, environment))
        return self.commands[-1]

    def quick(self, *argv: Any, life: Callable | None = None, given: tuple = ()) -> Forked:
        """Starts a command by forking; `life` is what it does with what is given and the rest."""
        said = self.said / str(len(self.commands))
        spec = [str(a) for a in argv]
        self.commands.append(Forked(spec, said, self.here, self.temporary, life, given))
        return self.commands[-1]

    def node(self, node: int, peers: Path, *options: Any, **life: Any) -> Forked:
        """Starts `lppa-node` by forking."""
        return self.quick("lppa-node", "--id", node, "--peers", peers, *options, **life)

    def held(self, round: int) -> dict[str, Any]:
        """How to start a node that, and so the run, goes no further until it is let go on."""
        return {"life": run_held_node, "given": (self.gate, round)}

    def let_go_on(self) -> None:
        """Nodes that were held are held no longer."""
        self.gate.touch()

    def peers(self, nodes: int, *options: Any) -> Path:
        """An address book with key files, and with ports that are kept free for this test."""
        while True:
            folder = self.folder / f"book-{len(self.commands)}"
            call = ("lppa", "peers", nodes, "--fixed-ports", "--out", folder, *options)
            ended = self.quick(*call).end()
            assert ended.code == 0, ended
            book = read_book(folder / "peers.json", insecure="--insecure" in options)
            # Tried again if another program was quicker to take one of the ports.
            with contextlib.suppress(OSError):
                for peer in (*book.nodes, book.coordinator):
                    self.ports.hold(int(peer.endpoint.rpartition(":")[2]))
                return folder / "peers.json"

    def coordinator(self, peers: Path, out: Path, *options: Any) -> Spawned:
        """Starts `lppa-coordinator`, and returns when it listens."""
        command = self.command("lppa-coordinator", "--peers", peers, "--out", out, *options)
        command.says("waiting for")
        return command

    def left(self) -> set[int]:
        """All processes that still live: those started here, and those that they started."""
        living = {command.pid for command in self.commands if command.poll() is None}
        return living | marked(self.mark)

    def all_end(self, seconds: float = PATIENCE) -> None:
        """Returns when no process lives any more; says which do if they take too long."""
        try:
            eventually(lambda: not self.left(), seconds)
        except AssertionError:
            left = {pid: command_line(pid) for pid in self.left()}
            raise AssertionError(f"still alive after {seconds:g} s: {left}") from None


def marked(mark: str) -> set[int]:
    """Living processes with the mark in their environment, from all of /proc."""
    wanted, found = f"{MARK}={mark}".encode(), set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.add(int(process.name))
    return found


def command_line(pid: int) -> str:
    """What a process was started as; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def node_pids(run: Path) -> dict[int, int]:
    """The process behind each node of a run on this machine: the one that has its files open."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    file = descriptor.readlink()
                    if file.name == "metrics.jsonl" and file.parents[1] == run / "nodes":
                        found[int(file.parent.name)] = int(process.name)
    return found


def is_asleep(pid: int) -> bool:
    """Whether a process's main thread waits for something."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def ignores(pid: int, number: int) -> bool:
    """Whether a process has set a signal to be ignored."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = (line.split()[1] for line in status if line.startswith("SigIgn:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics file, none if it is not there yet."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def read_summary(run: Path) -> dict[str, Any]:
    """summary.json."""
    return json.loads((run / "summary.json").read_text())


def changed(peers: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Another book beside a book, and so with the same key files, that differs in something."""
    content = json.loads(peers.read_text())
    change(content)
    other = peers.with_name(f"other-{uuid.uuid4().hex[:6]}.json")
    other.write_text(json.dumps(content))
    return other
