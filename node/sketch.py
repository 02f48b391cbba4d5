"""A seeded linear sketch: a few hundred numbers that keep sums and lengths of vectors.

Nodes report sketches instead of vectors, so that the coordinator can check laws that hold for sums
over all clients without ever seeing a model or a gradient.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lppa.node.updates import Difference
from lppa.protocol.seeds import stream

BUCKETS = 256
BLOCK = 1 << 22  # coordinates that are gone through at once; a multiple of the above


class Sketch:
    """A count sketch: coordinate k goes with a random sign into bucket k mod BUCKETS.

    Neighbouring coordinates fall into different buckets, so that one heavy layer does not fill one.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.seed = seed
        self.first = self._drawn(min(size, BLOCK))

    def __call__(self, vector: Tensor | Difference) -> np.ndarray:
        """The sketch in float64: linear in the vector, its length right on average."""
        sums = self._block(vector[:BLOCK], self.first)
        # A large vector is gone through block by block, and its signs are drawn each time: neither
        # has a copy of its size.
        for first in range(BLOCK, len(vector), BLOCK):
            block = vector[first : first + BLOCK]
            sums += self._block(block, self._drawn(len(block), first))
        return sums.numpy()

    def _block(self, block: Tensor, signs: Tensor) -> Tensor:
        rows = -(-len(block) // BUCKETS)
        padded = torch.zeros(rows * BUCKETS, dtype=torch.float64)
        padded[: len(block)] = block.detach()
        padded[: len(block)] *= signs
        return padded.view(rows, BUCKETS).sum(0)

    def _drawn(self, size: int, first: int = 0) -> Tensor:
        """The signs of so many coordinates from the first of a block on."""
        labels = ("sketch", first) if first else ("sketch",)
        bits = stream(self.seed, *labels).integers(0, 2, size, dtype=np.int8)
        return torch.from_numpy(bits * 2 - 1)
