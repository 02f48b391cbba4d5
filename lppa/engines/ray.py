"""Ray as an engine: which cluster, and how much of it a node has. Imports no Ray.

Ray's driver is another process (`ray_cluster`), and all of the cluster one host to `piped`.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec

from lppa.engines.engine import Wanted
from lppa.engines.interface import ELSEWHERE, is_address, own_address
from lppa.engines.parcel import Order
from lppa.engines.piped import PipedHosts
from lppa.engines.ray_bundles import Cluster, check_share
from lppa.protocol.errors import WrongUse

NAME = "Ray"
HERE = "127.0.0.1"
AUTO = "auto"  # the Ray that runs on this machine
ADDRESS = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")
CONNECT = 5.0  # seconds
START = 180.0  # seconds for Ray, its actors and their nodes to start, one after the other
LONGEST = 25  # letters before Ray's own 82, of the 107 that a socket's path may have
DRIVER = (sys.executable, "-m", "lppa.engines.ray_cluster")


class RayEngine:
    """A Ray cluster, or with no address a Ray of this run's own on this machine."""

    def __init__(self, wanted: Wanted) -> None:
        if find_spec("ray") is None:
            raise WrongUse(
                "--engine ray needs Ray, which is not installed: pip install 'lppa[ray]'"
            )
        self.ray = wanted.address
        cpus = 1.0 if wanted.cpus_per_node is None else wanted.cpus_per_node
        self.cpus = check_share("--cpus-per-node", cpus)
        self.gpus = 0.0
        if wanted.gpus_per_node is not None:
            self.gpus = check_share("--gpus-per-node", wanted.gpus_per_node, whole_above=1)
        if wanted.address is None:
            check_room_for_sockets()
        self.interface = wanted.interface
        self.address = own_address(wanted.interface, check_address(wanted.address))

    def launcher(self, order: Order) -> PipedHosts:
        """What starts the order's nodes."""
        # One machine's address tells others nothing: they take the one that they reach it by.
        interface = None if is_address(self.interface) else self.interface
        nodes = range(len(order.keys))
        # What nodes go on from is in the run's directory, which the driver can read.
        parcel = replace(order, resume=False).parcel(nodes, interface)
        cluster = Cluster(str(order.folder), self.ray, self.cpus, self.gpus)
        command = [*DRIVER, cluster.to_json()]
        parcel = replace(parcel, resume=order.resume)
        hosts = PipedHosts({NAME: command}, {NAME: parcel}, order.folder)
        hosts.patience = max(hosts.patience, START)
        return hosts


def check_address(address: str | None) -> str:
    """A machine of the cluster, to choose the own address by; refuses what is no cluster."""
    if address is None:
        return HERE
    if address == AUTO:
        return ELSEWHERE
    match = ADDRESS.fullmatch(address)
    if match is None:
        raise WrongUse(
            f"--address {address} is not HOST:PORT as `ray start --head` shows it, nor auto, which "
            "is the Ray that runs on this machine"
        )
    host = match["host"].strip("[]")
    try:
        socket.create_connection((host, int(match["port"])), CONNECT).close()
    except (OSError, OverflowError) as error:
        raise WrongUse(f"--address {address}: no Ray answers there ({error})") from None
    # By its name for itself a cluster's head would be told where nobody else finds the coordinator.
    return ELSEWHERE if is_loopback(host) else host


def is_loopback(host: str) -> bool:
    """Whether a name or address means the machine that uses it."""
    try:
        return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except (OSError, ValueError):
        return host == "::1"


def check_room_for_sockets() -> None:
    """A Ray of our own has sockets below the temporary folder, with long names that it chooses."""
    where = tempfile.gettempdir()
    if len(os.fsencode(where)) > LONGEST:
        raise WrongUse(
            f"the temporary folder {where} has a path that is too long for Ray: set TMPDIR to one "
            f"of at most {LONGEST} letters"
        )
