"""The measures of `lppa bench` on real processes, as small as they can be: that they measure."""

from __future__ import annotations

from dataclasses import fields

import pytest

from lppa.bench import measures as bench
from lppa.protocol.settings import Settings

# What has no influence on a round's time, or is the machine's; the size of a run is added.
UNNAMED = {"data_dir", "device", "latency", "reveal_batches", "clip", "beta_own", "lr_decay"}
UNNAMED |= {"target", "task"}  # of tables of one's own
UNNAMED |= {"robust", "on_failure", "slow", "checkpoint_every"}  # when something goes wrong


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), [("ours", "alone"), ("seeded", "dsgt")])
def test_a_round_is_compared_with_another(one, other):
    found = bench.compare_rounds(one, other, nodes=3, rounds=2, repeats=1)
    assert found["ratio"] == pytest.approx(found[f"{one}_ms"] / found[f"{other}_ms"])
    assert found["ratio"] > 0
    assert found["cpu_ratio"] == pytest.approx(found[f"{one}_cpu_ms"] / found[f"{other}_cpu_ms"])


@pytest.mark.slow
def test_a_round_is_compared_on_a_ring_too():
    found = bench.compare_rounds("seeded", "dsgt", ("mlp", 32, True), 4, rounds=2, repeats=1)
    assert found["ratio"] > 0


def test_a_ring_has_two_neighbours_and_a_full_graph_all():
    from lppa.bench.rounds import Scene

    assert Scene(ring=True).around(0, 5) == (1, 4)
    assert Scene(ring=True).around(2, 5) == (1, 3)
    assert Scene().around(2, 5) == (0, 1, 3, 4)


def test_the_gradient_is_that_of_the_plain_network_it_is_compared_with():
    from lppa.bench.gradients import PLAIN, gradient_speed
    from lppa.bench.rounds import Scene, synthetic_learner

    for name, make in PLAIN.items():
        size = sum(parameter.numel() for parameter in make().parameters())
        assert synthetic_learner(0, Scene(name, 32)).size == size
    assert gradient_speed(repeats=2)["ratio"] > 0


@pytest.mark.slow
def test_what_it_costs_to_lose_nothing_is_measured():
    found = bench.lossless(nodes=2, rounds=10, repeats=1)
    assert found["ratio"] > 0
    for care in ("acknowledgements", "checkpoints", "heartbeats"):
        assert found[f"{care}_percent"] > 0, "it was done, and timed"
        assert found[f"{care}_ratio"] > 0


def test_the_exchange_is_compared_with_bare_sockets(monkeypatch):
    monkeypatch.setattr(bench, "PARAMETERS", 10_000)
    assert bench.exchange(repeats=2)["ratio"] > 0


@pytest.mark.slow
def test_growth_measures_runs_that_came_to_their_end():
    found = bench.growth(sizes=(5,), rounds=2)
    (row,) = found["sizes"]
    assert (row["nodes"], found["ratio"]) == (5, 1.0)
    assert row["round_s"] > 0


def test_no_default_has_a_say_in_what_growth_measures():
    named = {*bench.GROWTH, "rounds", "eval_every"}
    assert {field.name for field in fields(Settings)} - named == UNNAMED
