"""Follows a run after its bootstrap: collects reports, and finds out who failed and where.

Training does not need it as long as nobody is lost. Then it ends the run for all, or leads the
others into the next view of the graph, as was asked for.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Callable, Set
from typing import Protocol

from lppa.coordinator.bootstrap import TICK, Roster
from lppa.coordinator.figures import Row
from lppa.coordinator.membership import Membership
from lppa.coordinator.metrics import Collection, check_metrics, check_totals
from lppa.coordinator.witness import check_words, statements
from lppa.protocol.codec import BadMessage
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import late_every
from lppa.protocol.messages import (
    STAGES,
    Done,
    Entered,
    Failed,
    Halted,
    Hello,
    Late,
    Message,
    Metrics,
    Progress,
    Pulse,
    Stop,
    Waiting,
)
from lppa.protocol.names import name_all
from lppa.protocol.patience import OwnTime
from lppa.protocol.settings import Settings
from lppa.protocol.wire import wait_for_any

log = logging.getLogger("lppa.coordinator")

GRACE = 1.0  # seconds in which others may still tell what they know about a failure
PULSE_EVERY = 0.5
# Seconds without a connection after which a node on this machine is gone: there it breaks only when
# the process ends, and comes back at once if anything else cut it.
UNREACHABLE = 2.0
LATE = 5.0  # seconds after which people are told who is late
LONGEST_TURN = 1.0  # seconds of the coordinator's own time, however long it was stopped


class Heard(Protocol):
    """What hears of a run while it goes on."""

    def metrics(self, node: int, metrics: Metrics) -> None: ...

    def done(self, node: int, done: Done) -> None: ...

    def row(self, row: Row) -> None: ...

    def progress(self, rounds: dict[int, int], alive: int) -> None: ...

    def within(self, node: int, round: int, stage: str, percent: int) -> None: ...

    def say(self, text: str) -> None: ...


class Watch:
    """One run being followed. `deaths` names local node processes that have ended badly."""

    def __init__(
        self,
        roster: Roster,
        membership: Membership,
        collection: Collection,
        settings: Settings,
        plan_again: Callable[[int], Message],
        deaths: Callable[[], dict[int, str]],
        heard: Heard,
        warn: Callable[[str], None],
        evaluated: Callable[[int], bool] = lambda round: True,
    ) -> None:
        self.roster = roster
        self.membership = membership
        self.collection = collection
        self.timeout = settings.timeout
        self.goes_on = settings.on_failure == "continue"
        self.patience = settings.patience
        self.plan_again = plan_again
        self.deaths = deaths
        self.listener = heard
        self.warn = warn
        self.evaluated = evaluated
        self.rounds = dict.fromkeys(range(roster.nodes), 0)
        self.failures: dict[int, Failed] = {}
        self.dropped: Counter[int] = Counter()
        self.late: dict[int, tuple[int, float, float]] = {}
        self.told_late: dict[int, float] = {}
        # Nodes are given time by its own clock: while that stands still nobody can be heard.
        self.clock = OwnTime(LONGEST_TURN)
        self.began = self.heard = self.clock()
        self.spoke: dict[int, float] = {}
        self.failed_at: float | None = None
        self.told: set[str] = set()
        self.pulsed, self.missed, self.idle = 0.0, 0.0, True
        self.reached: dict[int, float] = {}

    def begin(self, round: int) -> None:
        """The run begins after a round; what was heard before does not count."""
        self.rounds = dict.fromkeys(self.rounds, round)
        for node, hello in self.roster.processes.items():
            if hello.running:
                self.rounds[node] = hello.running[-1]
        self.clock, self.missed = OwnTime(LONGEST_TURN), 0.0
        self.heard = self.clock()
        self.reached = dict.fromkeys(self.roster.routes, self.heard)

    @property
    def outstanding(self) -> set[int]:
        """Nodes that have neither finished nor failed."""
        return self.membership.members - set(self.collection.done) - set(self.failures)

    def follow(self) -> None:
        """Returns when all members are done; raises RunFailed when the run cannot go on."""
        while self.membership.active:
            wait_for_any([self.roster.inbox], TICK)
            self._came_back()
            self.idle = True
            for arrival in self.roster.inbox.arrivals():
                self.idle = False
                envelope = self.roster.open(arrival)
                if envelope is None:
                    continue
                try:
                    self._take(envelope.sender, envelope.message)
                except BadMessage as reason:
                    self._drop(envelope.sender, str(reason))
                self.roster.took(envelope)
            members = self.membership.members
            self.listener.progress(
                {n: t for n, t in self.rounds.items() if n in members},
                len(members) - len(self.failures),
            )
            self._pulse()
            self._look_for_failures()
            for node, message in self.membership.due(self.clock()):
                self.roster.send(node, message)
            view = self.membership.view
            self.collection.views.setdefault(view.epoch, set(view.members))
            for row in self.collection.change(self.membership.members):
                self.listener.row(row)

    def _take(self, node: int, message: Message) -> None:
        now = self.clock()
        self.heard = self.spoke[node] = now
        if isinstance(message, Hello):
            self._greeted(node, now)
            return
        if node not in self.membership.members:
            # It was given up, and must not blame others for what it no longer hears.
            self.roster.send(node, Stop("the others went on without this node"))
            return
        if isinstance(message, (Progress, Metrics, Done)):
            self.rounds[node] = max(self.rounds[node], message.round)
            self.late.pop(node, None)
        if isinstance(message, Progress):
            self.collection.notice(message)
            if message.within:
                self._within(node, message)
        if isinstance(message, Metrics):
            check_metrics(message)
            if not self.evaluated(message.round) or self.collection.has(node, message.round):
                raise BadMessage("a report that nobody asked for")
            check_words(message.values, self.roster.nodes)
            self.listener.metrics(node, message)
            complete = self.collection.add(node, message)
            if complete is not None:
                self.listener.row(complete)
                self._hear_witnesses(message.round)
        elif isinstance(message, Done):
            for name in ("seconds", "bytes"):
                check_totals(message.values.get(name), name)
            check_totals({"peak": message.values.get("peak", 0)}, "peak")
            if node not in self.collection.done:
                # Not again: it stands on the disk, one line for each.
                self.listener.done(node, message)
                self.collection.done[node] = message
            self.membership.finished(node, now)
        elif isinstance(message, Failed):
            self.failures[node] = message
        elif isinstance(message, Halted):
            self.rounds[node] = max(self.rounds[node], message.done)
            self.membership.halted(node, message.epoch, message.done, now)
        elif isinstance(message, Entered):
            self.membership.has_entered(node, message.epoch)
        elif isinstance(message, Late):
            self._hears_of_lateness(node, message, now)

    def _drop(self, node: int, reason: str) -> None:
        """Logs a message that is not used; of many, few: whoever sends them must not fill disks."""
        self.dropped[node] += 1
        count = self.dropped[node]
        if count <= 10 or count % 1000 == 0:
            log.warning("dropped a message from node %d: %s (%d so far)", node, reason, count)

    def _within(self, node: int, message: Progress) -> None:
        """Hands on how far a node is within a round."""
        if len(message.within) != 2 or not 0 <= message.within[0] < len(STAGES):
            raise BadMessage("a stage that rounds do not have")
        stage, percent = message.within
        self.listener.within(node, message.round, STAGES[stage], min(100, max(0, percent)))

    def _greeted(self, node: int, now: float) -> None:
        """A node that asks for its plan: it was lost on the way, or the node is back."""
        if node in self.membership.dismissed:
            self.roster.send(node, Stop("the others have finished: it is too late to join them"))
            return
        if node not in self.membership.members:
            if not self.goes_on:
                return
            how = "back" if node in self.roster.lost else "here"
            self.roster.lost.discard(node)
            self.failures.pop(node, None)
            # Its connection may have ended before its greeting was read.
            self.reached[node] = now
            self.listener.say(f"note: node {node} is {how}, and joins the others")
            self.membership.come(node, now)
        waiting = self.membership.phase == "halting" and node in self.membership.newcomers
        # A second copy of the plan does no harm.
        self.roster.send(node, Waiting((node,)) if waiting else self.plan_again(node))

    def _hears_of_lateness(self, node: int, message: Late, now: float) -> None:
        if len(message.seconds) != 1 or message.epoch != self.membership.view.epoch:
            return
        self.late[node] = (message.node, message.seconds[0], now)

    def _pulse(self) -> None:
        """Tells all that the coordinator is there, and finds out who is not."""
        now = self.clock()
        if now - self.pulsed < PULSE_EVERY:
            return
        self.pulsed = now
        there = self.outstanding & set(self.roster.routes)
        for node in self.roster.send_all(there, Pulse(self.membership.view.epoch)):
            self.reached[node] = now

    def _came_back(self) -> None:
        """Who was away itself, in a stopped process, does not know who was gone for how long.

        Nodes that gave up its connection need a moment to make another.
        """
        now, missed = self.clock(), self.clock.missed - self.missed
        if missed > 0:
            self.missed = self.clock.missed
            self.reached = dict.fromkeys(self.reached, now + min(missed, UNREACHABLE))

    def _unreachable(self, now: float) -> dict[int, str]:
        """Nodes whose connection is gone for longer than a broken one takes to come back."""
        gone: dict[int, str] = {}
        if not self.idle:
            # What they said last may not have been read yet.
            return gone
        here = socket.gethostname()
        for node in self.outstanding & set(self.reached):
            near = self.roster.processes[node].host == here
            limit = UNREACHABLE if near else max(UNREACHABLE, self.timeout)
            if now - self.reached[node] > limit:
                gone[node] = f"is gone: its connection has ended{self._own_absence()}"
        return gone

    def _own_absence(self) -> str:
        """That the coordinator was away itself for too long, to end a sentence with."""
        if self.clock.held_up <= self.timeout:
            return ""
        return (
            f" (the coordinator itself was stopped for {self.clock.held_up:.0f} s: if the node was "
            "done, it has left, and what it ended with is in its folder)"
        )

    def _dead(self) -> dict[int, str]:
        found = {**self._unreachable(self.clock()), **self.deaths()}
        members = self.membership.members - set(self.collection.done)
        return {node: why for node, why in found.items() if node in members}

    def _hear_witnesses(self, round: int) -> None:
        for line, _ in statements(self.collection.reports[round]):
            if line not in self.told:
                self.told.add(line)
                log.warning("warning: %s", line)

    def _look_for_failures(self) -> None:
        dead, now = self._dead(), self.clock()
        if self.goes_on:
            self._go_on_without(dead, now)
            return
        self._name_the_late(now)
        # Nodes have their own deadlines: they name who is lost, and should come first.
        silent = now - self.heard > 2 * self.timeout + GRACE
        if not self.failures and not dead and not silent:
            return
        if self.failed_at is None:
            self.failed_at = now
        if now - self.failed_at > GRACE or silent or not self.outstanding - set(dead):
            since = now - self.timeout / 2
            mute = {n for n in self.outstanding if self.spoke.get(n, self.began) < since}
            raise find_culprit(
                self.failures, dead, self.rounds, self.outstanding, self.timeout, mute
            )

    def _go_on_without(self, dead: dict[int, str], now: float) -> None:
        """Takes out of the graph who is dead, has given up, or keeps the others waiting."""
        lost = dict(dead)
        for node, failed in self.failures.items():
            if node in self.membership.members:
                lost.setdefault(node, f"failed in round {failed.round}: {failed.reason}")
        for node, waited in self._name_the_late(now).items():
            if self.patience is not None and waited > self.patience:
                lost.setdefault(node, f"kept the others waiting for {waited:.0f} s")
        for node, why in sorted(lost.items()):
            self.warn(
                f"node {node} {why} (round {self.rounds[node]}); the others went on without it"
            )
            if node in self.roster.routes:
                self.roster.send(node, Stop(f"the others went on without this node: it {why}"))
            self.roster.lost.add(node)
            self.late = {n: about for n, about in self.late.items() if n != node}
            self.membership.lose(node, why, now)

    def _name_the_late(self, now: float) -> dict[int, float]:
        """Who keeps others waiting although nobody keeps it waiting, and for how long."""
        limit = 3 * late_every(self.roster.nodes)
        fresh = {n: about for n, about in self.late.items() if now - about[2] < limit}
        waits: dict[int, float] = {}
        for whom, seconds, _ in fresh.values():
            if whom not in fresh and whom in self.outstanding:
                waits[whom] = max(waits.get(whom, 0.0), seconds)
        for node, seconds in waits.items():
            # Slow rounds are no news every time.
            if seconds > max(LATE, 2 * self.told_late.get(node, 0.0)):
                self.told_late[node] = seconds
                self.listener.say(
                    f"note: node {node} is late: others have waited {seconds:.0f} s for it"
                )
        return waits


def find_culprit(
    failures: dict[int, Failed],
    dead: dict[int, str],
    rounds: dict[int, int],
    outstanding: set[int],
    timeout: float,
    mute: Set[int] = frozenset(),
) -> RunFailed:
    """Who is at fault, from what is known: its own word first, then its death, then its silence.

    One node's word about another is not enough to blame it: there must be a second, or that the
    other is `mute`, which the coordinator has seen for itself.
    """
    own = {n: f for n, f in failures.items() if f.waited_for < 0 or f.waited_for not in rounds}
    if own:
        node = min(own, key=lambda n: own[n].round)
        return RunFailed(
            f"node {node} failed in round {own[node].round}: {own[node].reason}",
            node=node,
            round=own[node].round,
        )
    killed = {n: why for n, why in dead.items() if n not in failures}
    if killed:
        node = min(killed)
        return RunFailed(
            f"node {node} {killed[node]} in round {rounds[node]}", node=node, round=rounds[node]
        )
    # A node that waited in vain may have been waited for in turn; the one that never spoke is it.
    accused = Counter(f.waited_for for f in failures.values())
    blamed = Counter({n: count for n, count in accused.items() if n not in failures})
    if not blamed:
        # Or all have stopped, and most of them because of one.
        blamed = Counter({n: count for n, count in accused.items() if count > 1})
    if blamed:
        node = blamed.most_common(1)[0][0]
        witnesses = [f for f in failures.values() if f.waited_for == node]
        first = min(witnesses, key=lambda f: f.round)
        if len(witnesses) < 2 and node not in mute:
            accuser = next(n for n, f in failures.items() if f is first)
            return RunFailed(
                f"node {accuser} stopped in round {first.round}, and it alone says that this is "
                f"because of node {node}: {first.reason}",
                node=accuser,
                round=first.round,
            )
        return RunFailed(
            f"node {node} was lost in round {first.round}: {first.reason}",
            node=node,
            round=first.round,
        )
    if failures:
        node = min(failures, key=lambda n: failures[n].round)
        first = failures[node]
        return RunFailed(first.reason, node=first.waited_for, round=first.round)
    node = min(outstanding)
    return RunFailed(
        f"{name_all(outstanding)} said nothing for {timeout:g} s", node=node, round=rounds[node]
    )
