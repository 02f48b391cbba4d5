"""What a run costs as it grows: in the number of nodes, of links and of parameters.

Part of `lppa bench`. Whole local runs, measured by what they report themselves. Where a machine is
busy with something else, seconds say little; the processor's time for a node and round still holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lppa.coordinator.figures import Summary
from lppa.own_code import OwnCode
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import WHOLE
from lppa.protocol.settings import make_settings
from lppa.running.display import Silent
from lppa.running.prepare import make_blueprint
from lppa.running.private import private_folder
from lppa.running.run import run_local
from lppa.running.scout import Scout

if TYPE_CHECKING:
    from lppa.models.problem import Problem

TIMEOUT = 600.0
# All that a round's time and memory depend on is named: new defaults must not change the measure.
GROWTH = {
    "dataset": "digits",
    "model": "cnn",
    "init_weights": "default",
    "partition": "iid",
    "momentum": 0.0,
    "weight_decay": 0.0,
    "normalize": True,
    "batch": 32,
    "batches": "next",
    "local_steps": 1,
    "rule": "lppa",
    "lr": 0.05,
    "mixing": "adapt-then-combine",
    "init": "common",
    "finish": 0,
    "noise": "laplace",
    "beta": 0.025,
    "noise_every": 0,
    "noise_exchange": "tensor",
    "topology": "random-regular:4",
    "weights": "uniform",
    "dtype": "float32",
    "eval_samples": 0,
    "timeout": TIMEOUT,
    "seed": 1,
}
FEW, MANY = (8, 16, 32, 64, 128, 256), (8, 32, 128, 256, 512, 1000)
PARAMETERS = (10**5, 10**6, 10**7, 10**8)
COMPARED = 32  # nodes that seconds are compared with
DEGREES = ("ring", "random-regular:4", "random-regular:8", "random-regular:16", "full")


def growth(sizes: Sequence[int] = FEW, rounds: int = 40) -> dict[str, Any]:
    """What a node costs in a round with the most nodes ÷ with the fewest, on a degree-4 graph.

    What a client does once, such as touching memory for the first time, is spread over its rounds:
    of few rounds it would be the most. `ratio` is of the processor's time; `seconds_ratio` compares
    the seconds per node and round with those at 32 nodes. A line is fitted through the seconds of a
    round, and `residual` is how far they are from it, relative to themselves, on average.
    """
    rows = [
        {"nodes": nodes, **costs(run_once({**GROWTH, "rounds": rounds}, nodes), rounds)}
        for nodes in sizes
    ]
    seconds = [row["round_s"] for row in rows]
    base = min(rows, key=lambda row: abs(row["nodes"] - COMPARED))
    return {
        "goal": "at most 1.1, at most 25 MB a node",
        "ratio": rows[-1]["cpu_ms"] / rows[0]["cpu_ms"],
        "seconds_ratio": (seconds[-1] / rows[-1]["nodes"]) / (base["round_s"] / base["nodes"]),
        **line([row["nodes"] for row in rows], seconds),
        "sizes": rows,
    }


def growth_degree(
    graphs: Sequence[str] = DEGREES, nodes: int = COMPARED, rounds: int = 10
) -> dict[str, Any]:
    """The processor's time of a node and round on a full graph ÷ on a ring, and all between.

    The line is through the processor's time by the number of neighbours.
    """
    rows = []
    for graph in graphs:
        summary = run_once({**GROWTH, "topology": graph, "rounds": rounds}, nodes)
        degree = {"ring": 2, "full": nodes - 1}.get(graph) or int(graph.partition(":")[2])
        rows.append({"degree": degree, **costs(summary, rounds)})
    return {
        "goal": "linear in the degree",
        "ratio": rows[-1]["cpu_ms"] / rows[0]["cpu_ms"],
        **line([row["degree"] for row in rows], [row["cpu_ms"] / 1000 for row in rows]),
        "sizes": rows,
    }


def growth_parameters(
    sizes: Sequence[int] = PARAMETERS, nodes: int = 5, rounds: int = 3
) -> dict[str, Any]:
    """Copies of the model in a node at its peak, on a ring: bytes for each number more, over four.

    θ, γ and g are three of them.
    """
    rows = []
    for size in sizes:
        told = {**GROWTH, "dataset": "own/wide", "model": "own", "topology": "ring", "batch": 8}
        code = OwnCode(partial(wide_problem, size))
        summary = run_once({**told, "rounds": rounds}, nodes, code)
        rows.append({"parameters": size, **costs(summary, rounds)})
    # Of a small model the rest of a process moves more than a copy is worth.
    large = [row for row in rows[1:] if row["parameters"] > WHOLE]
    for row in large:
        more = 4 * (row["parameters"] - rows[0]["parameters"])
        row["copies"] = 1e6 * (row["peak_mb"] - rows[0]["peak_mb"]) / more
    return {
        "goal": "at most 6 copies: 3 beyond θ, γ, g",
        "ratio": max((row["copies"] for row in large), default=0.0),
        **line([row["parameters"] for row in rows], [row["round_s"] for row in rows]),
        "sizes": rows,
    }


def wide_problem(size: int) -> Problem:
    """About so many parameters in two hidden layers of the same width, on random rows."""
    import torch
    from torch import nn

    from lppa.models.problem import Problem

    # width² + (inputs + classes + 2) · width + classes
    inputs, classes = 16, 10
    width = round(math.sqrt(size + 14**2) - 14)
    random = np.random.default_rng(1)
    x = random.random((400, inputs), dtype=np.float32)
    y = random.integers(0, classes, 400)

    def module() -> nn.Module:
        layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, classes))

    data = (torch.from_numpy(x), torch.from_numpy(y))
    return Problem(module, data, data, name="wide")


def run_once(told: dict[str, Any], nodes: int, code: OwnCode | None = None) -> Summary:
    """A run that came to its end."""
    settings = make_settings({**told, "eval_every": told["rounds"]})
    scout = None if code is None else Scout(code)
    with private_folder() as folder:
        blueprint = make_blueprint(settings, nodes, "growth")
        summary = run_local(blueprint, folder / "run", Silent(), scout=scout)
    if summary.status == "interrupted":
        raise KeyboardInterrupt
    if not summary.ended:
        raise RunFailed(f"growth with {nodes} nodes: {summary.error}")
    return summary


def costs(summary: Summary, rounds: int) -> dict[str, Any]:
    """What a run took: seconds to start and for a round, the processor's for one node's round."""
    return {
        "start_s": summary.seconds.start,
        "round_s": summary.seconds.round,
        "cpu_ms": 1000 * summary.seconds.cpu / rounds,
        "memory_mb": None if summary.memory is None else summary.memory / 1e6,
        "peak_mb": None if summary.peak is None else summary.peak / 1e6,
    }


def line(x: Sequence[float], y: Sequence[float]) -> dict[str, float]:
    """The line through some points with the least relative errors, and what these are."""
    if len(x) < 2:
        return {}
    weights = 1.0 / np.asarray(y)
    slope, begin = np.polyfit(x, y, 1, w=weights)
    away = (slope * np.asarray(x) + begin) * weights - 1.0
    return {
        "fit_ms_each": 1000 * float(slope),
        "fit_ms_begin": 1000 * float(begin),
        "residual": float(np.abs(away).mean()),
    }
