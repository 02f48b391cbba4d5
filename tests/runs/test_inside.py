"""A run whose clients are threads of one process: what comes out is what nodes would give."""

from __future__ import annotations

import json
import threading

import pytest
import torch

from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import make_settings
from lppa.reproduce.work import training_result
from lppa.running.display import Silent
from lppa.running.inside import run_inside
from lppa.running.prepare import make_blueprint
from lppa.running.rundir import ABOUT


def inside(folder, nodes=5, **settings):
    blueprint = make_blueprint(make_settings({"timeout": 300, **settings}), nodes, folder.name)
    return run_inside(blueprint, folder, Silent())


def final(folder, node):
    return torch.load(folder / "nodes" / str(node) / "state.pt", weights_only=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"rule": "dsgt", "dataset": "quadratic", "rounds": 6},
        {"rule": "dp", "rounds": 4, "local_steps": 2, "noise_every": 0, "noise_exchange": "tensor"},
        {"rule": "lppa", "rounds": 4, "local_steps": 3, "partition": "dirichlet:0.5"},
    ],
)
def test_threads_give_the_same_bits_and_figures_as_nodes(local_run, tmp_path, settings):
    settings = {"seed": 3, "eval_every": 2, "topology": "ring", **settings}
    network = local_run(**settings)
    summary = inside(tmp_path / "inside", **settings)
    for node in range(5):
        one, other = final(tmp_path / "inside", node), final(network.folder, node)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert training_result(summary, None) == training_result(network.summary, None)
    assert summary.history == network.summary.history
    assert (summary.warnings, summary.grade) == (network.summary.warnings, network.summary.grade)


def test_the_directory_is_like_that_of_any_other_run(local_run, tmp_path):
    settings = {"dataset": "quadratic", "rounds": 4, "seed": 1, "eval_every": 2}
    network = local_run(**settings)
    inside(tmp_path / "inside", **settings)
    here, there = (
        {file.name for file in folder.iterdir()} for folder in (tmp_path / "inside", network.folder)
    )
    assert here == there - {"views.jsonl"}  # of a graph that cannot change
    told, expected = (
        json.loads((folder / "config.json").read_text())
        for folder in (tmp_path / "inside", network.folder)
    )
    without = {ABOUT, "checkpoint_every"}
    assert {k: v for k, v in told.items() if k not in without} == {
        k: v for k, v in expected.items() if k not in without
    }
    for name in ("topology.json", "audit.json", "history.jsonl"):
        assert (tmp_path / "inside" / name).read_bytes() == (network.folder / name).read_bytes()


def test_a_run_that_diverges_ends_for_all_and_says_where(local_run, tmp_path):
    settings = {"dataset": "quadratic", "rounds": 500, "lr": 1e6, "rule": "dsgt", "seed": 1}
    settings |= {"local_steps": 1, "eval_every": 2}
    before = threading.active_count()
    summary = inside(tmp_path / "inside", **settings)
    assert threading.active_count() == before
    assert summary.status == "failed"
    network = local_run(**settings)
    one, other = (training_result(of, None) for of in (summary, network.summary))
    assert one.diverged
    assert one.diverged_in == other.diverged_in > 1
    assert one.curve == other.curve


def test_what_cannot_be_run_is_told_before_a_directory_is_made(tmp_path):
    with pytest.raises(WrongUse, match="classes"):
        inside(tmp_path / "inside", dataset="digits", partition="classes:11", rounds=2)
    assert not (tmp_path / "inside").exists()
