"""What the page says of attacks: in which colour, and in which words."""

from __future__ import annotations

import re

import pytest
from pages import page_of

from lppa.report.page import render_page
from lppa.report.reading import read_run


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
