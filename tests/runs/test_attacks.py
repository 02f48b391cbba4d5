"""`lppa attack` on real runs: who attacks whom, what it needs, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid

import pytest
from attacking import LENET, attacked
from click.testing import CliRunner
from processes import MARK, Started, eventually, marked

from lppa.cli import main


def test_without_noise_a_neighbour_sees_the_first_image(local_run):
    run = local_run(attackers=(3,), rule="dsgt", **LENET)
    (result,) = attacked(run, "idlg")
    assert result["score"]["psnr"] > 25
    assert result["score"]["label_accuracy"] == 1
    assert result["picture"] == "naive-idlg-by-3-on-0-round-0.png"
    assert (run.folder / "attacks" / result["picture"]).stat().st_size > 1000


def test_the_attack_does_not_need_the_truth_and_finds_the_same_without_it(local_run):
    run = local_run(attackers=(3,), rule="dsgt", **LENET)
    (scored,) = attacked(run, "idlg", "--restarts", "1")
    shutil.rmtree(run.folder / "nodes" / "0")
    (blind,) = attacked(run, "idlg", "--restarts", "1")
    assert "score" in scored
    assert "score" not in blind
    assert blind["loss"] == scored["loss"]


def test_batches_are_revealed_only_when_the_run_is_told_to(local_run):
    run = local_run(rule="dsgt", **{**LENET, "reveal_batches": False})
    assert not list(run.folder.rglob("batches*"))


def test_attackers_work_alone_unless_they_collude_and_results_are_merged(local_run):
    run = local_run(attackers=(1, 3), rule="lppa", **LENET)
    attacks = "neighbour/labels,collude:1,3/neighbour/labels"
    results = attacked(run, attacks, "--victim", "all")
    assert [(r["attackers"], r["victim"]) for r in results] == [
        *(([1], 0), ([1], 2), ([1], 4)),
        *(([3], 0), ([3], 2), ([3], 4)),
        *(([1, 3], 0), ([1, 3], 2), ([1, 3], 4)),
    ]
    alone, together = results[0]["sigma"], results[-1]["sigma"]
    assert together == pytest.approx(alone * (4 / 6) ** 0.5)
    (naive,) = attacked(run, "naive/labels", "--victim", "2", "--attackers", "3")
    assert naive["sigma"] == pytest.approx(alone * (8 / 6) ** 0.5)  # it takes none of it out
    (again,) = attacked(run, "neighbour/labels", "--victim", "2", "--attackers", "3")
    kept = json.loads((run.folder / "attacks" / "summary.json").read_text())
    assert len(kept) == 10
    assert kept[4] == {k: v for k, v in again.items() if k != "run"}


def test_an_attacker_that_does_not_hear_the_victim_leaves_it_to_others(local_run):
    run = local_run(attackers=(1, 2), topology="ring", rule="dsgt", **LENET)
    (result,) = attacked(run, "labels")
    assert result["attackers"] == [1]
    one = CliRunner().invoke(main, ["attack", str(run.folder), "--attackers", "2"])
    assert one.exit_code == 2
    assert "node 2 does not hear node 0" in one.stderr


def test_what_cannot_be_attacked_is_left_out_when_something_else_can(local_run):
    run = local_run(attackers=(3,), rule="dsgt", **LENET)
    argv = ["attack", str(run.folder), "--attack", "naive/labels,naive/svd", "--json"]
    ended = CliRunner().invoke(main, argv)
    assert ended.exit_code == 0
    assert [r["attack"] for r in json.loads(ended.stdout)] == ["naive/labels"]
    assert "left out: naive/svd on node 0" in ended.stderr


def test_runs_that_differ_in_beta_give_curves_over_beta_and_rounds_give_curves_too(local_run):
    small = {**LENET, "model": "mlp"}
    runs = [local_run(attackers=(3,), rule="dp", **small | {"beta": b}) for b in (0.0, 0.05)]
    argv = ["attack", *(str(run.folder) for run in runs), "--attack", "naive/svd"]
    ended = CliRunner().invoke(main, [*argv, "--rounds", "0,1"])
    assert ended.exit_code == 0, ended.stderr
    assert all(f"│ run-{k} │" in ended.stdout for k in (1, 2))
    first, second = (run.folder / "attacks" for run in runs)
    for figure in ("psnr", "mse"):
        assert (first / f"{figure}-over-beta.png").stat().st_size > 1000
        assert (second / f"{figure}-over-rounds.png").stat().st_size > 1000
    assert not (second / "psnr-over-beta.png").exists()


def test_a_node_by_hand_records_and_attacks_after_the_run(tmp_path):
    out = tmp_path / "run"
    problem = ["--model", "lenet", "--batch", 1, "--local-steps", 1, "--rounds", 2]
    with Started(tmp_path) as started:
        peers = started.peers(3)
        refused = started.node(2, peers, "--attack", "collude:1,2/dlg").end()
        assert refused.code == 2 and "lppa attack RUN" in refused.errors[0]
        refused = started.node(2, peers, "--attack", "dlg", "--victim", "0,2").end()
        assert refused.code == 2 and "attacker and victim" in refused.errors[0]
        coordinator = started.coordinator(peers, out, *problem)
        spy = ["--attack", "labels,neighbour/labels", "--victim", "all"]
        nodes = [started.node(i, peers, "--out", out, *(spy if i == 2 else [])) for i in range(3)]
        ended = [command.end() for command in (*nodes, coordinator)]
    assert [command.code for command in ended] == [0] * 4, ended
    kept = json.loads((out / "attacks" / "summary.json").read_text())
    assert sorted((r["attack"], r["attackers"], r["victim"]) for r in kept) == [
        (f"{name}/labels", [2], victim) for name in ("naive", "neighbour") for victim in (0, 1)
    ]


def test_an_attack_does_not_outlive_the_command_that_started_it(local_run):
    run = local_run(attackers=(3,), rule="lppa", **LENET)
    # Many minutes of work after the first, so that its end cannot be a natural one.
    options = ["--attack", "labels,dlg", "--victim", "all", "--restarts", "64", "--float64"]
    call = f"call_lppa('attack', {str(run.folder)!r}, *{options!r})"
    mark = uuid.uuid4().hex
    parent = subprocess.Popen(
        [sys.executable, "-c", f"from lppa.shell import call_lppa; {call}"],
        env={**os.environ, MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually((run.folder / "attacks" / "summary.json").exists, what="the first result")
        parent.kill()
        parent.wait()
        eventually(lambda: not marked(mark), what="the attack ends too")
    finally:
        for pid in marked(mark):
            os.kill(pid, 9)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--victim", "9"], "there is no node 9 in a run of 5: ids are 0 to 4"),
        (["--victim", "3"], "is an attacker itself"),
        (["--attack", "telepathy/dlg"], "unknown observation"),
        (["--attack", "naive/magic"], "unknown inversion"),
        (["--attackers", "2"], "node 2 recorded nothing"),
        (["--victim", "0,3"], "is an attacker itself"),
        (["--victim", "some"], "--victim must be comma-separated ids, or all"),
        (["--attack", "collude:2,3/naive/dlg"], "node 2 recorded nothing"),
        (["--attack", "collude:3"], "does not say what to do"),
        (["--attack", "collude:x/dlg"], "whole numbers"),
        (["--attackers", "x"], "whole numbers"),
        (["--rounds", "99"], "heard nothing from node 0 in round 99"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(local_run, options, reason):
    run = local_run(attackers=(3,), rule="dsgt", **LENET)
    result = CliRunner().invoke(main, ["attack", str(run.folder), *options])
    assert result.exit_code == 2
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
