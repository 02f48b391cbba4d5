"""A figure that nobody had before goes all the way to the page: it is declared and measured once.

All else, from the check of a report to the curve, goes by the table in `coordinator.reported`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from processes import read_lines, read_summary, run_command

import lppa
from lppa.coordinator.reported import FIGURES, MEAN, SPREAD, Curve, Reported
from lppa.node.evaluation import Evaluation

PULSE = Reported(SPREAD, needed=True, curve=Curve("Pulse of a client", "beats", "As it beats."))
EFFORT = Reported(MEAN, curve=Curve("Effort", "joule"))
DECLARED = {"pulse": PULSE, "effort": EFFORT}


def run_measuring(strange: bool, *given: Any) -> None:
    """The life of `lppa-node` that reports two more figures; runs in the child."""
    honest = Evaluation.__call__

    def measure(self: Evaluation, now: Any) -> Any:
        report = honest(self, now)
        more = {"pulse": "wild" if strange else 60.0 + now.t, "effort": 3.5 * now.t}
        return replace(report, values={**report.values, **more})

    Evaluation.__call__ = measure
    run_command(*given)


def run_knowing(*given: Any) -> None:
    """The life of `lppa-coordinator` where the figures are declared; runs in the child."""
    FIGURES.update(DECLARED)
    run_command(*given)


def run_by_hand(started, peers, out, strange=False):
    """A run of two nodes that measure what the coordinator has declared."""
    measuring = {"life": run_measuring, "given": (strange,)}
    nodes = [started.node(i, peers, "--out", out, **measuring) for i in range(2)]
    options = ("--dataset", "quadratic", "--rounds", 4, "--eval-every", 2, "--out", out)
    command = started.quick("lppa-coordinator", "--peers", peers, *options, life=run_knowing)
    return command.end(), [node.end() for node in nodes]


@pytest.fixture
def declared(monkeypatch):
    for name, figure in DECLARED.items():
        monkeypatch.setitem(FIGURES, name, figure)


def test_a_new_figure_is_combined_written_read_and_drawn(started, peers, tmp_path, declared):
    out = tmp_path / "run"
    ended, nodes = run_by_hand(started, peers, out)
    assert (ended.code, [node.code for node in nodes]) == (0, [0, 0]), ended.err

    told = {
        (line["node"], line["round"]): line["pulse"] for line in read_lines(out / "metrics.jsonl")
    }
    assert told[1, 4] == 64.0
    last = read_summary(out)["history"][-1]
    assert last["pulse"] == {"mean": 64.0, "min": 64.0, "max": 64.0}
    assert last["effort"] == 14.0
    assert read_lines(out / "history.jsonl")[-1] == last

    run = lppa.load(out)
    assert json.loads(json.dumps(run.summary.to_dict())) == read_summary(out)
    assert run.history["pulse_max"][-1] == 64.0
    assert run.history["effort"][-1] == 14.0

    page = run.report().read_text()
    for words in ("Pulse of a client", "beats", "As it beats.", "Effort", "joule"):
        assert words in page
    assert page.index("Test loss") < page.index("Pulse of a client") < page.index("Effort")


def test_a_new_figure_that_is_no_number_is_refused(started, peers, tmp_path):
    out = tmp_path / "run"
    ended, _ = run_by_hand(started, peers, out, strange=True)
    assert "a report whose pulse is not a number" in ended.err
    assert read_summary(out)["history"] == []
