"""How attacks are written, and how their results are kept, counted and shown."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from lppa.attack.curves import draw_over_beta, draw_over_rounds
from lppa.attack.inversion import INVERSIONS
from lppa.attack.names import (
    INVERSION_NAMES,
    OBSERVATION_NAMES,
    Attack,
    check_call,
    parse_attacks,
    parse_victims,
)
from lppa.attack.observation import OBSERVATIONS
from lppa.attack.results import AttackResult, finite, keep, read_results
from lppa.attack.tables import markdown, print_tables, totals
from lppa.protocol.errors import WrongUse


def test_every_name_is_that_of_something_and_everything_has_a_name():
    assert tuple(OBSERVATIONS) == OBSERVATION_NAMES
    assert tuple(INVERSIONS) == INVERSION_NAMES


def test_a_comma_before_a_digit_belongs_to_the_ids_of_a_collusion():
    assert parse_attacks("dlg,collude:3,1/two-hop/idlg, difference/svd,collude:2/labels") == [
        Attack("naive", "dlg"),
        Attack("two-hop", "idlg", (1, 3)),
        Attack("difference", "svd"),
        Attack("naive", "labels", (2,)),
    ]


def test_victims_are_ids_or_all():
    assert parse_victims("2") == (2,)
    assert parse_victims("0,2,0") == (0, 2)
    assert parse_victims("all") is None


@pytest.mark.parametrize(
    ("attack", "victim", "reason"),
    [
        ("dlg", "5", "there is no node 5"),
        ("dlg", "0,3", "node 3 cannot be attacker and victim"),
        ("collude:1,3/naive/dlg", "0", "node 1 cannot collude"),
        ("naive/dgl", "0", "unknown inversion"),
        ("dlg", "everyone", "comma-separated ids, or all"),
    ],
)
def test_what_a_run_cannot_have_is_refused_before_it_starts(attack, victim, reason):
    with pytest.raises(WrongUse, match=reason):
        check_call(attack, victim, (3,), 5)


def result(attack="naive/dlg", victim=0, psnr=30.0, **changes):
    told = {
        "attack": attack,
        "attackers": [3],
        "victim": victim,
        "round": 0,
        "rule": "lppa",
        "beta": 0.025,
        "noise_every": 0,
        "dataset": "digits",
        "model": "lenet",
        "batch": 1,
        "batches": "next",
        "topology": "full",
        "nodes": 5,
        "seconds": 2.0,
        "score": {"psnr": psnr, "mse_clamped": 10 ** (-psnr / 10), "cosine": 0.9, "ssim": 0.5},
        "baselines": {
            "zeros": {"psnr": 8.0, "mse_clamped": 0.16},
            "mean": {"psnr": 12.0, "mse_clamped": 0.06, "cosine": 0.7},
        },
        **changes,
    }
    return AttackResult.from_dict(told)


def test_a_repeated_attack_takes_the_place_of_its_earlier_result(tmp_path):
    (tmp_path / "attacks").mkdir()
    assert read_results(tmp_path) == []
    for new in (result(), result(victim=1), result(psnr=40.0), result(attackers=[1, 3])):
        keep(tmp_path, new)
    kept = read_results(tmp_path)
    assert [(r.victim, r.attackers, r.of_score("psnr")) for r in kept] == [
        (0, [3], 40.0),
        (1, [3], 30.0),
        (0, [1, 3], 30.0),
    ]


def test_numbers_that_json_has_no_word_for_become_null():
    odd = {"loss": math.nan, "deep": [{"x": math.inf}, (1, -math.inf)], "fine": 1.5}
    assert json.loads(json.dumps(finite(odd))) == {
        "loss": None,
        "deep": [{"x": None}, [1, None]],
        "fine": 1.5,
    }


def test_totals_count_what_succeeded_and_what_stayed_below_the_mean_image():
    some = [result(psnr=p, victim=v) for v, p in enumerate((30.0, 26.0, 20.0, 5.0))]
    (row,) = totals(some)
    assert (row["successes"], row["below"], row["images"]) == (2, 1, 4)
    assert row["median"] == 23.0
    assert row["psnr"] == pytest.approx(20.25)
    assert len(totals([*some, result(noise_every=1), result(round=1), result(rule="dp")])) == 4


TABLE = result(
    "naive/svd", dataset="adult", model="mlp", score={"cosine": 0.95, "mse_clamped": 0.1}
)
COUNTED = result(
    "naive/labels",
    batch=256,
    score={"label_accuracy": 0.9},
    histogram_error=0.1,
    histogram_error_uniform=0.4,
)


def test_tables_show_cosines_labels_their_error_and_images_their_decibels(capsys):
    print_tables([TABLE], "attacks")
    shown = capsys.readouterr().out
    assert "0.950" in shown and "0.700" in shown and "dB" not in shown
    print_tables([COUNTED], "attacks")
    shown = capsys.readouterr().out
    assert "0.100" in shown and "0.400" in shown and "cosine" not in shown
    print_tables([result(), result(victim=1, psnr=7.0)], "attacks")
    shown = capsys.readouterr().out
    assert "30.0 dB" in shown and "cosine" not in shown
    assert "1 of 2" in shown


def test_a_result_without_the_truth_is_shown_without_a_score(capsys):
    blind = replace(result(), score=None, baselines=None)
    print_tables([blind, result(victim=1)], "attacks")
    assert "1 of 1" in capsys.readouterr().out
    assert "naive/dlg" in markdown([blind])


def test_totals_of_all_kinds_are_one_table_for_a_document():
    lines = markdown([result(), TABLE, COUNTED]).splitlines()
    assert len(lines) == 5
    assert len({line.count("|") for line in lines}) == 1
    assert "1 of 1" in lines[2] and "adult" in lines[3] and "0.400" in lines[4]


def test_curves_need_two_rounds_or_two_scales(tmp_path):
    assert draw_over_rounds(tmp_path, [result(), result(victim=1)]) == []
    assert draw_over_beta(tmp_path, [result(), result(rule="dp")]) == []
    assert draw_over_rounds(tmp_path, []) == []
    over_rounds = draw_over_rounds(tmp_path, [result(), result(round=1, psnr=12.0)])
    assert [path.name for path in over_rounds] == ["psnr-over-rounds.png", "mse-over-rounds.png"]
    # Without noise β is 0, whatever the settings say.
    over_beta = draw_over_beta(tmp_path, [result(rule="dsgt"), result(), result(beta=0.5, psnr=4)])
    assert [path.name for path in over_beta] == ["psnr-over-beta.png", "mse-over-beta.png"]
    tables = [TABLE, replace(TABLE, round=1)]
    assert draw_over_rounds(tmp_path, tables)[0].name == "cosine-over-rounds.png"
    assert all(path.stat().st_size > 1000 for path in tmp_path.glob("*.png"))
