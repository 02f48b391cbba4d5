"""A curious neighbour in a real run: what it reconstructs, and what it does not."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from lppa.coordinator.cli import main

VICTIM = {
    "model": "lenet",
    "batch": 1,
    "local_steps": 1,
    "rounds": 3,
    "normalize": False,
    "init": "independent",
    "mixing": "combine-then-adapt",
    "weights": "random",
    "reveal_batches": True,
    "seed": 1,
}


def attacked(folder, attacks, *options):
    argv = ["attack", str(folder), "--attack", attacks, "--json", "-q", *options]
    result = CliRunner().invoke(main, argv)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_without_noise_a_neighbour_sees_the_first_image(local_run):
    run = local_run(attackers=(3,), rule="dsgt", **VICTIM)
    (result,) = attacked(run.folder, "idlg")
    assert result["score"]["psnr"] > 25
    assert result["score"]["label_accuracy"] == 1
    assert result["picture"] == "naive-idlg-by-3-on-0-round-0.png"
    assert (run.folder / "attacks" / result["picture"]).stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.parametrize("batches", ["same", "next"])
def test_noise_at_the_start_stops_the_paper_s_attacker_and_not_one_that_subtracts(
    local_run, batches
):
    run = local_run(attackers=(3,), rule="lppa", batches=batches, **VICTIM)
    naive, difference = attacked(run.folder, "naive/idlg,difference/dlg")
    assert naive["score"]["psnr"] < naive["baselines"]["mean"]["psnr"]
    assert difference["score"]["psnr"] > 25


@pytest.mark.slow
def test_noise_in_every_round_stops_that_one_too(local_run):
    run = local_run(attackers=(3,), rule="lppa", noise_every=1, **VICTIM)
    (result,) = attacked(run.folder, "difference/idlg", "--attack-seconds", "20")
    assert result["sigma"] > 0
    assert result["score"]["psnr"] < result["baselines"]["mean"]["psnr"]


def test_the_attack_does_not_need_the_truth_and_finds_the_same_without_it(local_run):
    run = local_run(attackers=(3,), rule="dsgt", **VICTIM)
    (scored,) = attacked(run.folder, "idlg", "--restarts", "1")
    shutil.rmtree(run.folder / "nodes" / "0")
    (blind,) = attacked(run.folder, "idlg", "--restarts", "1")
    assert "score" in scored
    assert "score" not in blind
    assert blind["loss"] == scored["loss"]


def test_batches_are_revealed_only_when_the_run_is_told_to(local_run):
    run = local_run(rule="dsgt", **{**VICTIM, "reveal_batches": False})
    assert not list(run.folder.rglob("batches*"))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--victim", "9"], "this run has nodes 0 to 4"),
        (["--victim", "3"], "is an attacker itself"),
        (["--attack", "telepathy/dlg"], "unknown observation"),
        (["--attack", "naive/magic"], "unknown inversion"),
        (["--attackers", "2"], "node 2 recorded nothing"),
        (["--victim", "0,3"], "is an attacker itself"),
        (["--victim", "some"], "--victim must be ids by commas, or all"),
        (["--attack", "collude:2,3/naive/dlg"], "node 2 recorded nothing"),
        (["--attack", "collude:3"], "does not say what to do"),
        (["--attack", "collude:x/dlg"], "whole numbers"),
        (["--attackers", "x"], "whole numbers"),
        (["--rounds", "99"], "heard nothing from node 0 in round 99"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(local_run, options, reason):
    run = local_run(attackers=(3,), rule="dsgt", **VICTIM)
    result = CliRunner().invoke(main, ["attack", str(run.folder), *options])
    assert result.exit_code == 2
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
