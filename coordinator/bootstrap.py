"""Waits until every node is there, then hands each its plan. Says who is missing meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from lppa.coordinator.plan import Blueprint
from lppa.protocol.book import is_endpoint, is_local
from lppa.protocol.codec import (
    COORDINATOR,
    FROM_NODE,
    BadMessage,
    Envelope,
    WrongRun,
    decode,
    encode,
)
from lppa.protocol.delivery import Came
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import check_speaker
from lppa.protocol.messages import (
    Ask,
    Done,
    Failed,
    Hello,
    Message,
    Metrics,
    Refuse,
    Stop,
    Taken,
    Waiting,
    Who,
)
from lppa.protocol.names import MOST_NAMED, name_all
from lppa.protocol.patience import Patience
from lppa.protocol.view import View
from lppa.protocol.wire import Arrival, Inbox, wait_for_any

TICK = 0.1
FORGOTTEN = 6.0  # seconds
MOST_WAITING = 1 << 24  # bytes of one node's reports while nobody reads them
KEPT = (Metrics, Done, Failed)  # by their nodes, until they are told that these were dealt with


@dataclass
class Roster:
    """The nodes that have said hello: the process behind each id, and where to answer it."""

    inbox: Inbox
    run: str
    nodes: int
    routes: dict[int, bytes] = field(default_factory=dict)
    processes: dict[int, Hello] = field(default_factory=dict)
    heard: dict[int, float] = field(default_factory=dict)
    # Whether a node that is lost may come back, and which are lost.
    may_return: bool = False
    lost: set[int] = field(default_factory=set)
    # By id the process that came last while another one had its place, and since when.
    knocked: dict[int, tuple[str, float]] = field(default_factory=dict)
    # Whom the run waits for before it begins; None: for all.
    expected: set[int] | None = None
    came: dict[int, Came] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inbox.allow(MOST_WAITING, 4 * MOST_WAITING)

    @property
    def missing(self) -> tuple[int, ...]:
        """Ids that nobody has come with yet."""
        wanted = range(self.nodes) if self.expected is None else sorted(self.expected)
        return tuple(i for i in wanted if i not in self.routes)

    @property
    def endpoints(self) -> dict[int, str]:
        """Where nodes said that they listen, of those that said so."""
        said = {i: hello.endpoint for i, hello in self.processes.items()}
        return {i: endpoint for i, endpoint in said.items() if is_endpoint(endpoint)}

    def send(self, node: int, message: Message) -> bool:
        """Sends to one node; False if its connection is gone."""
        return self.answer(self.routes[node], message)

    def send_all(self, nodes: Iterable[int], message: Message) -> list[int]:
        """Sends the same to several nodes, encoded once; returns those that it goes to."""
        frames = encode(message, self.run, COORDINATOR)
        return [node for node in nodes if self.inbox.reply(self.routes[node], frames)]

    def answer(self, route: bytes, message: Message) -> bool:
        """Answers on a connection; False if it is gone."""
        return self.inbox.reply(route, encode(message, self.run, COORDINATOR))

    def stop_all(self, reason: str) -> None:
        """Ends the run for every node that is there."""
        self.send_all(self.routes, Stop(reason))

    def open(self, arrival: Arrival) -> Envelope | None:
        """The message of a node, checked; who has the right key is told why it is refused."""
        try:
            envelope = decode(arrival.frames, self.run, FROM_NODE)
            check_speaker(envelope, arrival.speaker)
            if not 0 <= envelope.sender < self.nodes:
                raise BadMessage(f"there is no node {envelope.sender} in this run")
        except BadMessage as bad:
            self.inbox.offended(arrival)
            if arrival.speaker is not None and 0 <= arrival.speaker < self.nodes:
                # In the words of its own run: this one's name is not for others.
                run = bad.run if isinstance(bad, WrongRun) else self.run
                reason = "its peers.json is of another run" if run != self.run else str(bad)
                self.inbox.reply(arrival.route, encode(Refuse(reason), run, COORDINATOR))
            return None
        if isinstance(envelope.message, Hello):
            admitted = self._admit(arrival.route, envelope.sender, envelope.message)
            return envelope if admitted else None
        # Only the process that was admitted speaks for a node.
        if self.routes.get(envelope.sender) != arrival.route:
            self.answer(arrival.route, Who())
            return None
        return self._in_order(envelope)

    def _in_order(self, envelope: Envelope) -> Envelope | None:
        """The message unless it is a second copy, or comes after one that was lost."""
        came, message = self.came[envelope.sender], envelope.message
        if isinstance(message, Ask):
            came.asked(message.first)
            self.send(envelope.sender, Taken(0, came.told(), message.serial))
            return None
        if not isinstance(message, KEPT) or came.expects(envelope.number):
            return envelope
        return None

    def took(self, envelope: Envelope) -> None:
        """A report was dealt with: its node need not keep it any longer."""
        if isinstance(envelope.message, KEPT):
            came = self.came[envelope.sender]
            came.take(0)
            self.send(envelope.sender, Taken(0, came.told()))

    def _admit(self, route: bytes, node: int, hello: Hello) -> bool:
        """Takes a node in; a second process with the same id is refused by name."""
        now = time.monotonic()
        first = self.processes.get(node, hello)
        # A node that waits says hello every second; one that has fallen silent has lost its place.
        gone = self.missing and now - self.heard.get(node, now) > FORGOTTEN
        if first.instance != hello.instance and not gone and node not in self.lost:
            knocks, since = self.knocked.get(node, ("", now))
            if knocks != hello.instance:
                since = now
            self.knocked[node] = (hello.instance, since)
            if self.may_return and now - since < FORGOTTEN:
                # The other one may be dead, and that not known yet.
                self.answer(route, Waiting((node,)))
                return False
            reason = f"node {node} is here already, as process {first.pid} on {first.host}"
            self.answer(route, Refuse(reason))
            return False
        if node not in self.came or first.instance != hello.instance:
            self.came[node] = Came()
        self.processes[node], self.routes[node], self.heard[node] = hello, route, now
        return True


def check_speech(roster: Roster, exchange: str) -> None:
    """A node that does not know the run's way to exchange noise is named before anything starts."""
    for node, hello in sorted(roster.processes.items()):
        if exchange not in hello.speaks:
            raise RunFailed(
                f"node {node} on {hello.host} does not know --noise-exchange {exchange} "
                f"(it knows {', '.join(hello.speaks)}): update lppa there, or use another exchange",
                node=node,
                round=0,
            )


@dataclass(frozen=True)
class Start:
    """How a run begins: in which view, and from which checkpoint, as (epoch, round).

    Nodes that are `running` already need no plan; those that are `done` may have left.
    """

    view: View
    begin: tuple[int, ...] = ()
    running: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()


Choice = Callable[[Mapping[int, Hello]], Start]


def bootstrap(
    roster: Roster,
    blueprint: Blueprint,
    timeout: float,
    choose: Choice,
    waiting: Callable[[tuple[int, ...]], None],
    check: Callable[[], None],
) -> Start:
    """Returns when all plans are sent. `waiting` hears who is missing; `check` may raise.

    `choose` says from what nodes have where the run begins: at its beginning, or where it was.
    """
    patience = Patience(timeout)
    while True:
        while roster.missing:
            waiting(roster.missing)
            welcome(roster)
            check()
            if patience.look() <= 0 and roster.missing:
                lost = set(roster.missing)
                raise RunFailed(
                    f"{name_all(lost)} did not come within {timeout:g} s{_where(roster)}",
                    node=min(lost),
                    round=0,
                )
        start = choose(roster.processes)
        needed = set(start.view.members) - start.done
        if roster.expected is None or needed <= set(roster.routes):
            break
        roster.expected |= needed
    check_speech(roster, blueprint.settings.noise_exchange)
    start = replace(start, view=replace(start.view, endpoints=roster.endpoints))
    for node in set(start.view.members) - start.running:
        roster.send(node, blueprint.plan(node, start.view, start.begin))
    return start


def _where(roster: Roster) -> str:
    """Where nodes look for the coordinator, if that is not on their own machine."""
    where = roster.inbox.endpoint
    return "" if is_local(where) else f"; can they reach the coordinator at {where}?"


def welcome(roster: Roster, seconds: float = TICK) -> None:
    """Takes in who says hello within the time, and tells them who is missing."""
    wait_for_any([roster.inbox], seconds)
    for arrival in roster.inbox.arrivals():
        envelope = roster.open(arrival)
        if envelope is None or not isinstance(envelope.message, Hello):
            continue
        if envelope.message.running:
            continue
        missing = roster.missing
        if missing:
            # Not all of many: each of them is told every second.
            roster.send(envelope.sender, Waiting(missing[:MOST_NAMED]))


def common_checkpoints(
    have: Mapping[int, Hello], views: Mapping[int, tuple[int, ...]]
) -> list[tuple[int, int]]:
    """The epochs and rounds that all members of their views have checkpoints of, newest first."""
    kept = {node: set(zip(h.epochs, h.rounds, strict=False)) for node, h in have.items()}
    found = []
    for epoch, members in views.items():
        rounds = [{t for e, t in kept.get(node, ()) if e == epoch} for node in members]
        found += [(epoch, round) for round in set.intersection(*rounds)]
    return sorted(found, reverse=True)
