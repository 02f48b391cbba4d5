"""A client's neighbours in the letters of the paper: vectors out, vectors in, in sender order.

Stands between the round loop and the links: stages tensors on their way to and from the wire, and
times the waiting. Knows neither sockets nor mathematics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from lppa.node.robust import Scrutiny, sum_is_finite
from lppa.node.stopwatch import Stopwatch
from lppa.protocol.codec import TOGETHER
from lppa.protocol.errors import BLEW_UP, RunFailed
from lppa.protocol.links import Links
from lppa.protocol.messages import Noise, Seed, State, Together, Vectors

# Parts that are sent before those of others are awaited: who waits for a core waits less often.
AHEAD = 4


class Neighbours:
    """The in- and out-neighbours of client `me`, and its row of W over the former and itself."""

    def __init__(
        self,
        links: Links,
        row: Mapping[int, float],
        device: torch.device,
        clock: Stopwatch,
        scrutiny: Scrutiny | None = None,
    ) -> None:
        self.links = links
        links.is_finite = sum_is_finite
        self.me = links.around.me
        self.epoch = links.around.epoch
        self.row = row
        self.inputs = links.around.inputs
        self.outputs = links.around.outputs
        self.device = device
        self.clock = clock
        self.scrutiny = scrutiny or Scrutiny(self.me, lambda t: False)
        # Whether somebody waits for all parts of a round's vectors before it sends its own.
        self.looked_at: Callable[[int], bool] = lambda t: False
        # Hears how far a round of a large model is: the stage, and how much of it is done.
        self.on_stage: Callable[[str, float], None] = lambda stage, share: None
        self._looked: dict[tuple[int, int], dict[str, np.ndarray]] = {}

    @property
    def in_parts(self) -> bool:
        """Whether the model is so large that it is never copied as a whole where that can be."""
        return self.links.around.in_parts

    @property
    def spans(self) -> list[range]:
        """The coordinates of each part of a large model; none where it travels whole."""
        around = self.links.around
        count = -(-around.size // around.part)
        return [around.span(part) for part in range(count)] if around.in_parts else []

    def look(self, t: int, senders: Sequence[int]) -> list[Tensor]:
        """The θ that some senders send in round t, before this client sends anything itself."""
        return self.look_at("theta", t, senders)

    def look_at(self, name: str, t: int, senders: Sequence[int]) -> list[Tensor]:
        """One of the vectors that some senders send in a round; they are mixed later."""
        count = self.links.around.parts(t)
        with self.clock("exchange"):
            for j in senders:
                for part in range(count):
                    self._looked[j, part] = self.links.receive(State, t, j, part).vectors
        found = [[self._looked[j, p] for p in range(count)] for j in senders]
        return [
            torch.cat([from_wire(part[name], self.device) for part in parts if name in part])
            for parts in found
        ]

    def mix(
        self,
        t: int,
        vectors: Mapping[str, Tensor],
        meanwhile: Callable[[], None] | None = None,
    ) -> dict[str, Tensor]:
        """Σ_j w_ij x_j of each vector x; of large ones part by part."""
        count = self.links.around.parts(t)
        if count == 1:
            if self._are_small(vectors):
                return self._mix_together(t, vectors, meanwhile)
            return weighted_sum(self.exchange(t, vectors, meanwhile))
        sums = {name: torch.empty_like(vector) for name, vector in vectors.items()}
        ahead, sent = count if self.looked_at(t) else AHEAD, 0
        for part in range(count):
            self.on_stage("mixing", part / count)
            while sent < min(count, part + ahead):
                self._send(t, self._cut(vectors, sent), sent)
                sent += 1
            states = self.exchange(t, self._cut(vectors, part), meanwhile, part, send=False)
            weighted_sum(states, self._cut(sums, part))
            meanwhile = None
        return sums

    def _are_small(self, vectors: Mapping[str, Tensor]) -> bool:
        """Whether they are several that travel in one frame, and go into the sum as they come."""
        if len(vectors) == 1 or self.device.type == "cuda" or self.scrutiny.clip:
            return False
        return sum(v.nbytes for v in vectors.values()) <= TOGETHER

    def _mix_together(
        self,
        t: int,
        vectors: Mapping[str, Tensor],
        meanwhile: Callable[[], None] | None,
    ) -> dict[str, Tensor]:
        """The same of small vectors, in one piece of memory: fewer steps, and the same numbers."""
        sizes = {name: len(vector) for name, vector in vectors.items()}
        own = torch.cat(list(vectors.values()))
        arrived = self._exchanged(t, Together(own.numpy(), sizes), meanwhile)
        states = (
            (weight, {"": own if j == self.me else torch.from_numpy(in_one(arrived[j], sizes))})
            for j, weight in self.row.items()
        )
        sums = torch.split_with_sizes(weighted_sum(states)[""], list(sizes.values()))
        return dict(zip(sizes, sums, strict=True))

    def _exchanged(
        self, t: int, arrays: Vectors, meanwhile: Callable[[], None] | None
    ) -> dict[int, Vectors]:
        """Sends arrays to all; what all others have sent."""
        with self.clock("exchange"):
            self._send_arrays(t, arrays)
        if meanwhile is not None:
            meanwhile()
        with self.clock("exchange"):
            return self._arrived(t, 0)

    def _cut(self, vectors: Mapping[str, Tensor], part: int) -> dict[str, Tensor]:
        """One part of each vector, where it has one: the same memory."""
        first, last = part * self.links.around.part, (part + 1) * self.links.around.part
        return {name: v[first:last] for name, v in vectors.items() if len(v) > first}

    def exchange(
        self,
        t: int,
        vectors: Mapping[str, Tensor],
        meanwhile: Callable[[], None] | None = None,
        part: int = 0,
        send: bool = True,
    ) -> Iterator[tuple[float, Mapping[str, Tensor]]]:
        """Sends vectors to all; yields all senders' with their weights, one's own included.

        `meanwhile` is called once, when all is sent and nothing is awaited yet.
        """
        if send:
            self._send(t, vectors, part)
        else:
            self.scrutiny.begin(vectors)
        if meanwhile is not None:
            meanwhile()
        with self.clock("exchange"):
            arrived = self._arrived(t, part)
        clip = self.scrutiny.clip
        for sender, weight in self.row.items():
            if sender == self.me:
                yield weight, vectors
                continue
            with self.clock("exchange"):
                # Handed on one by one, so that none is kept longer than it takes to mix it.
                arrays = arrived.pop(sender)
                state = {name: from_wire(array, self.device) for name, array in arrays.items()}
            yield weight, self.scrutiny.bounded(sender, state) if clip else state

    def _send(self, t: int, vectors: Mapping[str, Tensor], part: int) -> None:
        with self.clock("exchange"):
            arrays = {name: to_wire(self._alone(vector)) for name, vector in vectors.items()}
            self._send_arrays(t, arrays, part)

    def _send_arrays(self, t: int, arrays: Vectors, part: int = 0) -> None:
        self.links.check_for_stop()
        message = State(self.epoch, t, arrays, part)
        if not self.scrutiny.begin(arrays):
            self.check_finite(message.vectors, message.round)
        self.links.send(message, *self.outputs)

    def _alone(self, vector: Tensor) -> Tensor:
        """A part that is sent is a copy: until it is taken it would keep the whole vector alive,
        which is replaced before that."""
        return vector.clone() if self.in_parts else vector

    def _arrived(self, t: int, part: int) -> dict[int, Vectors]:
        """What all others have sent in a round, when all of it is here and was looked at."""
        arrived: dict[int, Vectors] = {}
        if self._looked:
            for sender in self.inputs:
                if (looked := self._looked.pop((sender, part), None)) is not None:
                    arrived[sender] = looked
        awaited = [sender for sender in self.inputs if sender not in arrived]
        states = self.links.receive_all(State, t, awaited, part)
        arrived |= {j: state.vectors for j, state in zip(awaited, states, strict=True)}
        for sender, arrays in arrived.items():
            self.scrutiny.see(t, sender, arrays, part)
        self.scrutiny.judge(t)
        return arrived

    def check_finite(self, vectors: Mapping[str, np.ndarray | Tensor], t: int) -> None:
        """A receiver would drop such a message; better to say here what has happened."""
        for name, vector in vectors.items():
            if sum_is_finite(vector if isinstance(vector, np.ndarray) else to_wire(vector)):
                continue
            for sender, why in self.scrutiny.suspects.items():
                # All that came in was finite; but after the first that was far beyond the rest,
                # nothing that is made of it tells whose it is.
                raise RunFailed(
                    f"{name} of node {self.me} is no longer finite, because of what node {sender} "
                    f"sent: {why}",
                    node=sender,
                    round=t,
                )
            raise RunFailed(
                f"{BLEW_UP}: {name} of node {self.me} is no longer finite; "
                "try a smaller --lr or --beta",
                round=t,
            )

    def exchange_noise(
        self, t: int, sent: dict[int, Tensor], where: range | None = None
    ) -> list[Tensor]:
        """Sends δ_li, or a part of it, to every out-neighbour l; returns the δ_ij in order."""
        part = 0 if where is None else where.start // self.links.around.part
        with self.clock("exchange"):
            for receiver, delta in sent.items():
                self.links.send(Noise(self.epoch, t, to_wire(delta), part), receiver)
            received = self.links.receive_all(Noise, t, self.inputs, part)
            return [from_wire(noise.delta, self.device) for noise in received]

    def exchange_seeds(
        self, t: int, sent: dict[int, tuple[bytes, bytes]]
    ) -> dict[int, tuple[bytes, bytes]]:
        """Sends every out-neighbour its seed and commitment; returns those of the in-neighbours."""
        with self.clock("exchange"):
            for receiver, pair in sent.items():
                arrays = (np.frombuffer(part, np.uint8) for part in pair)
                self.links.send(Seed(self.epoch, t, *arrays), receiver)
            received = self.links.receive_all(Seed, t, self.inputs)
        return {
            j: (m.seed.tobytes(), m.commitment.tobytes())
            for j, m in zip(self.inputs, received, strict=True)
        }


def to_wire(vector: Tensor) -> np.ndarray:
    """The vector's own memory on the CPU; from a GPU, a copy in a pinned host buffer."""
    if vector.is_cuda:
        # PyTorch keeps pinned buffers in a pool, so that asking for one each time is cheap.
        host = torch.empty(vector.shape, dtype=vector.dtype, pin_memory=True)
        host.copy_(vector, non_blocking=True)
        torch.cuda.current_stream(vector.device).synchronize()
        vector = host
    return vector.numpy()


def from_wire(array: np.ndarray, device: torch.device) -> Tensor:
    """A received array in place on the CPU; for a GPU, copied there through a pinned buffer."""
    vector = torch.from_numpy(array)
    return onto(vector, device) if device.type == "cuda" else vector


def onto(vector: Tensor, device: torch.device) -> Tensor:
    """A vector on a GPU."""
    return vector.pin_memory().to(device, non_blocking=True)


def in_one(arrays: Vectors, names: Iterable[str]) -> np.ndarray:
    """Vectors one behind the other in one array: as they came, or copied."""
    if isinstance(arrays, Together):
        return arrays.whole
    return np.concatenate([arrays[name] for name in names])


def weighted_sum(
    states: Iterable[tuple[float, Mapping[str, Tensor]]], into: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Σ_j w_ij x_j for each vector x by its name, in the order of the states; in new memory, or
    where it is told to."""
    there, sums = into or {}, dict[str, Tensor]()
    for weight, state in states:
        if sums:
            for name, vector in state.items():
                sums[name].add_(vector, alpha=weight)
        else:
            sums = {n: torch.mul(v, weight, out=there.get(n)) for n, v in state.items()}
    return sums
