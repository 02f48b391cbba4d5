"""Directories of runs that never were, as small as a list of runs needs them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def put_run(tmp_path):
    """Makes a run's directory in runs/; started and last written so many seconds ago."""

    def put(
        name: str,
        ago: float = 100.0,
        quiet: float | None = None,
        summary: dict[str, Any] | None = None,
        base: Path | None = None,
        now: float | None = None,
    ) -> Path:
        folder = (base or tmp_path / "runs") / name
        (folder / "nodes" / "0").mkdir(parents=True)
        now = time.time() if now is None else now
        started = time.strftime("%Y-%m-%dT%H:%M:%S+0000", time.gmtime(now - ago))
        config = {"rule": "lppa", "dataset": "digits", "topology": "ring", "seed": 1}
        config |= {"eval_every": 5, "timeout": 60.0}
        about = {"name": name, "nodes": 3, "run_seed": 1, "started": started}
        files = {
            "config.json": json.dumps({**config, "about": about}),
            "history.jsonl": "".join(
                json.dumps({"round": r, "accuracy": {"mean": r / 20}}) + "\n" for r in (5, 10)
            ),
            "audit.json": json.dumps({"grade": "weak"}),
            "nodes/0/metrics.jsonl": "",
        }
        if summary is not None:
            known = {"status": "completed", "error": None, "nodes": 3, "accuracy": {"mean": 0.75}}
            known |= {"grade": "hidden", "noise_to_example": 29.5}
            files["summary.json"] = json.dumps({**known, **summary})
        for file, content in files.items():
            (folder / file).write_text(content)
            date = now - (ago if quiet is None else quiet)
            os.utime(folder / file, (date, date))
        return folder

    return put
