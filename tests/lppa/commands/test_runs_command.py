"""`lppa runs` and `lppa runs rm`, and runs by name wherever one is asked for."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lppa.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def lppa(*argv, input=None):
    return CliRunner().invoke(main, [str(word) for word in argv], input=input)


def test_the_list_has_a_line_for_each_run_and_no_name_is_cut_off(put_run):
    long = "a-name-that-is-longer-than-most-" * 3
    put_run(long, ago=500, summary={})
    put_run("new", ago=100, quiet=0)
    result = lppa("runs")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    (head,) = [i for i, line in enumerate(lines) if "status" in line]
    assert lines[head].split() == [
        *("name", "status", "rule", "data", "clients", "topology", "accuracy", "grade", "age")
    ]
    shown = [line.split() for line in lines[head + 2 :] if line.strip()]
    assert shown[0][:8] == ["new", "running?", "lppa", "digits", "3", "ring", "50.0%", "weak"]
    assert shown[1][0] == long
    assert shown[1][6:9] == ["75.0%", "hidden", "29.5×"]


def test_json_has_the_same_as_plain_values(put_run):
    put_run("first", summary={})
    found = json.loads(lppa("runs", "--json").stdout)
    assert found["dir"] == "runs"
    (run,) = found["runs"]
    assert (run["name"], run["status"], run["accuracy"]) == ("first", "completed", 0.75)
    assert json.loads(lppa("runs", "--json", "--dir", "nowhere").stdout)["runs"] == []


def test_where_there_is_no_run_the_list_says_what_makes_one(tmp_path):
    assert lppa("runs").stdout == "no run is in runs/: `lppa run` makes one\n"
    (tmp_path / "file").write_text("")
    result = lppa("runs", "--dir", "file")
    assert (result.exit_code, result.stderr) == (2, "error: --dir file is a file, not a folder\n")


def test_removing_asks_first_and_does_nothing_without_a_yes(put_run):
    folder = put_run("first", summary={})
    result = lppa("runs", "rm", "first", input="n\n")
    assert result.exit_code == 1
    assert "runs/first: completed" in result.stderr
    assert "nothing was removed" in result.stderr
    assert lppa("runs", "rm", "first", input="").exit_code == 1
    assert folder.exists()
    result = lppa("runs", "rm", "first", input="y\n")
    assert (result.exit_code, result.stdout) == (0, "removed runs/first\n")
    assert not folder.exists()


def test_all_are_removed_or_none(put_run, tmp_path):
    folders = [put_run(name, ago=ago) for name, ago in (("a", 300), ("b", 200), ("c", 100))]
    result = lppa("runs", "rm", "a", "nothing", "--yes")
    assert result.exit_code == 2
    assert result.stderr.count("error: ") == 1
    assert all(folder.exists() for folder in folders)
    result = lppa("runs", "--dir", tmp_path / "runs", "rm", "a", "latest", "--yes", "--json")
    assert len(json.loads(result.stdout)["removed"]) == 2
    assert [folder.exists() for folder in folders] == [False, True, False]


@pytest.mark.parametrize(
    "command", [("report",), ("attack",), ("export",), ("export", "--summary"), ("runs", "rm")]
)
def test_a_wrong_name_is_one_line_that_says_what_there_is(put_run, command):
    put_run("first")
    result = lppa(*command, "frist")
    assert result.exit_code == 2
    assert result.stdout == ""
    reason = "frist is not a folder, nor the name of a run in runs/; there: first"
    assert result.stderr == f"error: {reason}\n"


def test_reports_are_about_runs_by_name(put_run, tmp_path):
    put_run("first", ago=500, summary={})
    put_run("second", ago=100, summary={})
    assert lppa("report", "latest").stdout == "runs/second/report.html\n"
    assert (tmp_path / "runs" / "second" / "report.html").exists()
    found = json.loads(lppa("report", "first", "latest", "--json").stdout)
    assert [run["directory"] for run in found["runs"]] == ["runs/first", "runs/second"]


def test_attacks_are_on_runs_by_name(put_run):
    put_run("first")
    result = lppa("attack", "latest")
    assert "runs/first has no attack log" in result.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--name", "latest"), "always means the newest run"),
        (("--name", "a/b"), "--name must be"),
        (("--name", "first"), "--name first is taken: runs/first exists already"),
        (("--name", "x", "--out", "y"), "give one of them"),
    ],
)
def test_a_name_that_cannot_be_given_is_refused_before_anything_starts(put_run, options, reason):
    put_run("first")
    result = lppa("run", "-n", "2", "--dataset", "quadratic", *options)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert reason in result.stderr
