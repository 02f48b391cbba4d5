"""What a run shows at its end, and the summary that this is made from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lppa.coordinator.figures import Row, Spread
from lppa.running.display import Lines, in_words, result_rows


@pytest.mark.parametrize(("finish", "shown"), [(0, "4 of 4"), (2, "6 of 6")])
def test_a_run_that_came_to_its_end_has_done_all_rounds_and_has_no_error(local_run, finish, shown):
    summary = local_run(nodes=3, dataset="quadratic", rounds=4, finish=finish).summary
    assert (summary["status"], summary["error"]) == ("completed", None)
    assert (summary["rounds"], summary["rounds_done"]) == (4, 4 + finish)
    assert dict(result_rows(summary))["rounds"] == shown


def test_a_run_that_failed_says_why_and_how_far_all_nodes_came(local_run):
    run = local_run(nodes=3, dataset="quadratic", rounds=1000, lr=1e6, eval_every=1, local_steps=1)
    assert run.summary["status"] == "failed"
    assert "diverged" in run.summary["error"]
    assert "reason" not in run.summary
    assert run.summary["rounds_done"] <= run.summary["round"] < 1000
    done = run.summary["rounds_done"]
    assert dict(result_rows(run.summary))["rounds"] == f"{done} of 1000"


def spread(mean):
    return Spread(mean, mean - 1.0, mean + 1.0)


def test_the_first_metric_stands_in_the_place_of_accuracy_where_there_is_none():
    row = Row(5, {"loss": 0.5}, metrics={"rmse": spread(12.5), "r2": spread(0.5)})
    assert in_words(row) == "rmse 12.5 (11.5–13.5)  loss 0.5"
    # What a client could not tell is not shown.
    assert in_words(replace(row, metrics={"rmse": None})) == "loss 0.5"
    right = replace(row, reported={"loss": 0.5, "accuracy": Spread(0.5, 0.25, 0.75)})
    assert in_words(right) == "accuracy 50.0% (25.0%–75.0%)  loss 0.5"


def test_the_table_shows_every_metric(local_run):
    summary = local_run(nodes=3, dataset="quadratic", rounds=2).summary
    shown = dict(result_rows(replace(summary, metrics={"rmse": spread(12.5), "r2": None})))
    assert shown["test rmse, mean over clients"] == "12.5"
    assert shown["  least and greatest of a client"] == "11.5, 13.5"
    assert not [name for name in shown if "r2" in name]


def test_long_rounds_show_in_lines_how_far_they_are(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("lppa.running.display.time.monotonic", lambda: now[0])
    lines = Lines(5)
    for seconds, percent in ((0, 0), (4, 30), (11, 60)):
        now[0] = 100.0 + seconds
        lines.within(2, 3, "mixing", percent)
    said = capsys.readouterr().err.splitlines()
    assert said == ["round 4/5  node 2: mixing 0 %", "round 4/5  node 2: mixing 60 %"]
