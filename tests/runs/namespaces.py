"""Machines for tests: network namespaces with addresses of their own, and a switch between them."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

IP = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""
TC = shutil.which("tc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""


class Lab:
    """Some machines on one switch; a context manager that takes all of them away again."""

    def __init__(self, machines: int) -> None:
        name = f"lppa-{uuid.uuid4().hex[:6]}"
        self.switch = f"{name}-switch"
        self.names = [f"{name}-{i}" for i in range(machines)]
        self.addresses = [f"10.0.0.{i + 1}" for i in range(machines)]

    def __enter__(self) -> Lab:
        if not IP or os.getuid() != 0:
            pytest.skip("network namespaces need root and `ip`")
        try:
            self._build()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
        return self

    def __exit__(self, *error: Any) -> None:
        for name in (*self.names, self.switch):
            subprocess.run([IP, "netns", "delete", name], capture_output=True)

    def _build(self) -> None:
        for name in (self.switch, *self.names):
            call(IP, "netns", "add", name)
            call(IP, "-n", name, "link", "set", "lo", "up")
        call(IP, "-n", self.switch, "link", "add", "bridge", "type", "bridge")
        call(IP, "-n", self.switch, "link", "set", "bridge", "up")
        for i, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            pair = ("type", "veth", "peer", "name", "eth0", "netns", name)
            call(IP, "-n", self.switch, "link", "add", port(i), *pair)
            call(IP, "-n", self.switch, "link", "set", port(i), "master", "bridge", "up")
            call(IP, "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            call(IP, "-n", name, "link", "set", "eth0", "up")

    def on(self, machine: int) -> tuple[str, ...]:
        """What stands before a command so that it runs on a machine."""
        return (IP, "netns", "exec", self.names[machine])

    def pull(self, machine: int) -> None:
        """Pulls a machine's cable."""
        call(IP, "-n", self.switch, "link", "set", port(machine), "down")

    def plug(self, machine: int) -> None:
        """Puts it back."""
        call(IP, "-n", self.switch, "link", "set", port(machine), "up")

    def shape(self, machine: int, how: Sequence[str]) -> None:
        """Makes a machine's link slow or lossy; skips where the kernel cannot."""
        try:
            call(TC, "-n", self.names[machine], "qdisc", "add", "dev", "eth0", "root", *how)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"this kernel has no {how[0]}: {getattr(error, 'stderr', error)}".strip())


def port(machine: int) -> str:
    """The switch's end of a machine's cable."""
    return f"port{machine}"


def call(*argv: str) -> None:
    """Does it, or raises with what it said."""
    subprocess.run(argv, check=True, capture_output=True, text=True)
