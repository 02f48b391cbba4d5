"""What attacks show of the rules, in runs of real processes: where data leaks and where not.

The same claims as `scripts/attack_figures.py`, on fewer victims.
"""

from __future__ import annotations

import os

import pytest
from attacking import LENET, PAPER, attacked

from lppa.attack.tables import SUCCESS

MANY = {**PAPER, "batch": 256, "partition": "dirichlet:0.5"}


def decibels(results):
    return [result["score"]["psnr"] for result in results]


def successes(results):
    return sum(psnr > SUCCESS for psnr in decibels(results))


def mean(values):
    return sum(values) / len(values)


@pytest.mark.slow
def test_without_noise_dlg_reconstructs_the_first_images(local_run):
    run = local_run(nodes=4, attackers=(3,), rule="dsgt", **LENET)
    assert successes(attacked(run, "naive/dlg", "--victim", "all")) >= 2


@pytest.mark.slow
def test_without_noise_cosine_reconstructs_images_from_a_network_with_kinks(local_run):
    run = local_run(nodes=3, attackers=(2,), rule="dsgt", **PAPER, model="cnn")
    assert successes(attacked(run, "naive/cosine", "--victim", "all", "--restarts", "2")) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("batches", ["same", "next"])
def test_noise_at_the_start_stops_the_paper_s_attacker_and_not_one_that_subtracts(
    local_run, batches
):
    run = local_run(attackers=(3,), rule="lppa", batches=batches, **LENET)
    (naive,) = attacked(run, "naive/dlg", "--restarts", "1")
    assert naive["score"]["psnr"] < naive["baselines"]["mean"]["psnr"]
    assert successes(attacked(run, "difference/dlg")) == 1


@pytest.mark.slow
def test_noise_in_every_round_stops_that_one_too(local_run):
    settings = {**LENET, "noise_every": 1, "batches": "same"}
    run = local_run(attackers=(3,), rule="lppa", **settings)
    (result,) = attacked(run, "difference/dlg", "--restarts", "1")
    assert result["sigma"] > 0
    assert result["score"]["psnr"] < result["baselines"]["mean"]["psnr"]


@pytest.mark.slow
def test_on_a_directed_ring_lppa_hides_no_more_than_dp_from_a_neighbour(local_run):
    ring = {**LENET, "topology": "directed-ring"}
    found = {}
    for rule in ("lppa", "dp"):
        run = local_run(nodes=12, attackers=(1, 3, 5, 7, 9, 11), rule=rule, **ring)
        found[rule] = attacked(run, "neighbour/likelihood", "--victim", "all", "--restarts", "1")
    assert {r["sigma"] for r in found["lppa"]} == {r["sigma"] for r in found["dp"]}
    means = {rule: mean(decibels(results)) for rule, results in found.items()}
    # Six images only; the sizes that the issue speaks of are within 1 dB.
    assert abs(means["lppa"] - means["dp"]) < 2
    guess = mean([r["baselines"]["mean"]["psnr"] for r in found["lppa"]])
    assert min(means.values()) > guess + 2


def test_label_counts_of_large_batches_leak_under_every_rule(local_run):
    for rule, attack in (
        ("dsgt", "naive/labels"),
        ("lppa", "naive/labels"),
        ("lppa", "neighbour/labels"),
        ("lppa", "difference/labels"),
    ):
        run = local_run(attackers=(3,), rule=rule, **MANY)
        results = attacked(run, attack, "--victim", "all")
        errors = [r["histogram_error"] for r in results]
        assert mean(errors) < mean([r["histogram_error_uniform"] for r in results]) / 2


def test_a_linear_first_layer_gives_rows_away_without_a_search(local_run):
    run = local_run(attackers=(3,), rule="dsgt", **PAPER, model="mlp")
    assert all(r["score"]["cosine"] > 0.9 for r in attacked(run, "svd", "--victim", "all"))


real = pytest.mark.skipif("LPPA_DATA" not in os.environ, reason="LPPA_DATA is not set")


@pytest.mark.data
@pytest.mark.slow
@real
def test_rows_of_adult_leak_without_noise_and_from_differences_under_lppa(local_run):
    run = local_run(attackers=(3,), rule="dsgt", dataset="adult", **PAPER)
    assert mean([r["score"]["cosine"] for r in attacked(run, "svd", "--victim", "all")]) > 0.9
    run = local_run(attackers=(3,), rule="lppa", dataset="adult", **PAPER)
    naive = attacked(run, "naive/svd", "--victim", "all")
    difference = attacked(run, "difference/svd", "--victim", "all")
    assert mean([r["score"]["cosine"] for r in naive]) < 0.5
    assert mean([r["score"]["cosine"] for r in difference]) > 0.9


@pytest.mark.data
@pytest.mark.slow
@real
def test_images_of_mnist_leak_as_those_of_digits_do(local_run):
    run = local_run(attackers=(3,), rule="dsgt", dataset="mnist", **LENET)
    assert successes(attacked(run, "naive/dlg")) == 1
    run = local_run(attackers=(3,), rule="lppa", dataset="mnist", batches="same", **LENET)
    (knowing,) = attacked(run, "neighbour/likelihood", "--restarts", "1")
    assert knowing["score"]["psnr"] > knowing["baselines"]["mean"]["psnr"] + 2
    assert successes(attacked(run, "difference/dlg")) == 1
