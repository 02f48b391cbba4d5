"""A node's links to its neighbours, as the round loop sees them: send, receive, nothing else.

Every message is checked here before it is used, whatever it came over: `LocalLinks` are queues in
one process, `network` has those over sockets. The mathematics is not here.
"""

from __future__ import annotations

import logging
import queue
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TypeVar

import numpy as np

from lppa.protocol.codec import BadMessage, Envelope, all_finite
from lppa.protocol.errors import LppaError, RunFailed, WrongUse
from lppa.protocol.mailbox import Mailbox, random_delay
from lppa.protocol.messages import Message, Noise, Seed, State
from lppa.protocol.names import describe
from lppa.protocol.patience import Patience

log = logging.getLogger("lppa.links")

SEED_BYTES = 32  # of a seed and of its commitment
BYTES = np.dtype("uint8")
# Numbers of a vector that travels in one message, at most. Larger ones travel in parts, each mixed
# before the next is sent, so that nobody holds a whole vector of another.
WHOLE, PART = 1 << 22, 1 << 17
MOST_REASONS = 32  # that are told apart; a stranger could think of endlessly many

Exchanged = Noise | Seed | State
"""What neighbours send each other once they have met."""

Kind = TypeVar("Kind", Noise, Seed, State)


class Stopped(LppaError):
    """The coordinator has ended the run."""


class ViewEnds(LppaError):
    """The coordinator is about to change the graph; `epoch` is that of the next view."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"the graph changes: epoch {epoch} begins")
        self.epoch = epoch


Tap = Callable[[str, int, Message], None]
"""Hears every message that passes, as ("in" or "out", peer, message); for attackers."""


@dataclass(frozen=True)
class Neighbourhood:
    """Who a node talks to, and what an honest message looks like."""

    me: int
    nodes: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: str
    size: int
    timeout: float
    latency: float = 0.0
    epoch: int = 0
    # Names and sizes of the vectors that travel in a round.
    vectors: Callable[[int], Mapping[str, int]] = field(default=lambda round: {}, compare=False)
    # Whether a peer that is lost is the coordinator's business, as long as that is there.
    waits_on: bool = False
    # How noise travels in a round, None where it does not; any way where nobody says.
    noise: Callable[[int], type | None] | None = field(default=None, compare=False)
    part: int = WHOLE

    @property
    def in_parts(self) -> bool:
        """Whether the model is so large that memory counts more than the time of a pass over it."""
        return self.size > self.part

    def span(self, part: int) -> range:
        """The coordinates of a model's part."""
        return range(part * self.part, min(self.size, (part + 1) * self.part))

    def sizes(self, round: int, part: int) -> Mapping[str, int]:
        """Names and sizes of what travels in one part of a round's vectors."""
        whole = self.vectors(round)
        if part == 0 and max(whole.values(), default=0) <= self.part:
            return whole
        before = part * self.part
        return {name: min(self.part, n - before) for name, n in whole.items() if n > before}

    def parts(self, round: int) -> int:
        """How many parts a round's vectors travel in."""
        return max(1, -(-max(self.vectors(round).values(), default=0) // self.part))


class Links(ABC):
    """What both kinds share: the checks, the mailbox and the deadline."""

    def __init__(self, around: Neighbourhood) -> None:
        self.around = around
        self.dtype = np.dtype(around.dtype)
        self.round = 0
        self.sent: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.mailbox = Mailbox(random_delay(around.latency))
        self.tap: Tap | None = None
        # A node has a quicker one.
        self.is_finite: Callable[[np.ndarray], bool] = all_finite
        # Hears the round, the peer and the seconds now and then while it is waited for.
        self.on_wait: Callable[[int, int, float], None] | None = None

    def send(self, message: Exchanged, *receivers: int) -> None:
        """Sends to out-neighbours. The arrays must not be changed afterwards."""
        kind = "noise" if isinstance(message, (Noise, Seed)) else "state"
        self.sent[kind] += array_bytes(message) * len(receivers)
        if self.tap is not None:
            for receiver in receivers:
                self.tap("out", receiver, message)
        self._transmit(message, receivers)

    def receive(self, kind: type[Kind], round: int, sender: int, part: int = 0) -> Kind:
        """The message of that kind and round from one in-neighbour; waits until the deadline."""
        return self.receive_all(kind, round, (sender,), part)[0]

    def receive_all(
        self, kind: type[Kind], round: int, senders: Sequence[int], part: int = 0
    ) -> list[Kind]:
        """Those of several in-neighbours, in their order; waits as long for each to come."""
        if round > self.round:
            self.round = round
        when = (self.around.epoch, round, part)
        found = self.mailbox.take_all(kind, when, senders)
        patience, told = None, 0
        while len(found) < len(senders):
            patience = patience or Patience(self.around.timeout)
            missing = [sender for sender in senders if sender not in found]
            left = patience.look()
            if patience.waited >= told + late_every(self.around.nodes) and self.on_wait is not None:
                told = int(patience.waited)
                self.on_wait(round, missing[0], patience.waited)
            if left <= 0 and self._is_led():
                left = self.around.timeout
            if left <= 0:
                raise RunFailed(
                    f"node {self.around.me} waited {self.around.timeout:g} s for the "
                    f"{kind.__name__.lower()} of round {round} from node {missing[0]}"
                    f"{self._news_of(missing[0])}",
                    node=missing[0],
                    round=round,
                )
            due = self.mailbox.next_due()
            lacking = self.mailbox.count_lacking(kind, when, missing)
            self._gather(min(left, 1.0 if due is None else due), lacking)
            if came := self.mailbox.take_all(kind, when, missing):
                found |= came
                patience, told = None, 0
        return [found[sender] for sender in senders]

    def accept(self, envelope: Envelope, speaker: int | None) -> bool:
        """Puts a message into the mailbox, or drops it with a reason and returns False."""
        try:
            message = self._checked(envelope, speaker)
        except BadMessage as reason:
            self.drop(str(reason), envelope.sender)
            return False
        if self.tap is not None:
            self.tap("in", envelope.sender, message)
        self.mailbox.put(envelope.sender, message)
        return True

    def accept_foreseen(self, sender: int, state: State) -> bool:
        """The same for an in-neighbour's next state, as it has to be but for its values, and
        perhaps early."""
        try:
            self._check_round(state)
            for name, array in state.vectors.items():
                self._check_finite(name, array)
        except BadMessage as reason:
            self.drop(str(reason), sender)
            return False
        if self.tap is not None:
            self.tap("in", sender, state)
        self.mailbox.put(sender, state)
        return True

    def drop(self, reason: str, sender: int | None = None) -> None:
        """Counts and logs a message that is not used."""
        if reason not in self.dropped and len(self.dropped) >= MOST_REASONS:
            reason = "other reasons"
        self.dropped[reason] += 1
        # Somebody who sends nothing but nonsense must not fill the disk with it.
        if self.dropped[reason] <= 10 or self.dropped[reason] % 1000 == 0:
            whom = "an unknown sender" if sender is None else describe(sender)
            count = self.dropped[reason]
            log.warning("dropped a message from %s: %s (%d so far)", whom, reason, count)

    def _checked(self, envelope: Envelope, speaker: int | None) -> Exchanged:
        message, around = envelope.message, self.around
        check_speaker(envelope, speaker)
        if envelope.sender not in around.inputs:
            raise BadMessage("its sender is not an in-neighbour")
        if not isinstance(message, (Noise, Seed, State)):
            raise BadMessage(f"a {type(message).__name__.lower()} is not expected here")
        if message.epoch != around.epoch:
            raise BadMessage(f"epoch {message.epoch} while this node is in epoch {around.epoch}")
        due = type(message) if around.noise is None else around.noise(message.round)
        if not isinstance(message, State) and type(message) is not due:
            raise BadMessage(f"nobody asked for a {type(message).__name__.lower()} of that round")
        self._check_time(envelope.sender, message)
        self._check_arrays(message)
        return message

    def _check_time(self, sender: int, message: Exchanged) -> None:
        """Neither too late nor too early, nor for the second time."""
        self._check_round(message)
        if self.mailbox.has_had(sender, message):
            raise BadMessage(f"a second {type(message).__name__.lower()} for one round")

    def _check_round(self, message: Exchanged) -> None:
        if not self.round <= message.round <= self.round + self.around.nodes:
            raise BadMessage(f"round {message.round} while this node is in round {self.round}")

    def _check_arrays(self, message: Exchanged) -> None:
        """Names, types and sizes are those of this round, and all values are numbers."""
        dtype, found = self.dtype, arrays_of(message)
        if isinstance(message, State):
            expected = self.around.sizes(message.round, max(0, message.part))
            if message.part < 0 or set(found) != set(expected):
                names = ", ".join(sorted(expected))
                raise BadMessage(f"round {message.round} has the vectors {names}, and no others")
        elif isinstance(message, Seed):
            dtype, expected = BYTES, dict.fromkeys(found, SEED_BYTES)
        else:
            expected = dict.fromkeys(found, len(self.around.span(max(0, message.part))))
        for name, array in found.items():
            if array.dtype != dtype or array.shape != (expected[name],):
                raise BadMessage(
                    f"{name} is {array.dtype.name}{list(array.shape)}, "
                    f"not {dtype.name}[{expected[name]}]"
                )
            self._check_finite(name, array)

    def _check_finite(self, name: str, array: np.ndarray) -> None:
        """All values of an array that came are numbers."""
        if not self.is_finite(array):
            raise BadMessage(f"{name} has values that are not finite")

    def _is_led(self) -> bool:
        """Whether a coordinator is there to say what becomes of a peer that is lost."""
        return False

    @abstractmethod
    def settle(self) -> None:
        """Returns when all that was sent has been taken, or the time for that is over."""

    def _news_of(self, sender: int) -> str:
        """What else is known about a peer that was waited for, to end a sentence with."""
        return ""

    @abstractmethod
    def check_for_stop(self) -> None:
        """Raises Stopped if somebody has ended the run; never waits."""

    @abstractmethod
    def _transmit(self, message: Exchanged, receivers: Sequence[int]) -> None:
        """Hands a message on to its receivers."""

    @abstractmethod
    def _gather(self, seconds: float, count: int = 0) -> None:
        """Takes in what arrives within the time; may return early, the sooner where nobody waits
        for so many messages."""


class LocalLinks(Links):
    """Links between threads of one process, with no network: for tests and comparisons."""

    def __init__(
        self, around: Neighbourhood, queues: Sequence[queue.SimpleQueue[Envelope]]
    ) -> None:
        super().__init__(around)
        self.queues = queues

    def settle(self) -> None:
        """What is in a queue has arrived."""

    def check_for_stop(self) -> None:
        """Nobody can end a run in one process from outside."""

    def _transmit(self, message: Exchanged, receivers: Sequence[int]) -> None:
        for receiver in receivers:
            self.queues[receiver].put(Envelope(self.around.me, message))

    def _gather(self, seconds: float, count: int = 0) -> None:
        try:
            self.accept(self.queues[self.around.me].get(timeout=seconds), None)
        except queue.Empty:
            return


def check_speaker(envelope: Envelope, speaker: int | None) -> None:
    """On encrypted links the key says who is speaking; the header must say the same."""
    if speaker is not None and speaker != envelope.sender:
        raise BadMessage(f"its key is that of {describe(speaker)}")


def largest_message(around: Neighbourhood) -> int:
    """Bytes of arrays in the largest message that an honest neighbour sends."""
    item = np.dtype(around.dtype).itemsize
    state = sum(around.sizes(0, 0).values())
    return max(item * max(state, len(around.span(0))), 2 * SEED_BYTES)


def late_every(nodes: int) -> float:
    """Seconds of waiting between two words about it: a coordinator of many hears many."""
    return max(1.0, nodes / 64)


def check_recordable(size: int) -> None:
    """Refuses to record models that travel in parts: attacks know whole messages."""
    if size > WHOLE:
        raise WrongUse(
            f"attackers record models of at most {WHOLE:,} parameters, and this one has {size:,}"
        )


def part_of(size: int) -> int:
    """How many numbers of a vector travel at once where a model has so many."""
    return WHOLE if size <= WHOLE else PART


def arrays_of(message: Message) -> dict[str, np.ndarray]:
    """The arrays of a message by their names."""
    if isinstance(message, State):
        return message.vectors
    values = {about.name: getattr(message, about.name) for about in fields(message)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def array_bytes(message: Message) -> int:
    """How much of a message is arrays."""
    size = 0
    arrays = message.vectors if isinstance(message, State) else arrays_of(message)
    for array in arrays.values():
        size += array.nbytes
    return size
