"""What tests of attacks share: a run in which attacks are at their best, and the attack on it."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from lppa.cli import main
from lppa.protocol.settings import PRESETS

# The paper's setting, noise at the start only, with one sample and one step in each message.
PAPER: dict[str, Any] = {
    **PRESETS["paper"],
    "batch": 1,
    "local_steps": 1,
    "rounds": 3,
    "reveal_batches": True,
    "eval_samples": 50,
    "seed": 1,
}
LENET = {**PAPER, "model": "lenet"}


def attacked(run: Any, attacks: str, *options: str) -> list[dict[str, Any]]:
    """What `lppa attack` found in a run."""
    argv = ["attack", str(run.folder), "--attack", attacks, "--json", "-q", *options]
    result = CliRunner().invoke(main, argv)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
