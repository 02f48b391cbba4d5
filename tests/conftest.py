"""What tests of whole runs share: a run in real processes, and its final state."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from lppa.coordinator.figures import Summary
from lppa.coordinator.plan import Blueprint
from lppa.protocol.settings import make_settings
from lppa.running.display import Silent
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local

# As in a node's process: sums must come out in the same order here.
torch.set_num_threads(1)

# The same examples on every machine, and as much time for them as it takes.
settings.register_profile(
    "lppa", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("lppa")
# It would also try numbers from all modules that are loaded by then, and so other examples when
# one file is tested than when all are, and others again after any change.
providers._get_local_constants = providers.Constants

IRREGULAR = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [0, 2], [0, 3], [1, 3]]


@dataclass(frozen=True)
class Finished:
    """A run that has ended."""

    blueprint: Blueprint
    summary: Summary
    folder: Path

    def final(self, name: str) -> torch.Tensor:
        """θ, γ or g of all nodes at the end, one row each."""
        files = [self.folder / "nodes" / str(i) / "state.pt" for i in range(self.blueprint.nodes)]
        return torch.stack([torch.load(file, weights_only=True)[name] for file in files])


@pytest.fixture
def irregular(tmp_path):
    """A strongly connected digraph whose in- and out-degrees differ."""
    path = tmp_path / "irregular.json"
    path.write_text(json.dumps(IRREGULAR))
    return str(path)


@pytest.fixture
def local_run(tmp_path):
    """Runs five real processes over real sockets."""
    count = 0

    def run(
        nodes: int = 5, secure: bool = False, attackers: tuple[int, ...] = (), **settings: Any
    ) -> Finished:
        nonlocal count
        count += 1
        folder = tmp_path / f"run-{count}"
        # Nobody waits that long for a peer that lives, however slow the machine.
        blueprint = make_blueprint(make_settings({"timeout": 300, **settings}), nodes, folder.name)
        summary = run_local(blueprint, folder, Silent(), secure, attackers)
        return Finished(blueprint, summary, folder)

    return run
