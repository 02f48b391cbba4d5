"""The page: whole, self-contained, escaped, with words for every picture, small however large the
run is."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from lppa.report.markup import VOID
from lppa.report.page import render_page
from lppa.report.reading import read_run
from lppa.report.write import write_report

CURVES = {"Test accuracy", "Test loss", "Consensus", "Conservation", "Noise and gradient"}
EVIL = "<script>alert('x')</script>\"><img src=x onerror=y>&amp;"


class Document(HTMLParser):
    """All elements of a page with their attributes, and the text in it; refuses bad nesting."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def charts(self):
        return [a["data-chart"] for _, a in self.elements if "data-chart" in a]


def page_of(*runs):
    return Document(render_page([read_run(run.folder) for run in runs]))


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


def test_the_audit_and_the_attacks_say_what_they_found(made_up):
    text = page_of(made_up().whole()).text
    assert "Node 1 learns the change of node 0's gradient exactly." in text
    assert "use --noise-every 1" in text
    assert "A node's noise difference has a law." in text
    assert text.count("exact") > 6
    assert "Image: better than a guess." in text
    assert "40 dB against 12 dB" in text
    assert "The truth is not on record, so there is no score." in text


def card_of(run, **result):
    """The card of one attack whose result has these values too, and the words of its verdict."""
    run.attacked()
    (first, _) = run.files["attacks/summary.json"]
    run.json("attacks/summary.json", [{**first, "attack": "naive/dlg", **result}])
    html = render_page([read_run(run.begin().folder)])
    card = html[html.index("<h4>naive/dlg") :]
    return card, re.search(r'<b class="(leaks|holds)">(.*?)</b>', card)


IMAGE = {"bad": {"psnr": 9.0}, "good": {"psnr": 30.0}}  # the mean of all data has 12 dB


@pytest.mark.parametrize(
    ("image", "right", "labels", "kind", "said"),
    [
        ("bad", 1.0, 1, "leaks", "Image: no better than a guess. Labels: 100% right (chance 33%)."),
        ("bad", 0.0, 1, "holds", "Image: no better than a guess. Labels: 0% right (chance 33%)."),
        ("bad", 0.4, 30, "holds", "Image: no better than a guess. Labels: 40% right (chance 33%)."),
        ("bad", 0.6, 30, "leaks", "Image: no better than a guess. Labels: 60% right (chance 33%)."),
        ("good", 0.0, 1, "leaks", "Image: better than a guess. Labels: 0% right (chance 33%)."),
        ("bad", None, 1, "holds", "Image: no better than a guess."),
    ],
)
def test_labels_that_leak_are_not_green(made_up, image, right, labels, kind, said):
    score = IMAGE[image] | ({} if right is None else {"label_accuracy": right})
    _, verdict = card_of(made_up(), score=score, labels=[[0] * labels])
    assert verdict.groups() == (kind, said)


@pytest.mark.parametrize(("error", "kind"), [(0.05, "leaks"), (0.19, "holds"), (0.4, "holds")])
def test_counts_of_labels_are_judged_by_what_a_uniform_guess_gets(made_up, error, kind):
    errors = {"histogram_error": error, "histogram_error_uniform": 0.2}
    score = {"label_accuracy": 1 - error}
    _, verdict = card_of(made_up(), score=score, labels=[[0] * 32], **errors)
    right = f"{100 * (1 - error):.0f}%"
    assert verdict.groups() == (kind, f"Labels: counts {right} right (uniform guess 80%).")


def test_the_noise_of_a_naive_attack_is_all_noise_and_is_called_so(made_up):
    card, _ = card_of(made_up(), sigma=0.1)
    assert "noise on it, none removed, σ 0.1" in card
    assert "noise left" not in card


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


def test_a_run_that_has_just_begun_has_a_page_too(made_up):
    page = page_of(made_up().begin())
    assert "No figures yet." in page.text
    assert "still running" in page.text
    assert "Topology" in page.charts()


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


def test_classes_that_have_names_are_shown_by_them(made_up):
    run = made_up().whole()
    partition = json.loads((run.folder / "partition.json").read_text())
    run.json("partition.json", {**partition, "names": ["oak", "ash", "elm"]})
    labels = {a["data-chart"]: a["aria-label"] for a in page_of(run).all("svg")}
    assert "client 0: oak 10 samples, elm 5 samples" in labels["Data partition"]
    # What does not fit the table is not believed.
    run.json("partition.json", {**partition, "names": ["oak"]})
    labels = {a["data-chart"]: a["aria-label"] for a in page_of(run).all("svg")}
    assert "client 0: 0 10 samples, 2 5 samples" in labels["Data partition"]


@pytest.fixture
def huge(made_up):
    """256 clients on a full graph, each with ten classes, and a long history."""
    run = made_up(nodes=256, rounds=tuple(range(1, 3001))).begin()
    nodes = range(256)
    edges = [[i, j] for i in nodes for j in nodes if i != j]
    random = np.random.default_rng(1)
    graph = {"name": "full", "nodes": 256, "edges": edges, "W": random.random((256, 256)).tolist()}
    run.json("topology.json", graph)
    labels = random.integers(0, 99, (256, 10)).tolist()
    run.json("partition.json", {"labels": labels, "classes": 10})
    pairs = [{"attackers": [a], "victim": v, "change": 1.5} for a in range(8) for v in nodes]
    run.json("audit.json", {"targets": ["change"], "pairs": pairs, "verdict": ["Fine."]})
    for round in (1, 2, 3000):
        run.lines("metrics.jsonl", [run.report(node, round) for node in nodes])
    return run.end()


def test_a_huge_run_makes_a_small_page(huge):
    text = write_report(huge.folder).read_text(encoding="utf-8")
    assert len(text) < 1_000_000
    page = Document(text)
    assert "Weights" in page.charts()
    assert "Topology" not in page.charts()
    assert "Data partition" in page.charts()
    assert len(page.elements) < 1500


def topology_figure(run, nodes, weight, edges=None):
    """The figure of a graph, a ring unless told otherwise, whose weight from a to b is given."""
    run.begin()
    ring = [[i, (i + 1) % nodes] for i in range(nodes)]
    edges = sorted(edges or ring + [[b, a] for a, b in ring])
    W = np.eye(nodes) / 2
    for a, b in edges:
        W[b, a] = weight(a, b)
    graph = {"name": "made", "nodes": nodes, "edges": edges, "W": W.tolist()}
    run.json("topology.json", graph)
    html = render_page([read_run(run.folder)])
    return next(f for f in re.findall(r"<figure.*?</figure>", html) if "<h3>Topology" in f)


def key(figure):
    """What the key says of lines: (style, words)."""
    return re.findall(r'<span class="stroke (e\d)"></span>(.*?)</li>', figure)


@pytest.mark.parametrize("nodes", [2, 16, 32, 33])
def test_clients_have_their_numbers_on_them_up_to_32(made_up, nodes):
    figure = topology_figure(made_up(nodes=nodes), nodes, lambda a, b: 0.25)
    numbers = re.findall(r"<circle.*?</circle><text[^>]*>(\d+)</text>", figure)
    assert numbers == ([str(i) for i in range(nodes)] if nodes <= 32 else [])
    assert ("their numbers are left out" in figure) == (nodes > 32)
    assert key(figure) == [("e3", "weight 0.25")]
    assert "arrow" not in figure


def test_width_and_colour_of_a_line_say_its_weight(made_up):
    figure = topology_figure(made_up(nodes=4), 4, lambda a, b: 0.1 if a < b else 0.4)
    assert key(figure) == [("e2", "weight 0.1"), ("e3", "weight 0.4")]
    lines = re.findall(r'<path d="[^"]*" class="edge (e\d)"><title>(.*?)</title>', figure)
    assert ("e2", "client 0 to client 1: weight 0.1") in lines
    assert ("e3", "client 1 to client 0: weight 0.4") in lines
    assert "arrow: from sender to receiver" in figure


def test_many_weights_are_shown_in_four_classes(made_up):
    figure = topology_figure(made_up(nodes=10), 10, lambda a, b: 0.01 * (1 + 10 * a + b))
    assert [style for style, _ in key(figure)] == ["e0", "e1", "e2", "e3"]
    assert key(figure)[0][1].startswith("weight 0.02 to ")
    styles = set(re.findall(r'class="edge (e\d)"', figure))
    assert styles == {"e0", "e1", "e2", "e3"}


def test_a_graph_of_too_many_lines_says_what_it_leaves_out(made_up, huge):
    edges = [[a, b] for a in range(30) for b in range(30) if a != b]
    figure = topology_figure(made_up("all", nodes=30), 30, lambda a, b: (a + 1) / 40, edges)
    assert "So many lines have no arrows" in figure
    assert "arrow: from" not in figure
    assert figure.count("<path") == 4
    assert "65,280 edges are too many to draw; W shows them all." in page_of(huge).text


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
