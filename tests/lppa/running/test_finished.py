"""A finished run as an object, read from files that may be those of something else."""

from __future__ import annotations

import json

import pytest

import lppa
from lppa.protocol.errors import WrongUse


def test_a_finished_run_is_read_by_attribute_and_by_key(local_run):
    made = local_run(nodes=2, dataset="quadratic", rounds=4, eval_every=2)
    run = lppa.load(made.folder)
    assert run.summary == made.summary
    assert run.summary.loss == run.summary["loss"] == run.history["loss"][-1]
    assert run.summary.to_dict() == json.loads((made.folder / "summary.json").read_text())
    assert run.audit.grade == run.audit["grade"] == run.summary.grade
    assert run.audit.to_dict() == json.loads((made.folder / "audit.json").read_text())
    assert f"loss {run.summary.loss:.4g}" in repr(run)


@pytest.mark.parametrize("content", ["{}", "[]", "3", '{"status": "completed", "accuracy": 1}'])
@pytest.mark.parametrize("name", ["summary", "audit"])
def test_a_file_that_no_run_writes_is_refused_by_name(tmp_path, name, content):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / f"{name}.json").write_text(content)
    with pytest.raises(WrongUse, match=rf"{name}\.json is not what a run writes"):
        getattr(lppa.load(tmp_path), name)
