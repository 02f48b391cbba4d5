"""Attacks on runs that lost a node: on the graph that they began with, and no other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from attacking import LENET, attacked
from click.testing import CliRunner
from processes import read_lines

import lppa
from lppa.attack.knowledge import read_knowledge
from lppa.attack.observation import OBSERVATIONS
from lppa.cli import main
from lppa.coordinator.plan import Blueprint
from lppa.node.learner import make_learner
from lppa.node.log import log_path, read_log
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import make_settings
from lppa.running.chaos import parse_chaos
from lppa.running.display import Silent
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local

VICTIM, ATTACKERS = 0, (1, 2, 3, 4)
TOGETHER = "collude:1,2,3,4"
SETTINGS = {
    **LENET,
    "rule": "lppa",
    "beta": 0.5,
    "noise_every": 1,
    # Seeds that are drawn anew for every view.
    "seed": None,
    "noise_exchange": "seed",
    "rounds": 8,
    "dtype": "float64",
    "timeout": 300,
    "on_failure": "continue",
}


class Run(NamedTuple):
    blueprint: Blueprint
    folder: Path


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    """A run that lost an attacker, and the round that its second view begins with."""
    folder = tmp_path_factory.mktemp("lossy") / "run"
    blueprint = make_blueprint(make_settings(SETTINGS), 5, folder.name)
    chaos = parse_chaos("kill:3@4", 5)
    summary = run_local(blueprint, folder, Silent(), attackers=ATTACKERS, chaos=chaos)
    assert summary.status == "completed", summary.error
    (view,) = [event for event in read_lines(folder / "views.jsonl") if event["kind"] == "view"]
    assert view["round"] >= 3
    return Run(blueprint, folder), view["round"]


def error(blueprint, target, t):
    """How far a target is from the victim's gradients of its rounds, relative to them."""
    device = torch.device("cpu")
    learner = make_learner(blueprint.settings, VICTIM, 5, blueprint.run_seed, device)
    terms = target.terms
    true = sum(x.coefficient * learner.gradient(x.theta, t + x.batch) for x in terms)
    return float((target.vector - true).norm() / true.norm())


@pytest.mark.parametrize("observation", ["neighbour", "difference", "two-hop"])
def test_rounds_before_the_change_are_attacked_with_what_was_sent_in_them(lossy, observation):
    run, change = lossy
    known = read_knowledge([log_path(run.folder, a) for a in ATTACKERS], run.blueprint.W)
    for t in range(change - 1) if observation != "neighbour" else [0]:
        target = OBSERVATIONS[observation](known, VICTIM, t)
        assert target.sigma == pytest.approx(0, abs=1e-6)
        assert error(run.blueprint, target, t) < 1e-6


def test_naive_takes_what_was_sent_before_the_change(lossy):
    run, change = lossy
    path = log_path(run.folder, 1)
    known = read_knowledge([path], run.blueprint.W)
    (sent,) = [
        entry.message.vectors["gamma"]
        for entry in read_log(path)
        if (entry.direction, entry.peer) == ("in", VICTIM)
        and getattr(entry.message, "vectors", None)
        and (entry.message.epoch, entry.message.round) == (0, change - 1)
    ]
    target = OBSERVATIONS["naive"](known, VICTIM, change - 1)
    assert torch.equal(target.vector, torch.tensor(sent))


@pytest.mark.parametrize("observation", ["naive", "difference", "two-hop"])
def test_what_would_need_the_other_graph_is_refused(lossy, observation):
    run, change = lossy
    for attackers in ((1,), ATTACKERS):
        known = read_knowledge([log_path(run.folder, a) for a in attackers], run.blueprint.W)
        first = change if observation == "naive" else change - 1
        for t in range(first, 9):
            with pytest.raises(WrongUse, match=f"the graph changed in round {change} "):
                OBSERVATIONS[observation](known, VICTIM, t)


def test_rounds_after_the_change_are_left_out_and_those_before_are_scored(lossy):
    run, change = lossy
    rounds = ",".join(map(str, range(change - 2, change + 2)))
    argv = ["attack", str(run.folder), "--attack", f"{TOGETHER}/difference/idlg", "--json"]
    ended = CliRunner().invoke(main, [*argv, "--rounds", rounds])
    assert ended.exit_code == 0, ended.stderr
    (result,) = json.loads(ended.stdout)
    assert result["round"] == change - 2
    # How near it comes is the inversion's luck: these batches are others in every run.
    assert result["score"]["psnr"] > 0
    assert ended.stderr.count(f"the graph changed in round {change} ") == 3
    alone = CliRunner().invoke(main, [*argv, "--rounds", str(change)])
    assert alone.exit_code == 2
    assert len(alone.stderr.splitlines()) == 1
    with pytest.raises(WrongUse, match=f"the graph changed in round {change} "):
        lppa.load(run.folder).attack("difference/labels", VICTIM, round=change)
    assert len(lppa.load(run.folder).attack("naive/labels", VICTIM)) == len(ATTACKERS)


def test_a_victim_that_came_back_is_not_compared_with_the_batches_of_later_rounds(lossy, tmp_path):
    run, _ = lossy
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    with (folder / "views.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "joined", "epoch": 1, "node": VICTIM}) + "\n")
    again = Run(run.blueprint, folder)
    (result,) = attacked(again, "naive/labels", "--attackers", "1")
    assert "score" not in result
