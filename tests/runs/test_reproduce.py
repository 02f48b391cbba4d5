"""`lppa reproduce` in real processes: everything once, interrupted, killed, and still the same."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import pytest
from click.testing import CliRunner
from processes import eventually

from lppa.cli import main
from lppa.reproduce.cells import read_results
from lppa.reproduce.experiments import DP, DSGT, EXPERIMENTS, LPPA, Plan, all_cells
from lppa.reproduce.readings import DEFAULT
from lppa.reproduce.sizes import TINY

PLAN = Plan(TINY, DEFAULT, None, ("digits",))


def finished(out):
    return len(read_results(out / "cells.jsonl"))


def assert_nothing_temporary(started):
    """No folder of sockets; Matplotlib may leave one of its own where HOME cannot be written."""
    kept = [f for f in started.temporary.iterdir() if not f.name.startswith("matplotlib-")]
    assert kept == []


def stopped_after(started, out, cells, number, *names):
    """Starts it, and ends it by a signal when so many cells are finished."""
    command = started.command("lppa", "reproduce", *names, "--tiny", "--out", out)

    def far_enough():
        assert command.poll() is None, command.err
        return finished(out) >= cells

    eventually(far_enough, 300, f"{cells} finished cells")
    command.signal(number)
    ended = command.end()
    started.all_end()
    assert_nothing_temporary(started)
    return ended


def whole(started, out, *names):
    ended = started.command("lppa", "reproduce", *names, "--tiny", "--out", out, "--json").end(600)
    assert ended.code == 0, ended
    assert not started.left()
    assert_nothing_temporary(started)
    return json.loads(ended.out)


def without_times(results):
    return {key: replace(result, seconds=0.0) for key, result in results.items()}


@pytest.mark.slow
def test_whoever_is_stopped_at_any_point_gets_the_same_tables_in_the_end(started, tmp_path):
    plain, stopped = tmp_path / "plain", tmp_path / "stopped"
    expected = whole(started, plain, "table3")

    ended = stopped_after(started, stopped, 1, signal.SIGINT, "all")
    assert ended.code == 130
    assert "interrupted" in ended.err
    ended = stopped_after(started, stopped, 3, signal.SIGKILL, "all")
    assert ended.code == -signal.SIGKILL
    # As if the power had failed while a line was written.
    with (stopped / "cells.jsonl").open("ab") as file:
        file.write(b'{"key": "digits-iid')
    already = finished(stopped)
    found = whole(started, stopped, "all")

    cells = all_cells(PLAN, list(EXPERIMENTS))
    assert found["missing"] == []
    assert 3 <= already < len(cells)
    lines = (stopped / "cells.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["key"] for line in lines) == sorted(c.key for c in cells)
    assert found["tables"]["table3"] == expected["tables"]["table3"]
    for name in ("table3-tiny.md", "table3-tiny.csv"):
        assert (stopped / name).read_bytes() == (plain / name).read_bytes()
    once, twice = (without_times(read_results(f / "cells.jsonl")) for f in (plain, stopped))
    assert once == {key: twice[key] for key in once}
    # Attacks, too: those on round 0 saw the same messages in a shorter and in a longer run.
    for variant in (DSGT, DP, LPPA):
        short, long = (
            next(one for one in twice[PLAN.attacked("digits", variant, 1, rounds).key].attacks)
            for rounds in ((0,), TINY.curve_rounds)
        )
        assert short == long

    for name in EXPERIMENTS:
        for suffix in ("png", "svg", "csv") if name.startswith("fig") else ("md", "csv"):
            assert (stopped / f"{name}-tiny.{suffix}").stat().st_size > 50
    written = {file: file.read_bytes() for file in stopped.glob("*-tiny.*")}
    assert whole(started, stopped, "all", "--show")["tables"] == found["tables"]
    assert {file: file.read_bytes() for file in stopped.glob("*-tiny.*")} == written
    assert not list((stopped / "runs").glob("*.part-*"))
    assert {f.name for f in (stopped / "runs").iterdir()} == {".gitignore", *(c.key for c in cells)}
    assert (stopped / "data" / ".gitignore").read_text() == "*\n"
    about = json.loads((stopped / "about-tiny.json").read_text())
    assert about["command"].startswith("lppa reproduce all")
    assert about["versions"]["torch"]


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif("LPPA_DATA" not in os.environ, reason="LPPA_DATA is not set")
def test_rows_of_a_table_are_attacked_too(started, tmp_path):
    found = whole(started, tmp_path / "out", "table2", "--datasets", "adult")
    rows = {(row["rule"], row["attacker"]): row for row in found["tables"]["table2"]["rows"]}
    assert len(rows) == 10
    for row in rows.values():
        assert row["attacks"] == 1
        assert row["distance"] >= 0
        assert row["distance of mean, median"] > 0
        assert row["psnr, median"] is None
        assert abs(row["cosine, median"]) < 1.001  # rounding may go a little beyond 1
    near, far = (rows[rule, "naive"]["distance"] for rule in ("DSGT", "LPPA"))
    assert near < 1e-2 < far
    assert any("a random start N(0, 1) is" in note for note in found["tables"]["table2"]["notes"])


def test_showing_runs_nothing_and_says_what_is_missing(tmp_path):
    out = tmp_path / "nothing"
    argv = ["reproduce", "table1", "--tiny", "--show", "--out", str(out)]
    result = CliRunner().invoke(main, argv)
    assert result.exit_code == 0, result.output
    assert "5 of 5 cells are missing" in result.stderr
    assert not out.exists()
    shown = json.loads(CliRunner().invoke(main, [*argv, "--json"]).stdout)
    assert len(shown["missing"]) == 5


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["table9"], "table9"),
        (["table1", "--datasets", "cats"], "unknown 'cats'"),
        (["table1", "--seeds", "0"], "seeds"),
        ([], "NAME"),
    ],
)
def test_a_wrong_call_is_refused(tmp_path, options, reason):
    result = CliRunner().invoke(main, ["reproduce", *options, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert reason in result.stderr
    assert not (tmp_path / "out").exists()


def test_data_that_cannot_be_read_is_told_before_anything_is_run(started, tmp_path, monkeypatch):
    broken = tmp_path / "data"
    broken.mkdir()
    (broken / "adult.data").write_text("not what it should be\n")
    (broken / "adult.test").write_text("nor this\n")
    monkeypatch.setenv("LPPA_DATA", str(broken))
    out = tmp_path / "out"
    argv = ("lppa", "reproduce", "table1", "--tiny", "--datasets", "adult", "--out", out)
    ended = started.command(*argv).end(300)
    assert ended.code == 2, ended
    assert len(ended.errors) == 1
    assert finished(out) == 0
    assert not started.left()


def test_within_a_seed_the_rules_have_the_same_data_weights_start_and_batches(local_run):
    """The pairs that the Loss compares: β = 0 leaves nothing that could tell the rules apart."""
    told = {"dataset": "digits", "rounds": 2, "reveal_batches": True}
    runs = []
    for variant in (DSGT, DP, LPPA):
        cell = PLAN.training("digits", variant, 1, partition="dirichlet:0.1", beta=0.0)
        runs.append(local_run(cell.nodes, **{**cell.told(), **told}))
    first = runs[0]
    for other in runs[1:]:
        assert (other.blueprint.W == first.blueprint.W).all()
        for node in range(5):
            batches = f"nodes/{node}/batches.jsonl"
            assert (other.folder / batches).read_text() == (first.folder / batches).read_text()
        for name in ("theta", "gamma", "g"):
            assert (other.final(name) == first.final(name)).all()
