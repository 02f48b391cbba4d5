"""A data set as the learner sees it: rows that can be taken by index, and what shape they have.

Knows nothing of where the rows come from (see the loaders) or of how they are split over clients
(see the partitions).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

# torch is needed only where a batch is made: commands that merely look at data start without it.
if TYPE_CHECKING:
    import torch


def is_classes(targets: np.ndarray) -> bool:
    """Whether targets are classes, and not numbers to come close to."""
    return targets.dtype.kind in "biu"


@dataclass(frozen=True)
class Samples:
    """Dense inputs and targets, row by row; arrays may be memory-mapped and shared.

    A batch is x / scale, then (that - mean) / std where these are given. The arrays stay as they
    are stored (pixels as bytes), so that only a batch at a time takes the room of floats. Whole
    numbers as targets are classes; others are given out as (y - y_mean) / y_std.
    """

    x: np.ndarray
    y: np.ndarray
    scale: float = 1.0
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    y_mean: float = 0.0
    y_std: float = 1.0

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows as one batch, in the given floating type."""
        import torch

        kept = self.x[rows]
        # Stored as float64 is what may differ in digits that float32 has not, such as dates in
        # seconds: they are there until the mean is gone.
        inner = torch.float64 if kept.dtype == np.float64 else dtype
        x = torch.from_numpy(kept).to(inner)
        if self.scale != 1.0:
            x = x.div_(self.scale)
        if self.mean is not None and self.std is not None:
            x = x.sub_(torch.tensor(self.mean, dtype=inner))
            x = x.div_(torch.tensor(self.std, dtype=inner))
        return x.to(dtype), self._targets(rows, dtype)

    def _targets(self, rows: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
        import torch

        if not is_classes(self.y):
            return torch.from_numpy((self.y[rows] - self.y_mean) / self.y_std).to(dtype)
        return torch.from_numpy(self.y[rows].astype(np.int64))


@dataclass(frozen=True)
class SparseSamples:
    """Sparse inputs as the three arrays of a CSR matrix, times `scale`, and integer labels."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    y: np.ndarray
    columns: int
    scale: float = 1.0

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows as one sparse CSR batch of [len(rows), columns], never densified.

        Its parts are what a first layer needs: `embedding_bag(x.col_indices(), weight,
        x.crow_indices()[:-1], mode="sum", per_sample_weights=x.values())` is x @ weight.
        """
        import torch

        first = self.indptr[rows].astype(np.int64)
        lengths = self.indptr[np.asarray(rows) + 1] - first
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        # Entry k of the batch, in row r, is entry first[r] + (k - starts[r]) of the whole.
        entries = np.arange(starts[-1]) + np.repeat(first - starts[:-1], lengths)
        with warnings.catch_warnings():
            # torch says once per process that CSR is in beta; nobody who trains can act on it.
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
            x = torch.sparse_csr_tensor(
                torch.from_numpy(starts),
                torch.from_numpy(self.indices[entries].astype(np.int64)),
                torch.from_numpy(self.data[entries]).to(dtype) * self.scale,
                size=(len(lengths), self.columns),
                check_invariants=False,
            )
        return x, torch.from_numpy(self.y[rows].astype(np.int64))


@dataclass(frozen=True)
class Dataset:
    """A training part, a test part, the shape of one input and the number of classes.

    No classes means regression: targets are numbers. `names` are those of the classes, where they
    have any but their numbers.
    """

    name: str
    train: Samples | SparseSamples
    test: Samples | SparseSamples
    shape: tuple[int, ...]
    classes: int
    names: tuple[str, ...] = ()
