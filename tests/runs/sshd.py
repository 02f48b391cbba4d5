"""A real sshd for tests: on a port of its own, with throw-away keys, for this user alone."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from processes import MARK, Command, Started, eventually

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
# Commands that lead to a machine, and its addresses: two hosts that are this one.
HERE = (((), ("127.0.0.1", "127.0.0.2")),)
CONFIG = """\
Port {port}
{listen}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxStartups 100
"""
CLIENT = """\
IdentityFile {folder}/user
IdentitiesOnly yes
User {user}
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
"""


class Sshd:
    """It listens while the test's processes live; `hosts` is the list for --hosts."""

    def __init__(
        self,
        started: Started,
        folder: Path,
        machines: Sequence[tuple[Sequence[Any], Sequence[str]]] = HERE,
    ) -> None:
        if SSHD is None or shutil.which("ssh") is None:
            pytest.skip("there is no sshd here: apt-get install openssh-server")
        folder.mkdir()
        self.folder = folder
        for name in ("host", "user", "stranger"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(make, check=True)
        shutil.copy(folder / "user.pub", folder / "authorized_keys")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        (self.port,) = started.ports.choose(1)
        self._write("client", CLIENT.format(folder=folder, user=getpass.getuser()))
        key = " ".join((folder / "host.pub").read_text().split()[:2])
        addresses = [address for _, several in machines for address in several]
        known = [f"[{address}]:{self.port} {key}\n" for address in addresses]
        self._write("known_hosts", "".join(known))
        self.commands = [self._listen(started, *machine) for machine in machines]
        self.hosts = self._write("hosts", self._hosts(started.mark, started.temporary, addresses))

    def _listen(self, started: Started, way: Sequence[Any], addresses: Sequence[str]) -> Command:
        listen = "\n".join(f"ListenAddress {address}" for address in addresses)
        text = CONFIG.format(port=self.port, folder=self.folder, listen=listen)
        config = self._write(f"config-{addresses[0]}", text)
        command = started.command(*way, SSHD, "-D", "-e", "-f", config)
        eventually(lambda: command.err.count("Server listening") == len(addresses))
        return command

    @property
    def pids(self) -> set[int]:
        """The processes that listen."""
        return {command.pid for command in self.commands}

    @property
    def ssh(self) -> str:
        """How ssh is called."""
        return f"ssh -F {self.folder}/client"

    def _hosts(self, mark: str, temporary: Path, addresses: Sequence[str]) -> str:
        """The list; Python there has this test's lppa, and leaves its mark."""
        kept = ("PYTHONPATH", "PYTHONSAFEPATH", "OMP_NUM_THREADS")
        told = {name: os.environ[name] for name in kept if name in os.environ}
        told |= {MARK: mark, "TMPDIR": str(temporary)}
        words = " ".join(f"'{name}={value}'" for name, value in told.items())
        python = self._write("python", f'#!/bin/sh\nexec env {words} {sys.executable} "$@"\n')
        python.chmod(0o755)
        lines = [f"{address}:{self.port} python={python}" for address in addresses]
        return "# of this test\n\n" + "\n".join(lines) + "  # the last\n"

    def _write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name
