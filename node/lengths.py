"""How long a vector is: exactly, or quickly. Nothing is decided by it here."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from lppa.models.flat import LARGE
from lppa.protocol.codec import FEW

Vector = Tensor | np.ndarray
PIECE = 1 << 20  # numbers


def rms_of(vector: Tensor) -> float:
    """The root mean square, in float64 whatever the vector is in; of a large one in pieces."""
    if len(vector) > LARGE:
        return norm_of(vector) / math.sqrt(len(vector))
    return float(vector.to(torch.float64, copy=True).square_().mean().sqrt())


def norm_of(vector: Tensor) -> float:
    """The length of a vector, by pieces: a large one is not copied to be measured."""
    lengths = []
    for first in range(0, len(vector), PIECE):
        lengths.append(float(vector[first : first + PIECE].double().norm()))
    return math.hypot(*lengths)


def length(vector: Vector) -> float:
    """The length of a vector, infinite where it is beyond all numbers."""
    quick = square_of(vector)
    if quick < math.inf:  # neither infinite nor no number
        return math.sqrt(quick)
    # Its square may be beyond the narrow type, and it is not.
    found = float(torch.linalg.vector_norm(torch.as_tensor(vector), dtype=torch.float64))
    return found if not math.isnan(found) else math.inf


def square_of(vector: Vector) -> float:
    """The sum of squares, in the vector's own type."""
    if isinstance(vector, np.ndarray):
        if len(vector) <= FEW:
            return float(np.vdot(vector, vector))  # sooner than PyTorch has begun
        vector = torch.from_numpy(vector)
    return torch.dot(vector, vector).item()
