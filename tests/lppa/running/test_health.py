"""A run that is not what it seems is found out, by what its clients report; a sound one is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.coordinator.metrics import SKETCH, Collection, rounding_bound
from lppa.protocol.messages import Metrics
from lppa.protocol.settings import make_settings
from lppa.running.health import examine

NODES, STEPS = 5, 1000
TOTALS = {"seconds": {}, "bytes": {}}
SOUND = {
    **{"accuracy": 0.9, "loss": 0.3, "chance": 0.1, "dead": 0.1, "theta_norm": 10.0},
    **{"gamma_norm": 1.0, "gradient_norm": 1.0, "noise_to_gradient": 1.0, **TOTALS},
}


def sketch(*numbers):
    return np.array([*numbers, *[0.0] * (SKETCH - len(numbers))])


def collection(*rows, nodes=NODES):
    """One evaluation for each row: figures of all clients, or by client in `own`.

    `apart` is the consensus distance; models have a length of about ten.
    """
    found = Collection(nodes)
    for k, row in enumerate(rows):
        row = dict(row)
        apart, residual, own = (
            row.pop(name, d) for name, d in (("apart", 0.01), ("residual", 0.0), ("own", {}))
        )
        for node in range(nodes):
            # Two values at the same distance from their mean, whatever the number of nodes.
            side = apart * np.array(
                [math.cos(node * math.tau / nodes), math.sin(node * math.tau / nodes)]
            )
            values = {**SOUND, **row, **own.get(node, {})}
            theta = np.array(values.pop("theta", (10.0, *side)))
            excess = sketch(residual * nodes) if node == 0 else sketch()
            found.add(node, Metrics(5 * (k + 1), values, sketch(*theta), excess))
    return found


def findings(*rows, steps=STEPS, nodes=NODES, **settings):
    given = {"rounds": 5 * max(1, len(rows)), **settings}
    return examine(collection(*rows, nodes=nodes), make_settings(given), steps)


def the_only(*rows, **options):
    (found,) = findings(*rows, **options)
    return found


def test_a_sound_run_has_nothing():
    assert findings({"accuracy": 0.5}, {"accuracy": 0.8}, {}, {}) == []


def test_a_run_without_any_evaluation_is_not_what_it_seems():
    found = the_only()
    assert found.ill
    assert found.text.startswith("not all models of the last round were tested")


def test_an_evaluation_that_is_not_the_last_says_nothing_of_the_end():
    assert findings({"accuracy": 0.8}, {}, rounds=10) == []
    assert findings({"accuracy": 0.8}, {}, rounds=10, finish=1)[0].ill
    assert the_only({"accuracy": 0.8}, {}, rounds=11).text.startswith("not all models of the last")


# --- accuracy -----------------------------------------------------------------------------------


def test_what_was_gained_and_lost_again_is_said_with_what_to_try():
    found = the_only({"accuracy": 0.9}, {"accuracy": 0.6})
    assert found.ill
    assert found.text == (
        "accuracy fell from 90.0% to 60.0%: try a smaller --lr or --beta, or fewer --local-steps"
    )


@pytest.mark.parametrize(
    ("best", "now", "chance", "fell"),
    [
        # A fifth of what is above chance.
        (0.9, 0.73, 0.1, True),
        (0.9, 0.75, 0.1, False),
        # Of little, at least five points.
        (0.30, 0.245, 0.1, True),
        (0.30, 0.255, 0.1, False),
        (0.6, 0.5, 0.5, True),
    ],
)
def test_a_fall_counts_from_a_fifth_of_the_gain_and_five_points_on(best, now, chance, fell):
    both = [{"accuracy": a, "chance": chance} for a in (best, now)]
    texts = [f.text for f in findings(*both)]
    assert any("fell" in text for text in texts) is fell


def test_the_chance_is_the_best_that_any_client_names():
    assert findings({"accuracy": 0.5, "own": {3: {"chance": 0.45}}}) != []
    assert findings({"accuracy": 0.5, "own": {3: {"chance": 0.4}}}) == []


def test_near_chance_after_many_steps_is_ill_and_after_few_a_hint():
    many = the_only({"accuracy": 0.15}, steps=100)
    few = the_only({"accuracy": 0.15}, steps=99)
    assert (many.ill, few.ill) == (True, False)
    start = "accuracy 15.0% is near chance (10.0%, always the same answer): try "
    assert many.text == few.text == f"{start}a larger --lr or more --rounds"


@pytest.mark.parametrize(
    ("losses", "advice"),
    [
        ((2.3, 2.2), "a larger --lr or more --rounds"),
        ((2.3, 4.5), "a larger --lr or more --rounds"),
        ((2.3, 4.7), "a smaller --lr or --beta"),
        ((11.0, 10.5), "a smaller --lr or --beta"),
        ((9.2e5, 1e5), "a smaller --lr or --beta"),
        ((2.3, None), "a smaller --lr or --beta"),
    ],
)
def test_whether_steps_are_too_long_or_too_short_is_told_by_the_loss(losses, advice):
    found = the_only(*({"accuracy": 0.15, "loss": loss} for loss in losses))
    assert found.text.endswith(f": try {advice}")


def test_where_units_are_dead_longer_steps_are_not_advised():
    texts = [found.text for found in findings({"accuracy": 0.15, "dead": 0.75})]
    assert texts[0].endswith(": try a smaller --lr or --beta, or another --seed")


def test_near_is_a_tenth_of_the_way_to_perfect():
    assert findings({"accuracy": 0.191}) == []
    assert len(findings({"accuracy": 0.189})) == 1
    assert len(findings({"accuracy": 0.76, "chance": 0.74})) == 1
    assert findings({"accuracy": 0.76, "chance": 0.73}) == []


def test_a_run_that_fell_to_chance_is_told_once():
    assert "fell" in the_only({}, {"accuracy": 0.1}).text


def test_the_quadratic_problem_and_clients_that_name_no_chance_have_no_accuracy_to_doubt():
    nothing = {"accuracy": None, "chance": None, "dead": None}
    assert findings(nothing, nothing, dataset="quadratic") == []
    assert findings({"accuracy": 0.1, "chance": None}) == []


# --- conservation -------------------------------------------------------------------------------


def bound(dtype="float32", ratio=1.0, steps=STEPS, rounds=5):
    return rounding_bound(dtype, rounds, NODES, ratio, max(1, steps // rounds))


@pytest.mark.parametrize("settings", [{}, {"rule": "dsgt"}], ids=str)
def test_noise_that_did_not_cancel_is_found_from_the_bound_of_rounding_on(settings):
    limit = bound()
    assert findings({"residual": 0.99 * limit}, **settings) == []
    found = the_only({"residual": 1.01 * limit}, **settings)
    assert found.ill
    assert found.text == (
        f"the conservation residual is {1.01 * limit:.2g}, and rounding explains {limit:.2g}: "
        "noise did not cancel, or a client does not follow the protocol; try --dtype float64, and "
        "look into the nodes' logs"
    )


def test_the_bound_is_that_of_this_run():
    much = 2 * bound()
    assert findings({"residual": much, "noise_to_gradient": 3.0}) == []
    assert findings({"residual": much}, steps=9 * STEPS) == []
    assert len(findings({"residual": 2 * bound("float64")}, dtype="float64")) == 1
    assert findings({"residual": 2 * bound("float64")}) == []
    # Only the end counts.
    assert findings({"residual": 1.0}, {"residual": 0.0}) == []


@pytest.mark.parametrize("settings", [{"rule": "dp"}, {"beta_own": 0.1}], ids=str)
def test_noise_that_is_not_meant_to_cancel_is_no_fault(settings):
    assert findings({"residual": 1.0}, **settings) == []


# --- consensus ----------------------------------------------------------------------------------


def apart(*distances, **options):
    return findings(*({"apart": d} for d in distances), **options)


def test_models_that_drift_apart_and_do_not_stop_are_found():
    (found,) = apart(0.1, 0.5, 2.0, 4.0)
    assert found.ill
    assert found.text == (
        "clients' models drift apart: the consensus distance grew from 2 to 4 and did not stop; "
        "try a smaller --beta, --lr or --local-steps, or a denser --topology"
    )


@pytest.mark.parametrize(
    "distances",
    [
        (1.0, 2.0, 4.0),  # too few to tell
        (0.1, 0.5, 2.0, 3.9),  # less than twice
        (0.1, 0.5, 0.9, 1.9),  # small against the models
        (0.1, 5.0, 2.0, 4.0),  # it was further once
        (4.0, 3.0, 2.0, 1.0),
    ],
    ids=str,
)
def test_models_that_come_together_or_stay_as_near_are_not(distances):
    assert apart(*distances) == []


def test_clients_that_do_not_tell_the_size_of_their_models_are_not_judged_by_it():
    rows = [{"apart": d, "theta_norm": None} for d in (0.1, 0.5, 2.0, 4.0)]
    assert findings(*rows) == []


# --- dead units ---------------------------------------------------------------------------------


def test_a_layer_of_which_most_is_dead_in_most_clients_is_found():
    found = the_only({"dead": 0.75})
    assert found.ill
    assert found.text == (
        "75% of a layer's units are dead, zero for all inputs: try a smaller --lr or --beta"
    )
    assert the_only({"dead": 0.75}, normalize=False).text == f"{found.text}, and --normalize"
    assert findings({"dead": 0.5}) == []
    assert len(findings({"dead": 0.51})) == 1
    # Half of the clients are none; three of five are.
    assert findings({"own": {k: {"dead": 1.0} for k in (0, 1)}}) == []
    assert len(findings({"own": {k: {"dead": 1.0} for k in (0, 1, 4)}})) == 1
    assert findings({"dead": None}) == []


# --- strangers ----------------------------------------------------------------------------------


def test_a_client_whose_gradients_are_far_larger_is_named():
    found = the_only(*[{"own": {3: {"gradient_norm": 10.1}}}] * 3)
    assert found.ill
    assert found.text == (
        "node 3 is far from all others: its gradients are 10.1 against at most 1; look at its data "
        "and its log"
    )
    assert findings(*[{"own": {3: {"gradient_norm": 9.9}}}] * 3) == []
    # Two like it are no strangers to each other.
    assert findings(*[{"own": {k: {"gradient_norm": 100.0} for k in (1, 3)}}] * 3) == []


def test_a_client_whose_model_is_far_off_is_named():
    (found,) = [
        f for f in findings({"own": {0: {"theta": (13.0, 0.0)}}}) if "its model is" in f.text
    ]
    assert found.text.startswith("node 0 is far from all others: its model is 3 against at most ")
    # Far against the others', but not against the size of a model.
    assert findings({"own": {0: {"theta": (11.9, 0.0)}}}) == []
    # Far against the size, but others are as well.
    assert findings({"apart": 1.0, "own": {0: {"theta": (13.0, 0.0)}}}) == []


def test_of_two_clients_neither_is_the_stranger():
    strange = {"own": {1: {"gradient_norm": 1000.0, "theta": (1000.0, 0.0)}}}
    assert findings(strange, nodes=2) == []
    assert findings(strange, nodes=3) != []


# --- all together -------------------------------------------------------------------------------


def test_several_findings_are_all_told_what_is_learned_first():
    own = {"own": {2: {"gradient_norm": 1e4}}}
    rows = [{"apart": d, "accuracy": 0.9, **own} for d in (0.1, 0.5, 2.0)]
    last = {"apart": 4.0, "accuracy": 0.2, "dead": 1.0, "residual": 1.0, **own}
    found = findings(*rows, last)
    starts = ["accuracy fell", "the conservation", "clients' models", "100% of", "node 2 is far"]
    assert [f.text[: len(s)] for f, s in zip(found, starts, strict=True)] == starts
    assert all(f.ill for f in found)


@given(st.lists(st.floats(0.5, 0.99), min_size=1, max_size=6))
def test_a_run_that_only_gains_is_never_doubted(accuracies):
    assert findings(*({"accuracy": a} for a in sorted(accuracies))) == []
