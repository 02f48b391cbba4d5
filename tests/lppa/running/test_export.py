"""Runs as tidy tables."""

from __future__ import annotations

import json

import pytest

from lppa.protocol.errors import WrongUse
from lppa.running.export import flat, history_rows, summary_row


def line(node, round, **more):
    seconds = {"compute": 0.1 * round, "exchange": 0.2}
    return json.dumps({"node": node, "round": round, "loss": 1.5, "seconds": seconds, **more})


def test_nested_figures_become_columns_and_lists_are_left_out():
    nested = {"a": 1, "b": {"c": 2, "d": {"e": None}}, "f": [3], "g": {}}
    assert flat(nested) == {"a": 1, "b_c": 2, "b_d_e": None}


def test_a_history_has_a_row_for_each_round_and_node(put_run):
    folder = put_run("run")
    for node in (1, 0):
        (folder / "nodes" / str(node)).mkdir(exist_ok=True)
        lines = [line(node, 5), line(node, 10, bytes={"state": 8})]
        (folder / "nodes" / str(node) / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    rows = history_rows(folder)
    assert [(row.round, row.node) for row in rows] == [(5, 0), (5, 1), (10, 0), (10, 1)]
    assert rows[0].columns() == {
        **{"run": "run", "round": 5, "node": 0, "loss": 1.5},
        **{"seconds_compute": 0.5, "seconds_exchange": 0.2},
    }
    assert rows[2].figures["bytes_state"] == 8


def test_a_line_that_is_being_written_is_left_out(put_run):
    folder = put_run("run")
    (folder / "nodes" / "0" / "metrics.jsonl").write_text(line(0, 5) + "\n" + line(0, 10)[:-9])
    assert [row.round for row in history_rows(folder)] == [5]


def test_where_no_node_left_files_the_coordinators_stand_in(put_run):
    folder = put_run("run")
    (folder / "nodes" / "0" / "metrics.jsonl").unlink()
    (folder / "metrics.jsonl").write_text(line(2, 5) + "\n")
    assert [row.node for row in history_rows(folder)] == [2]


def test_a_run_without_figures_is_told(put_run):
    with pytest.raises(WrongUse, match="no figures yet"):
        history_rows(put_run("run"))


def test_a_summary_has_settings_and_results_of_a_run(put_run):
    more = {"bytes": {"noise": 1, "state": 2}, "warnings": ["a", "b"], "history": [{}]}
    row = summary_row(put_run("run", summary={**more, "epsilon": None, "rule": "lppa"})).columns()
    assert (row["run"], row["status"], row["nodes"], row["seed"]) == ("run", "completed", 3, 1)
    assert (row["rule"], row["accuracy_mean"], row["bytes_state"]) == ("lppa", 0.75, 2)
    assert row["warnings"] == "a | b"
    assert not {"history", "epsilon", "name"} & row.keys()


def test_of_a_run_without_an_end_what_is_known_is_told(put_run):
    row = summary_row(put_run("run", ago=5000)).columns()
    assert (row["status"], row["accuracy_mean"], row["grade"]) == ("unfinished", 0.5, "weak")
