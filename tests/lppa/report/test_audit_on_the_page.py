"""The audit on the page: grades in words and colours, what they come from, ε, and how attacks and
audit stand beside each other."""

from __future__ import annotations

import re

import pytest

from lppa.report.formats import compact
from lppa.report.page import render_page
from lppa.report.reading import read_run

KINDS = {"open": "bad", "weak": "fair", "hidden": "good"}


def page_of(*runs):
    html = render_page([read_run(run.folder) for run in runs])
    return html.replace("\u00a0", " ").replace("&#x27;", "'")


def card(html, name):
    return re.search(rf"<div><dt>{name}</dt>.*?</div>", html).group()


def row(html, name):
    """The cells of a row in the comparison."""
    found = re.search(rf'<tr><th scope="row">{name}</th>(.*?)</tr>', html).group(1)
    return [re.sub(r"<[^>]*>", " ", cell).split() for cell in re.findall(r"<td>.*?</td>", found)]


def audit_of(run):
    return read_run(run.folder).audit


@pytest.mark.parametrize(
    ("grade", "ratio", "said"),
    [
        ("open", 0.000288, "noise 0.000288 × an example's share"),
        ("weak", 7.51, "noise 7.51 × an example's share"),
        ("weak", None, "others' gradients alone are in the way"),
        ("hidden", 31.04, "noise 31 × an example's share"),
    ],
)
def test_the_card_and_the_verdict_have_the_grades_word_and_colour(made_up, grade, ratio, said):
    html = page_of(made_up().begin().graded(grade, ratio))
    assert f'<dd class="{KINDS[grade]}">{grade}</dd>' in card(html, "audit grade")
    assert said in card(html, "audit grade")
    assert f'<div class="verdict {KINDS[grade]}">' in html
    assert "exact leak" not in html


def test_what_is_exact_is_red_and_says_so(made_up):
    html = page_of(made_up().begin().audited())
    assert '<dd class="bad">open, exact</dd>' in card(html, "audit grade")
    assert '<div class="verdict bad"><p><span class="key grade bad">open, exact' in html
    assert html.count('<td class="grade bad">exact<small>open</small></td>') == 6


def test_without_examples_there_is_no_ratio_and_the_card_says_why(made_up):
    html = page_of(made_up().begin().graded("weak", None, hide=None))
    assert "no examples to hide" in card(html, "audit grade")
    assert "here are no examples to hide, and so no numbers" in html


def test_the_first_map_has_the_grade_and_the_ratio_of_each_pair(made_up):
    html = page_of(made_up().begin().graded("weak", 7.512))
    first = re.search(r'<table class="heat" data-chart="(.*?)">(.*?)</table>', html)
    assert first.group(1) == "Audit grade"
    assert first.group(2).count('<td class="grade fair">7.51<small>weak</small></td>') == 6
    assert "(0.00065, as measured in this run, one of 287)" in html


def test_a_tiny_value_is_never_shown_as_nothing(made_up):
    html = page_of(made_up().begin().graded("open", 1.2345e-7))
    assert html.count(">1.43e-05</td>") == 6
    assert html.count(">1.23e-07<small>") == 6
    assert html.count('<td class="none">mixed</td>') == 6
    assert "0.00<" not in html


@pytest.mark.parametrize(
    ("value", "said"),
    [(1.43e-5, "1.43e-05"), (0.000288, "0.000288"), (999.6, "1,000"), (23976.0, "23,976"),
     (1.5e7, "1.5e+07"), (31.0, "31")],
)  # fmt: skip
def test_numbers_in_cells_have_three_digits_that_matter(value, said):
    assert compact(value) == said


def test_the_legend_has_the_grades_with_their_thresholds(made_up):
    html = page_of(made_up().begin().graded("hidden", 50.0))
    words = re.sub(r"<[^>]*>", " ", html[html.index("What the grades mean") :])
    words = re.sub(r"\s+", " ", words)
    assert "open below 3: examples can be rebuilt" in words
    assert "weak from 3 to 20: more than a guess leaks" in words
    assert "hidden from 20 on: our best attack" in words


def test_a_departure_is_told_with_its_grade(made_up):
    dropout = {"victim": 0, "gone": 1, "attackers": [2], "noise": 1.41, "ratio": 7.0}
    run = made_up().begin().graded("hidden", 50.0, dropout={**dropout, "grade": "weak"})
    html = page_of(run)
    assert "If client 1 leaves, 1.41 β of client 0's fresh noise is left against" in html
    assert 'share: <span class="key grade fair">weak</span>' in html
    assert "7 × an example's share" in html


def test_a_departure_never_looks_better_than_what_is_open_already(made_up):
    html = page_of(made_up().begin().audited())
    told = re.search(r'<p class="dropout">.*?</p>', html).group()
    assert "what is open anyway stays so" in told
    assert "good" not in told


def test_a_departure_that_leaves_nothing_says_nothing(made_up):
    dropout = {"victim": 0, "gone": 1, "attackers": [2], "noise": "exact", "ratio": 0.0}
    run = made_up().begin().graded("hidden", 50.0, dropout={**dropout, "grade": "open"})
    told = re.search(r'<p class="dropout">.*?</p>', page_of(run)).group()
    assert "nothing of client 0" in told
    assert '<span class="key grade bad">open</span>' in told


def test_an_epsilon_is_a_number_for_a_release_and_for_the_run(made_up):
    html = page_of(made_up().begin().audited())
    table = re.search(r'<table class="epsilon">.*?</table>', html).group()
    assert '<th scope="row">one release</th><td>0.312</td><td>0</td>' in table
    assert '<th scope="row">the whole run of 15 rounds</th><td>4.69</td><td>0</td>' in table
    assert ">4.69<" in card(html, "ε, whole run")


def test_an_epsilon_that_holds_for_no_run_says_so(made_up):
    told = {"release": 2.0, "run": None, "delta": 1e-5, "releases": 15}
    html = page_of(made_up().begin().audited(epsilon=told))
    table = re.search(r'<table class="epsilon">.*?</table>', html).group()
    assert "<td>2</td><td>1 × 10⁻⁵</td>" in table
    assert "15 rounds</th><td>none</td><td>–</td>" in table
    assert ">none<" in card(html, "ε, whole run")


@pytest.mark.parametrize(
    ("law", "why"),
    [
        ("No ε is stated: without --clip one sample can do anything.", "without --clip"),
        ("There is no noise.", "No ε is stated: there is no noise."),
    ],
)
def test_without_an_epsilon_the_page_says_why(made_up, law, why):
    html = page_of(made_up().begin().audited(epsilon=None, law=[law]))
    assert why in re.search(r"<h4>Differential privacy</h4>.*?</figure>", html).group()
    assert "ε, whole run" not in html


def test_several_runs_have_rows_for_grade_and_epsilon(made_up):
    runs = [
        made_up("plain").begin().graded("hidden", 50.0, epsilon=None),
        made_up("paper").begin().audited(epsilon=None),
        made_up("dp").begin().graded("weak", 5.0),
    ]
    html = page_of(*runs)
    grades = row(html, "audit grade")
    assert [cell[0] for cell in grades] == ["hidden", "open,", "weak"]
    assert [kind in html for kind in ('"good">hidden<', '"fair">weak<')] == [True, True]
    assert [cell[0] for cell in row(html, "ε, whole run")] == ["–", "–", "4.69"]
    assert html.index(">ε, whole run<") < html.index(">consensus distance<")
    assert "ε, whole run" not in page_of(*runs[:2])


@pytest.mark.parametrize("grade", ["open", "weak", "hidden"])
def test_an_attacks_card_names_the_audits_grade_whether_they_agree_or_not(made_up, grade):
    html = page_of(made_up().begin().graded(grade, 5.0).attacked())
    told = html[html.index("<h4>difference/dlg") :]
    assert '<b class="leaks">Image: better than a guess.' in told
    assert f'<span class="key grade {KINDS[grade]}">audit: {grade}</span>' in told


def test_attackers_that_the_audit_did_not_look_at_are_not_called_anything(made_up):
    run = made_up().begin().graded("hidden", 50.0).attacked()
    one = run.files["attacks/summary.json"][0]
    run.json("attacks/summary.json", [{**one, "attackers": [1, 2]}])
    assert "audit: these were not looked at" in page_of(run)


def test_a_doubtful_run_is_red_and_its_warnings_are_directly_below(made_up):
    run = made_up().begin().end("doubtful", warnings=["clients' models drift apart"])
    html = page_of(run)
    assert '<span class="status doubtful">doubtful: it came to its end, but' in html
    assert re.search(r'</span></p><div class="attention">.*?models drift apart', html)
    both = page_of(run, made_up("good").begin().end())
    assert '<td class="ended doubtful">doubtful</td>' in both


def test_a_large_audit_is_a_picture_with_counts_in_words(made_up):
    html = page_of(made_up(nodes=24).begin().graded("weak", 5.0))
    alt = re.search(r'<img [^>]*alt="(Grades:[^"]*)"[^>]*data-chart="Audit grade"', html).group(1)
    assert "0 open, 552 weak, 0 hidden of 552 pairs" in alt


def test_an_older_audit_without_grades_is_never_green(made_up):
    run = made_up().begin().graded("hidden", 50.0)
    audit = run.files["audit.json"]
    new = ("grade", "hide", "thresholds", "dropout", "epsilon")
    pairs = [
        {k: None if v == "mixed" else v for k, v in pair.items() if k not in ("grade", "ratio")}
        for pair in audit["pairs"]
    ]
    old = {k: v for k, v in audit.items() if k not in new} | {"pairs": pairs}
    run.json("audit.json", old)
    html = page_of(run)
    assert audit_of(run).cells["g1"][(1,), 0] == "mixed"
    assert ">not graded<" in card(html, "audit grade")
    assert 'class="good"' not in card(html, "audit grade")
    assert '<div class="verdict">' in html
    assert "Audit grade" not in html
    run.json("audit.json", {**old, "bad": True})
    assert '<dd class="bad">open, exact</dd>' in card(page_of(run), "audit grade")


def test_grades_that_contradict_each_other_are_read_as_the_worst(made_up):
    run = made_up().begin().graded("hidden", 50.0)
    pairs = run.files["audit.json"]["pairs"]
    run.json("audit.json", {**run.files["audit.json"], "pairs": [{**pairs[0], "grade": "weak"}]})
    assert audit_of(run).grade == "weak"
    run.json("audit.json", {**run.files["audit.json"], "pairs": [{**pairs[0], "g0": "exact"}]})
    assert audit_of(run).grade == "open"
    assert audit_of(run).pairs[(0,), 1].grade == "open"
    run.graded("hidden", 50.0)
    run.json("audit.json", {**run.files["audit.json"], "grade": "splendid"})
    assert audit_of(run).grade is None


def test_noise_of_ones_own_alone_is_counted_in_its_own_unit(made_up):
    run = made_up().begin().graded("hidden", 50.0, beta=0.0, beta_own=0.02)
    assert (audit_of(run).unit, audit_of(run).scale) == ("β_own", 0.02)
    assert "in units of β_own = 0.02" in page_of(run)


@pytest.mark.parametrize(
    ("nodes", "classes"), [(6, {"charts maps"}), (8, {"charts maps broad"}), (12, {"whole"})]
)
def test_a_map_of_more_clients_has_more_room(made_up, nodes, classes):
    html = page_of(made_up(nodes=nodes).begin().graded("weak", 5.0))
    assert classes <= set(re.findall(r'class="([^"]*)"', html))
    assert ('<div class="stack">' in html) == (nodes == 8)


def test_only_words_that_stand_in_the_maps_are_explained(made_up):
    def legend(run):
        found = re.search(r'<p class="note">Noise left on the best estimate.*?</p>', page_of(run))
        return re.findall(r'<span class="key (\w+)">', found.group())

    assert legend(made_up("all").begin().audited()) == ["leak", "some", "none"]
    assert legend(made_up("numbers").begin().graded("weak", 5.0)) == ["some", "none"]
    silent = {"g0": "exact", "g1": "mixed", "change": "mixed", "ratio": 0.0, "grade": "open"}
    assert legend(made_up("silent").begin().audited(silent)) == ["leak", "none"]
