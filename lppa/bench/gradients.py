"""Measures a client's gradient against the same network and batches in plain PyTorch.

Part of `lppa bench`. Neither steps nor communication are in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lppa.bench.learner import CLASSES, ROWS, random_learner
from lppa.node.learner import DataLearner

BATCH = 32


def plain_mlp() -> nn.Module:
    """Our `mlp` as it is usually written."""
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(784, 128), nn.ReLU()),
        *(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, CLASSES)),
    )


def plain_cnn() -> nn.Module:
    """Our `cnn` as it is usually written."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 7 * 7, CLASSES)),
    )


PLAIN: dict[str, Callable[[], nn.Module]] = {"mlp": plain_mlp, "cnn": plain_cnn}


def gradient_speed(repeats: int = 200) -> dict[str, float]:
    """Ours ÷ plain for both networks, in seconds and in CPU time; `ratio` is the MLP's."""
    torch.set_num_threads(1)
    found: dict[str, float] = {}
    for name, make in PLAIN.items():
        learner = random_learner(0, name, BATCH)
        theta, plain = learner.start(), make()
        x, y = learner.train.take(learner.train.rows, theta)
        seconds: dict[str, list[float]] = {"ours": [], "plain": []}
        cpu = dict.fromkeys(seconds, 0.0)
        for step in range(-10, repeats):  # in turn, so that a busy machine slows both
            for way in seconds:
                began, used = time.perf_counter(), time.process_time()
                if way == "ours":
                    learner.gradient(theta, max(0, step))
                else:
                    _plain_gradient(plain, x, y, learner, max(0, step))
                if step >= 0:  # the first few bring libraries and memory into place
                    cpu[way] += time.process_time() - used
                    seconds[way].append(time.perf_counter() - began)
        medians = {way: median(times) for way, times in seconds.items()}
        found |= {
            f"{name}_ratio": medians["ours"] / medians["plain"],
            f"{name}_cpu_ratio": cpu["ours"] / cpu["plain"],
            f"{name}_plain_ms": 1000 * medians["plain"],
        }
    return {"ratio": found["mlp_ratio"], **found}


def _plain_gradient(
    module: nn.Module, x: Tensor, y: Tensor, learner: DataLearner, step: int
) -> None:
    rows = torch.from_numpy(learner.batches(step % (ROWS // BATCH)))
    for parameter in module.parameters():
        parameter.grad = None
    loss = cross_entropy(module(x[rows]), y[rows])
    loss.backward()  # type: ignore[no-untyped-call]  # PyTorch gives it no types
    loss.item()
