"""Follows a run after its bootstrap: collects reports, and finds out who failed and where.

Training does not need it. It only listens, and ends the run for all when one node is lost.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

from lppa.coordinator.bootstrap import TICK, Roster
from lppa.coordinator.figures import Row
from lppa.coordinator.metrics import Collection, check_metrics, check_totals
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
        evaluated: Callable[[int], bool] = lambda round: True,
    ) -> None:
        self.roster = roster
        self.plan_again = plan_again
        self.timeout = timeout
        self.deaths = deaths
        self.evaluated = evaluated
        self.collection = Collection(roster.nodes)
        self.rounds = dict.fromkeys(range(roster.nodes), 0)
        self.failures: dict[int, Failed] = {}
        self.heard = time.monotonic()
        self.failed_at: float | None = None

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
            for arrival in self.roster.inbox.arrivals():
                envelope = self.roster.open(arrival)
                if envelope is None:
                    continue
                try:
                    self._take(envelope.sender, envelope.message, metrics, row)
                except BadMessage as reason:
                    log.warning("dropped a message from node %d: %s", envelope.sender, reason)
                self.roster.took(envelope)
            progress(self.rounds, self.roster.nodes - len(self.failures))
            self._look_for_failures()

    def _take(
        self,
        node: int,
        message: Message,
        metrics: Callable[[int, Metrics], None],
        row: Callable[[Row], None],
    ) -> None:
        self.heard = time.monotonic()
        if isinstance(message, (Progress, Metrics, Done)):
            self.rounds[node] = max(self.rounds[node], message.round)
        if isinstance(message, Hello):
            # Its plan was lost on the way, or is still travelling: a second copy does no harm.
            self.roster.send(node, self.plan_again(node))
        elif isinstance(message, Metrics):
            check_metrics(message)
            if not self.evaluated(message.round) or self.collection.has(node, message.round):
                raise BadMessage("a report that nobody asked for")
            metrics(node, message)
            complete = self.collection.add(node, message)
            if complete is not None:
                row(complete)
        elif isinstance(message, Done):
            for name in ("seconds", "bytes"):
                check_totals(message.values.get(name), name)
            self.collection.done[node] = message
        elif isinstance(message, Failed):
            self.failures[node] = message

    def _look_for_failures(self) -> None:
        dead = {n: why for n, why in self.deaths().items() if n not in self.collection.done}
        # Nodes have their own deadlines: they name who is lost, and should come first.
        silent = time.monotonic() - self.heard > 2 * self.timeout + GRACE
        if not self.failures and not dead and not silent:
            return
        if self.failed_at is None:
            self.failed_at = time.monotonic()
        if time.monotonic() - self.failed_at > GRACE or silent or not self.outstanding - set(dead):
            raise find_culprit(self.failures, dead, self.rounds, self.outstanding, self.timeout)


def find_culprit(
    failures: dict[int, Failed],
    dead: dict[int, str],
    rounds: dict[int, int],
    outstanding: set[int],
    timeout: float,
) -> RunFailed:
    """Who is at fault, from what is known: its own word first, then its death, then its silence."""
    own = {n: f for n, f in failures.items() if f.waited_for < 0}
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
    blamed = Counter(f.waited_for for f in failures.values() if f.waited_for not in failures)
    if blamed:
        node = blamed.most_common(1)[0][0]
        witnesses = [f for f in failures.values() if f.waited_for == node]
        first = min(witnesses, key=lambda f: f.round)
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
