"""The rules by which a run is found ill, one by one, on reports that were made up."""

from __future__ import annotations

import numpy as np
import pytest

from lppa.coordinator.metrics import SKETCH, Collection
from lppa.protocol.messages import Metrics
from lppa.protocol.settings import make_settings
from lppa.running.health import ENOUGH_STEPS, examine

MANY = 10 * ENOUGH_STEPS
TOTALS = {"seconds": {"total": 1.0}, "bytes": {"noise": 0, "state": 0}}
RISING = (0.3, 0.6, 0.8, 0.9)


def report(round, accuracy, node, nodes, **changes):
    """A sound client's: a model near all others', gradients of size 1, nothing left in the sum."""
    values = {
        **{"accuracy": accuracy, "loss": 1.0, "gamma_norm": 1.0, "gradient_norm": 1.0},
        **{"noise_to_gradient": 0.0, "theta_norm": 10.0, "chance": 0.1, "dead": 0.0},
        **TOTALS,
    }
    theta, excess = np.full(SKETCH, 10 / SKETCH**0.5), np.zeros(SKETCH)
    theta[0] += changes.pop("off", 0.01 * (node - nodes / 2))
    excess[0] = changes.pop("excess", 0.0)
    return Metrics(round, {**values, **changes}, theta, excess)


def findings(accuracies=RISING, change=lambda k, node: {}, nodes=4, steps=MANY, **settings):
    """What is found in a run; `change` has what is special about a client at a look."""
    collection = Collection(nodes)
    for k, accuracy in enumerate(accuracies):
        for node in range(nodes):
            collection.add(node, report(5 * k + 5, accuracy, node, nodes, **change(k, node)))
    told = make_settings({"rounds": 5 * len(accuracies), **settings})
    return examine(collection, told, steps)


def only(found):
    (finding,) = found
    return finding


def test_a_sound_run_has_no_findings():
    assert findings() == []
    assert findings([0.9]) == []


def test_where_nothing_can_be_measured_nothing_is_found():
    assert findings([None] * 4, lambda k, node: dict.fromkeys(("chance", "dead", "loss"))) == []


# --- accuracy -----------------------------------------------------------------------------------


def test_being_near_chance_is_an_illness_only_after_enough_steps():
    long, short = (only(findings([0.15] * 4, steps=n)) for n in (ENOUGH_STEPS, ENOUGH_STEPS - 1))
    assert long.ill and not short.ill
    for finding in (long, short):
        assert finding.text.startswith("accuracy 15.0% is near chance (10.0%, ")
    # A tenth of the way from chance to perfect.
    assert findings([0.19]) == []
    assert findings([0.189]) != []


def test_an_accuracy_that_fell_is_told_with_both_figures():
    finding = only(findings([0.5, 0.9, 0.7]))
    assert finding.ill
    assert "fell from 90.0% to 70.0%" in finding.text
    assert findings([0.5, 0.9, 0.75]) == []
    assert only(findings([0.9, 0.1])).text.startswith("accuracy fell from 90.0% to 10.0%")


def test_who_was_never_better_than_chance_has_nothing_to_lose():
    finding = only(findings([0.18, 0.02], steps=5))
    assert "near chance" in finding.text
    assert not finding.ill


def test_on_few_test_rows_a_small_fall_is_no_news():
    assert findings([0.3, 0.2]) != []
    assert findings([0.3, 0.2], eval_samples=100) == []
    assert findings([0.3, 0.2], eval_samples=10_000) != []
    assert findings([0.9, 0.3], eval_samples=100) != []


# --- noise that should have cancelled -----------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"rule": "lppa"}, True),
        ({"rule": "dsgt"}, True),
        ({"rule": "dp"}, False),
        ({"rule": "lppa", "beta_own": 0.1}, False),
    ],
)
def test_a_sum_that_is_not_conserved_is_told_where_it_should_be(settings, told):
    found = findings(change=lambda k, node: {"excess": 1e-2}, **settings)
    assert [finding.ill for finding in found] == [True] * told
    assert all("conservation residual is 0.01" in finding.text for finding in found)
    assert findings(change=lambda k, node: {"excess": 1e-7}, **settings) == []


def test_rounding_counts_with_the_size_of_the_noise_and_of_the_numbers():
    large = {"excess": 2e-4}
    assert findings(change=lambda k, node: large) != []
    assert findings(change=lambda k, node: large | {"noise_to_gradient": 50.0}) == []
    assert findings(change=lambda k, node: {"excess": 1e-7}, dtype="float64") != []


# --- models that do not agree, units that are dead ----------------------------------------------


def test_models_that_drift_apart_are_told():
    def apart(*distances):
        return findings(change=lambda k, node: {"off": distances[k] * (node - 1.5)})

    finding = only(apart(0.5, 1.0, 2.0, 4.0))
    assert finding.ill
    assert "drift apart" in finding.text
    assert apart(0.05, 0.1, 0.2, 0.4) == [], "small beside the models"
    assert apart(4.0, 4.0, 4.0, 4.0) == [], "as far as they always were"
    assert apart(0.5, 1.0, 8.0, 4.0) == [], "on the way back"


def test_a_layer_that_is_mostly_dead_in_most_clients_is_told():
    finding = only(findings(change=lambda k, node: {"dead": 0.75}))
    assert finding.ill
    assert "75% of a layer's units are dead" in finding.text
    assert findings(change=lambda k, node: {"dead": 0.5}) == []
    assert findings(change=lambda k, node: {"dead": 0.9 if node == 0 else 0.1}) == []


# --- one client that is not like the others -----------------------------------------------------


def test_a_client_with_gradients_far_larger_than_all_others_is_named():
    finding = only(findings(change=lambda k, node: {"gradient_norm": 12.0} if node == 2 else {}))
    assert finding.ill
    assert finding.text.startswith("node 2 is far from all others: its gradients are 12 ")
    assert findings(change=lambda k, node: {"gradient_norm": 10.0} if node == 2 else {}) == []
    two = findings(change=lambda k, node: {"gradient_norm": 12.0} if node < 2 else {})
    assert two == [], "two are not alone"


def test_a_single_large_gradient_is_no_news():
    """Those of small batches are now and then; a run that is well must not be called doubtful."""
    assert (
        findings(change=lambda k, node: {"gradient_norm": 50.0 if k == 3 and node == 1 else 1})
        == []
    )
    assert findings(change=lambda k, node: {"gradient_norm": 50.0 if k == node else 1.0}) == []
    assert findings([0.8, 0.9], lambda k, node: {"gradient_norm": 50.0 if node == 1 else 1}) == []


def test_a_client_with_a_model_far_from_all_others_is_named():
    finding = only(findings([0.9], lambda k, node: {"off": 5.0} if node == 3 else {}))
    assert finding.ill
    assert finding.text.startswith("node 3 is far from all others: its model is 5")
    assert findings([0.9], lambda k, node: {"off": 1.0} if node == 3 else {}) == [], "beside 10"


def test_of_two_clients_none_is_the_stranger():
    strange = {"gradient_norm": 99.0, "off": 9.0}
    assert findings(change=lambda k, node: strange if node else {}, nodes=2) == []
