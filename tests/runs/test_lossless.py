"""What LPPA promises: noise that is there for each and gone for all."""

from __future__ import annotations

import pytest
import torch
from test_exact import run_in_threads

QUADRATIC = {
    "dataset": "quadratic-shared",
    "lr": 0.05,
    "local_steps": 1,
    "noise_every": 0,
    "noise_exchange": "tensor",
    "seed": 1,
    "dtype": "float64",
}


def mean_end(tmp_path, **settings):
    ended = run_in_threads({**QUADRATIC, **settings}, tmp_path / str(len(list(tmp_path.iterdir()))))
    return torch.stack([final["theta"] for final in ended]).mean(0)


@pytest.mark.parametrize("beta", [0.025, 1.0, 50.0])
@pytest.mark.parametrize("mixing", ["combine-then-adapt", "adapt-then-combine"])
def test_the_mean_trajectory_is_that_of_dsgt_whatever_beta(tmp_path, beta, mixing):
    for rounds in range(1, 30, 4):
        common = {"rounds": rounds, "mixing": mixing, "eval_every": rounds}
        dsgt = mean_end(tmp_path, rule="dsgt", **common)
        lppa = mean_end(tmp_path, rule="lppa", beta=beta, **common)
        assert (lppa - dsgt).norm() < 1e-6 * dsgt.norm(), rounds


def test_so_it_is_with_noise_in_every_round_and_many_local_steps(tmp_path):
    for rounds in (1, 6, 25):
        common = {"rounds": rounds, "local_steps": 10, "noise_every": 1, "topology": "ring"}
        dsgt = mean_end(tmp_path, rule="dsgt", **common)
        lppa = mean_end(tmp_path, rule="lppa", beta=1.0, noise_exchange="seed", **common)
        assert (lppa - dsgt).norm() < 1e-6 * dsgt.norm(), rounds


def test_dp_does_not_keep_the_mean(tmp_path):
    dsgt = mean_end(tmp_path, rule="dsgt", rounds=20)
    dp = mean_end(tmp_path, rule="dp", beta=1.0, rounds=20)
    assert (dp - dsgt).norm() > 1e-2 * dsgt.norm()


@pytest.mark.parametrize("beta", [0.025, 0.5])
def test_five_processes_keep_the_mean_of_dsgt_too(local_run, beta):
    settings = {**QUADRATIC, "rounds": 40}
    dsgt = local_run(rule="dsgt", **settings).final("theta").mean(0)
    lppa = local_run(rule="lppa", beta=beta, **settings).final("theta").mean(0)
    assert (lppa - dsgt).norm() < 1e-6 * dsgt.norm()


@pytest.mark.parametrize(("every", "exchange"), [(0, "tensor"), (1, "seed")])
def test_conservation_holds_to_rounding_under_lppa_and_not_under_dp(local_run, every, exchange):
    settings = {"rounds": 20, "local_steps": 2, "eval_every": 2, "seed": 1, "batch": 32}
    settings |= {"beta": 0.025, "noise_every": every, "noise_exchange": exchange}
    lppa, dp = local_run(rule="lppa", **settings), local_run(rule="dp", **settings)
    assert len(lppa.summary["history"]) == 10
    assert max(row["conservation"] for row in lppa.summary["history"]) < 1e-5
    assert min(row["conservation"] for row in dp.summary["history"]) > 1e-2


def test_all_clients_of_a_quadratic_reach_its_known_optimum(local_run):
    run = local_run(
        dataset="quadratic",
        rounds=400,
        lr=0.2,
        dtype="float64",
        seed=2,
        local_steps=1,
        eval_every=400,
        beta=0.5,
        noise_every=0,
    )
    assert run.summary["loss"] < 1e-12
    assert run.summary["consensus"] < 1e-6
