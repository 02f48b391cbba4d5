"""A real Ray cluster of two hosts on this machine, for tests; nothing of it outlives them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from processes import Command, Started, command_line, eventually

SMALL = ("--object-store-memory", 80_000_000, "--disable-usage-stats", "--block")
RAYLET = "raylet/raylet"
TRIES = 4
TOO_SLOW = "timed out during startup"


class RayCluster:
    """A head, and hosts that can be added and killed: each is `ray start` in its own session."""

    def __init__(self, started: Started, folder: Path) -> None:
        self.started = started
        self.folder = folder
        self.hosts: list[Command] = []
        self.address = ""

    def begin(self) -> None:
        """Starts the head."""
        # Ray would always take the same port for that.
        client = ("--ray-client-server-port", self.started.ports.hold())
        current = self.newest / "ray_current_cluster"
        self._start("--head", "--port", 0, *client, "--include-dashboard", "false")
        self.address = current.read_text().strip()

    def add(self, *options: object) -> Command:
        """Another host, with an address of its own."""
        # One log monitor is enough for a machine.
        own = ("--node-ip-address", f"127.0.0.{1 + len(self.hosts)}", "--include-log-monitor", 0)
        return self._start("--address", self.address, *own, *options)

    def _start(self, *options: object) -> Command:
        """Returns when the cluster has it."""
        words = "Ray runtime started"
        for _ in range(TRIES):
            # Sockets are in that folder, and so its path must be short.
            where = ("--temp-dir", self.newest, "--num-cpus", 2)
            host = self.started.command("ray", "start", *options, *where, *SMALL)

            def settled(host: Command = host) -> bool:
                return host.poll() is not None or words in host.out_file.read_text()

            eventually(settled)
            if host.poll() is None:
                self.hosts.append(host)
                return host
            # It gives itself half a minute, which is not enough on a machine with much to do.
            assert TOO_SLOW in host.err, host.end()
            end_session(host.pid)
            shutil.rmtree(self.newest)
        skip_too_slow()

    @property
    def newest(self) -> Path:
        """Where the next host puts its files."""
        return self.folder / str(len(self.hosts))

    def kill(self, host: Command) -> None:
        """Kills a host's raylet: all that Ray is there to others."""
        (raylet,) = [pid for pid in session(host.pid) if RAYLET in command_line(pid)]
        os.kill(raylet, signal.SIGKILL)

    def end(self) -> None:
        """Ends all that is left of its hosts: workers have no mark by which they could be found."""
        for host in self.hosts:
            end_session(host.pid)
            host.end()


def skip_too_slow() -> NoReturn:
    """For a Ray that was too slow for itself at every try."""
    pytest.skip(f"Ray had no time to start here, {TRIES} times: it gives itself 30 s")


def end_session(leader: int) -> None:
    """Kills the processes of a session, and returns when they are gone."""
    for pid in session(leader):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not session(leader))


def session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, _, of = (process / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of) == leader and state != "Z":
                found.append(int(process.name))
    return found


@contextlib.contextmanager
def ray_cluster(started: Started) -> Iterator[RayCluster]:
    """Its head alone, with two CPUs; whoever is started meanwhile may use it, and nobody else."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    cluster = RayCluster(started, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        try:
            cluster.begin()
            yield cluster
        finally:
            cluster.end()
            shutil.rmtree(folder, ignore_errors=True)
