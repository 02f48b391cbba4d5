"""Real runs are examined at their end: one that collapsed does not pass for a result."""

from __future__ import annotations

import json
import subprocess
import sys

from lppa.coordinator.figures import ENDED
from lppa.protocol.settings import make_settings
from lppa.running.chaos import parse_chaos
from lppa.running.display import Silent
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local


def test_a_run_by_default_is_sound_hides_all_and_is_warned_of_nothing(local_run):
    run = local_run(3, rounds=10, seed=1)
    assert (run.summary["status"], run.summary["warnings"]) == ("completed", [])
    assert run.summary["grade"] == "hidden"
    assert run.summary["accuracy"]["mean"] > 0.8
    # No example was larger than the table expects: the grade does not get better by that.
    audit = json.loads((run.folder / "audit.json").read_text())
    assert audit["hide"]["source"] == "table"
    # Ten batches of 64 go through 479 rows more than once: some examples count twice in them.
    assert audit["hide"]["examples"] == 10 * 64 // 2
    reports = [
        json.loads(line)["example_rms"]
        for node in range(3)
        for line in (run.folder / "nodes" / str(node) / "metrics.jsonl").read_text().splitlines()
    ]
    assert audit["hide"]["rms"] * audit["hide"]["examples"] > max(reports) > 0


def test_a_run_that_collapsed_is_doubtful_and_says_what_to_try(local_run):
    # One far too long step, and then none that could bring the network back.
    steps = {"lr": 5.0, "lr_decay": 1000.0, "local_steps": 4, "rounds": 25}
    run = local_run(3, model="mlp", seed=1, **steps)
    assert run.summary["status"] == "doubtful"
    assert "doubtful" in ENDED
    # Its gradients are larger than those of such networks are, so that less is hidden, too.
    verdict, accuracy, dead = run.summary["warnings"]
    assert verdict.startswith("Weak: ")
    assert run.summary["grade"] == "weak"
    assert json.loads((run.folder / "audit.json").read_text())["hide"]["source"] == "run"
    assert accuracy.startswith("accuracy ")
    assert "is near chance" in accuracy
    assert "a smaller --lr" in accuracy
    assert "of a layer's units are dead" in dead
    # It came to its end all the same: its figures are there, and its models.
    assert run.summary["error"] is None
    assert run.summary["rounds_done"] == 25
    assert run.final("theta").isfinite().all()
    assert json.loads((run.folder / "summary.json").read_text())["status"] == "doubtful"


ONE = {"model": "mlp", "batch": 1, "local_steps": 1, "seed": 3}


def test_what_was_hidden_goes_by_every_round_however_seldom_models_are_tested(local_run):
    """Steps that are too long throw gradients far beyond what noise was chosen for, and in the
    round of the only test they may be small again."""
    run = local_run(5, lr=10.0, rounds=20, eval_every=20, **ONE)
    assert run.summary["status"] == "doubtful"
    assert run.summary["grade"] == "open"
    assert run.summary["noise_to_example"] < 0.1
    (verdict,) = [line for line in run.summary["warnings"] if line.startswith("Open: ")]
    assert "; to change that, use a smaller --lr (" in verdict


def test_a_run_whose_numbers_overflow_is_open(local_run):
    run = local_run(5, lr=1000.0, rounds=20, eval_every=20, **ONE)
    assert run.summary["status"] == "failed"
    assert "no longer finite" in run.summary["error"]
    assert (run.summary["grade"], run.summary["noise_to_example"]) == ("open", 0.0)
    audit = json.loads((run.folder / "audit.json").read_text())
    assert {pair["grade"] for pair in audit["pairs"]} == {"open"}


def test_a_run_whose_last_round_ends_in_no_numbers_has_failed(local_run):
    """What is sent no more is looked at by nobody else."""
    run = local_run(3, lr=1000.0, rounds=4, eval_every=4, **ONE)
    assert run.summary["status"] == "failed"
    assert "training diverged" in run.summary["error"]
    assert run.summary["grade"] == "open"


def test_a_run_that_is_broken_off_is_graded_by_what_was_told_since_its_last_test(tmp_path):
    run = blueprint(3, lr=0.03, lr_decay="6:300", rounds=10, eval_every=5, **ONE)
    summary = run_local(run, tmp_path / "run", Silent(), chaos=parse_chaos("kill:0@9", 3))
    assert summary.status == "failed"
    assert [row.round for row in summary.history] == [5]
    assert summary.grade == "open"


def test_what_was_to_hide_before_a_run_was_broken_off_is_known_when_it_goes_on(tmp_path):
    """Gradients explode in the first rounds and are gone when the models are tested."""
    run = blueprint(3, lr=10.0, rounds=20, eval_every=20, checkpoint_every=1, **ONE)
    folder = tmp_path / "run"
    first = run_local(run, folder, Silent(), chaos=parse_chaos("kill:0@15", 3))
    assert (first.status, first.grade) == ("failed", "open")
    ended = subprocess.run(
        [sys.executable, "-m", "lppa", "run", "--resume", folder, "-q"], check=False
    )
    summary = json.loads((folder / "summary.json").read_text())
    assert (ended.returncode, summary["status"]) == (0, "doubtful")
    assert (summary["grade"], summary["noise_to_example"] < 1e-6) == ("open", True)


def blueprint(nodes, **settings):
    return make_blueprint(make_settings({"timeout": 300, **settings}), nodes, "run")


def test_nobody_is_told_to_go_on_with_what_would_end_in_the_same_way(tmp_path):
    told = {**ONE, "lr": 1000, "rounds": 20, "checkpoint_every": 1, "out": tmp_path / "run"}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in told.items()]
    ended = subprocess.run(
        [sys.executable, "-m", "lppa", "run", "-n", "3", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "training diverged" in ended.stderr
    assert list((tmp_path / "run").glob("nodes/*/checkpoints/*"))
    assert "--resume" not in ended.stderr
