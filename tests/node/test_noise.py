"""Noise has the right shape, is drawn anew each time, and cancels to the last bit."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from lppa.node.expansion import GRID_BITS, Expander, derive_seed
from lppa.node.noise import Injection, NoiseSource, make_noise, own
from lppa.node.rules import RULES
from lppa.protocol.errors import RunFailed
from lppa.protocol.settings import Settings

MANY = 400_000


def source(distribution="laplace", beta=0.025, size=1000, dtype=torch.float32, me=0, seed=None):
    expander = Expander(distribution, beta, size)
    return NoiseSource(expander, dtype, torch.device("cpu"), me, seed)


def injection(rule, noise, world, every, exchange="tensor"):
    draw = make_noise(RULES[rule].noise, exchange, noise, world)
    return Injection(draw, Settings(noise_every=every).noisy)


class Around:
    """The neighbours of one client in a world of three, which answers with what it is told."""

    def __init__(self, me, outputs, received):
        self.me, self.outputs, self.received = me, outputs, received
        self.sent = {}

    def exchange_noise(self, t, sent, where=None):
        self.sent[t] = sent
        return self.received

    def exchange_seeds(self, t, sent):
        self.sent[t] = sent
        return self.received


@pytest.mark.parametrize("distribution", ["laplace", "gaussian"])
@pytest.mark.parametrize("beta", [0.025, 1.0, 30.0])
def test_both_distributions_have_mean_0_and_variance_2_beta_squared(distribution, beta):
    draws = source(distribution, beta, MANY, seed=1).draw(1, 0).double()
    assert float(draws.mean()) == pytest.approx(0.0, abs=0.01 * beta)
    assert float(draws.var()) == pytest.approx(2 * beta**2, rel=0.02)


@pytest.mark.parametrize(("distribution", "kurtosis"), [("laplace", 3.0), ("gaussian", 0.0)])
def test_the_tails_tell_laplace_from_gaussian(distribution, kurtosis):
    draws = source(distribution, 0.5, MANY, seed=2).draw(1, 0).double()
    centred = draws - draws.mean()
    excess = float((centred**4).mean() / (centred**2).mean() ** 2) - 3
    assert excess == pytest.approx(kurtosis, abs=0.3)


@pytest.mark.parametrize("beta", [1e-30, 0.025, 0.3, 1.0, 1000.0, 1e30])
def test_draws_lie_on_a_grid_that_is_fine_against_beta(beta):
    step = 2.0 ** (math.floor(math.log2(beta)) - GRID_BITS)
    draws = source(beta=beta, seed=3).draw(1, 0).double() / step
    assert torch.equal(draws, draws.round())
    assert beta / 2**GRID_BITS / 2 <= step <= beta / 2**GRID_BITS
    assert len(draws.unique()) > 0.9 * len(draws)


@pytest.mark.parametrize("distribution", ["laplace", "gaussian"])
@pytest.mark.parametrize("beta", [0.025, 7.0])
def test_in_float32_what_a_client_adds_others_take_away_to_the_last_bit(distribution, beta):
    """Sums over up to 16 neighbours, in any order, of noise in both directions."""
    draws = [source(distribution, beta, 20_000, me=0).draw(j, 0) for j in range(1, 17)]
    exact = sum(draw.double() for draw in draws)
    forwards, backwards = sum(draws), sum(reversed(draws))
    assert torch.equal(forwards.double(), exact)
    assert torch.equal(backwards.double(), exact)
    total = forwards.clone()
    for draw in draws[::2] + draws[1::2]:
        total -= draw
    assert torch.equal(total, torch.zeros_like(total))


def test_over_a_ring_of_clients_the_injected_noise_sums_to_nothing_at_all():
    n, gammas = 5, []
    sources = [source(me=i, seed=8) for i in range(n)]
    for i in range(n):
        before, after = (i - 1) % n, (i + 1) % n
        world = Around(i, (after,), [sources[before].draw(i, 0)])
        inject = injection("lppa", sources[i], world, 0)
        gammas.append(inject(torch.zeros(1000), 0))
    assert all(float(gamma.norm()) > 0 for gamma in gammas)
    assert torch.equal(sum(gammas), torch.zeros(1000))


@pytest.mark.parametrize("seed", [None, 5])
def test_no_draw_is_repeated_for_another_receiver_round_or_client(seed):
    draws = [
        source(me=me, seed=seed).draw(target, t)
        for me, target, t in itertools.product(range(3), range(3), range(3))
    ]
    for one, other in itertools.combinations(draws, 2):
        assert float((one == other).double().mean()) < 0.01
        # Eight deviations: not even 351 pairs come to that by chance.
        assert abs(float(np.corrcoef(one.numpy(), other.numpy())[0, 1])) < 0.25


def test_without_a_seed_every_client_draws_noise_of_its_own():
    assert not torch.equal(source().draw(1, 0), source().draw(1, 0))


def test_a_secret_seed_is_drawn_once_for_each_receiver_and_then_kept():
    noise = source()
    seeds = [noise.seed_of(target) for target in (1, 2, 1, 2)]
    assert seeds[:2] == seeds[2:]
    assert len(set(seeds)) == 2
    assert {len(seed) for seed in seeds} == {32}
    assert torch.equal(noise.draw(1, 3), noise.draw(1, 3))


def test_a_seed_that_can_be_repeated_says_what_it_is_for():
    assert source(me=3, seed=6).seed_of(2) == derive_seed(6, ("edge", 3, 2))


def test_with_a_seed_the_same_question_gets_the_same_answer():
    assert torch.equal(source(seed=9).draw(1, 4), source(seed=9).draw(1, 4))
    assert not torch.equal(source(seed=9).draw(1, 4), source(seed=10).draw(1, 4))


def test_the_number_type_does_not_change_the_noise():
    narrow, wide = source(seed=4).draw(1, 0), source(seed=4, dtype=torch.float64).draw(1, 0)
    assert (narrow.dtype, wide.dtype) == (torch.float32, torch.float64)
    # On the grid, and within eight bits of tail, every draw fits a float32 as it is.
    assert torch.equal(narrow.double(), wide)


def test_no_beta_is_no_noise():
    assert torch.equal(source(beta=0.0).draw(1, 0), torch.zeros(1000))


@pytest.mark.parametrize(
    ("every", "expected"), [(0, [0]), (1, [0, 1, 2, 3, 4, 5]), (2, [0, 2, 4]), (5, [0, 5])]
)
def test_noise_enters_when_it_is_due(every, expected):
    inject = injection("dp", source(), Around(0, (), []), every)
    gamma = torch.zeros(1000)
    due = [t for t in range(6) if not torch.equal(inject(gamma, t), gamma)]
    assert due == expected


def test_lppa_adds_what_it_sends_and_takes_away_what_it_receives():
    received = [torch.full((1000,), 0.25), torch.full((1000,), 0.5)]
    world = Around(0, (1, 2), received)
    inject = injection("lppa", source(), world, 0)
    gamma = inject(torch.zeros(1000), 0)
    assert set(world.sent[0]) == {1, 2}
    assert torch.equal(gamma, world.sent[0][1] + world.sent[0][2] - received[0] - received[1])
    assert inject.norm == pytest.approx(float(gamma.double().norm()))


def test_dsgt_adds_nothing_and_sends_nothing():
    world, gamma = Around(0, (1, 2), []), torch.ones(1000)
    inject = injection("dsgt", source(), world, 1)
    assert torch.equal(inject(gamma, 0), gamma)
    assert (world.sent, inject.norm) == ({}, 0.0)


@pytest.mark.parametrize("rule", ["dsgt", "dp"])
def test_how_noise_is_exchanged_is_nothing_to_a_rule_that_exchanges_none(rule):
    world = Around(0, (1, 2), {})
    by_seed = injection(rule, source(seed=6), world, 1, "seed")(torch.zeros(1000), 2)
    by_tensor = injection(rule, source(seed=6), world, 1)(torch.zeros(1000), 2)
    assert torch.equal(by_seed, by_tensor)
    assert world.sent == {}


def test_injecting_leaves_the_old_gamma_as_it_was():
    gamma = torch.ones(1000)
    injection("dp", source(), Around(0, (), []), 0)(gamma, 0)
    assert torch.equal(gamma, torch.ones(1000))


def seeds_of(sender, receiver):
    """The seed that a sender has for a receiver, and its commitment, as they travel."""
    seed = sender.seed_of(receiver)
    return seed, sender.expander.commitment(seed)


@pytest.mark.parametrize("distribution", ["laplace", "gaussian"])
@pytest.mark.parametrize("size", [1000, 40_000])
def test_on_edges_that_go_one_way_noise_by_seed_has_the_bits_of_noise_by_tensor(distribution, size):
    """Three clients in a directed ring; 40,000 numbers are more than one chunk."""
    sources = [source(distribution, size=size, me=i, seed=6) for i in range(3)]
    for t in (0, 1, 7):
        by_seed, by_tensor = [], []
        for i in range(3):
            before, after = (i - 1) % 3, (i + 1) % 3
            noise = Around(i, [after], [sources[before].draw(i, t)])
            by_tensor.append(injection("lppa", sources[i], noise, 1)(torch.zeros(size), t))
            seeds = Around(i, [after], {before: seeds_of(sources[before], i)})
            inject = injection("lppa", sources[i], seeds, 1, "seed")
            by_seed.append(inject(torch.zeros(size), t))
            assert seeds.sent[t] == {after: seeds_of(sources[i], after)}
        assert all(map(torch.equal, by_seed, by_tensor))
        assert torch.equal(sum(by_seed), torch.zeros(size))


def test_noise_that_was_made_ahead_has_the_same_bits():
    world = Around(0, (1,), {1: seeds_of(source(me=1, seed=6), 0)})
    early, late = (injection("lppa", source(seed=6), world, 2, "seed") for _ in range(2))
    gamma = torch.zeros(1000)
    for t in range(6):
        assert torch.equal(early(gamma, t), late(gamma, t))
        early.ahead(t + 1)
    assert list(world.sent) == [0], "seeds were exchanged once, when the first noise was due"


def test_noise_is_made_ahead_only_where_it_is_due_and_no_neighbour_has_to_be_asked():
    world = Around(0, (1,), {1: seeds_of(source(me=1, seed=6), 0)})
    inject = injection("lppa", source(seed=6), world, 2, "seed")
    inject.ahead(0)
    assert (inject._prepared, world.sent) == (None, {}), "seeds have not been exchanged"
    inject(torch.zeros(1000), 0)
    inject.ahead(1)
    assert inject._prepared is None, "it is due in every second round"
    inject.ahead(2)
    assert inject._prepared[0] == 2
    tensors = Around(0, (1,), [torch.zeros(1000)])
    by_tensor = injection("lppa", source(seed=6), tensors, 1)
    by_tensor.ahead(0)
    assert tensors.sent == {}


def test_noise_that_was_made_for_one_round_never_enters_another():
    world = Around(0, (1,), {1: seeds_of(source(me=1, seed=6), 0)})
    inject, fresh = (injection("lppa", source(seed=6), world, 1, "seed") for _ in range(2))
    gamma = torch.zeros(1000)
    inject(gamma, 0)
    inject.ahead(1)
    assert torch.equal(inject(gamma, 2), fresh(gamma, 2))


def test_seeds_are_exchanged_once_and_make_new_noise_in_each_round():
    other = source(me=1, seed=6)
    world = Around(0, (1,), {1: seeds_of(other, 0)})
    inject = injection("lppa", source(me=0, seed=6), world, 1, "seed")
    first, second = inject(torch.zeros(1000), 0), inject(torch.zeros(1000), 1)
    assert list(world.sent) == [0]
    assert not torch.equal(first, second)


@pytest.mark.parametrize("what", ["seed", "commitment", "scale", "distribution", "size"])
def test_a_seed_that_would_make_other_noise_here_is_found_out(what):
    changed = {
        "scale": source(beta=0.026, me=1, seed=6),
        "distribution": source("gaussian", me=1, seed=6),
        "size": source(size=999, me=1, seed=6),
    }
    seed, commitment = seeds_of(changed.get(what, source(me=1, seed=6)), 0)
    if what == "seed":
        seed = bytes([seed[0] ^ 1]) + seed[1:]
    if what == "commitment":
        commitment = commitment[:-1] + bytes([commitment[-1] ^ 1])
    world = Around(0, (1,), {1: (seed, commitment)})
    reason = (
        "the seed that node 1 sent to node 0 does not make the noise that it committed to: its "
        "noise would not cancel"
    )
    with pytest.raises(RunFailed, match=f"^{reason}$"):
        injection("lppa", source(me=0, seed=6), world, 1, "seed")(torch.zeros(1000), 0)


def test_independent_noise_comes_on_top_and_is_not_that_of_the_edges():
    world = Around(0, (1,), [torch.zeros(1000)])
    edges, alone = source(seed=6), source(beta=0.1, seed=6)
    lppa = make_noise("difference", "tensor", edges, world)
    with_own = Injection(lppa, lambda t: True, own(alone, world))(torch.zeros(1000), 0)
    without = Injection(lppa, lambda t: True)(torch.zeros(1000), 0)
    assert torch.allclose(with_own - without, alone.draw(0, 0), atol=1e-6)
    assert float((with_own - without).std()) == pytest.approx(0.1 * math.sqrt(2), rel=0.2)


def test_a_round_that_is_done_again_in_another_epoch_has_other_noise():
    expander, cpu = Expander("laplace", 0.025, 1000), torch.device("cpu")
    first, again = (
        NoiseSource(expander, torch.float32, cpu, 0, 6, "edge", epoch).draw(1, 4)
        for epoch in (0, 1)
    )
    assert float((first == again).double().mean()) < 0.01


@pytest.mark.parametrize("exchange", ["tensor", "seed"])
def test_the_secrets_are_what_was_drawn_and_told(exchange):
    other, mine = source(me=1, seed=6), source(me=0, seed=6)
    told = {1: seeds_of(other, 0)} if exchange == "seed" else [other.draw(0, 0)]
    world = Around(0, (1,), told)
    inject = Injection(
        make_noise("difference", exchange, mine, world), lambda t: True, sources=(mine,)
    )
    inject(torch.zeros(1000), 0)
    assert inject.secrets.drawn == {("edge", 1): mine.seed_of(1)}
    assert inject.secrets.told == ({1: other.seed_of(0)} if exchange == "seed" else {})
