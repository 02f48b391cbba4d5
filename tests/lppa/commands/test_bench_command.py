"""`lppa bench` as a person calls it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lppa.commands import bench as bench_command


@pytest.fixture(autouse=True)
def measures(monkeypatch):
    """Two measures that take no time."""
    made = {name: lambda: {"ratio": 1.0, "goal": "1"} for name in ("exchange", "growth")}
    monkeypatch.setattr(bench_command, "MEASURES", made)
    monkeypatch.setattr(bench_command, "ASKED", {"growth-1000": made["growth"]})


def call(*argv):
    return CliRunner().invoke(bench_command.bench, argv, catch_exceptions=False)


def test_all_is_measured_or_what_was_asked_for():
    assert list(json.loads(call("--json").stdout)) == ["exchange", "growth"]
    asked = json.loads(call("--only", "growth-1000, exchange", "--json").stdout)
    assert list(asked) == ["growth-1000", "exchange"]


@pytest.mark.parametrize("only", ["", "growth,", "speed"])
def test_a_measure_that_is_none_is_refused_in_one_line(only):
    result = call("--only", only)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.endswith("; known: exchange, growth, growth-1000")
