"""What is known of a run's data and network before it begins; wrong use is told right here.

Costs little: what is prepared here is what the nodes will find in the cache. A problem that a run
brings itself is also measured, since no table knows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lppa.auditing.grade import HIDDEN_FROM
from lppa.models.sizes import Network
from lppa.node.blame import blame
from lppa.protocol.errors import LppaError, WrongUse
from lppa.protocol.seeds import derive
from lppa.protocol.settings import NEED_IMAGES, QUADRATICS, Settings
from lppa.running.known_networks import is_known

# PyTorch takes seconds; what the table knows does without.
if TYPE_CHECKING:
    from lppa.models.problem import Problem

# How much larger an example's gradient gets than it is at the start: the most that was seen of the
# networks that we ship (digits, cnn).
GROWTH = 10.0
LOOKS = 4  # batches of which examples are measured
INPUTS = 2  # of which is looked at how much noise hides them


@dataclass(frozen=True)
class Facts:
    """Rows of each client, how many of each class where there are classes, and the network.

    `network` is measured, None where the table has it; `averages` are the numbers in θ that are no
    weights: the running averages of BatchNorm and the like.
    """

    rows: tuple[int, ...]
    classes: int = 0
    labels: tuple[tuple[int, ...], ...] | None = None
    network: Network | None = None
    averages: int = 0
    names: tuple[str, ...] = ()

    def partition(self) -> dict[str, Any]:
        """The content of partition.json; without classes it says how many rows each client has."""
        names = {"names": list(self.names)} if self.names else {}
        counts = self.labels or tuple((rows,) for rows in self.rows)
        return {"classes": self.classes, "labels": [list(some) for some in counts], **names}


def is_at_hand(settings: Settings) -> bool:
    """Whether `look` takes neither PyTorch nor memory: all is known, and lies prepared on disk."""
    from lppa.node import datasets

    if settings.dataset in QUADRATICS:
        return True
    return is_known(settings) and datasets.is_prepared(settings)


def look(settings: Settings, nodes: int, seed: int, problem: Problem | None = None) -> Facts | None:
    """Finds and splits the data once before any node is started; None where there is no data."""
    if settings.dataset in QUADRATICS:
        return None
    if problem is None and is_known(settings):
        return _shipped(settings, nodes, seed)
    try:
        return _measured(settings, nodes, seed, problem)
    except LppaError:
        raise
    except Exception as error:
        whose = blame(error)
        if whose is None:
            raise
        raise WrongUse(f"the problem fails before anything starts: {whose}") from error


def _shipped(settings: Settings, nodes: int, seed: int) -> Facts:
    # Imported late: runs without data do not need it.
    from lppa.node import datasets

    dataset = datasets.chosen_dataset(settings)
    shares = datasets.split(settings.partition, dataset.train.y, nodes, derive(seed, "partition"))
    if settings.model in NEED_IMAGES and len(dataset.shape) != 3:
        raise WrongUse(f"--model {settings.model} needs images; for {settings.dataset} use mlp")
    return _counted([len(rows) for rows in shares], [dataset.train.y[rows] for rows in shares])


def _measured(settings: Settings, nodes: int, seed: int, problem: Problem | None) -> Facts:
    """Builds the clients' learners as they will be, and looks at a few examples of each."""
    import torch

    from lppa.node.datasets import chosen_dataset
    from lppa.node.datasets.own import labels_of
    from lppa.node.learner import DataLearner, make_learner, shares
    from lppa.node.shipped import shipped_problem
    from lppa.node.spread import largest_noise, spread

    torch.set_num_threads(1)
    names: tuple[str, ...] = ()
    if problem is None:
        problem = shipped_problem(settings, derive(seed, "init"))
        names = tuple(chosen_dataset(settings).names or ())
    parts = shares(problem, settings.partition, nodes, seed)
    learner = make_learner(settings, 0, nodes, seed, torch.device("cpu"), problem)
    if not isinstance(learner, DataLearner):
        raise TypeError("what has no data is not measured")
    theta = learner.start()
    largest = max(learner.example_rms(theta, step) for step in range(LOOKS))
    hides = largest_noise(learner, theta, learner.batches(0)[:INPUTS])
    learned = theta[: learner.model.learned].double()
    network = Network(
        parameters=learner.size,
        rows=sum(len(part.rows) for part in parts),
        example_rms=GROWTH * largest,
        weight_rms=float(learned.square().mean().sqrt()),
        spread=spread(hides, largest, HIDDEN_FROM, len(learned)),
    )
    labels = [labels_of(part.data) for part in parts]
    rows = [len(part.rows) for part in parts]
    averages = learner.size - learner.model.learned
    known = [some[part.rows] for some, part in zip(labels, parts, strict=True) if some is not None]
    if len(known) < len(parts):
        return Facts(tuple(rows), network=network, averages=averages)
    return replace(_counted(rows, known), network=network, averages=averages, names=names)


def _counted(rows: list[int], labels: list[np.ndarray]) -> Facts:
    classes = 1 + max(int(some.max()) for some in labels)
    counts = tuple(tuple(np.bincount(some, minlength=classes).tolist()) for some in labels)
    return Facts(tuple(rows), classes, counts)
