"""`lppa peers`: writes the address book of a run and the key files."""

from __future__ import annotations

import json
import secrets
import socket
from pathlib import Path

import click

from lppa.options import check_count, insecure_option, json_option, out_option, warn_in_clear
from lppa.protocol.book import (
    NO_KEY,
    AddressBook,
    Peer,
    book_content,
    is_local,
    key_file,
    write_book,
    write_key,
)
from lppa.protocol.errors import WrongUse
from lppa.protocol.sockets import new_keys
from lppa.shell import show_errors, verbosity

FIRST_PORT = 5700


@click.command(
    epilog="Example: lppa peers 3 --host 10.0.0.1 --host 10.0.0.2 --host 10.0.0.3 --out ."
)
@click.argument("nodes", type=int)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Where a node runs; once for all nodes, or once per node in the order of their ids. "
    "The coordinator runs on the first.  [default: 127.0.0.1]",
)
@click.option("--coordinator-host", help="Where the coordinator runs, if not on the first host.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="The coordinator's port.  "
    f"[default: one that is free where it runs on this machine, else {FIRST_PORT}]",
)
@click.option(
    "--fixed-ports",
    is_flag=True,
    help="Give nodes ports of their own too, the next ones: for firewalls and forwarders.  "
    "[default: each takes one that is free when it starts, and the coordinator tells the others]",
)
@insecure_option
@out_option("Folder for peers.json and keys/.  [default: here]", default=Path())
@json_option("Print peers.json on standard output too.")
@verbosity
@show_errors
def peers(
    nodes: int,
    hosts: tuple[str, ...],
    coordinator_host: str | None,
    port: int | None,
    fixed_ports: bool,
    insecure: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Write peers.json, and one secret key file per process, for NODES nodes."""
    if nodes < 2:
        raise WrongUse("a run needs at least 2 nodes")
    check_count(nodes)
    if out.exists() and not out.is_dir():
        raise WrongUse(f"--out {out} is a file, not a folder")
    if (out / "peers.json").exists():
        raise WrongUse(f"{out / 'peers.json'} exists already; choose another --out")
    if len(hosts) not in (0, 1, nodes):
        raise WrongUse(f"--host was given {len(hosts)} times; give it once, or {nodes} times")
    where = list(hosts or ("127.0.0.1",)) * (1 if len(hosts) == nodes else nodes)
    where.append(coordinator_host or where[0])
    keys = [] if insecure else [new_keys() for _ in where]
    public = [key.public for key in keys] or [NO_KEY] * len(where)
    endpoints = make_endpoints(where, port, fixed_ports)
    entries = [Peer(e, k) for e, k in zip(endpoints, public, strict=True)]
    book = AddressBook(f"run-{secrets.token_hex(4)}", entries[-1], tuple(entries[:-1]))
    try:
        content = book_content(book)
    except WrongUse as error:
        raise WrongUse(f"with this --host the address book would be wrong: {error}") from None
    write_files(out, book, [key.secret for key in keys])
    warn_in_clear(book)
    if as_json:
        click.echo(json.dumps(content, indent=2))
        return
    links = "encrypted; secret keys in " + str(out / "keys") if keys else "in clear, without keys"
    click.echo(f"{out / 'peers.json'}: {nodes} nodes, links {links}")


def write_files(out: Path, book: AddressBook, secret_keys: list[str]) -> None:
    """The keys, the coordinator's last, and then the book: a book without keys is of no use."""
    try:
        for node, secret in enumerate(secret_keys):
            write_key(key_file(out, -1 if node == len(book.nodes) else node), secret)
        write_book(book, out / "peers.json")
    except OSError as error:
        raise WrongUse(f"cannot write to {out}: {error.strerror}") from None


def make_endpoints(hosts: list[str], port: int | None, fixed: bool) -> list[str]:
    """An endpoint per host; the last host is the coordinator's and has the first port.

    Nobody but the coordinator has to be known beforehand: a port that is free now may be taken
    when a node starts.
    """
    shown = [f"[{host}]" if ":" in host else host for host in hosts]
    asked = shown if fixed else shown[-1:]
    if port is None and all(is_local(f"tcp://{host}:1") for host in asked):
        ports = free_ports(len(asked))
    else:
        first = port or FIRST_PORT
        ports = [first + 1 + i for i in range(len(asked) - 1)] + [first]
    ports = [0] * (len(hosts) - len(asked)) + ports
    if max(ports) > 65535:
        raise WrongUse(f"--port {port} leaves no room for {len(hosts)} ports")
    return [f"tcp://{host}:{number}" for host, number in zip(shown, ports, strict=True)]


def free_ports(count: int) -> list[int]:
    """Ports of this machine that are free now."""
    taken = []
    try:
        for _ in range(count):
            probe = socket.socket()
            taken.append(probe)
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in taken]
    finally:
        for probe in taken:
            probe.close()
