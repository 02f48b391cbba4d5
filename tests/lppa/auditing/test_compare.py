"""Topologies side by side: each line is that of its own audit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lppa.auditing.assemble import GIVEN, Hidden, case_of
from lppa.auditing.compare import bytes_per_round, compare, line
from lppa.auditing.document import audit
from lppa.auditing.findings import Pair
from lppa.coordinator.sinkhorn import spectral_gap
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint


def compared(*topologies, nodes=5, hide=None, **settings):
    return compare(make_settings({"seed": 1, **settings}), nodes, topologies, 4, hide)


def blueprint(nodes=5, **settings):
    return make_blueprint(make_settings({"seed": 1, **settings}), nodes, "test")


def test_each_line_is_what_the_audit_of_that_topology_says():
    names = ("full", "ring", "directed-ring", "star")
    rows = compared(*names)
    assert [row["topology"] for row in rows] == list(names)
    for row in rows:
        own = blueprint(topology=row["topology"])
        found = audit(case_of(own, 4))
        assert row["grade"] == found["grade"]
        assert row["beta"] == own.settings.beta == found["beta"]
        assert row["spectral_gap"] == spectral_gap(own.W)
        assert row["ratio"] == min(pair["ratio"] for pair in found["pairs"])
    full, ring, directed, star = rows
    assert (full["noise"], ring["noise"]) == (3.4641016, 2.0)
    assert (full["smallest"], ring["smallest"], directed["smallest"]) == (4, 2, 2)
    assert (star["noise"], star["ratio"], star["smallest"]) == ("exact", 0, 1)
    assert [row["grade"] for row in rows] == ["hidden", "weak", "open", "open"]


def test_what_nobody_ever_learns_exactly_has_no_coalition_and_what_is_mixed_no_noise():
    (row,) = compared("ring", beta_own=0.1)
    assert row["smallest"] is None
    mixed, bare = Pair([1], 0, {"g0": "mixed"}, None, "weak"), {"g0": "exact"}
    some = audit(case_of(blueprint(), 4))
    made = replace(some, targets=["g0"], smallest={"0": None}, pairs=[mixed])
    told = line(blueprint(), made)
    assert (told["noise"], told["ratio"], told["smallest"]) == ("mixed", None, None)
    exact = line(blueprint(), replace(made, pairs=[mixed, Pair([1], 0, bare, 0.0, "open")]))
    assert (exact["noise"], exact["ratio"]) == ("exact", 0.0)


def test_one_that_cannot_be_built_says_why_and_the_others_stay():
    bad, good = compared("random-regular:9", "full")
    assert bad["grade"] is None
    assert set(bad) == {"topology", "grade", "refused"}
    assert "does not exist" in bad["refused"]
    assert good["grade"] == "hidden"


def test_what_is_to_be_hidden_can_be_given():
    (row,) = compared("full", beta=0.5, hide=Hidden(0.01, GIVEN))
    assert row["ratio"] == pytest.approx(3.4641016 * 0.5 / 0.01, rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 20 * 2 * 6090 * 4),
        ({"dtype": "float64"}, 20 * 2 * 6090 * 8),
        ({"noise_exchange": "tensor"}, 20 * 3 * 6090 * 4),
        ({"noise_exchange": "tensor", "noise_every": 0}, 20 * 2 * 6090 * 4),
        ({"noise_exchange": "tensor", "rule": "dp"}, 20 * 2 * 6090 * 4),
        ({"topology": "ring"}, 10 * 2 * 6090 * 4),
        ({"model": "mlp"}, 20 * 2 * 17226 * 4),
        ({"dataset": "quadratic"}, None),
    ],
    ids=str,
)
def test_what_is_sent_in_a_round_is_two_vectors_an_edge_and_with_the_noise_itself_three(
    settings, expected
):
    assert bytes_per_round(blueprint(**settings)) == expected
