"""Which of a machine's own addresses others should use. Asks the kernel; sends nothing."""

from __future__ import annotations

import array
import contextlib
import fcntl
import ipaddress
import socket
import struct
import sys
from pathlib import Path

from lppa.protocol.errors import WrongUse

SIOCGIFCONF = 0x8912
REQUEST = 40  # bytes of a struct ifreq on 64-bit Linux
MOST = 1024  # addresses
ELSEWHERE = "192.0.2.1"  # of a net that is for documents alone: by the default route

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def own_address(interface: str | None, towards: str = ELSEWHERE) -> str:
    """The address that others find this machine at.

    `interface` is a name as `ip address` shows it, an address, or a net like 10.0.0.0/8. Without
    one it is the address that this machine uses `towards` another.
    """
    if interface is None:
        return _towards(towards)
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(interface))
    there = own_addresses()
    if "/" in interface:
        try:
            net = ipaddress.ip_network(interface, strict=False)
        except ValueError:
            raise WrongUse(f"--interface {interface} is no net like 10.0.0.0/8") from None
        found = [address for _, address in there if address in net]
    else:
        found = [address for name, address in there if name == interface]
    if not found:
        known = ", ".join(f"{address} ({name})" for name, address in there) or "none"
        raise WrongUse(
            f"--interface {interface}: {socket.gethostname()} has no such address; it has {known}"
        )
    return str(found[0])


def is_address(interface: str | None) -> bool:
    """Whether an interface is given as one address, and so is one machine's alone."""
    try:
        ipaddress.ip_address(interface or "")
    except ValueError:
        return False
    return True


def endpoint(address: str) -> str:
    """Any free port there."""
    return f"tcp://[{address}]:0" if ":" in address else f"tcp://{address}:0"


def own_addresses() -> list[tuple[str, Address]]:
    """This machine's addresses with the names of their interfaces, IPv4 first."""
    if not sys.platform.startswith("linux"):
        return []
    return [*_ipv4(), *_ipv6()]


def _ipv4() -> list[tuple[str, Address]]:
    room = array.array("B", bytes(REQUEST * MOST))
    where, _ = room.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, SIOCGIFCONF, struct.pack("iL", len(room), where))
    (length,) = struct.unpack_from("i", answer)
    raw, found = room.tobytes(), []
    for at in range(0, length, REQUEST):
        # An alias has a name of its own, such as eth0:1.
        name = raw[at : at + 16].partition(b"\0")[0].decode().partition(":")[0]
        found.append((name, ipaddress.IPv4Address(raw[at + 20 : at + 24])))
    return list(found)


def _ipv6() -> list[tuple[str, Address]]:
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines]
    found = [(row[5], ipaddress.IPv6Address(bytes.fromhex(row[0]))) for row in rows]
    # One that holds on its own wire only needs more than an address.
    return [(name, address) for name, address in found if not address.is_link_local]


def _towards(other: str) -> str:
    try:
        family, _, _, _, where = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect(where)  # of a datagram socket: only looks at the routes
            return str(asked.getsockname()[0])
    except OSError as error:
        raise WrongUse(
            f"this machine ({socket.gethostname()}) knows no way to {other} ({error.strerror}): "
            "say by --interface which of its addresses others reach it at"
        ) from None
