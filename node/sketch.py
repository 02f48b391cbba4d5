"""A seeded linear sketch: a few hundred numbers that keep sums and lengths of vectors.

Nodes report sketches instead of vectors, so that the coordinator can check laws that hold for sums
over all clients without ever seeing a model or a gradient.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lppa.protocol.seeds import stream

BUCKETS = 256


class Sketch:
    """A count sketch: coordinate k goes with a random sign into bucket k mod BUCKETS.

    Neighbouring coordinates fall into different buckets, so that one heavy layer does not fill one.
    """

    def __init__(self, size: int, seed: int) -> None:
        bits = stream(seed, "sketch").integers(0, 2, size, dtype=np.int8)
        self.signs = torch.from_numpy(bits * 2 - 1)

    def __call__(self, vector: Tensor) -> np.ndarray:
        """The sketch in float64: linear in the vector, its length right on average."""
        # The only copy: the vector may be large.
        rows = -(-len(vector) // BUCKETS)
        padded = torch.zeros(rows * BUCKETS, dtype=torch.float64)
        padded[: len(vector)] = vector.detach()
        padded[: len(vector)] *= self.signs
        return padded.view(rows, BUCKETS).sum(0).numpy()
