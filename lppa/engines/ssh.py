"""Hosts over plain ssh: nothing is installed or left there, and keys go through the pipe alone.

Reads the list of hosts and makes the commands; what happens in the pipe is in `piped`.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from lppa.engines.engine import Wanted
from lppa.engines.interface import is_address, own_address
from lppa.engines.parcel import Order
from lppa.engines.piped import PipedHosts
from lppa.engines.placing import place
from lppa.protocol.errors import WrongUse

WHERE = re.compile(
    r"(?:(?P<user>[\w.-]+)@)?(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>\d+))?"
)
EXAMPLE = "alice@10.0.0.2:22 slots=4 python=/opt/lppa/bin/python data=/data"
# Nobody is there to be asked, and a host that is gone is noticed within a minute.
OPTIONS = ("BatchMode=yes", "ServerAliveInterval=15", "ServerAliveCountMax=3", "LogLevel=ERROR")
MOST_SLOTS = 10_000
PYTHON = "python3"
# What ssh itself ends with; all other codes are those of the command there.
ADVICE = {255: "`ssh` to that host has to work without a question: try it by hand"}


@dataclass(frozen=True)
class SshHost:
    """One line of the list: where a host is, and what runs there.

    `slots` is how many nodes it should have beside others, `python` what has lppa installed, `data`
    the folder of the raw data.
    """

    host: str
    user: str | None = None
    port: int | None = None
    slots: int = 1
    python: str = PYTHON
    data: str | None = None

    @property
    def name(self) -> str:
        """As the line has it."""
        before = f"{self.user}@" if self.user else ""
        after = f":{self.port}" if self.port else ""
        return f"{before}[{self.host}]{after}" if ":" in self.host else before + self.host + after

    def command(self, ssh: list[str]) -> list[str]:
        """Starts a host there; nothing secret stands in it."""
        remote = [self.python, "-m", "lppa", "host"]
        if self.data is not None:
            remote = ["env", f"LPPA_DATA={self.data}", *remote]
        told = [*ssh, "-T", *(part for option in OPTIONS for part in ("-o", option))]
        told += ["-p", str(self.port)] if self.port else []
        told += ["-l", self.user] if self.user else []
        return [*told, "--", self.host, shlex.join(remote)]


class SshEngine:
    """The hosts of a list, each reached by ssh."""

    def __init__(self, wanted: Wanted) -> None:
        if wanted.hosts is None:
            raise WrongUse("--engine ssh needs to know the hosts: --hosts FILE, one on each line")
        self.hosts = read_hosts(Path(wanted.hosts))
        self.blocks = place(wanted.nodes, [host.slots for host in self.hosts])
        self.ssh = read_ssh(wanted.ssh or "ssh")
        self.interface = wanted.interface
        self.address = (
            own_address(wanted.interface) if wanted.interface else seen_from(self.hosts[0].host)
        )

    def launcher(self, order: Order) -> PipedHosts:
        """What starts the order's nodes."""
        # One machine's address tells others nothing: they take the one that they reach it by.
        interface = None if is_address(self.interface) else self.interface
        used = [(host, ids) for host, ids in zip(self.hosts, self.blocks, strict=True) if ids]
        commands = {host.name: host.command(self.ssh) for host, _ in used}
        parcels = {host.name: order.parcel(ids, interface) for host, ids in used}
        return PipedHosts(commands, parcels, order.folder, ADVICE)


def read_ssh(text: str) -> list[str]:
    """How ssh is called; refuses what nobody could call."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongUse(f"--ssh {text!r} cannot be understood: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise WrongUse(
            f"there is no {words[0] if words else 'ssh'} here: install it, or say by --ssh how ssh "
            "is called"
        )
    return words


def seen_from(host: str) -> str:
    """This machine's address for a host; ssh may know names that nobody else does."""
    try:
        return own_address(None, host)
    except WrongUse:
        return own_address(None)


def read_hosts(path: Path) -> list[SshHost]:
    """The hosts of a list, one on each line; what follows a # is for people."""
    try:
        # Some editors put a mark at the beginning of a file that is no part of the first name.
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise WrongUse(
            f"--hosts {path} cannot be read: {error.strerror}; it is a file with a host on each "
            f"line, like {EXAMPLE}"
        ) from None
    except UnicodeDecodeError as error:
        raise WrongUse(f"--hosts {path} cannot be read: {error}") from None
    found: dict[str, SshHost] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            host = read_host(words)
        except ValueError as error:
            raise WrongUse(
                f"--hosts {path}, line {number}: {error}; a line is like {EXAMPLE}"
            ) from None
        if host.name in found:
            raise WrongUse(
                f"--hosts {path}, line {number}: {host.name} is there already; for more nodes on "
                "it say slots=N"
            )
        found[host.name] = host
    if not found:
        raise WrongUse(f"--hosts {path} names no host; a line is like {EXAMPLE}")
    return list(found.values())


def read_host(words: list[str]) -> SshHost:
    """One line's words; raises ValueError with what is wrong."""
    match = WHERE.fullmatch(words[0])
    if match is None or words[0].startswith("-"):
        raise ValueError(f"{words[0]!r} is no host")
    told: dict[str, str] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if name not in ("slots", "python", "data") or not equals or not value or name in told:
            raise ValueError(f"{word!r} is none of slots=N, python=PATH and data=PATH")
        told[name] = value
    slots, port = told.get("slots", "1"), match["port"]
    if not slots.isascii() or not slots.isdigit() or not 0 < int(slots) <= MOST_SLOTS:
        raise ValueError(f"slots={slots} is no number of nodes")
    if port is not None and not 0 < int(port) < 65536:
        raise ValueError(f"there is no port {port}")
    return SshHost(
        match["host"].strip("[]"),
        match["user"],
        None if port is None else int(port),
        int(slots),
        told.get("python", PYTHON),
        told.get("data"),
    )
