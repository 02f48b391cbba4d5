"""A client's neighbours in the letters of the paper: vectors out, vectors in, in sender order.

Stands between the round loop and the links: stages tensors on their way to and from the wire, and
times the waiting. Knows neither sockets nor mathematics.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from lppa.node.stopwatch import Stopwatch
from lppa.protocol.codec import all_finite
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import Links, arrays_of
from lppa.protocol.messages import Model, Noise, Seed, State


class Neighbours:
    """The in- and out-neighbours of client `me`; `inputs` has the client itself among them."""

    def __init__(
        self,
        links: Links,
        inputs: tuple[int, ...],
        device: torch.device,
        clock: Stopwatch,
    ) -> None:
        self.links = links
        self.me = links.around.me
        self.inputs = inputs
        self.outputs = links.around.outputs
        self.device = device
        self.clock = clock

    def exchange(self, t: int, *vectors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """Sends (θ, γ), or θ alone, to all; yields all senders' in order, one's own included."""
        kind = (Model, State)[len(vectors) - 1]
        with self.clock("exchange"):
            self.links.check_for_stop()
            message = kind(t, *map(to_wire, vectors))
            self._check_finite(message)
            for receiver in self.outputs:
                self.links.send(message, receiver)
        for sender in self.inputs:
            if sender == self.me:
                yield vectors
                continue
            with self.clock("exchange"):
                message = self.links.receive(kind, t, sender)
                arrays = (message.theta, message.gamma) if kind is State else (message.theta,)
                state = tuple(from_wire(array, self.device) for array in arrays)
            yield state

    def _check_finite(self, message: State | Model) -> None:
        """A receiver would drop such a message; better to say here what has happened."""
        for name, array in arrays_of(message):
            if not all_finite(array):
                raise RunFailed(
                    f"training diverged: {name} of node {self.me} is no longer finite; "
                    "try a smaller --lr or --beta",
                    round=message.round,
                )

    def exchange_noise(self, t: int, sent: dict[int, Tensor]) -> list[Tensor]:
        """Sends δ_li to every out-neighbour l; returns the δ_ij in sender order."""
        with self.clock("exchange"):
            for receiver, delta in sent.items():
                self.links.send(Noise(t, to_wire(delta)), receiver)
            return [
                from_wire(self.links.receive(Noise, t, sender).delta, self.device)
                for sender in self.inputs
                if sender != self.me
            ]

    def exchange_seeds(
        self, t: int, sent: dict[int, tuple[bytes, bytes]]
    ) -> dict[int, tuple[bytes, bytes]]:
        """Sends every out-neighbour its seed and commitment; returns those of the in-neighbours."""
        with self.clock("exchange"):
            for receiver, pair in sent.items():
                arrays = (np.frombuffer(part, np.uint8) for part in pair)
                self.links.send(Seed(t, *arrays), receiver)
            received = {
                sender: self.links.receive(Seed, t, sender)
                for sender in self.inputs
                if sender != self.me
            }
        return {j: (m.seed.tobytes(), m.commitment.tobytes()) for j, m in received.items()}


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
    if device.type == "cuda":
        vector = vector.pin_memory().to(device, non_blocking=True)
    return vector
