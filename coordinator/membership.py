"""Who takes part: the change from one view of the graph to the next, message by message.

    settled ─(lost, come)→ halting(e′) ─(all have halted)→ entering(e′) ─(all have entered)→ settled
                           halting(e″) ←──────────(lost, come)──────┘

Pure: it is told what happened and what time it is, and says what is to be sent. An epoch is never
used twice, whatever is lost on the way. `docs/model/` has the same as a model that is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import Halt, Message, NextView
from lppa.protocol.names import name_all
from lppa.protocol.view import Place, View

REPEAT = 1.0  # seconds until a message that was not answered is sent again

Send = tuple[int, Message]
MakeView = Callable[[Sequence[int], int, int, Sequence[int]], View]
"""From members, epoch, first round and newcomers to a view; may refuse."""


@dataclass(frozen=True)
class Event:
    """One thing that happened to the graph, for the record."""

    kind: str
    epoch: int
    node: int | None = None
    round: int | None = None
    members: tuple[int, ...] = ()
    reason: str = ""


@dataclass
class Membership:
    """The graph of a run as the coordinator leads it.

    `plan` is the fingerprint of the plan that its views belong to. `note` hears every event, before
    anything is sent that follows from it. Nodes that are `done`
    are members to the end, but have nothing left to do.
    """

    view: View
    make_view: MakeView
    plan: str
    timeout: float
    note: Callable[[Event], None] = lambda event: None
    last_epoch: int = 0
    # The round after which a node is done.
    end_round: int = 1 << 30
    members: set[int] = field(default_factory=set)
    newcomers: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    phase: str = "settled"
    answered: dict[int, int] = field(default_factory=dict)
    entered: set[int] = field(default_factory=set)
    since: float = 0.0
    # Newcomers that came when the others had finished.
    dismissed: set[int] = field(default_factory=set)
    _said: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begin(self.view)

    def begin(self, view: View) -> None:
        """A run begins in a view, or goes on in one."""
        self.view = view
        self.members = set(view.members)
        self.last_epoch = max(self.last_epoch, view.epoch)

    @property
    def active(self) -> set[int]:
        """Members that still have rounds to do."""
        return self.members - self.done

    @property
    def unanswered(self) -> set[int]:
        """Members that were in a view, and have not said where they stopped."""
        return self.active & set(self.view.members) - set(self.answered)

    def lose(self, node: int, reason: str, now: float) -> None:
        """A member is gone for good: the others go on without it."""
        if node not in self.members:
            return
        self.members.discard(node)
        self.newcomers.discard(node)
        self.note(Event("lost", self.last_epoch, node, reason=reason))
        if not self.members:
            raise RunFailed(
                f"all nodes are lost, node {node} as the last: it {reason}; go on with --resume",
                node=node,
            )
        self._halt(now)

    def come(self, node: int, now: float) -> None:
        """A node that was lost, or a new process with its id, is here: it begins as a newcomer."""
        if not self.active - self.newcomers:
            self.dismissed.add(node)
            return
        self.members.add(node)
        self.newcomers.add(node)
        self.note(Event("joined", self.last_epoch, node))
        self._halt(now)

    def again(self, now: float) -> None:
        """A coordinator that came back does not know how far a change has come: it begins anew."""
        self._halt(now)

    def _halt(self, now: float) -> None:
        if not self.active:
            self.phase = "settled"
            return
        self.last_epoch += 1
        self.phase, self.since = "halting", now
        self.answered, self.entered, self._said = {}, set(), {}
        self.note(Event("halt", self.last_epoch, members=tuple(sorted(self.members))))
        self._go_on(now)

    def halted(self, node: int, epoch: int, done: int, now: float) -> None:
        """A member has stopped after a round; −1 says that it has no model yet."""
        if self.phase != "halting" or epoch != self.last_epoch or node not in self.members:
            return
        if node in self.answered:
            return
        self.note(Event("halted", epoch, node, done))
        self.answered[node] = done
        (self.newcomers.add if done < 0 else self.newcomers.discard)(node)
        self._go_on(now)

    def _go_on(self, now: float) -> None:
        """Makes the next view as soon as everybody has stopped."""
        if self.phase != "halting" or self.unanswered:
            return
        if (claim := self._impossible()) is not None:
            self.lose(*claim, now)
            return
        first_round = self._first_round()
        if first_round >= self.end_round:
            self._end(first_round)
        else:
            self.view = self.make_view(
                sorted(self.active), self.last_epoch, first_round, sorted(self.newcomers)
            )
        self.note(Event("view", self.last_epoch, round=first_round, members=self.view.members))
        self.phase, self.since, self._said = "entering", now, {}
        self._settle()

    def _impossible(self) -> tuple[int, str] | None:
        """Who says that it has done what it cannot have, if anybody, and what is wrong with that.

        Each round needs the neighbours' of the round before, so that nobody is ahead of all others
        by as many rounds as there are members. It would lead them to an early end.
        """
        claims = {node: t for node, t in self.answered.items() if t >= 0}
        claims |= dict.fromkeys(self.done & self.members, self.end_round)
        if len(claims) < 3:
            return None  # one word against another
        furthest, next_one = sorted(claims, key=claims.__getitem__, reverse=True)[:2]
        if claims[furthest] < claims[next_one] + len(self.view.members):
            return None
        return furthest, (
            f"says that it has done round {claims[furthest]}, which is impossible: nobody else is "
            f"beyond round {claims[next_one]}"
        )

    def _first_round(self) -> int:
        """Where the next view begins: with the one that has come furthest."""
        rounds = [t for t in self.answered.values() if t >= 0]
        rounds += [self.end_round for _ in self.done & self.members]
        if rounds:
            return max(rounds)
        if self.view.first_round or not self.answered:
            raise RunFailed("no node is left that has a model")
        # Nobody has done a round yet: all begin once more, from their common start.
        self.newcomers -= set(self.answered)
        return 0

    def _end(self, first_round: int) -> None:
        """Somebody has done all rounds: the others keep what they have, and meet nobody."""
        self.dismissed |= self.newcomers
        self.members -= self.newcomers
        self.newcomers = set()
        alone = Place((), (), 1.0, (), ())
        members = tuple(sorted(self.active))
        self.view = View(self.last_epoch, first_round, members, dict.fromkeys(members, alone))

    def has_entered(self, node: int, epoch: int) -> None:
        """A member has met its neighbours in a view."""
        if epoch != self.view.epoch or node not in self.view.members or self.phase == "halting":
            return
        if node not in self.entered:
            self.note(Event("entered", epoch, node))
        self.entered.add(node)
        self.newcomers.discard(node)
        self._settle()

    def finished(self, node: int, now: float) -> None:
        """A member has done all rounds."""
        self.done.add(node)
        if self.active:
            self._go_on(now)
        self._settle()

    def _settle(self) -> None:
        if not self.active or (self.phase == "entering" and self.entered >= self.active):
            self.phase = "settled"

    def due(self, now: float) -> list[Send]:
        """What is to be sent now: again, where nobody has answered."""
        if self.phase == "settled":
            return []
        if now - self.since > self.timeout:
            self._give_up(now)
        sends: list[Send] = []
        for node in sorted(self.active):
            if now - self._said.get(node, -REPEAT) < REPEAT:
                continue
            message = self._message(node)
            if message is not None:
                self._said[node] = now
                sends.append((node, message))
        return sends

    def _message(self, node: int) -> Message | None:
        if self.phase == "halting":
            return Halt(self.last_epoch) if node not in self.answered else None
        if node in self.entered or node not in self.view.members:
            return None
        content = self.view.told_to(node).content()
        return NextView(self.view.epoch, content, self.view.fingerprint(self.plan))

    def _give_up(self, now: float) -> None:
        """Who does not answer is lost too; who cannot meet its neighbours ends the run."""
        if self.phase == "halting":
            for node in sorted(self.unanswered):
                self.lose(node, f"it did not answer for {self.timeout:g} s", now)
            return
        missing = self.active - self.entered
        raise RunFailed(
            f"{name_all(missing)} did not meet the others for {self.timeout:g} s after the graph "
            "had changed: look at the links between them",
            node=min(missing),
            round=self.view.first_round,
        )
