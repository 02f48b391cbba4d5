"""A run as the coordinator lives it: bootstrap, watch, summary; alone or with local nodes.

The commands are thin shells over `coordinate` and `run_local`.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lppa.coordinator.bootstrap import Roster, bootstrap
from lppa.coordinator.figures import FAILED, INTERRUPTED, Outcome, Summary
from lppa.coordinator.metrics import summarise
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.watch import Watch
from lppa.own_code import OwnCode
from lppa.protocol.book import NO_KEY, AddressBook, Peer
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.errors import RunFailed
from lppa.protocol.sockets import FAREWELL, Wire, new_keys
from lppa.running.facts import Facts, look
from lppa.running.launch import LocalNodes, warm_up
from lppa.running.launcher import GRACE, Launcher
from lppa.running.limits import check_open_files, check_temporary_folder
from lppa.running.listener import Listener
from lppa.running.prepare import choose_noise
from lppa.running.records import Records
from lppa.running.signals import uninterrupted


def coordinate(
    book: AddressBook,
    secret: str | None,
    blueprint: Blueprint,
    folder: Path,
    listener: Listener,
    nodes: Launcher | None = None,
    facts: Facts | None = None,
    tensorboard: bool = False,
) -> Summary:
    """Coordinates one run to its end, whatever that is, and returns its summary.

    Nodes that are given are started here, and ended.
    """
    began = time.monotonic()
    wire = Wire(book, COORDINATOR, secret)
    try:
        inbox = wire.inbox()
        records = Records(folder, blueprint, listener, tensorboard)
        heard = records.listener
        roster = Roster(inbox, book.run, blueprint.nodes)
        start = 0.0
        watch = Watch(
            roster,
            lambda node: blueprint.plan(node, roster.endpoints),
            blueprint.settings.timeout,
            lambda: nodes.deaths() if nodes else {},
        )
        outcome = Outcome(INTERRUPTED, round=0)
        last_words = "the run was interrupted"
        try:
            records.begin(blueprint, facts)
            if nodes is not None:
                nodes.start()
            bootstrap(
                roster,
                blueprint,
                blueprint.settings.timeout,
                heard.waiting,
                lambda: check_alive(watch),
            )
            start = time.monotonic() - began
            watch.heard = time.monotonic()
            watch.follow(heard.metrics, heard.row, heard.progress)
            sound = records.end(blueprint, watch.collection)
            outcome = Outcome("completed" if sound else "doubtful")
        except RunFailed as error:
            last_words = str(error)
            outcome = Outcome(FAILED, last_words, error.node, error.round)
        except KeyboardInterrupt:
            outcome = Outcome(INTERRUPTED, round=min(watch.rounds.values()))
        except Exception as error:
            last_words = f"the coordinator failed: {error!r}"
            outcome = Outcome(FAILED, last_words)
            raise
        finally:
            with uninterrupted():
                if not outcome.ended:
                    roster.stop_all(last_words)
                if nodes is not None:
                    # Nodes that have not said hello yet cannot hear that it is over.
                    nodes.end(patience=GRACE if start else 0.0)
                summary = summarise(
                    blueprint,
                    watch.collection,
                    outcome,
                    records.protection,
                    records.warnings,
                    rounds_done=min(watch.rounds.values()),
                    total=time.monotonic() - began,
                    start=start,
                )
                records.close(summary)
    finally:
        wire.close(FAREWELL)
    return summary


def check_alive(watch: Watch) -> None:
    """A local node that ends before the run has begun will never come."""
    for node, how in watch.deaths().items():
        raise RunFailed(f"node {node} {how} before the run began", node=node, round=0)


def run_local(
    blueprint: Blueprint,
    folder: Path,
    listener: Listener,
    secure: bool = False,
    attackers: Sequence[int] = (),
    tensorboard: bool = False,
    code: OwnCode | None = None,
) -> Summary:
    """A run with all nodes on this machine, over sockets in a private folder.

    Attackers follow the protocol like all others, and record what they send and receive. `code` is
    the problem or the rule that the run brings itself.
    """
    check_temporary_folder()
    check_open_files(blueprint.nodes, secure)
    warm_up()
    settings, problem = blueprint.settings, None if code is None else code.made
    facts = look(settings, blueprint.nodes, blueprint.run_seed, problem)
    if facts is not None:
        blueprint = choose_noise(blueprint, facts)
    private = Path(tempfile.mkdtemp(prefix="lppa-"))
    try:
        book, keys = local_book(blueprint.nodes, private, secure)
        timeout = blueprint.settings.timeout
        packed = None
        if code is not None:
            packed = private / "code"
            packed.write_bytes(code.pack())
        nodes = LocalNodes(book, keys[:-1], folder.resolve(), timeout, attackers, packed)
        return coordinate(book, keys[-1], blueprint, folder, listener, nodes, facts, tensorboard)
    finally:
        with uninterrupted():
            shutil.rmtree(private, ignore_errors=True)


def local_book(nodes: int, private: Path, secure: bool) -> tuple[AddressBook, list[str | None]]:
    """An address book of sockets in a folder, and the secret keys, the coordinator's last.

    Only this user can reach them, so that they may be without keys.
    """
    keys = [new_keys() if secure else None for _ in range(nodes + 1)]
    peers = [
        Peer(f"ipc://{private}/{i}", key.public if key else NO_KEY) for i, key in enumerate(keys)
    ]
    book = AddressBook(secrets.token_hex(8), peers[-1], tuple(peers[:-1]))
    return book, [key.secret if key else None for key in keys]
