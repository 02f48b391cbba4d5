"""Tables and figures from finished cells: means, deviations, paired losses, and what is missing."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import statistics

import pytest
from click.testing import CliRunner

from lppa.cli import main
from lppa.reproduce.accuracy import accuracy_table, readings_table
from lppa.reproduce.cells import Store
from lppa.reproduce.costs import cost, in_time
from lppa.reproduce.drawing import draw, plainly_named
from lppa.reproduce.experiments import (
    ATTACKERS,
    DP,
    DSGT,
    EXPERIMENTS,
    LPPA,
    POOLED,
    PRIOR,
    Plan,
    all_cells,
)
from lppa.reproduce.figures import MAKERS, noise_figure, plain_points, training_figure
from lppa.reproduce.privacy import privacy_table
from lppa.reproduce.progress import choose_progress
from lppa.reproduce.readings import READINGS
from lppa.reproduce.results import Attacked, CellResult
from lppa.reproduce.sizes import FULL, QUICK
from lppa.reproduce.summaries import accuracy, attack_figures, loss, spread
from lppa.reproduce.table import markdown, plain_rows, text_cells, to_csv

PLAN = Plan(QUICK, "pass-stable", 3, ("mnist", "digits"))
SEEDS = (1, 2, 3)


def trained(best, final=None, status="completed", **more):
    final = best if final is None else final
    known = {
        "diverged_in": 5 if status == "diverged" else None,
        "best": best,
        "final": final,
        "curve": ((2, final), (4, best)) if best is not None else (),
        "rows": (1500, 500),
        "seconds": 1.0,
    }
    return CellResult(status, **{**known, **more})


def attacks(cell, raw, at=0):
    guess = {"distance": 7.0, "mse_raw": 0.2, "mse_clamped": 0.1, "psnr": 10.0}
    guesses = dict.fromkeys(("mean", "start", "zeros"), guess)
    figures = {"distance": 10 * raw, "mse_raw": raw, "mse_clamped": min(raw, 0.4), "psnr": 5.0}
    found = [
        Attacked(name, victim, at, figures, guesses)
        for name in cell.attack.names
        for victim in cell.attack.victims
    ]
    return trained(0.1, attacks=tuple(found))


def iid(values, variant):
    return {PLAN.training("mnist", variant, s).key: trained(v) for s, v in enumerate(values, 1)}


def row_of(table, dataset, whose="ours"):
    return next(r for r in table.rows if r["data set"] == dataset and r["whose"] == whose)


def test_a_value_is_the_mean_and_the_deviation_of_a_sample():
    found = spread([1.0, 2.0, 4.0])
    assert found.mean == pytest.approx(7 / 3)
    assert found.deviation == pytest.approx(statistics.stdev([1, 2, 4]))
    assert found.population == pytest.approx(statistics.pstdev([1, 2, 4]))
    assert (found.count, found.median) == (3, 2.0)
    assert spread([1.0]).deviation is spread([1.0]).population is None
    assert spread([]) is None


def test_a_search_that_ran_away_to_infinity_stops_no_table():
    assert spread([1.0, math.inf]).deviation is None
    assert spread([1.0, 2.0, math.inf]).median == 2.0


def test_the_loss_compares_pairs_of_the_same_seed():
    results = iid([0.9, 0.8, 0.7], DSGT) | iid([0.8, 0.8], DP)
    pairs = [(PLAN.training("mnist", DSGT, s), PLAN.training("mnist", DP, s)) for s in SEEDS]
    found = loss(results, pairs)
    # Seed 3 has no partner, so it takes no part: the difference of means would be another figure.
    assert found.mean == pytest.approx(5.0)
    assert found.count == 2


def test_a_run_that_diverged_counts_with_what_it_reached():
    cells = [PLAN.training("mnist", DP, s) for s in SEEDS]
    results = {
        cells[0].key: trained(0.9),
        cells[1].key: trained(0.5, 0.1, "diverged"),
        cells[2].key: trained(None, status="diverged"),
    }
    found = accuracy(results, cells)
    assert found.best.mean == pytest.approx(70.0)
    assert found.final.mean == pytest.approx(50.0)
    assert (found.diverged, found.untested) == (2, 1)
    table = accuracy_table(PLAN, results, "table1")
    (note,) = [note for note in table.notes if "diverged" in note]
    assert "mnist, iid, DP, at the start: 2 diverged" in note
    assert "1 that never came to a test" in note


def test_the_table_shows_ours_beside_the_paper_s_with_a_column_for_each_rule():
    results = iid([0.90, 0.92, 0.94], DSGT) | iid([0.80, 0.82, 0.81], DP)
    table = accuracy_table(PLAN, results, "table1")
    name = "mnist (sample)"
    ours, theirs = row_of(table, name), row_of(table, name, "paper")
    assert ours["DP, at the start"].mean == pytest.approx(81.0)
    assert theirs["DP, at the start"].mean == 90.87
    assert ours["loss: DP, at the start"].mean == pytest.approx(11.0)
    assert theirs["loss: DP, at the start"] == pytest.approx(92.17 - 90.87)
    assert row_of(table, "all")["loss: DP, at the start"].mean == pytest.approx(11.0)
    assert row_of(table, "all", "paper")["loss: DP, at the start"] == pytest.approx(1.30)
    assert ours["seeds"] == "0 to 3"
    text = markdown(table)
    line = f"| {name} | iid | ours | 92.00 ± 2.00 | 81.00 ± 1.00 | – | – | – | +11.00 ± 1.73 |"
    assert line in text
    assert f"| {name} | iid | paper | 92.17 ± 0.56 | 90.87 ± 0.80 | – | 92.31 ± 0.72 | – |" in text
    # 2 data sets, 5 rules, 3 seeds; 6 are there.
    assert table.missing == 24
    assert "24 cells are missing" in text


def test_the_deviation_is_that_of_a_sample_or_of_the_population_as_asked_for():
    plan = dataclasses.replace(PLAN, deviation="population")
    table = accuracy_table(plan, iid([0.90, 0.92, 0.94], DSGT), "table1")
    assert "| ours | 92.00 ± 1.63 |" in markdown(table)
    assert plain_rows(table)[0]["highest ±"] == pytest.approx(statistics.pstdev([90, 92, 94]))
    assert plain_rows(table)[0]["paper ±"] == 0.556


def test_the_paper_has_no_value_for_digits_nor_for_noise_in_every_round():
    table = accuracy_table(PLAN, {}, "table1")
    assert row_of(table, "digits", "paper")["DSGT"] is None
    assert row_of(table, "mnist", "paper")["DP, every round"] is None
    assert row_of(table, "mnist", "paper")["DP, at the start"].mean == 90.87


def test_a_csv_has_a_column_for_each_deviation():
    table = accuracy_table(PLAN, iid([0.90, 0.92, 0.94], DSGT), "table1")
    rows = list(csv.DictReader(io.StringIO(to_csv(plain_rows(table)))))
    assert float(rows[0]["highest"]) == pytest.approx(92.0)
    assert float(rows[0]["highest ±"]) == pytest.approx(2.0)
    assert float(rows[0]["paper ±"]) == 0.556
    assert float(rows[0]["difference"]) == pytest.approx(92.0 - 92.17)
    assert len(rows) == 2 * 5


def test_readings_are_compared_by_how_far_they_are_from_the_paper():
    plan = Plan(FULL, "updates-600", None, ("mnist",))
    results = {}
    for reading, best in (("updates-600", 0.92), ("pass", 0.82)):
        own = dataclasses.replace(plan, reading=reading)
        for variant in (DSGT, DP, LPPA):
            for seed in SEEDS:
                results[own.training("mnist", variant, seed).key] = trained(best)
    table = readings_table(plan, results)
    rows = {row["reading"]: row for row in table.rows}
    assert rows["paper"]["mnist"] == "92.17 / 90.87 / 92.31"
    assert rows["pass"]["mnist"] == "82.00 / 82.00 / 82.00"
    assert rows["updates-600"]["apart"] == pytest.approx((0.17 + 1.13 + 0.31) / 3)
    assert rows["letter"]["apart"] is None
    assert set(rows) == {"paper", *READINGS}


def test_the_attack_table_has_the_paper_s_unit_and_other_attackers():
    plan = Plan(FULL, "updates-600", 3, ("mnist",))
    results = {}
    for seed, raw in enumerate([0.1, 0.3, 1e6], 1):
        cell = plan.attacked("mnist", LPPA, seed)
        results[cell.key] = attacks(cell, raw)
    table = privacy_table(plan, results)
    row = next(r for r in table.rows if r["rule"] == "LPPA")
    assert row["paper"] == "12.039"
    assert row["distance"].mean > 1e6
    assert row["distance, median"] == pytest.approx(3.0)
    assert row["MSE"] == pytest.approx(0.3)
    assert [row[f"distance of {guess}"] for guess in ("start", "mean row", "zeros")] == [7.0] * 3
    assert row["subtracting"] == row["with a prior"] == row["two pooled"] == pytest.approx(3.0)
    assert row["attacks"] == 9  # three seeds, three victims
    assert all(len(row) == len(table.columns) for row in text_cells(table))
    assert len(plain_rows(table)) == sum(map(len, ATTACKERS.values()))


def test_attacks_that_pool_are_told_from_those_that_do_not():
    cell = Plan(FULL, "updates-600", 1, ("mnist",)).attacked("mnist", LPPA, 1)
    results = {cell.key: attacks(cell, 0.5)}
    for who in (PRIOR, POOLED, "naive"):
        assert len(attack_figures(results, [cell], who, "distance")) == 3
    assert attack_figures(results, [cell], "neighbour", "distance") != []
    assert attack_figures(results, [cell], "two-hop", "distance") == []


@pytest.mark.parametrize(
    ("dataset", "start", "said"),
    [
        ("cifar10", (62.85, 58.0, 70.0), "Of the paper's figures DP 61.311, LPPA 63.62 are"),
        ("mnist", (29.5, 26.3, 32.9), "None of the paper's figures is such a distance."),
    ],
)
def test_arithmetic_says_which_of_the_paper_s_searches_never_moved(dataset, start, said):
    plan = Plan(FULL, "updates-600", None, (dataset,))
    cell = plan.attacked(dataset, DSGT, 1)
    found = dataclasses.replace(attacks(cell, 0.1), distances={"given": {"start": start}})
    notes = privacy_table(plan, {cell.key: found}).notes
    assert [note for note in notes if said in note]


def test_the_noise_figure_gives_the_ratio_that_the_paper_says_is_the_root_of_two():
    results = {}
    for beta in PLAN.size.betas:
        for variant, raw in ((DP, 2.0), (LPPA, 6.0)):
            cell = PLAN.attacked("mnist", variant, 1, beta=beta)
            results[cell.key] = attacks(cell, raw)
    figure = noise_figure(PLAN, results)
    assert "3 at β = 0.025, 3 at β = 0.5" in figure.notes[0]


def test_a_curve_goes_on_with_those_that_have_not_diverged():
    cells = [PLAN.training("mnist", DSGT, s) for s in SEEDS]
    results = {cells[0].key: trained(0.6, 0.4)}
    results[cells[1].key] = trained(0.2, status="diverged", curve=((2, 0.2),))
    figure = training_figure(PLAN, results)
    points = dict(figure.panels[0].curves[0].points)
    assert (points[2].mean, points[2].count) == (pytest.approx(30.0), 2)
    assert (points[4].mean, points[4].count) == (pytest.approx(60.0), 1)
    assert "mnist-iid-dsgt-seed2 in round 5" in figure.notes[0]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("there", [1, 1000])
def test_every_figure_is_drawn_from_whatever_is_finished(tmp_path, name, there):
    results = {}
    for number, cell in enumerate(EXPERIMENTS[name](PLAN)[:there]):
        for at in () if cell.attack is None else cell.attack.rounds:
            results[cell.key] = attacks(cell, 0.0 if number == 0 else 3.0, at)
        if cell.attack is None:
            results[cell.key] = trained(0.5, 0.4)
    figure = MAKERS[name](PLAN, results)
    for path in draw(figure, tmp_path, name):
        assert path.stat().st_size > 1000
    assert (tmp_path / f"{name}.svg").read_text().count("<svg") == 1
    assert (figure.missing == 0) == (there == 1000)
    assert plain_points(figure)


def test_a_figure_of_nothing_says_so(tmp_path):
    draw(training_figure(PLAN, {}), tmp_path, "empty")
    assert "nothing is finished yet" in (tmp_path / "empty.svg").read_text()


def test_larger_work_is_expected_to_cost_more():
    small = cost(PLAN.training("digits", LPPA, 1))
    assert small < cost(PLAN.training("mnist", LPPA, 1))
    full = Plan(FULL, "pass-stable", 1, ("mnist", "adult"))
    assert cost(full.training("adult", LPPA, 1)) < cost(full.training("mnist", LPPA, 1))
    assert cost(full.training("mnist", LPPA, 1)) > 50 * cost(PLAN.training("mnist", LPPA, 1))


def test_the_estimate_follows_the_cells_that_are_done(capsys):
    cells = all_cells(PLAN, ["table1"])
    progress = choose_progress(cells, 3, quiet=False)
    with progress:
        for cell in cells:
            progress.done(cell, trained(0.5))
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"{len(cells)} cells to run, 3 are there already; very roughly ")
    assert f"[{len(cells)}/{len(cells)}]" in said[-1]
    assert said[-1].endswith(" 0 s left")
    assert progress.left() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1e-9, "0 s"), (5, "5 s"), (600, "10 min"), (7200, "2.0 h")]
)
def test_a_time_is_said_as_people_say_it(seconds, text):
    assert in_time(seconds) == text


def test_showing_writes_what_has_begun_and_nothing_else(tmp_path):
    with Store(tmp_path / "cells.jsonl") as store:
        store.add(PLAN.training("mnist", LPPA, 1), trained(0.9))
    argv = ["reproduce", "table1", "table3", "--quick", "--reading", "pass-stable", "--seeds", "3"]
    argv += ["--datasets", "mnist,digits", "--show", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, argv)
    assert result.exit_code == 0, result.output
    stem = "table1-pass-stable-quick"
    names = {"cells.jsonl", f"{stem}.md", f"{stem}.csv"}
    assert {file.name for file in tmp_path.iterdir()} == names
    written = (tmp_path / f"{stem}.md").read_text()
    assert "| mnist (sample) | iid | ours | – | – | – | 90.00 |" in written
    assert "Not complete: 29 cells are missing." in written


def test_names_in_a_drawing_do_not_depend_on_the_last_bit_of_a_place():
    one, other = (
        f'<g clip-path="url(#{first})"><use href="#{mark}"/></g><g clip-path="url(#{first})"/>'
        f'<image href="data:image/png;base64,a/{first}/="/><clipPath id="{first}"/>'.encode()
        for first, mark in (("p92e1f2b670", "m0123456789"), ("p306e3eef03", "mabcdef0123"))
    )
    assert plainly_named(one).replace(b"p92e1f2b670", b"p306e3eef03") == plainly_named(other)
    assert plainly_named(one).count(b"p0") == 3
