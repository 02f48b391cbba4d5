"""Verdicts on what the paper says: none stronger than its runs, and the page that shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from lppa.cli import main
from lppa.reproduce.cells import Store
from lppa.reproduce.claims import FAILS, HOLDS, HOLDS_IF, OPEN, Verdict, verdicts
from lppa.reproduce.experiments import (
    DIFFERENCE,
    DP,
    DP_EVERY_ROUND,
    DSGT,
    LPPA,
    LPPA_EVERY_ROUND,
    NAIVE,
    Plan,
    rows_of,
)
from lppa.reproduce.page import claims_page, page, summary_rows
from lppa.reproduce.results import Attacked, CellResult
from lppa.reproduce.sizes import FULL

PLAN = Plan(FULL, "updates-600", None, ("mnist", "adult"))
LOSSLESS, ROOT, LOSES, ENDS, DEFEATED, TENFOLD, EPOCHS, CLIENTS, SKEW, EVERY = range(10)


def trained(best, diverged=False):
    rows, curve = (60_000, 10_000), ((25, best),)
    status = "diverged" if diverged else "completed"
    return CellResult(status, best=best, final=best, curve=curve, rows=rows)


def table1(variant, *bests, plan=PLAN, diverged=False):
    return {
        plan.training(dataset, variant, seed).key: trained(best, diverged)
        for dataset in plan.datasets
        for seed, best in enumerate(bests, 1)
    }


def attacked(variant, distance, near=(), plan=PLAN, seeds=(1, 2, 3), **more):
    """Attacks as far away as this; those of `near` come nearer than the mean row."""
    results = {}
    for dataset in plan.datasets:
        for seed in seeds:
            cell = plan.attacked(dataset, variant, seed, **more)
            found = []
            for name in cell.attack.names:
                error = 0.001 if name.split("/")[0] in near else 0.4
                scores = {"distance": distance, "mse_clamped": error}
                guesses = {"mean": {"mse_clamped": 0.06}}
                found += [Attacked(name, v, 0, scores, guesses) for v in cell.attack.victims]
            results[cell.key] = CellResult("completed", attacks=tuple(found))
    return results


def verdict(number, results, plan=PLAN):
    return verdicts(plan, results)[number].verdict


def test_with_nothing_run_nothing_is_shown():
    assert {one.verdict for one in verdicts(PLAN, {})} == {OPEN}


def test_two_seeds_and_eight_attacks_show_nothing():
    results = table1(DSGT, 0.90, 0.92) | table1(LPPA, 0.90, 0.92) | table1(DP, 0.5, 0.5)
    results |= table1(DP_EVERY_ROUND, 0.5, 0.5)
    assert {one.verdict for one in verdicts(PLAN, results)} == {OPEN}
    alone = Plan(FULL, "updates-600", None, ("mnist",))
    few = attacked(LPPA, 50.0, plan=alone, seeds=(1, 2)) | attacked(
        DSGT, 0.1, plan=alone, seeds=(1, 2)
    )
    assert verdict(DEFEATED, few, alone) == verdict(TENFOLD, few, alone) == OPEN


@pytest.mark.parametrize(
    ("mnist", "adult", "expected"),
    [(0.925, 0.925, HOLDS), (0.925, 0.80, HOLDS_IF), (0.80, 0.80, FAILS)],
)
def test_lossless_is_within_one_deviation_on_each_data_set(mnist, adult, expected):
    results = table1(DSGT, 0.90, 0.92, 0.94)
    for dataset, best in (("mnist", mnist), ("adult", adult)):
        for seed in (1, 2, 3):
            results[PLAN.training(dataset, LPPA, seed).key] = trained(best)
    assert verdict(LOSSLESS, results) == expected


@pytest.mark.parametrize(
    ("start", "every", "expected"),
    # The paper's DP loses 1.30 and 8.72 points on these: 5.01.
    [(0.87, 0.80, HOLDS), (0.92, 0.86, HOLDS_IF), (0.92, 0.80, FAILS)],
)
def test_the_loss_of_dp_is_compared_with_the_paper_s_on_the_same_data(start, every, expected):
    results = table1(DSGT, *[0.92] * 3) | table1(DP, *[start] * 3)
    results |= table1(DP_EVERY_ROUND, *[every] * 3)
    found = verdicts(PLAN, results)[LOSES]
    assert found.verdict == expected
    assert "+5.01 on the same 2 data sets" in found.seen


@pytest.mark.parametrize(
    ("start", "every", "expected"),
    [(True, True, HOLDS), (False, True, HOLDS_IF), (False, False, FAILS)],
)
def test_dp_ends_in_nan_if_all_its_runs_do(start, every, expected):
    results = table1(DP, *[0.9] * 3, diverged=start)
    results |= table1(DP_EVERY_ROUND, *[0.8] * 3, diverged=every)
    assert verdict(ENDS, results) == expected


@pytest.mark.parametrize(
    ("near", "expected"), [((), HOLDS), ((DIFFERENCE,), HOLDS_IF), ((NAIVE,), FAILS)]
)
def test_dlg_is_defeated_if_no_attacker_comes_nearer_than_the_mean_row(near, expected):
    results = attacked(LPPA, 50.0, near)
    assert verdict(DEFEATED, results) == expected


def test_a_verdict_on_a_part_of_the_runs_says_that_it_is_one_so_far():
    one = Verdict("claim", HOLDS, "seen", "table1", "criterion", whole=False)
    assert (one.said, replace(one, whole=True).said) == ("holds, so far", "holds")
    assert replace(one, verdict=OPEN).said == OPEN
    assert not any(found.whole for found in verdicts(PLAN, {}))


@pytest.mark.parametrize(("plain", "expected"), [(0.1, HOLDS), (20.0, FAILS)])
def test_tenfold_is_a_ratio_of_distances(plain, expected):
    results = attacked(LPPA, 50.0) | attacked(DSGT, plain)
    assert verdict(TENFOLD, results) == expected


@pytest.mark.parametrize(("lppa", "expected"), [(14.1, HOLDS), (28.0, FAILS)])
def test_the_root_of_two_must_be_there_for_every_scale_of_the_noise(lppa, expected):
    results = {}
    for beta in FULL.betas:
        results |= attacked(DP, 10.0, beta=beta) | attacked(LPPA, lppa, beta=beta)
    assert verdict(ROOT, results) == expected
    last = attacked(LPPA, 50.0, beta=FULL.betas[-1])
    assert verdict(ROOT, results | last) == FAILS


def over(values, cell, rising):
    """Accuracies that rise or fall with a setting, for all rules."""
    results = {}
    for place, value in enumerate(values):
        for variant in (DSGT, DP, LPPA):
            for seed in (1, 2, 3):
                best = 0.8 + (0.01 if rising else -0.01) * place + 0.001 * seed
                results[cell(variant, seed, value).key] = trained(best)
    return results


@pytest.mark.parametrize(("rising", "expected"), [(False, HOLDS), (True, FAILS)])
def test_more_is_worse_if_the_most_are_below_the_fewest(rising, expected):
    epochs = over(FULL.local_steps, PLAN.local, rising)
    assert verdict(EPOCHS, epochs) == expected

    def cell(variant, seed, nodes):
        return PLAN.training("mnist", variant, seed, nodes=nodes)

    assert verdict(CLIENTS, over(FULL.clients, cell, rising)) == expected


def test_robust_under_skew_is_level_with_dsgt_in_every_row():
    results = {}
    for name in ("table3", "table4"):
        for dataset, split in rows_of(name, PLAN.datasets):
            for seed, best in enumerate((0.90, 0.92, 0.94), 1):
                for variant in (DSGT, LPPA):
                    cell = PLAN.training(dataset, variant, seed, split)
                    results[cell.key] = trained(best)
    assert verdict(SKEW, results) == HOLDS
    worse = {PLAN.training("mnist", LPPA, s, "classes:2").key: trained(0.5) for s in (1, 2, 3)}
    found = verdicts(PLAN, results | worse)[SKEW]
    assert found.verdict == HOLDS_IF
    assert "5 of 6 rows" in found.seen
    assert "mnist classes:2" in found.seen


@pytest.mark.parametrize(("near", "expected"), [((), HOLDS), ((DIFFERENCE,), FAILS)])
def test_noise_in_every_round_must_cost_nothing_and_stop_who_subtracts(near, expected):
    accuracies = table1(DSGT, 0.90, 0.92, 0.94) | table1(LPPA_EVERY_ROUND, 0.90, 0.92, 0.94)
    results = accuracies | attacked(LPPA_EVERY_ROUND, 50.0, near)
    assert verdict(EVERY, results) == expected


def test_the_page_opens_with_ours_beside_the_paper_s_and_the_same_conclusion():
    results = table1(DSGT, 0.90, 0.92, 0.94) | table1(LPPA, 0.90, 0.92, 0.94)
    results |= table1(DP, 0.91, 0.92, 0.93)
    rows = {(row[0], row[1]): row[2:] for row in summary_rows(PLAN, results)}
    mnist = "mnist"
    assert rows[mnist, "DSGT"] == ["92.17 ± 0.56", "92.00 ± 2.00", "-0.17", "3", "yes"]
    assert rows[mnist, "LPPA"][-1] == "yes"
    assert rows[mnist, "DP, at the start"][-1] == "**no**"
    assert rows[mnist, "DP, every round"][1:] == ["–", "–", "0", "–"]
    text = page(PLAN, results)
    assert text.index("same conclusion") < text.index("overview.png") < text.index("## Ten claims")
    assert text.count("*not shown yet*") == 9
    assert "[table1](table1.md)" in text
    assert "table3 (not run yet)" in text
    assert claims_page(PLAN, results).count("- Holds where") == 10


def test_all_files_come_out_the_same_byte_for_byte(tmp_path):
    with Store(tmp_path / "cells.jsonl") as store:
        for seed in (1, 2, 3):
            for variant in (DSGT, LPPA):
                store.add(PLAN.training("mnist", variant, seed), trained(0.9 + seed / 100))
    argv = ["reproduce", "all", "--show", "--out", str(tmp_path), "--datasets", "mnist,adult"]
    written = []
    for _ in range(2):
        result = CliRunner().invoke(main, argv)
        assert result.exit_code == 0, result.output
        written.append({file.name: file.read_bytes() for file in tmp_path.iterdir()})
        for file in tmp_path.iterdir():
            if file.name != "cells.jsonl":
                file.unlink()
    assert written[0] == written[1]
    there = {"README.md", "claims.md", "overview.png", "overview.svg", "table1.md", "readings.csv"}
    assert there <= set(written[0])
    assert "table3.md" not in written[0]


def test_a_plan_says_what_there_is_to_run_and_runs_nothing(tmp_path):
    argv = ["reproduce", "table1", "table3", "--plan", "--out", str(tmp_path / "out")]
    said = CliRunner().invoke(main, [*argv, "--datasets", "mnist"]).stdout.splitlines()
    assert said[0].startswith("table1: 25 cells to run, very roughly ")
    assert said[1].startswith("table3: 12 cells to run, very roughly ")
    assert said[2].startswith("all: very roughly ")
    assert not (tmp_path / "out").exists()
