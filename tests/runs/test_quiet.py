"""With -q a command says nothing that went right, and still what did not."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from processes import PATIENCE, read_summary

from lppa.cli import main
from lppa.commands import bench as bench_command

TINY = ("--dataset", "quadratic", "--rounds", 3, "--timeout", PATIENCE)
HIDDEN = ("--noise-every", 1, "--noise-exchange", "seed", "--local-steps", 1)


def call(*argv):
    return CliRunner().invoke(main, [str(word) for word in argv], catch_exceptions=False)


@pytest.mark.parametrize(
    "argv",
    [
        ("audit", "-n", 3),
        ("datasets",),
        ("models",),
        ("partition", "digits", "iid", "--plot", "chart.png"),
        ("peers", 2),
        ("bench", "--only", "exchange", "--out", "bench.json"),
        ("reproduce", "table1", "--tiny", "--show"),
    ],
)
def test_a_command_that_went_well_says_nothing(tmp_path, monkeypatch, argv):
    measured = {"exchange": lambda: {"ratio": 1.0, "goal": "1"}}
    monkeypatch.setattr(bench_command, "MEASURES", measured)
    (tmp_path / "loud").mkdir()
    (tmp_path / "quiet").mkdir()
    monkeypatch.chdir(tmp_path / "loud")
    loud = call(*argv)
    assert loud.exit_code == 0
    assert loud.stdout
    monkeypatch.chdir(tmp_path / "quiet")
    quiet = call(*argv, "-q")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")
    monkeypatch.chdir(tmp_path)
    asked = call(*argv, "-q", "--json")
    assert json.loads(asked.stdout)
    assert asked.stderr == ""
    made = [sorted(f.name for f in (tmp_path / n).rglob("*")) for n in ("loud", "quiet")]
    assert made[0] == made[1], "the work is done all the same"


def test_a_run_with_an_attack_and_its_report_say_nothing(started, tmp_path):
    out = tmp_path / "run"
    # Long enough to learn something: a run that did not would be warned of.
    settings = ("--rounds", 10, "--batch", 16, "--model", "mlp", "--timeout", PATIENCE)
    settings += (*HIDDEN, "--local-steps", 5, "--seed", 1)
    attack = ("--attacker", 1, "--attack", "labels")
    ended = started.quick("lppa", "run", "-n", 3, *settings, *attack, "--out", out, "-q").end()
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert read_summary(out)["status"] == "completed"
    assert list((out / "attacks").iterdir())
    for argv in (("report", out), ("attack", out, "--attack", "labels")):
        result = call(*argv, "-q")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_warnings_and_errors_are_told_all_the_same(started, tmp_path):
    out = tmp_path / "run"
    ended = started.quick("lppa", "run", "-n", 2, *TINY, "--out", out, "-q").end()
    (warning,) = read_summary(out)["warnings"]
    assert (ended.code, ended.out, ended.err) == (0, "", f"warning: {warning}\n")
    ended = started.quick("lppa", "run", "-n", 2, *TINY, "--out", out, "-q", "--json").end()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {out} exists already; choose another --out\n"


def test_json_of_a_quiet_run_is_its_summary(started, tmp_path):
    out = tmp_path / "run"
    argv = ("lppa", "run", "-n", 3, *TINY, *HIDDEN, "--out", out, "-q", "--json")
    ended = started.quick(*argv).end()
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) == {**read_summary(out), "directory": str(out)}


def test_nodes_and_a_coordinator_by_hand_say_nothing(started, peers, tmp_path):
    out = tmp_path / "run"
    options = (*TINY, "--rule", "lppa", "--beta-own", 0.1, *HIDDEN)
    argv = ("lppa-coordinator", "--peers", peers, "--out", out, *options)
    processes = [started.quick(*argv, "-q")]
    for i in range(2):
        processes.append(started.node(i, peers, "--out", out, "--timeout", PATIENCE, "-q"))
    for process in processes:
        ended = process.end()
        assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert read_summary(out)["status"] == "completed"
