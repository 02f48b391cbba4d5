"""Audits of data and networks that no table knows: they say what a run says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_diabetes

import lppa
from lppa.commands.audit import audit

LOCAL = {"seed": 1, "local_steps": 2, "momentum": 0.5}
TYPED = ("-n", 5, "--seed", 1, "--local-steps", 2, "--momentum", 0.5)
PROBLEM = """
import torch
from torch import nn

import lppa


def problem():
    torch.manual_seed(0)
    x = 3 * torch.randn(150, 4)
    y = (x[:, 0] > 0).long()
    return lppa.Problem(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)), (x, y), (x, y), name="two")
"""


def call(*argv):
    runner = CliRunner(env={"COLUMNS": "120"})
    return runner.invoke(audit, [str(word) for word in argv], catch_exceptions=False)


def told(*argv):
    result = call(*argv, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def of(found):
    """What a run and an audit have to agree on."""
    ratios = [pair["ratio"] for pair in found["pairs"]]
    return found["rule"], found["grade"], found["beta"], found["hide"], ratios


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    data = load_diabetes()
    path = tmp_path_factory.mktemp("table") / "diabetes.csv"
    rows = np.column_stack([data.data, data.target])
    names = ",".join([*data.feature_names, "progression"])
    np.savetxt(path, rows, delimiter=",", header=names, comments="")
    return path


@pytest.fixture(scope="module")
def ring(table):
    """A run on a ring, where no noise that models bear hides this data."""
    own = {"dataset": str(table), "target": "progression", "topology": "ring"}
    return lppa.run(nodes=5, rounds=6, out=table.parent / "ring", timeout=300, **own, **LOCAL)


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "two.py"
    path.write_text(PROBLEM)
    return f"{path}:problem"


@pytest.fixture(scope="module")
def brought(code, tmp_path_factory):
    """A run of a problem of somebody's own, under a rule that is not the default."""
    out = tmp_path_factory.mktemp("brought") / "run"
    return lppa.run(code, nodes=3, rule="dp", rounds=2, lr=0.001, seed=1, out=out, timeout=300)


def test_the_audit_of_a_table_of_ones_own_says_what_the_run_says(ring, table):
    assert ring.audit["grade"] == "open"
    # Of the seventy rows that each client has, not of all that two batches could hold.
    assert (ring.audit["hide"]["source"], ring.audit["hide"]["examples"]) == ("start", 64)
    config = ring.folder / "config.json"
    assert of(told("--config", config)) == of(ring.audit)
    own = ("--dataset", table, "--target", "progression", "--topology", "ring")
    assert of(told(*TYPED, *own)) == of(ring.audit)
    assert call("--config", config, "--fail-on", "open").exit_code == 3


def test_in_python_too(ring, table):
    own = {"dataset": str(table), "target": "progression", "topology": "ring"}
    assert of(lppa.audit(nodes=5, **own, **LOCAL)) == of(ring.audit)


def test_a_comparison_and_each_round_go_by_the_table_as_well(ring):
    config = ring.folder / "config.json"
    (row,) = told("--config", config, "--compare", "ring")["compare"]
    assert (row["grade"], row["beta"]) == ("open", ring.audit["beta"])
    least = min(pair["ratio"] for pair in ring.audit["pairs"])
    assert row["ratio"] == pytest.approx(least)
    rounds = told("--config", config, "--per-round")["per_round"]["rounds"]
    assert min(row["ratio"] for row in rounds) == pytest.approx(least)
    assert call("--config", config, "--compare", "ring", "--fail-on", "open").exit_code == 3


def test_the_column_is_asked_for_and_arrays_of_ones_own_are_measured(table, tmp_path):
    result = call("--dataset", table)
    assert result.exit_code == 2
    assert "which column is to be predicted? --target" in result.stderr
    x = np.random.default_rng(0).normal(size=(120, 6)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    arrays = tmp_path / "own.npz"
    np.savez(arrays, x_train=x, y_train=y, x_test=x, y_test=y)
    hide = told("-n", 3, "--dataset", arrays, "--seed", 1)["hide"]
    assert (hide["source"], hide["examples"]) == ("start", 40)


def test_the_audit_of_a_problem_of_ones_own_says_what_the_run_says(brought, code):
    found = told("--config", brought.folder / "config.json", "--problem", code)
    assert of(found) == of(brought.audit)
    assert found["rule"] == "dp"
    typed = ("-n", 3, "--rule", "dp", "--lr", 0.001, "--seed", 1)
    assert of(told(*typed, "--problem", code)) == of(brought.audit)


@pytest.mark.parametrize("more", [(), ("--compare", "full,ring"), ("--per-round",)], ids=str)
def test_without_its_code_a_problem_of_ones_own_has_no_grade(brought, more):
    result = call("--config", brought.folder / "config.json", "--fail-on", "open", *more)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "own/two is a problem of your own" in line
    assert "--problem FILE.py:NAME, or what is to be hidden by --gradient-rms" in line


def test_what_is_named_need_not_be_measured(brought):
    argv = ("--config", brought.folder / "config.json", "--gradient-rms", 0.1)
    assert told(*argv)["hide"]["source"] == "option"
    # A run would choose β by what it measures, and a pass is as long as the data.
    assert "--beta" in call(*argv, "--beta", "auto").stderr
    long = call(*argv, "--rule", "dsgd", "--local-steps", "epoch").stderr
    assert "--beta and a number of --local-steps" in long


def test_a_network_of_other_widths_is_measured_as_in_a_run(tmp_path):
    own = {"dataset": "digits", "model": "mlp:32-16-8", "seed": 1, "timeout": 300}
    run = lppa.run(nodes=3, rounds=1, out=tmp_path / "run", **own)
    found = told("-n", 3, "--dataset", "digits", "--model", "mlp:32-16-8", "--seed", 1)
    assert found["hide"]["source"] == "start"
    assert (found["beta"], found["hide"]) == (run.audit["beta"], run.audit["hide"])


def test_the_smallest_of_uneven_shares_is_counted_as_in_a_run(tmp_path):
    uneven = {"dataset": "digits", "partition": "dirichlet:0.1", "seed": 1, "timeout": 300}
    run = lppa.run(nodes=5, rounds=1, out=tmp_path / "run", **uneven)
    found = told("-n", 5, "--partition", "dirichlet:0.1", "--seed", 1)
    assert (found["beta"], found["hide"]) == (run.audit["beta"], run.audit["hide"])
    assert found["hide"]["rms"] > told("-n", 5, "--seed", 1)["hide"]["rms"]


def test_what_the_table_knows_is_not_looked_at(monkeypatch):
    monkeypatch.delattr("lppa.running.scout.Scout.look")
    assert told("-n", 5, "--dataset", "mnist")["hide"]["source"] == "table"
    assert told("-n", 5, "--dataset", "quadratic")["hide"] is None
