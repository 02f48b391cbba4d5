"""The measures of `lppa bench` on real processes, as small as they can be: that they measure."""

from __future__ import annotations

from dataclasses import fields

import pytest

from lppa.bench import growth
from lppa.bench import measures as bench
from lppa.protocol.links import WHOLE
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
    from lppa.bench.learner import random_learner

    for name, make in PLAIN.items():
        size = sum(parameter.numel() for parameter in make().parameters())
        assert random_learner(0, name, 32).size == size
    assert gradient_speed(repeats=2)["ratio"] > 0


@pytest.mark.slow
def test_what_it_costs_to_lose_nothing_is_measured():
    found = bench.lossless(nodes=2, rounds=10, repeats=1)
    assert found["ratio"] > 0
    for care in ("acknowledgements", "checkpoints", "heartbeats"):
        assert found[f"{care}_percent"] > 0, "it was done, and timed"
        assert found[f"{care}_ratio"] > 0


def test_the_exchange_is_compared_with_bare_sockets_in_clear_and_encrypted(monkeypatch):
    monkeypatch.setattr(bench, "PARAMETERS", 10_000)
    found = bench.exchange(sizes=(10_000,), repeats=2)
    assert [row["curve"] for row in found["sizes"]] == [0, 1]
    assert found["ratio"] == min(row["ratio"] for row in found["sizes"]) > 0


@pytest.mark.slow
def test_a_large_model_is_exchanged_in_parts_by_the_bench_too():
    assert bench.exchange_once(WHOLE + 10, secure=False, repeats=1)["ratio"] > 0


@pytest.mark.slow
def test_growth_measures_runs_that_came_to_their_end():
    found = growth.growth(sizes=(5, 6), rounds=2)
    row, other = found["sizes"]
    assert (row["nodes"], other["nodes"]) == (5, 6)
    assert found["ratio"] == other["cpu_ms"] / row["cpu_ms"]
    assert min(row["round_s"], row["start_s"], row["memory_mb"]) > 0


@pytest.mark.slow
def test_copies_of_a_model_are_counted():
    found = growth.growth_parameters(sizes=(10**5, 8 * 10**6), nodes=3, rounds=2)
    # θ, γ and g at least. Six are what is allowed; the rest of a process blurs it at this size.
    assert 3 < found["ratio"] < 8


@pytest.mark.slow
def test_growth_in_the_degree_goes_from_graph_to_graph():
    found = growth.growth_degree(graphs=("ring", "random-regular:4", "full"), nodes=6, rounds=2)
    assert [row["degree"] for row in found["sizes"]] == [2, 4, 5]
    assert found["ratio"] == found["sizes"][-1]["cpu_ms"] / found["sizes"][0]["cpu_ms"]


@pytest.mark.parametrize("size", growth.PARAMETERS[:2])
def test_a_wide_network_has_as_many_parameters_as_it_was_asked_for(size):
    module = growth.wide_problem(size).build(0)
    assert sum(p.numel() for p in module.parameters()) == pytest.approx(size, rel=0.01)


def test_no_default_has_a_say_in_what_growth_measures():
    named = {*growth.GROWTH, "rounds", "eval_every"}
    assert {field.name for field in fields(Settings)} - named == UNNAMED
