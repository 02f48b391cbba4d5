"""The page: whole, self-contained, escaped, with words for every picture, the worst first."""

from __future__ import annotations

import re

import pytest
from pages import CURVES, Document, page_of

from lppa.report.page import render_page
from lppa.report.reading import read_run
from lppa.report.write import write_report

EVIL = "<script>alert('x')</script>\"><img src=x onerror=y>&amp;"


def test_a_whole_run_has_every_chart_once(made_up):
    page = page_of(made_up().whole())
    charts = page.charts()
    assert CURVES | {"Time split", "Topology", "Weights", "Data partition"} <= set(charts)
    assert charts.count("Audit") == 3
    assert charts.index("Audit grade") < charts.index("Audit")
    assert all(charts.count(name) == 1 for name in set(charts) - {"Audit"})
    assert len(page.all("img")) == 2


def test_the_headline_has_the_figures(made_up):
    text = page_of(made_up().whole()).text.replace("\u00a0", " ")
    for figure in (
        "76.00%",
        "round 15 of 15",
        "90.0 kB",
        "noise 3.0 kB",
        "9.0 s",
        "1.5 × 10⁻⁶",
        "open, exact",
    ):
        assert figure in text


def with_residual(run, residual, **settings):
    """A run that ended with this conservation residual, under these settings."""
    run.begin()
    run.json("config.json", {**run.files["config.json"], **settings})
    run.lines("history.jsonl", [{**run.row(15), "conservation": residual}])
    return run


@pytest.mark.parametrize(
    ("residual", "settings", "said"),
    [
        (1e-7, {}, "rounding explains up to 7.5 × 10⁻⁵ in float32"),
        (1e-15, {"dtype": "float64"}, "rounding explains up to 1.4 × 10⁻¹³ in float64"),
        (1e-7, {"local_steps": 4}, "rounding explains up to 1.5 × 10⁻⁴ in float32"),
        (1e-7, {"local_steps": "epoch", "batch": 4}, "rounding explains up to 2.2 × 10⁻⁴"),
        (1e-7, {"dtype": "float64"}, "more than rounding explains"),
        (1e-2, {}, "more than rounding explains"),
        (1e-2, {"rule": "dp"}, "own noise stays in the sum"),
        (1e-2, {"beta_own": 0.1}, "own noise stays in the sum"),
        (1e-2, {"dtype": None}, "‖Σγ − Σg‖ ÷ scale"),
    ],
)
def test_the_residual_stands_beside_what_rounding_explains(made_up, residual, settings, said):
    run = with_residual(made_up(), residual, **settings)
    html = render_page([read_run(run.folder)]).replace("\u00a0", " ")
    card = re.search(r"<div><dt>conservation residual.*?</div>", html).group()
    assert said in card
    assert ('class="bad"' in card) == ("more than" in said)
    assert "about 10⁻⁷" not in html


WARNING = "accuracy 11.3% is near chance (10.0%): try a smaller --lr"


def test_warnings_are_the_first_thing_on_the_page(made_up):
    html = render_page([read_run(made_up().begin().end(warnings=[WARNING]).folder)])
    assert html.index("This run needs attention") < html.index(WARNING) < html.index("<dl")
    assert html.count(WARNING) == 1
    quiet = render_page([read_run(made_up("quiet").begin().end().folder)])
    assert "needs attention" not in quiet


@pytest.mark.parametrize("status", ["failed", "doubtful", "interrupted"])
def test_a_bad_end_is_in_the_red_box_of_one_run_and_of_several(made_up, status):
    bad, good = made_up("bad").begin().end(status, round=7), made_up("good").begin().end()
    red = r'<div class="attention">.*?</div>'
    alone = render_page([read_run(bad.folder)])
    assert f"<li>{status}: in round 7</li>" in re.search(red, alone).group()
    both = render_page([read_run(run.folder) for run in (bad, good)])
    assert f"<li>bad: {status}: in round 7</li>" in re.search(red, both).group()
    assert f'<td class="ended {status}">{status}</td>' in both


def test_a_run_that_goes_on_is_no_cause_for_alarm(made_up):
    assert "attention" not in page_of(made_up().begin()).text


def test_the_comparison_marks_the_runs_that_have_warnings(made_up):
    first = made_up("first").begin().end(warnings=[WARNING, "and another"])
    html = render_page([read_run(run.folder) for run in (first, made_up("second").begin().end())])
    heads = re.findall(r"<th scope=\"col\">.*?</th>", html)
    assert ["⚠ 2 warnings" in head for head in heads] == [False, True, False]
    assert "1 of 2 runs need attention" in html
    assert f"<li>first: {WARNING}</li>" in html


def test_every_picture_has_words(made_up):
    page = page_of(made_up().whole(), made_up("other", nodes=20).whole())
    assert all(a.get("role") == "img" and len(a["aria-label"]) > 20 for a in page.all("svg"))
    assert all(len(a["alt"]) > 10 for a in page.all("img"))
    assert page.all("html")[0]["lang"] == "en"
    assert "width=device-width" in page.all("meta")[2]["content"]


def test_the_page_needs_nothing_from_anywhere(made_up):
    run = made_up().whole()
    text = write_report(run.folder).read_text(encoding="utf-8")
    page = Document(text)
    assert not page.all("script")
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data"):
            assert attributes.get(name, "data:").startswith("data:"), (tag, attributes)
    assert not re.search(r"url\(|@import|https?://", text)
    assert "default-src 'none'" in page.all("meta")[1]["content"]


def test_nothing_from_a_file_becomes_markup(made_up):
    run = made_up(rule=EVIL).begin()
    run.evaluate(5)
    run.end("failed", error=EVIL, name=EVIL, warnings=[EVIL])
    run.json("topology.json", {**run.files["topology.json"], "name": EVIL})
    run.audited()
    audit = run.files["audit.json"]
    pairs = [{**pair, EVIL: 1.0} for pair in audit["pairs"]]
    said = {"verdict": [EVIL], "advice": EVIL, "targets": [EVIL], "pairs": pairs}
    run.json("audit.json", {**audit, **said})
    run.attacked()
    attacks = run.files["attacks/summary.json"]
    run.json(
        "attacks/summary.json", [{**attacks[0], "attack": EVIL, "baselines": {EVIL: {"psnr": 1}}}]
    )
    page = page_of(run, made_up("other").whole())
    assert not page.all("script")
    assert all("onerror" not in attributes for _, attributes in page.elements)
    assert EVIL in page.text


def test_a_run_that_has_just_begun_has_a_page_too(made_up):
    page = page_of(made_up().begin())
    assert "No figures yet." in page.text
    assert "still running" in page.text
    assert "Topology" in page.charts()
