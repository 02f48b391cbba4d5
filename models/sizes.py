"""How large a network is and what it learns from: what the choice of noise goes by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """A network on a data set: how large it is, and how large the gradient of one example gets.

    `example_rms` is the root mean square over all parameters of a single example's gradient, the
    largest that was seen or is to be expected while training; `weight_rms` that of the weights.
    `spread` is how many times it counts, because the network tells of an example in so many numbers
    that less noise on each would not hide it (`node/spread.py`).
    """

    parameters: int
    rows: int
    example_rms: float
    weight_rms: float
    spread: float = 1.0
