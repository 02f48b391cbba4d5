"""Curves and headlines of one run and of several, by accuracy, loss or a metric."""

from __future__ import annotations

import json
import re

import pytest
from pages import CURVES, page_of


def test_several_runs_are_laid_over_each_other(made_up):
    page = page_of(made_up("first").whole(), made_up("second", rule="dsgt").whole())
    labels = {a["data-chart"]: a["aria-label"] for a in page.all("svg") if "data-chart" in a}
    for name in CURVES:
        assert "first" in labels[name]
        assert "second" in labels[name]
    assert page.charts().count("Topology") == 1  # they share it
    heads = re.findall(r"first|second", page.text)
    assert len(heads) > 10
    assert "lppa dsgt" in re.sub(r"\s+", " ", page.text)


def test_what_another_setting_costs_in_accuracy_stands_beside_the_runs(made_up):
    first, second = made_up("plain").whole(), made_up("with-own-noise").whole()
    rows = [{**second.row(round)} for round in second.rounds]
    for row in rows:
        row["accuracy"] = {k: v - 0.125 for k, v in row["accuracy"].items()}
    second.lines("history.jsonl", rows)
    second.json(
        "summary.json",
        {**json.loads((second.folder / "summary.json").read_text()), "history": rows},
    )
    text = re.sub(r"\s+", " ", page_of(first, second).text)
    assert "accuracy against plain +0.00 points -12.50 points" in text


def test_runs_of_one_name_are_told_apart(made_up, tmp_path):
    one, two = made_up("a/run"), made_up("b/run")
    text = page_of(one.whole(), two.whole()).text
    assert "run (1)" in text
    assert "run (2)" in text


def test_zero_has_its_place_on_a_logarithmic_scale(made_up):
    run = made_up().begin()
    run.lines("history.jsonl", [{**run.row(round), "consensus": 0.0} for round in run.rounds])
    labels = {a["data-chart"]: a["aria-label"] for a in page_of(run).all("svg")}
    assert "0 in round 5, 0 in round 15" in labels["Consensus"]


@pytest.mark.parametrize(("worst", "scale"), [(2.5, "linear"), (1e6, "logarithmic")])
def test_one_loss_that_explodes_does_not_flatten_all_others(made_up, worst, scale):
    run = made_up().begin()
    losses = zip(run.rounds, (2.0, 1.0, worst), strict=True)
    run.lines("history.jsonl", [{**run.row(round), "loss": loss} for round, loss in losses])
    labels = {a["data-chart"]: a["aria-label"] for a in page_of(run).all("svg")}
    assert ("logarithmic" in labels["Test loss"]) == (scale == "logarithmic")


def test_a_run_without_accuracy_shows_its_loss(made_up):
    run = made_up().begin()
    run.lines("history.jsonl", [{**run.row(5), "accuracy": None}])
    charts = page_of(run).charts()
    assert "Test accuracy" not in charts
    assert "Test loss" in charts


def test_the_first_metric_stands_in_the_place_of_accuracy_where_there_is_none(made_up):
    page = page_of(made_up().regression())
    assert {"Test rmse", "Test r2", "Test loss", "Data partition"} <= set(page.charts())
    assert "Test accuracy" not in page.charts()
    text = re.sub(r"\s+", " ", page.text)
    assert "test rmse 16,667 clients 16,567 to 16,767; r2 0.15" in text
    assert "90 training samples." in text
    assert "accuracy" not in text.partition("What a curious client")[0]


def test_metrics_of_a_run_that_goes_on_come_from_its_clients(made_up):
    run = made_up().begin()
    reports = [{**run.report(n, 5), "accuracy": None, "metrics": {"mae": n}} for n in range(3)]
    run.lines("metrics.jsonl", reports)
    assert "Test mae" in page_of(run).charts()
    assert "clients 0 to 2" in page_of(run).text.replace("\u00a0", " ")


def test_what_another_setting_costs_is_told_of_the_metric_too(made_up):
    runs = made_up("plain").regression(), made_up("other").regression(-667.0)
    text = re.sub(r"\s+", " ", page_of(*runs).text)
    assert "rmse against plain +0 −667" in text
    # A run that is judged by something else has no such figure.
    text = re.sub(r"\s+", " ", page_of(runs[0], made_up("classes").whole()).text)
    assert "rmse against plain +0 –" in text


def test_a_peak_in_a_long_history_is_still_there(made_up):
    from lppa.report.chart import MOST_POINTS, thinned, thinned_ranges

    points = [(r, 1.0) for r in range(10_000)]
    points[4321] = (4321, 99.0)
    kept = thinned(points)
    assert len(kept) <= MOST_POINTS + 2
    assert (4321, 99.0) in kept
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert sorted(kept) == list(kept)
    ranges = thinned_ranges([(r, v - 1, v) for r, v in points])
    assert len(ranges) <= MOST_POINTS
    assert max(high for _, _, high in ranges) == 99.0
