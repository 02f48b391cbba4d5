"""Event files that TensorBoard itself reads."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lppa.coordinator.figures import Row
from lppa.protocol.messages import Metrics
from lppa.report.tensorboard import EventWriter

EMPTY = np.zeros(0)


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_other_metrics_are_there_by_their_names(made_up, tmp_path):
    writer = EventWriter(tmp_path / "events")
    metrics = {"rmse": {"mean": 2.0, "min": 1.0, "max": 3.0}, "r2": None}
    writer.row(Row.from_dict({**made_up().row(5), "accuracy": None, "metrics": metrics}))
    writer.close({})
    known = read(tmp_path / "events")
    assert [known[f"rmse/{end}"] for end in ("min", "mean", "max")] == [
        [(5, 1.0)],
        [(5, 2.0)],
        [(5, 3.0)],
    ]
    assert not [name for name in known if name.startswith(("r2", "accuracy"))]


def test_every_figure_of_a_run_is_there_by_round_while_it_goes_on(made_up, tmp_path):
    run = made_up()
    writer = EventWriter(tmp_path / "events")
    for round in run.rounds:
        for node in range(run.nodes):
            writer.metrics(node, Metrics(round, run.report(node, round), EMPTY, EMPTY))
        writer.row(Row.from_dict(run.row(round)))
        known = read(tmp_path / "events")  # before the file is closed: people watch it grow
        assert known["loss"][-1] == (round, pytest.approx(2.0 / round))
    writer.close({})
    known = read(tmp_path / "events")
    assert set(known) == {
        "accuracy/mean",
        "accuracy/min",
        "accuracy/max",
        "loss",
        "consensus",
        "conservation",
        "noise_to_gradient",
        "seconds/compute",
        "seconds/exchange",
        "seconds/eval",
    }
    assert [step for step, _ in known["accuracy/mean"]] == [5, 10, 15]
    assert known["accuracy/max"][-1][1] == pytest.approx(0.77)
    assert known["seconds/compute"][-1][1] == pytest.approx(1.5)


def test_what_was_not_measured_is_left_out(made_up, tmp_path):
    writer = EventWriter(tmp_path)
    row = {**made_up().row(5), "accuracy": None, "noise_to_gradient": None}
    writer.row(Row.from_dict(row))
    writer.close({})
    assert set(read(tmp_path)) == {"loss", "consensus", "conservation"}


def test_a_folder_that_cannot_be_written_costs_the_events_only(made_up, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    writer = EventWriter(tmp_path / "file" / "events")
    writer.row(Row.from_dict(made_up().row(5)))
    writer.close({})
    assert len(caplog.records) <= 1


def test_neither_pytorch_nor_tensorflow_is_loaded(tmp_path):
    code = (
        "import sys, pathlib; from lppa.report.tensorboard import EventWriter; "
        "import lppa.report.write, lppa.report.live; "
        "assert 'tensorboard' not in sys.modules; "
        "from lppa.coordinator.figures import Row; "
        f"EventWriter(pathlib.Path({str(tmp_path)!r})).row(Row(1, {{'loss': 2.0}})); "
        "sys.exit('torch' in sys.modules or 'tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert read(tmp_path) == {"loss": [(1, 2.0)]}
