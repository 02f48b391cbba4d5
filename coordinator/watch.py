"""Follows a run after its bootstrap: collects reports, and finds out who failed and where.

Training does not need it. It only listens, and ends the run for all when one node is lost.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Set

from lppa.coordinator.bootstrap import TICK, Roster
from lppa.coordinator.figures import Row
from lppa.coordinator.metrics import Collection, check_metrics, check_totals
from lppa.coordinator.witness import check_words, statements
from lppa.protocol.codec import BadMessage
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import Done, Failed, Hello, Message, Metrics, Progress
from lppa.protocol.names import name_all
from lppa.protocol.sockets import wait_for_any

log = logging.getLogger("lppa.coordinator")

GRACE = 1.0  # seconds in which others may still tell what they know about a failure


class Watch:
    """One run being followed. `deaths` names local node processes that have ended badly."""

    def __init__(
        self,
        roster: Roster,
        plan_again: Callable[[int], Message],
        timeout: float,
        deaths: Callable[[], dict[int, str]],
    ) -> None:
        self.roster = roster
        self.plan_again = plan_again
        self.timeout = timeout
        self.deaths = deaths
        self.collection = Collection(roster.nodes)
        self.rounds = dict.fromkeys(range(roster.nodes), 0)
        self.failures: dict[int, Failed] = {}
        self.heard = time.monotonic()
        self.failed_at: float | None = None
        self.spoke = dict.fromkeys(range(roster.nodes), self.heard)
        self.told: set[str] = set()

    @property
    def outstanding(self) -> set[int]:
        """Nodes that have neither finished nor failed."""
        return set(self.rounds) - set(self.collection.done) - set(self.failures)

    def follow(
        self,
        metrics: Callable[[int, Metrics], None],
        row: Callable[[Row], None],
        progress: Callable[[dict[int, int], int], None],
    ) -> None:
        """Returns when all nodes are done; raises RunFailed when one is lost."""
        while len(self.collection.done) < self.roster.nodes:
            wait_for_any([self.roster.inbox], TICK)
            while (arrival := self.roster.inbox.receive()) is not None:
                envelope = self.roster.open(arrival)
                if envelope is None:
                    continue
                try:
                    self._take(envelope.sender, envelope.message, metrics, row)
                except BadMessage as reason:
                    log.warning("dropped a message from node %d: %s", envelope.sender, reason)
            progress(self.rounds, self.roster.nodes - len(self.failures))
            self._look_for_failures()

    def _take(
        self,
        node: int,
        message: Message,
        metrics: Callable[[int, Metrics], None],
        row: Callable[[Row], None],
    ) -> None:
        self.heard = self.spoke[node] = time.monotonic()
        if isinstance(message, (Progress, Metrics, Done)):
            self.rounds[node] = max(self.rounds[node], message.round)
        if isinstance(message, Hello):
            # Its plan was lost on the way, or is still travelling: a second copy does no harm.
            self.roster.send(node, self.plan_again(node))
        elif isinstance(message, Metrics):
            check_metrics(message)
            check_words(message.values, self.roster.nodes)
            metrics(node, message)
            complete = self.collection.add(node, message)
            if complete is not None:
                row(complete)
                self._hear_witnesses(message.round)
        elif isinstance(message, Done):
            for name in ("seconds", "bytes"):
                check_totals(message.values.get(name), name)
            self.collection.done[node] = message
        elif isinstance(message, Failed):
            self.failures[node] = message

    def _hear_witnesses(self, round: int) -> None:
        for line, _ in statements(self.collection.reports[round]):
            if line not in self.told:
                self.told.add(line)
                log.warning("warning: %s", line)

    def _look_for_failures(self) -> None:
        dead = {n: why for n, why in self.deaths().items() if n not in self.collection.done}
        # Nodes have their own deadlines: they name who is lost, and should come first.
        silent = time.monotonic() - self.heard > 2 * self.timeout + GRACE
        if not self.failures and not dead and not silent:
            return
        if self.failed_at is None:
            self.failed_at = time.monotonic()
        if time.monotonic() - self.failed_at > GRACE or silent or not self.outstanding - set(dead):
            since = time.monotonic() - self.timeout / 2
            mute = {n for n in self.outstanding if self.spoke[n] < since}
            raise find_culprit(
                self.failures, dead, self.rounds, self.outstanding, self.timeout, mute
            )


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
