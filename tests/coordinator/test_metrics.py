"""Reports become rows and a summary whose figures are what their names say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.coordinator.figures import Guarantee, Outcome, Protection, Row, Summary
from lppa.coordinator.metrics import (
    SKETCH,
    Collection,
    check_metrics,
    check_totals,
    combine,
    largest_example,
    latest_values,
    summarise,
)
from lppa.protocol.codec import BadMessage
from lppa.protocol.messages import Done, Metrics
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint

TOTALS = {
    "seconds": {"compute": 3.0, "exchange": 2.0, "eval": 1.0, "total": 8.0},
    "bytes": {"noise": 10, "state": 100},
}
VALUES = {"accuracy": 0.5, "loss": 1.0, "gamma_norm": 1.0, "gradient_norm": 2.0, **TOTALS}


def sketch(*numbers):
    return np.array([*numbers, *[0.0] * (SKETCH - len(numbers))])


def report(round=5, theta=(), excess=(), **values):
    return Metrics(round, {**VALUES, **values}, sketch(*theta), sketch(*excess))


def without(name):
    return replace(report(), values={k: v for k, v in VALUES.items() if k != name})


# --- what is taken in ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "good",
    [
        report(),
        report(accuracy=None, loss=None),
        report(accuracy=1, gamma_norm=0),
        report(memory=None, noise_to_gradient=None),
        report(memory=1 << 30, noise_to_gradient=0.5, note=["anything", {"else": None}]),
        report(seconds={}, bytes={}),
        report(theta_norm=None, chance=None, dead=None, example_rms=None),
        report(theta_norm=3.0, chance=0.1, dead=0, example_rms=1e-9),
        report(theta=[1e308] * SKETCH),
    ],
)
def test_a_report_that_has_what_is_needed_is_taken(good):
    check_metrics(good)


def test_a_report_of_a_node_that_hears_a_thousand_others_is_taken():
    heard = {str(node): "0123456789abcdef" for node in range(1000)}
    check_metrics(report(heard=heard))


BROKEN = "a broken sketch"
BAD = {
    "cannot be written down": [
        report(note=float("nan")),
        report(note=float("inf")),
        report(note={1, 2}),
        report(accuracy=float("nan")),
    ],
    "whose accuracy is not a number": [without("accuracy"), report(accuracy="high")],
    "whose loss is not a number": [without("loss"), report(loss=[1.0])],
    "whose gamma_norm is not a number": [without("gamma_norm"), report(gamma_norm=[])],
    "whose gradient_norm is not a number": [without("gradient_norm"), report(gradient_norm="x")],
    "whose memory is not a number": [report(memory="much")],
    "whose noise_to_gradient is not a number": [report(noise_to_gradient={})],
    "whose theta_norm is not a number": [report(theta_norm="long")],
    "whose chance is not a number": [report(chance=[])],
    "whose dead is not a number": [report(dead="all")],
    "whose example_rms is not a number": [report(example_rms={})],
    "whose seconds are not numbers": [without("seconds"), report(seconds={"total": None})],
    "whose metrics are not numbers": [report(metrics=[1]), report(metrics={"r2": "good"})],
    "whose bytes are not numbers": [without("bytes"), report(bytes=[1, 2]), report(bytes=3)],
    BROKEN: [
        replace(report(), theta=np.zeros(SKETCH - 1)),
        replace(report(), theta=np.zeros((SKETCH, 1))),
        replace(report(), excess=np.zeros(SKETCH + 1)),
        report(theta=[np.nan]),
        report(excess=[0.0, np.inf]),
    ],
}


@pytest.mark.parametrize(
    ("reason", "bad"), [(reason, bad) for reason, many in BAD.items() for bad in many]
)
def test_a_report_without_it_is_refused_with_the_reason(reason, bad):
    with pytest.raises(BadMessage, match=f"^a report .*{reason}$"):
        check_metrics(bad)


@pytest.mark.parametrize("total", [float("inf"), float("nan"), None, "1"])
def test_totals_that_cannot_be_added_up_are_refused(total):
    check_totals({"total": 1.0, "compute": 2}, "seconds")
    with pytest.raises(BadMessage, match=r"^a report whose seconds are not numbers$"):
        check_totals({"compute": 1.0, "total": total}, "seconds")


def test_a_row_is_made_when_the_last_report_is_there_and_only_once():
    collection = Collection(2)
    assert collection.add(1, report(10, loss=2.0)) is None
    assert collection.add(1, report(10, loss=7.0)) is None
    # A later round may be complete before an earlier one.
    assert collection.add(0, report(20)) is None
    assert collection.add(1, report(20))["round"] == 20
    row = collection.add(0, report(10, loss=4.0))
    assert (row["round"], row["loss"]) == (10, 3.0)
    assert collection.add(0, report(10)) is None
    assert [r["round"] for r in collection.history] == [20, 10]


# --- a row --------------------------------------------------------------------------------------


def test_a_row_whose_reports_were_all_there_when_somebody_else_took_over_is_made_once():
    known = {5: {0: report(), 1: report()}, 10: {0: report(10)}}
    collection = Collection(2, reports=known)
    assert [row.round for row in collection.overdue()] == [5]
    assert collection.overdue() == []


def test_a_row_has_means_and_extremes_over_the_nodes():
    reports = [
        report(accuracy=0.2, loss=1.0, noise_to_gradient=0.5),
        report(accuracy=0.9, loss=4.0, noise_to_gradient=1.0),
        report(accuracy=0.4, loss=1.0, noise_to_gradient=3.0),
    ]
    row = combine(7, reports)
    assert row["round"] == 7
    assert row["accuracy"] == {"mean": pytest.approx(0.5), "min": 0.2, "max": 0.9}
    assert row["loss"] == pytest.approx(2.0)
    assert row["noise_to_gradient"] == pytest.approx(1.5)


@pytest.mark.parametrize("name", ["accuracy", "loss", "noise_to_gradient"])
def test_a_figure_that_one_node_does_not_have_is_none_for_all(name):
    full = {"noise_to_gradient": 1.0}
    row = combine(7, [report(**full), report(**{**full, name: None})])
    assert row[name] is None
    assert all(row[other] is not None for other in ("accuracy", "loss", *full) if other != name)


def test_consensus_is_the_root_mean_square_distance_from_the_mean():
    row = combine(1, [report(theta=(1.0, 2.0)), report(theta=(1.0, 8.0)), report(theta=(1.0, 2.0))])
    # The mean is at 4: distances of 2, 4 and 2.
    assert row["consensus"] == pytest.approx(np.sqrt((4 + 16 + 4) / 3))
    assert combine(1, [report(theta=(3.0,))] * 2)["consensus"] == 0.0


def test_conservation_is_what_is_left_over_of_the_sum_against_what_was_added_up():
    excess = [(3.0, 1.0), (0.0, 3.0)]
    for gamma, gradient, scale in ((1.0, 2.0, 4.0), (5.0, 2.0, 10.0)):
        reports = [report(excess=e, gamma_norm=gamma, gradient_norm=gradient) for e in excess]
        assert combine(1, reports)["conservation"] == pytest.approx(5.0 / scale)
    cancelling = [report(excess=(1.0, -2.0)), report(excess=(-1.0, 2.0))]
    assert combine(1, cancelling)["conservation"] == 0.0
    nothing = [report(excess=(1.0,), gamma_norm=0.0, gradient_norm=0.0)]
    assert combine(1, nothing)["conservation"] == 0.0


@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=6),
    st.floats(-100, 100),
    st.floats(0.01, 100),
)
def test_consensus_does_not_see_a_shift_and_grows_with_the_scale(places, shift, scale):
    def consensus(numbers):
        return combine(1, [report(theta=(x, 2 * x)) for x in numbers])["consensus"]

    expected = scale * np.sqrt(5.0) * np.std(places)
    assert consensus([scale * (x + shift) for x in places]) == pytest.approx(expected, abs=1e-9)


# --- the summary --------------------------------------------------------------------------------


def blueprint():
    given = {"rounds": 40, "rule": "dp", "topology": "ring", "seed": 1, "dataset": "digits"}
    given["finish"] = 3
    return make_blueprint(make_settings(given), 2, "a name")


PROTECTION = Protection("weak", 7.5, Guarantee(1.0, 3.0, 0.0, 40))


def summary(collection):
    return summed_up(collection, Outcome("completed"), PROTECTION)


def summed_up(collection, outcome, protection):
    clock = {"rounds_done": 38, "total": 9.0, "start": 0.5}
    return summarise(blueprint(), collection, outcome, protection, ["careful"], **clock)


def collected(rounds=(5, 10), **values):
    """Two nodes; accuracy is best in the first round."""
    collection = Collection(2)
    for k, round in enumerate(rounds):
        for node in (0, 1):
            own = {"accuracy": 0.8 - 0.2 * k - 0.1 * node, "loss": 1.0 + k, **values}
            collection.add(node, report(round, theta=(node * 2.0 + k,), excess=(k,), **own))
    return collection


def test_a_summary_has_the_last_row_and_the_best_accuracy():
    collection = collected()
    found = summary(collection)
    assert found["accuracy"] == pytest.approx({"mean": 0.55, "min": 0.5, "max": 0.6, "best": 0.75})
    last = collection.history[-1]
    assert (last["consensus"], last["conservation"]) == (1.0, 0.5)
    for name in ("loss", "consensus", "conservation"):
        assert found[name] == last[name]
    assert found["history"] == collection.history
    assert len(found["history"]) == 2


def test_a_summary_says_what_was_run():
    found = summary(collected())
    settings = blueprint().settings
    expected = {
        **{"status": "completed", "name": "a name", "rule": "dp", "nodes": 2},
        **{"dataset": "digits", "topology": "ring", "rounds": 40, "warnings": ["careful"]},
        **{"partition": settings.partition, "model": settings.model, "error": None},
        **{"finish": 3, "rounds_done": 38, "grade": "weak", "epsilon": PROTECTION.epsilon},
        **{"noise_to_example": 7.5},
    }
    assert {name: found[name] for name in expected} == expected
    figures = ("accuracy", "loss", "consensus", "conservation")
    costs = ("seconds", "bytes", "memory", "peak")
    assert set(found) == {*expected, *figures, *costs, "metrics", "history"}


def test_seconds_are_means_over_nodes_and_bytes_are_sums():
    collection = collected()
    more = {"seconds": {"compute": 5.0, "eval": 2.0, "total": 12.0}, "bytes": {"state": 7}}
    collection.done = {0: Done(10, TOTALS), 1: Done(10, more)}
    found = summary(collection)
    assert found["seconds"] == {
        **{"total": 9.0, "start": 0.5, "compute": 4.0, "exchange": 1.0, "eval": 1.5},
        # Ten seconds on average, over ten rounds.
        "round": 1.0,
        "cpu": 0.0,
    }
    assert found["bytes"] == {"noise": 10, "state": 107}


def test_a_run_without_an_end_has_the_totals_of_each_nodes_latest_report():
    collection = collected()
    collection.add(1, report(15, bytes={"noise": 1, "state": 2}))
    # Reports may come late: it is the round that counts.
    collection.add(0, report(7, bytes={"noise": 1000, "state": 1000}))
    assert summary(collection)["bytes"] == {"noise": 11, "state": 102}
    assert len(latest_values(collection)) == 2


def test_memory_is_a_mean_and_nothing_where_a_node_does_not_tell():
    assert summary(collected(memory=100))["memory"] == 100.0
    collection = collected((5,), memory=100)
    collection.add(1, report(10, memory=300))
    assert summary(collection)["memory"] == 200.0
    collection.add(0, report(10))
    assert summary(collection)["memory"] is None


def test_a_run_that_failed_before_its_first_report_has_a_summary_too():
    found = summary(Collection(2))
    assert (found["accuracy"], found["loss"], found["consensus"], found["memory"]) == (None,) * 4
    assert found["bytes"] == {"noise": 0, "state": 0}
    phases = dict.fromkeys(("compute", "exchange", "eval", "round", "cpu"), 0.0)
    assert found["seconds"] == {"total": 9.0, "start": 0.5, **phases}
    # Done in no round at all: the total is not divided by nothing.
    early = Collection(1, done={0: Done(0, TOTALS)})
    assert summary(early)["seconds"]["round"] == 8.0
    first = Collection(1)
    first.add(0, report(0))
    assert summary(first)["seconds"]["round"] == 8.0


def test_where_there_is_no_accuracy_there_is_no_best_one():
    assert summary(collected(accuracy=None))["accuracy"] is None


def test_a_run_that_failed_says_with_what_and_one_without_an_audit_has_no_grade():
    found = summed_up(collected(), Outcome("failed", "node 1 is gone", 1, 7), Protection())
    assert (found.status, found.error, found.rounds_done) == ("failed", "node 1 is gone", 38)
    assert (found["node"], found["round"]) == (1, 7)
    assert (found["grade"], found["epsilon"], found["noise_to_example"]) == (None, None, None)


def test_where_a_run_ended_is_told_of_those_alone_that_did_not_come_to_their_end():
    def keys(status):
        return {"node", "round"} & set(summed_up(collected(), Outcome(status), Protection()))

    assert keys("completed") == keys("doubtful") == set()
    assert keys("interrupted") == {"round"}
    assert keys("failed") == {"node", "round"}
    with pytest.raises(KeyError):
        summary(collected())["node"]


@pytest.mark.parametrize("values", [{}, {"accuracy": None}, {"metrics": {"r2": 0.5, "mae": None}}])
def test_a_summary_that_was_written_down_is_read_as_it_was(values):
    for outcome in (Outcome("completed"), Outcome("failed", "gone", None, 3)):
        found = summed_up(collected(**values), outcome, PROTECTION)
        again = Summary.from_dict(json.loads(json.dumps(found.to_dict())))
        assert again == found
        assert again.to_dict() == found.to_dict()
        assert list(again.to_dict()) == list(found.to_dict())
        assert all(isinstance(row, Row) for row in again.history)


def test_a_summary_may_be_read_by_attribute_and_by_key():
    found = summary(collected())
    assert found.accuracy.best == found["accuracy"]["best"]
    assert found.get("loss") == found.loss
    assert found.get("nothing") is None
    assert "left_out" not in found


def test_the_largest_example_is_that_of_any_node_in_any_round_even_an_incomplete_one():
    collection = Collection(2)
    assert largest_example(collection) is None
    collection.add(0, report(5))
    assert largest_example(collection) is None
    collection.add(1, report(5, example_rms=None))
    collection.add(0, report(10, example_rms=0.5))
    collection.add(1, report(10, example_rms=0.25))
    assert largest_example(collection) == 0.5
    collection.add(1, report(15, example_rms=0.75))
    assert largest_example(collection) == 0.75
