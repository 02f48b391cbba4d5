"""What a client learns from: gradients over its private data, and the test of a model.

θ and g are flat vectors here as everywhere; only the model's own edge knows shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from lppa.models.dead import dead_share
from lppa.models.flat import LARGE, FlatModel
from lppa.models.problem import Problem
from lppa.models.quadratic import Quadratic, quadratic
from lppa.node.batches import Batches
from lppa.node.datasets import split
from lppa.node.datasets.own import Rows, as_rows, labels_of
from lppa.node.datasets.partition import BY_LABEL
from lppa.node.lengths import length, rms_of
from lppa.node.shipped import shipped_problem
from lppa.protocol.errors import WrongUse
from lppa.protocol.seeds import derive, stream
from lppa.protocol.settings import QUADRATICS, Settings

# Rows that are tested at once: images fewer, since what convolutions make of them is larger than a
# processor's caches soon. 250 take half as long as 1,000 in the default network.
TEST_CHUNK, IMAGE_CHUNK = 1000, 250
FEW = 200  # test rows that tell dead units
EXAMPLES = 8  # whose gradients are measured one by one

Figures = dict[str, Any]


class Learner(Protocol):
    """A learning problem as the round loop sees it."""

    size: int
    steps_per_epoch: int

    @property
    def longest(self) -> float:
        """The largest root mean square of any gradient so far: some example has at least that."""

    def start(self) -> Tensor:
        """θ^0."""

    def gradient(self, theta: Tensor, step: int) -> Tensor:
        """∇L(θ) on the batch of that step."""

    def evaluate(self, theta: Tensor, step: int) -> Figures:
        """Test accuracy (None where there is none) and loss, and what tells whether they are good.

        `chance` is the accuracy of always the same answer, `dead` the share of units that are zero
        for all inputs, `example_rms` the size of one example's gradient, the largest of a few of
        the batch of the last step, and `metrics` whatever else a problem is judged by.
        """

    def example_rms(self, theta: Tensor, step: int) -> float | None:
        """That size by itself; None where there are no examples."""

    def weights(self, theta: Tensor, steps: int) -> dict[str, Tensor]:
        """θ as a state dict, after so many steps."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a data set: a client's own, or those that models are tested on."""

    data: Rows
    rows: np.ndarray

    def take(self, rows: np.ndarray, like: Tensor) -> tuple[Any, Tensor]:
        """A batch, where the vector is and in its floating type."""
        x, y = self.data.take(rows, like.dtype)
        return _moved(x, like.device), y.to(like.device)


@dataclass(frozen=True)
class Extras:
    """What enters a gradient besides the loss of a batch."""

    weight_decay: float = 0.0
    clip: tuple[float, int] | None = None
    """The norm that each sample's gradient is held to, and of which order it is."""
    draws: bool = False
    """The network may draw random numbers when it is trained (dropout): they follow from the seed
    then."""


class DataLearner:
    """A network on this client's share of a data set.

    `on_batch` hears the rows of every batch, for runs that reveal them.
    """

    def __init__(
        self,
        model: FlatModel,
        problem: Problem,
        train: Part,
        test: Part,
        batches: Batches,
        steps_per_epoch: int,
        extras: Extras | None = None,
        start_again: Callable[[], Tensor] | None = None,
    ) -> None:
        self.model = model
        self.start_again = start_again or model.vector
        self.problem = problem
        self.size = model.size
        self.train = train
        self.test = test
        self.batches = batches
        self.steps_per_epoch = steps_per_epoch
        self.extras = extras or Extras()
        self.longest = 0.0
        self.on_batch: Callable[[np.ndarray], None] | None = None
        labels = labels_of(test.data)
        self.chance = None
        if labels is not None:
            self.chance = float(np.bincount(labels[test.rows]).max() / len(test.rows))

    def start(self) -> Tensor:
        """θ^0: the network's own start."""
        if self.size <= LARGE:
            return self.model.vector()
        # Of a large model no second copy is kept.
        first = self.model.hand_over()
        return self.start_again() if first is None else first

    def gradient(self, theta: Tensor, step: int) -> Tensor:
        """The gradient of the mean loss over the batch of that step."""
        rows = self.batches(step)
        if self.on_batch is not None:
            self.on_batch(rows)
        if self.extras.draws:
            drawn = derive(self.batches.seed, "draws", self.batches.node, step)
            torch.default_generator.manual_seed(drawn)
            if theta.is_cuda:
                torch.cuda.manual_seed(drawn)
        self.model.have_seen(step)
        g = self._gradient(theta, rows)
        learned = self.model.learned
        self.longest = max(self.longest, length(g[:learned]) / math.sqrt(learned))
        if self.extras.weight_decay:
            g[:learned].add_(theta[:learned], alpha=self.extras.weight_decay)
        return g

    def _gradient(self, theta: Tensor, rows: np.ndarray) -> Tensor:
        x, y = self.train.take(rows, theta)
        if self.extras.clip is not None:
            # Imported late: few runs clip, and it brings a part of PyTorch that all would pay for.
            from lppa.models.clipping import clipped_gradient

            return clipped_gradient(self.model, theta, x, y, *self.extras.clip)
        g, _ = self.model.gradient(theta, self._arranged(x), y)
        return g

    def _arranged(self, x: Any) -> Any:
        return arranged(x) if self.model.convolves else x

    def evaluate(self, theta: Tensor, step: int) -> Figures:
        """Metrics and mean loss over the test rows; dead units on a few of them."""
        outputs, targets, loss = [], [], 0.0
        rows, chunk = self.test.rows, IMAGE_CHUNK if self.model.convolves else TEST_CHUNK
        for first in range(0, len(rows), chunk):
            x, y = self.test.take(rows[first : first + chunk], theta)
            out = self.model.outputs(theta, self._arranged(x))
            loss += float(self.problem.loss(out, y)) * len(y)
            outputs.append(out)
            targets.append(y)
        out, y = torch.cat(outputs), torch.cat(targets)
        figures = {name: float(f(out, y)) for name, f in self.problem.figures(y).items()}
        right = figures.pop("accuracy", None)
        some, _ = self.test.take(rows[:FEW], theta)
        self.model.bind(theta)
        return {
            "accuracy": right,
            "loss": loss / len(rows),
            "metrics": figures,
            "chance": self.chance if right is not None else None,
            "dead": dead_share(self.model.module, some),
            "example_rms": self.example_rms(theta, step),
        }

    def example_rms(self, theta: Tensor, step: int) -> float:
        """The largest root mean square of single gradients, over a few examples of a batch."""
        learned, module = self.model.learned, self.model.module
        training = module.training
        # One example alone has no spread that a normalisation over batches could go by.
        module.eval()
        try:
            few = self.batches(step)[:EXAMPLES, None]
            # One at a time: each is as large as the model.
            return max(rms_of(self._gradient(theta, row)[:learned]) for row in few)
        finally:
            module.train(training)

    def weights(self, theta: Tensor, steps: int) -> dict[str, Tensor]:
        """θ as the network's state dict."""
        self.model.have_seen(steps)
        return self.model.state_dict(theta)


class QuadraticLearner:
    """Client i of the quadratic problem: no data, no chance, answers in closed form."""

    steps_per_epoch = 1
    longest = 0.0

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

    def gradient(self, theta: Tensor, step: int) -> Tensor:
        """A_i θ − b_i."""
        return self.problem.gradient(self.me, theta)

    def evaluate(self, theta: Tensor, step: int) -> Figures:
        """How far the mean objective is above its least value."""
        nothing = dict.fromkeys(("accuracy", "chance", "dead", "example_rms"))
        return {**nothing, "loss": float(self.problem.gap(theta)), "metrics": {}}

    def example_rms(self, theta: Tensor, step: int) -> float | None:
        """There are no examples."""
        return None

    def weights(self, theta: Tensor, steps: int) -> dict[str, Tensor]:
        """θ under its own name."""
        return {"theta": theta.clone()}


def arranged(x: Any) -> Any:
    """The batch with its memory laid out as convolutions and pools on a CPU are fastest on.

    Images with their channels last: half again as fast on batches of MNIST and CIFAR-10. A single
    image gains nothing.
    """
    if isinstance(x, Tensor) and x.device.type == "cpu" and x.dim() == 4 and len(x) > 1:
        return x.to(memory_format=torch.channels_last)
    return x


def _moved(x: Any, device: torch.device) -> Any:
    """Inputs on a device; a network may take several."""
    if isinstance(x, Tensor):
        return x.to(device)
    if isinstance(x, dict):
        return {name: _moved(part, device) for name, part in x.items()}
    return [_moved(part, device) for part in x] if isinstance(x, list | tuple) else x


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


def shares(problem: Problem, spec: str, nodes: int, seed: int) -> list[Part]:
    """The training data of all clients: split, or as the problem has it."""
    given = problem.per_client()
    if given is not None:
        if len(given) != nodes:
            raise WrongUse(f"the problem has data for {len(given)} clients, and there are {nodes}")
        if spec != "iid":
            raise WrongUse(f"--partition {spec}: the problem says itself who has which data")
        parts = [as_rows(part, f"the data of client {i}") for i, part in enumerate(given)]
        return [Part(part, np.arange(len(part))) for part in parts]
    data = as_rows(problem.train, "the training data")
    kind = spec.partition(":")[0]
    labels = labels_of(data) if kind in BY_LABEL else np.zeros(len(data), int)
    if labels is None:
        raise WrongUse(
            f"--partition {spec} shares out classes, and these targets are numbers (regression): "
            "use iid or quantity:ALPHA"
        )
    return [Part(data, rows) for rows in split(spec, labels, nodes, derive(seed, "partition"))]


def make_learner(
    settings: Settings,
    me: int,
    nodes: int,
    seed: int,
    device: torch.device,
    problem: Problem | None = None,
) -> Learner:
    """The learner of one client; `seed` is the run's, and every client makes the same split."""
    dtype = getattr(torch, settings.dtype)
    own = ("init",) if settings.init == "common" else ("init", me)
    if settings.dataset in QUADRATICS:
        quadratics = quadratic(
            nodes, derive(seed, "problem"), settings.dataset == "quadratic-shared"
        )
        return QuadraticLearner(quadratics, me, stream(seed, *own), dtype, device)
    start = derive(seed, *own)
    brought = problem is not None
    problem = problem or shipped_problem(settings, start)
    parts = shares(problem, settings.partition, nodes, seed)

    def make_model() -> FlatModel:
        return FlatModel(problem.build(start), dtype, device, problem.loss, settings.lr)

    model = make_model()
    if settings.clip is not None and model.learned < model.size:
        raise WrongUse("--clip needs each sample's own gradient, and BatchNorm mixes samples")
    test = as_rows(problem.test, "the test data")
    # In the norm in which the noise of that kind hides a difference.
    order = 1 if settings.noise == "laplace" else 2
    clipping = None if settings.clip is None else (settings.clip, order)
    return DataLearner(
        model,
        problem,
        parts[me],
        Part(test, test_rows(len(test), settings.eval_samples, seed)),
        Batches(parts[me].rows, settings.batch, seed, me, settings.batches == "same"),
        steps_per_epoch(sum(len(part.rows) for part in parts), nodes, settings.batch),
        Extras(settings.weight_decay, clipping, draws=brought),
        lambda: make_model().vector(),
    )
