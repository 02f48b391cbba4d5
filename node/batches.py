"""Which rows a gradient is taken on: a function of (seed, node, step), with nothing to remember."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lppa.protocol.seeds import stream


@dataclass(frozen=True, eq=False)
class Batches:
    """A client's rows in full batches, in a new order in each pass; all rows where there are fewer.

    With `same`, every step has the first batch.
    """

    rows: np.ndarray
    size: int
    seed: int
    node: int
    same: bool = False

    @property
    def per_pass(self) -> int:
        """How many batches there are in one pass over the rows."""
        return max(1, len(self.rows) // self.size)

    def __call__(self, step: int) -> np.ndarray:
        """The rows of one step."""
        number, place = divmod(0 if self.same else step, self.per_pass)
        first = place * self.size
        return self._order(number)[first : first + self.size]

    @lru_cache(maxsize=1)  # noqa: B019 - one order, which goes with the client
    def _order(self, number: int) -> np.ndarray:
        return stream(self.seed, "batches", self.node, number).permutation(self.rows)
