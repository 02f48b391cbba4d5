"""A real sshd for tests: on a port of its own, with throw-away keys, for this user alone."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import MARK, Started, eventually

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
ADDRESSES = ("127.0.0.1", "127.0.0.2")  # of two hosts, which are one machine
CONFIG = """\
Port {port}
ListenAddress {addresses[0]}
ListenAddress {addresses[1]}
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

    def __init__(self, started: Started, folder: Path) -> None:
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
        self._write("config", CONFIG.format(port=self.port, folder=folder, addresses=ADDRESSES))
        self._write("client", CLIENT.format(folder=folder, user=getpass.getuser()))
        key = " ".join((folder / "host.pub").read_text().split()[:2])
        known = [f"[{address}]:{self.port} {key}\n" for address in ADDRESSES]
        self._write("known_hosts", "".join(known))
        self.command = started.command(SSHD, "-D", "-e", "-f", folder / "config")
        eventually(lambda: self.command.err.count("Server listening") == 2, what=self.command.err)
        self.hosts = self._write("hosts", self._hosts(started.mark, started.temporary))

    @property
    def ssh(self) -> str:
        """How ssh is called."""
        return f"ssh -F {self.folder}/client"

    def _hosts(self, mark: str, temporary: Path) -> str:
        """Two hosts; Python there has this test's lppa, and leaves its mark."""
        kept = ("PYTHONPATH", "PYTHONSAFEPATH", "OMP_NUM_THREADS")
        told = {name: os.environ[name] for name in kept if name in os.environ}
        told |= {MARK: mark, "TMPDIR": str(temporary)}
        words = " ".join(f"'{name}={value}'" for name, value in told.items())
        python = self._write("python", f'#!/bin/sh\nexec env {words} {sys.executable} "$@"\n')
        python.chmod(0o755)
        lines = [f"{address}:{self.port} python={python}" for address in ADDRESSES]
        return "# both are this machine\n\n" + "\n".join(lines) + "  # the second\n"

    def _write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name
