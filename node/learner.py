"""What a client learns from: gradients over its private data, and the test of a model.

θ and g are flat vectors here as everywhere; only the model's own edge knows shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lppa.models.dead import dead_share
from lppa.models.flat import FlatModel
from lppa.models.networks import build
from lppa.models.quadratic import Quadratic, quadratic
from lppa.node.datasets import Samples, SparseSamples, load_dataset, split
from lppa.protocol.seeds import derive, stream
from lppa.protocol.settings import QUADRATICS, Settings

TEST_CHUNK = 1000
FEW = 200  # test rows that tell dead units
EXAMPLES = 8  # whose gradients are measured one by one


class Learner(Protocol):
    """A learning problem as the round loop sees it."""

    size: int
    steps_per_epoch: int

    def start(self) -> Tensor:
        """θ^0."""

    def gradient(self, theta: Tensor) -> Tensor:
        """∇L(θ) on the next batch."""

    def evaluate(self, theta: Tensor) -> dict[str, float | None]:
        """Test accuracy (None where there is none) and loss, and what tells whether they are good.

        `chance` is the accuracy of always the same answer, `dead` the share of units that are zero
        for all inputs, `example_rms` the size of one example's gradient, the largest of a few.
        """

    def weights(self, theta: Tensor) -> dict[str, Tensor]:
        """θ as a state dict."""


class DataLearner:
    """A network on this client's share of a data set."""

    def __init__(
        self,
        model: FlatModel,
        train: Samples | SparseSamples,
        rows: np.ndarray,
        test: Samples | SparseSamples,
        test_rows: np.ndarray,
        batch: int,
        steps_per_epoch: int,
        order: np.random.Generator,
        dtype: torch.dtype,
        device: torch.device,
        repeat_first: bool = False,
        clip: tuple[float, int] | None = None,
    ) -> None:
        self.model = model
        self.size = model.size
        self.train = train
        self.test = test
        self.test_rows = test_rows
        self.chance = float(np.bincount(test.y[test_rows]).max() / len(test_rows))
        self.latest = rows[:0]
        self.batches = batches(rows, batch, order)
        if repeat_first:
            self.batches = repeat(next(self.batches))
        # Hears the rows of every batch; for runs that reveal them.
        self.on_batch: Callable[[np.ndarray], None] | None = None
        self.steps_per_epoch = steps_per_epoch
        self.dtype = dtype
        self.device = device
        # The norm that each sample's gradient is held to, and of which order it is.
        self.clip = clip

    def start(self) -> Tensor:
        """θ^0: the network's own random start."""
        return self.model.vector()

    def gradient(self, theta: Tensor) -> Tensor:
        """The gradient of the mean cross-entropy over the next batch."""
        rows = next(self.batches)
        if self.on_batch is not None:
            self.on_batch(rows)
        self.latest = rows
        return self._gradient(theta, rows)

    def _gradient(self, theta: Tensor, rows: np.ndarray) -> Tensor:
        x, y = (part.to(self.device) for part in self.train.take(rows, self.dtype))
        if self.clip is not None:
            # Imported late: few runs clip, and it brings a part of PyTorch that all would pay for.
            from lppa.models.clipping import clipped_gradient

            return clipped_gradient(self.model, theta, x, y, *self.clip)
        g, _ = self.model.gradient(theta, arranged(x), y)
        return g

    def evaluate(self, theta: Tensor) -> dict[str, float | None]:
        """Accuracy and mean cross-entropy over the test rows; dead units on a few of them."""
        right, loss, count = 0, 0.0, len(self.test_rows)
        some, _ = self.test.take(self.test_rows[:FEW], self.dtype)
        self.model.bind(theta)
        for first in range(0, count, TEST_CHUNK):
            x, y = self.test.take(self.test_rows[first : first + TEST_CHUNK], self.dtype)
            y = y.to(self.device)
            logits = self.model.logits(theta, arranged(x.to(self.device)))
            right += int((logits.argmax(1) == y).sum())
            loss += float(torch.nn.functional.cross_entropy(logits, y, reduction="sum"))
        return {
            "accuracy": right / count,
            "loss": loss / count,
            "chance": self.chance,
            "dead": dead_share(self.model.module, some.to(self.device)),
            "example_rms": self._example_rms(theta),
        }

    def _example_rms(self, theta: Tensor) -> float | None:
        """The largest root mean square of single gradients, over a few examples of a batch."""
        sizes = [self._gradient(theta, row) for row in self.latest[:EXAMPLES, None]]
        return max((float(g.double().square().mean().sqrt()) for g in sizes), default=None)

    def weights(self, theta: Tensor) -> dict[str, Tensor]:
        """θ as the network's state dict."""
        return self.model.state_dict(theta)


class QuadraticLearner:
    """Client i of the quadratic problem: no data, no chance, answers in closed form."""

    steps_per_epoch = 1

    def __init__(
        self,
        problem: Quadratic,
        me: int,
        start: np.random.Generator,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.problem = problem
        self.me = me
        self.size = problem.b.shape[1]
        self.first = torch.from_numpy(start.standard_normal(self.size)).to(device, dtype)

    def start(self) -> Tensor:
        """A random point."""
        return self.first

    def gradient(self, theta: Tensor) -> Tensor:
        """A_i θ − b_i."""
        return self.problem.gradient(self.me, theta)

    def evaluate(self, theta: Tensor) -> dict[str, float | None]:
        """How far the mean objective is above its least value."""
        loss = float(self.problem.gap(theta))
        return {"accuracy": None, "loss": loss, **dict.fromkeys(("chance", "dead", "example_rms"))}

    def weights(self, theta: Tensor) -> dict[str, Tensor]:
        """θ under its own name."""
        return {"theta": theta.clone()}


def arranged(x: Tensor) -> Tensor:
    """The batch with its memory laid out as convolutions and pools on a CPU are fastest on.

    Images with their channels last: half again as fast on batches of MNIST and CIFAR-10. A single
    image gains nothing.
    """
    if x.device.type == "cpu" and x.dim() == 4 and len(x) > 1:
        return x.to(memory_format=torch.channels_last)
    return x


def batches(rows: np.ndarray, batch: int, order: np.random.Generator) -> Iterator[np.ndarray]:
    """Full batches for ever, in a new order in each pass; all rows where there are fewer."""
    while True:
        shuffled = order.permutation(rows)
        for first in range(0, max(1, len(rows) - batch + 1), batch):
            yield shuffled[first : first + batch]


def steps_per_epoch(rows: int, nodes: int, batch: int) -> int:
    """Batches in one pass over a client's share of so many rows, were all shares equal.

    The same for all clients: if steps differed in length, noise would no longer cancel in θ.
    """
    return max(1, rows // nodes // batch)


def test_rows(count: int, wanted: int, seed: int) -> np.ndarray:
    """All rows, or as many as wanted: drawn at random, the same for every client."""
    if wanted == 0 or wanted >= count:
        return np.arange(count)
    return np.sort(stream(seed, "test").choice(count, wanted, replace=False))


def make_learner(
    settings: Settings, me: int, nodes: int, seed: int, device: torch.device
) -> Learner:
    """The learner of one client; `seed` is the run's, and every client makes the same split."""
    dtype = getattr(torch, settings.dtype)
    own = ("init",) if settings.init == "common" else ("init", me)
    if settings.dataset in QUADRATICS:
        problem = quadratic(nodes, derive(seed, "problem"), settings.dataset == "quadratic-shared")
        return QuadraticLearner(problem, me, stream(seed, *own), dtype, device)
    dataset = load_dataset(settings.dataset, settings.data_dir, normalize=settings.normalize)
    rows = split(settings.partition, dataset.train.y, nodes, derive(seed, "partition"))[me]
    generator = torch.Generator().manual_seed(derive(seed, *own))
    module = build(settings.model, dataset.shape, dataset.classes, generator)
    return DataLearner(
        FlatModel(module, dtype, device),
        dataset.train,
        rows,
        dataset.test,
        test_rows(len(dataset.test), settings.eval_samples, seed),
        settings.batch,
        steps_per_epoch(len(dataset.train), nodes, settings.batch),
        stream(seed, "batches", me),
        dtype,
        device,
        settings.batches == "same",
        # The norm in which the noise of that kind hides a difference.
        None if settings.clip is None else (settings.clip, 1 if settings.noise == "laplace" else 2),
    )
