"""A run as the coordinator lives it: bootstrap, watch, summary; alone or with nodes to start.

The commands are thin shells over `coordinate` and `run_by`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lppa.coordinator.bootstrap import Roster, Start, bootstrap, welcome
from lppa.coordinator.figures import FAILED, INTERRUPTED, Outcome, Summary
from lppa.coordinator.membership import Event, Membership
from lppa.coordinator.metrics import Collection, summarise
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.views import first_view, make_view, part_of
from lppa.coordinator.watch import Watch
from lppa.engines.engine import Engine
from lppa.engines.interface import endpoint
from lppa.engines.parcel import Order, placed_book
from lppa.protocol.book import NO_KEY, AddressBook, Peer
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import Hello, Plan
from lppa.protocol.sockets import new_keys
from lppa.protocol.transports import open_wire
from lppa.protocol.view import View
from lppa.protocol.wire import FAREWELL
from lppa.running.chaos import Chaos
from lppa.running.facts import Facts, is_at_hand, look
from lppa.running.launch import Given, LocalNodes, stop_fork_server, warm_up
from lppa.running.launcher import GRACE, Launcher
from lppa.running.limits import check_machine, check_open_files, enough_time
from lppa.running.listener import Listener
from lppa.running.past import Past, forget_checkpoints, kept_collection
from lppa.running.prepare import check_recorded, choose_noise
from lppa.running.private import private_folder
from lppa.running.records import Records
from lppa.running.scout import Scout
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
    past: Past | None = None,
    attackers: Sequence[int] = (),
    later: Sequence[int] = (),
) -> Summary:
    """Coordinates one run to its end, whatever that is, and returns its summary.

    Nodes that are given are started here, and ended. A run with a past goes on where it was; one
    that is new begins without those that come `later`.
    """
    began = time.monotonic()
    wire = open_wire(book, COORDINATOR, secret)
    try:
        inbox = wire.inbox()
        records = Records(folder, blueprint, listener, tensorboard, past is not None, attackers)
        led = Led(blueprint, records, Roster(inbox, book.run, blueprint.nodes), nodes, past, later)
        outcome = Outcome(INTERRUPTED, round=0)
        last_words = "the run was interrupted"
        start = 0.0
        try:
            records.begin(blueprint, facts)
            if past is not None:
                records.recall(past.parts, past.warnings)
            if nodes is not None:
                nodes.start(inbox.endpoint, lambda: welcome(led.roster, 0.0))
            led.bootstrap()
            start = time.monotonic() - began
            led.watch.follow()
            sound = records.end(blueprint, led.watch.collection)
            outcome = Outcome("completed" if sound else "doubtful")
        except RunFailed as error:
            last_words = str(error)
            outcome = Outcome(FAILED, last_words, error.node, error.round)
        except KeyboardInterrupt:
            outcome = Outcome(INTERRUPTED, round=led.rounds_done)
        except Exception as error:
            last_words = f"the coordinator failed: {error!r}"
            outcome = Outcome(FAILED, last_words)
            raise
        finally:
            with uninterrupted():
                if not outcome.ended:
                    led.roster.stop_all(last_words)
                    records.break_off(blueprint, led.watch.collection, last_words)
                if nodes is not None:
                    # Nodes that have not said hello yet cannot hear that it is over.
                    nodes.end(patience=GRACE if start else 0.0)
                summary = summarise(
                    blueprint,
                    led.watch.collection,
                    outcome,
                    records.protection,
                    records.warnings,
                    rounds_done=led.rounds_done,
                    total=time.monotonic() - began + (past.seconds if past else 0.0),
                    start=start,
                )
                records.close(summary)
    finally:
        wire.close(FAREWELL)
    return summary


class Led:
    """A run as its coordinator leads it: who is there, in which view, and what came of it."""

    def __init__(
        self,
        blueprint: Blueprint,
        records: Records,
        roster: Roster,
        nodes: Launcher | None,
        past: Past | None,
        later: Sequence[int] = (),
    ) -> None:
        self.blueprint = blueprint
        self.records = records
        self.roster = roster
        self.past = past
        self.first = set(range(blueprint.nodes)) - set(later)
        settings = blueprint.settings
        roster.may_return = settings.on_failure == "continue"
        roster.expected = self.first if later else None
        if past is not None:
            roster.expected = past.expected

        def make(
            members: Sequence[int], epoch: int, first_round: int, newcomers: Sequence[int]
        ) -> View:
            view = make_view(blueprint, members, epoch, first_round, newcomers, roster.endpoints)
            part = part_of(blueprint, members, epoch)
            records.enter(view, replace(blueprint, topology=part.topology, W=part.W))
            return view

        self.make = make
        self.membership = Membership(
            first_view(blueprint),
            make,
            blueprint.fingerprint,
            settings.timeout,
            records.directory.change,
            0 if past is None else past.last_epoch,
            settings.total,
        )
        self.watch = Watch(
            roster,
            self.membership,
            Collection(blueprint.nodes),
            settings,
            self.plan,
            lambda: nodes.deaths() if nodes else {},
            records.listener,
            lambda text: records.warn([text]),
            settings.evaluated,
        )
        self.start: Start | None = None

    @property
    def rounds_done(self) -> int:
        """The round that all members have reached; all nodes where none is left."""
        members = self.membership.members or set(self.watch.rounds)
        return min(self.watch.rounds[node] for node in members)

    def plan(self, node: int) -> Plan:
        """What a node is told that asks for its plan."""
        begin = () if self.start is None else self.start.begin
        if node in self.membership.newcomers or self.membership.view.epoch != (begin or (0,))[0]:
            begin = ()
        return self.blueprint.plan(node, self.membership.view, begin)

    def bootstrap(self) -> None:
        """Waits for the nodes and sends them off, at the beginning or from where they were."""
        blueprint, past = self.blueprint, self.past

        def choose(have: Mapping[int, Hello]) -> Start:
            return self._begin() if past is None else past.choose(have)

        self.start = start = bootstrap(
            self.roster,
            blueprint,
            blueprint.settings.timeout,
            choose,
            self.records.listener.waiting,
            lambda: check_alive(self.watch),
        )
        self.membership.begin(start.view)
        round = start.begin[1] if start.begin else 0
        self.watch.begin(round)
        if past is not None:
            self._go_on(past, start, round)

    def _begin(self) -> Start:
        """A new run, with all nodes or without those that come later."""
        if len(self.first) == self.blueprint.nodes:
            return Start(first_view(self.blueprint))
        view = self.make(sorted(self.first), 0, 0, ())
        # On the disk: whoever goes on with the run has to know with whom it began.
        self.records.directory.change(Event("view", 0, round=0, members=view.members))
        self.watch.collection.views = {0: set(view.members)}
        return Start(view)

    def _go_on(self, past: Past, start: Start, round: int) -> None:
        """Takes up what is known of a run that has begun before."""
        if start.running:
            round = self.blueprint.settings.total
            self.records.listener.say("note: the nodes are there, and have gone on by themselves")
        else:
            self.records.listener.say(f"note: going on from round {round}")
        self.records.directory.keep(round)
        kept = kept_collection(past, round)
        self.watch.collection.reports = kept.reports
        self.watch.collection.history = kept.history
        self.watch.collection.views = {e: set(who) for e, (who, _) in past.views.items()}
        for row in self.watch.collection.overdue():
            self.records.listener.row(row)
        if not start.running:
            return
        self.watch.collection.done = dict(past.done)
        self.watch.rounds |= {node: done.round for node, done in past.done.items()}
        self.membership.done = set(past.done)
        if self.roster.may_return:
            now = self.watch.clock()
            for node in self.membership.active - set(self.roster.routes):
                self.membership.lose(node, "did not come back", now)
            for node, hello in self.roster.processes.items():
                if not hello.running and node not in past.done:
                    self.membership.come(node, now)
            if past.last_epoch > start.view.epoch:
                # A change had begun; nobody knows how far it came.
                self.membership.again(now)


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
    scout: Scout | None = None,
    chaos: Chaos = (),
    past: Past | None = None,
) -> Summary:
    """A run with all nodes on this machine, over sockets in a private folder.

    Attackers follow the protocol like all others, and record what they send and receive. `scout`
    has the problem or the rule that the run brings itself, `chaos` is what is to go wrong in it. A
    run with a past goes on where it was.
    """
    check_machine(blueprint.nodes, secure)
    warm_up()
    if past is None:
        blueprint = with_enough_time(blueprint, listener)
    with private_folder() as private:
        facts, packed = survey(blueprint, scout or Scout(), private / "code")
        if facts is not None:
            blueprint = choose_noise(blueprint, facts)
        check_recorded(blueprint, attackers)
        book, keys = local_book(blueprint.nodes, private, secure)
        timeout = blueprint.settings.timeout
        given = Given(folder.resolve(), timeout, tuple(attackers), packed, chaos, past is not None)
        nodes = LocalNodes(book, keys[:-1], given)
        summary = coordinate(
            book, keys[-1], blueprint, folder, listener, nodes, facts, tensorboard, past, attackers
        )
        if summary.ended:
            forget_checkpoints(folder)
        return summary


def run_by(
    engine: Engine | None,
    blueprint: Blueprint,
    folder: Path,
    listener: Listener,
    secure: bool = False,
    attackers: Sequence[int] = (),
    tensorboard: bool = False,
    scout: Scout | None = None,
    chaos: Chaos = (),
    past: Past | None = None,
) -> Summary:
    """A run with its nodes where an engine places them, or on this machine where there is none."""
    try:
        if engine is None:
            return run_local(
                blueprint, folder, listener, secure, attackers, tensorboard, scout, chaos, past
            )
        return run_placed(
            blueprint, folder, listener, engine, attackers, tensorboard, scout, chaos, past
        )
    finally:
        stop_fork_server()


def with_enough_time(blueprint: Blueprint, listener: Listener) -> Blueprint:
    """The same run with a timeout that so many nodes can keep on so few cores."""
    asked = blueprint.settings.timeout
    seconds = enough_time(asked, blueprint.nodes)
    if seconds == asked:
        return blueprint
    listener.say(
        f"note: {blueprint.nodes} nodes share this machine's cores: they wait {seconds:.0f} s for "
        f"each other instead of {asked:g}"
    )
    return replace(blueprint, settings=replace(blueprint.settings, timeout=seconds))


def survey(blueprint: Blueprint, scout: Scout, code: Path) -> tuple[Facts | None, Path | None]:
    """What is known of the data, and the file with the code that the run brings, if it does."""
    about = (blueprint.settings, blueprint.nodes, blueprint.run_seed)
    try:
        if scout.code is None:
            return (look if is_at_hand(blueprint.settings) else scout.look)(*about), None
        facts = scout.look(*about)
        scout.keep_code(code)
        return facts, code
    finally:
        scout.close()


def run_placed(
    blueprint: Blueprint,
    folder: Path,
    listener: Listener,
    engine: Engine,
    attackers: Sequence[int] = (),
    tensorboard: bool = False,
    scout: Scout | None = None,
    chaos: Chaos = (),
    past: Past | None = None,
) -> Summary:
    """A run whose nodes an engine places on hosts; the coordinator is here. Links are encrypted.

    The same as `run_local` in everything else: all files come back into the run's directory.
    """
    check_open_files(blueprint.nodes, encrypted=True)
    with private_folder() as private:
        facts, packed = survey(blueprint, scout or Scout(), private / "code")
        code = None if packed is None else packed.read_bytes()
    if facts is not None:
        blueprint = choose_noise(blueprint, facts)
    check_recorded(blueprint, attackers)
    where = endpoint(engine.address)
    book, keys = placed_book(secrets.token_hex(8), blueprint.nodes, where)
    order = Order(
        book,
        keys[:-1],
        folder.resolve(),
        blueprint.settings.timeout,
        tuple(attackers),
        chaos,
        past is not None,
        code,
    )
    nodes = engine.launcher(order)
    summary = coordinate(
        book, keys[-1], blueprint, folder, listener, nodes, facts, tensorboard, past, attackers
    )
    if summary.ended:
        forget_checkpoints(folder)
    return summary


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
