"""Runs whose final bits are written down, so that a change that should change nothing can prove it.

Every setting is named, so that new defaults move nothing here. `python tests/runs/golden.py` prints
the hashes of the code at hand; golden.json has those that were meant. Two of its processors are
from before their arithmetic was written down: nothing is compared with those.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from itertools import product
from pathlib import Path

import torch
from torch import nn

from lppa.protocol.settings import make_settings
from lppa.running.display import Silent
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local

FILE = Path(__file__).with_suffix(".json")
COMMON = {
    "rounds": 6,
    "lr": 0.05,
    "lr_decay": 0.0,
    "batch": 16,
    "batches": "next",
    "normalize": True,
    "partition": "iid",
    "weights": "random",
    "noise": "laplace",
    "beta": 0.05,
    "beta_own": 0.0,
    "finish": 0,
    "eval_every": 100,
    "eval_samples": 50,
    "timeout": 300,
    "device": "cpu",
    "seed": 11,
}
PAPER = {"init": "independent", "mixing": "combine-then-adapt"}
OURS = {"init": "common", "mixing": "adapt-then-combine"}


def cases() -> dict[str, dict]:
    """By name the settings of each run."""
    found = {}
    for rule, topology, steps in product(
        ("dsgt", "dp", "lppa", "dsgd"), ("full", "directed-ring", "ring"), (1, 3)
    ):
        found[f"{rule} {topology} {steps}"] = {
            **PAPER,
            "dataset": "digits",
            "model": "mlp",
            "rule": rule,
            "topology": topology,
            "local_steps": steps,
            "noise_every": 0,
            "noise_exchange": "tensor",
            "dtype": "float32",
        }
    for exchange, steps, (data, model, dtype) in product(
        ("tensor", "seed"),
        (1, 4),
        (
            ("quadratic", "quadratic", "float64"),
            ("digits", "cnn", "float32"),
            ("digits", "lenet", "float64"),
        ),
    ):
        found[f"{exchange} {steps} {model}"] = {
            **OURS,
            "dataset": data,
            "model": model,
            "rule": "lppa",
            "topology": "full",
            "local_steps": steps,
            "noise_every": 1,
            "noise_exchange": exchange,
            "dtype": dtype,
            "beta_own": 0.01,
            "finish": 2,
            "lr_decay": 0.1,
        }
    return {name: {**COMMON, **settings} for name, settings in found.items()}


def machine() -> str:
    """What the bits of a network depend on besides the code: how this processor counts.

    Libraries choose their kernels by its kind, so that two with the same instructions can differ.
    """
    return f"torch {torch.__version__} {torch.backends.cpu.get_cpu_capability()} {arithmetic()}"


def arithmetic() -> str:
    """A few letters that differ where plain networks have other gradients, none of them ours."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    digest = hashlib.sha256()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for dtype in (torch.float32, torch.float64):
                network = nn.Sequential(
                    *(nn.Conv2d(1, 8, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
                    *(nn.Linear(8 * 4 * 4, 64), nn.Sigmoid(), nn.Linear(64, 10)),
                ).to(dtype)
                x, y = torch.randn(16, 1, 8, 8, dtype=dtype), torch.arange(16) % 10
                nn.functional.cross_entropy(network(x), y).backward()
                for parameter in network.parameters():
                    digest.update(parameter.grad.numpy().tobytes())
    finally:
        torch.set_num_threads(threads)
    return digest.hexdigest()[:8]


def final_hash(settings: dict, folder: Path) -> str:
    """One hash over θ, γ and g of all clients at the end."""
    nodes = 5
    blueprint = make_blueprint(make_settings(settings), nodes, folder.name)
    summary = run_local(blueprint, folder, Silent())
    assert summary["status"] == "completed", summary
    digest = hashlib.sha256()
    for node in range(nodes):
        state = torch.load(folder / "nodes" / str(node) / "state.pt", weights_only=True)
        for name in ("theta", "gamma", "g"):
            if name in state:
                digest.update(state[name].numpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    """Prints what is written down, with the hashes of all runs on this machine made anew."""
    with tempfile.TemporaryDirectory() as folder:
        hashes = {
            name: final_hash(settings, Path(folder) / str(k))
            for k, (name, settings) in enumerate(cases().items())
        }
    json.dump({**json.loads(FILE.read_text()), machine(): hashes}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
