"""`lppa sweep` in real processes: killed in the middle, resumed, and nothing done twice."""

from __future__ import annotations

import csv
import json
import signal

import pytest
from processes import eventually

from lppa.reproduce.cells import read_results
from lppa.sweep.grid import read_grid

GRID = """
nodes = 2
seeds = [1, 2]
[base]
dataset = "DATASET"
rounds = 3
local-steps = 1
eval-every = 1
[grid]
rule = ["dsgt", "dp", "lppa"]
beta = [0.01, 0.1]
"""
CELLS = 10  # the rule without noise is run once for both scales


@pytest.fixture
def grid(tmp_path):
    def write(dataset, **changes):
        path = tmp_path / "grid.toml"
        text = GRID.replace("DATASET", dataset)
        for old, new in changes.items():
            text = text.replace(old, new)
        path.write_text(text)
        return path

    return write


def finished(out):
    return read_results(out / "cells.jsonl")


def dates(out):
    """When each run was written that is there by now."""
    files = (out / "runs").glob("*/summary.json")
    return {file.parent.name: file.stat().st_mtime_ns for file in files}


def whole(started, grid, out, *options):
    ended = started.command("lppa", "sweep", grid, "--out", out, "--json", *options).end(600)
    assert ended.code == 0, ended
    assert not started.left()
    return json.loads(ended.out), ended.err


def nothing_temporary(started):
    """No folder of sockets; Matplotlib may leave one of its own where HOME cannot be written."""
    return [f for f in started.temporary.iterdir() if not f.name.startswith("matplotlib-")] == []


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_where_it_was_and_does_nothing_twice(
    started, grid, tmp_path
):
    path, out = grid("quadratic"), tmp_path / "out"
    command = started.command("lppa", "sweep", path, "--out", out)

    def far_enough():
        assert command.poll() is None, command.err
        return len(finished(out)) >= 3

    eventually(far_enough, 300, "three finished runs")
    command.signal(signal.SIGKILL)
    assert command.end().code == -signal.SIGKILL
    started.all_end()
    assert nothing_temporary(started)
    before, written = finished(out), dates(out)
    assert 3 <= len(before) < CELLS
    # As if the power had failed while a line was written.
    with (out / "cells.jsonl").open("ab") as file:
        file.write(b'{"key": "quadratic-iid')

    found, said = whole(started, path, out)
    assert f"{CELLS - len(before)} cells to run, {len(before)} are there already" in said
    assert nothing_temporary(started)
    after = finished(out)
    assert len(after) == CELLS
    assert {key: after[key] for key in before} == before
    assert {key: dates(out)[key] for key in before} == {key: written[key] for key in before}
    lines = (out / "cells.jsonl").read_text().splitlines()
    assert len(lines) == CELLS
    assert {json.loads(line)["key"] for line in lines} == {c.key for c in read_grid(path).cells()}
    assert not list((out / "runs").glob("*.part-*"))
    assert found["missing"] == []
    assert len(found["rows"]) == 6
    assert all(row["seeds"] == 2 and row["loss_mean"] is not None for row in found["rows"])

    # Once more: nothing is left to do, and the same comes out.
    untouched = dates(out)
    again, said = whole(started, path, out)
    assert (again, said) == (found, "")
    assert dates(out) == untouched

    # The same as from runs that nobody stopped.
    plain, _ = whole(started, path, tmp_path / "plain", "--jobs", 2)
    assert plain["rows"] == found["rows"]
    for name in ("table.md", "table.csv"):
        assert (tmp_path / "plain" / name).read_bytes() == (out / name).read_bytes()


@pytest.mark.slow
def test_a_sweep_grows_by_what_is_new_and_its_runs_are_runs(started, grid, tmp_path):
    out = tmp_path / "out"
    small = grid("digits", **{"[1, 2]": "[1]", "[0.01, 0.1]": "[0.01]", '"dp", ': ""})
    found, said = whole(started, small, out)
    assert "2 cells to run" in said
    large = grid("digits", **{"[1, 2]": "[1]", "[0.01, 0.1]": "[0.01]"})
    found, said = whole(started, large, out)
    assert "1 cells to run, 2 are there already" in said
    rows = list(csv.DictReader((out / "table.csv").open()))
    assert [row["rule"] for row in rows] == ["dsgt", "dp", "lppa"]
    assert all(0 < float(row["accuracy_mean"]) <= 1 for row in rows)
    assert [row["grade"] for row in found["rows"]] == [row["grade"] for row in rows]
    assert (out / "front.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "grid.toml").read_text() == large.read_text()
    ended = started.quick("lppa", "runs", "--dir", out / "runs", "--json").end()
    assert {run["status"] for run in json.loads(ended.out)["runs"]} <= {"completed", "doubtful"}
    ended = started.quick("lppa", "export", out / "runs" / sorted(finished(out))[0]).end()
    assert len(ended.out.splitlines()) == 1 + 3 * 2


def test_two_sweeps_do_not_work_in_the_same_place(started, grid, tmp_path):
    from lppa.reproduce.cells import Store

    out = tmp_path / "out"
    with Store(out / "cells.jsonl"):
        ended = started.quick("lppa", "sweep", grid("quadratic"), "--out", out).end()
    assert ended.code == 2
    assert ended.errors == [f"error: another lppa is at work in {out}"]


def test_a_wrong_grid_is_refused_and_nothing_is_made(started, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text("[grid]\nlr = [0.1, -1]\n")
    ended = started.quick("lppa", "sweep", path, "--out", tmp_path / "out").end()
    assert ended.code == 2
    assert len(ended.errors) == 1
    assert "lr -1: --lr must be a number above 0" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_gets_the_name_that_it_is_given(started, tmp_path):
    argv = ("lppa", "run", "-n", 2, "--dataset", "quadratic", "--rounds", 2, "--name", "first")
    assert started.quick(*argv).end().code == 0
    summary = json.loads((started.here / "runs" / "first" / "summary.json").read_text())
    assert summary["name"] == "first"
    ended = started.quick(*argv).end()
    assert ended.code == 2
    assert ended.errors == [
        "error: --name first is taken: runs/first exists already; choose another"
    ]
