"""What is said of the noise's size and of ε, word for word where the words carry the meaning."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.auditing.assemble import case_of
from lppa.auditing.noise_law import (
    DELTA,
    Guarantee,
    degree_sum,
    epsilon,
    guarantee,
    law,
    of_rho,
    rho,
    spread,
)
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint

KNOWN = (
    "A neighbour knows the draws on its own edges, and colluders know those on all theirs: for "
    "them that part is no noise."
)
SUMS_TO_ZERO = (
    "No ε is stated for lppa's noise: it sums to zero, and neighbours that collude take all of it "
    "away. Noise of one's own (--beta-own) can have one."
)
FIRST_ONLY = (
    "It holds for the first message only. Later gradients are sent without fresh noise, so that "
    "for the run as a whole no ε holds."
)
TOTAL = (
    "Over 40 rounds releases add up to at most {}: a gradient is in two messages, with + in one "
    "and − in the next, and a sample may be in every gradient."
)
EVERY = {"clip": 2.0, "batch": 50, "noise_every": 1, "rounds": 40}


def case(nodes=5, **settings):
    given = {"local_steps": 1, "seed": 1, "noise_every": 0, **settings}
    return case_of(make_blueprint(make_settings(given), nodes, "test"))


def laws(nodes=5, **settings):
    return law(case(nodes, **settings))


# --- its size -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"rule": "dsgt"}, {"rule": "dsgt", "clip": 1.0}, {"rule": "dp", "beta": 0, "clip": 1.0}],
    ids=str,
)
def test_without_noise_there_is_nothing_else_to_say(settings):
    assert laws(**settings) == ["There is no noise."]


def test_noise_on_edges_of_scale_0_is_none_and_has_no_epsilon():
    assert laws(beta=0) == ["There is no noise.", SUMS_TO_ZERO]


def test_dp_has_one_draw():
    assert laws(rule="dp", beta=0.5)[0] == (
        "dp adds one draw per release: a standard deviation of √2·β = 0.7071."
    )


def test_degrees_count_both_ways():
    star, ring = case(topology="star"), case(topology="directed-ring")
    assert [degree_sum(star, i) for i in range(5)] == [8, 2, 2, 2, 2]
    assert [degree_sum(ring, i) for i in range(5)] == [2] * 5


@pytest.mark.parametrize(
    ("topology", "degrees", "deviations", "times", "neighbours"),
    [
        ("full", "8", "2", "2.828", "it would be √2 times only for one neighbour each way"),
        ("ring", "4", "1.414", "2", "it would be √2 times only for one neighbour each way"),
        ("directed-ring", "2", "1", "1.414", "√2 times for one neighbour each way"),
        (
            *("star", "2 to 8", "1 to 2", "1.414 to 2.828"),
            "it would be √2 times only for one neighbour each way",
        ),
    ],
)
def test_noise_on_edges_grows_with_the_root_of_their_number(
    topology, degrees, deviations, times, neighbours
):
    size, *rest = laws(topology=topology, beta=0.5)
    assert size == (
        "A node's noise difference is the sum of one draw per edge, in and out, so that its "
        f"variance is 2β²(d_in + d_out). Here d_in + d_out is {degrees}: a standard deviation of "
        f"{deviations}, which is √(d_in + d_out) = {times} times dp's ({neighbours})."
    )
    assert rest == [KNOWN, SUMS_TO_ZERO]


def test_own_noise_is_said_on_top_of_that_on_edges_or_alone():
    own = "Each node adds own noise with a standard deviation of √2·β_own = 0.1414 that nobody else"
    both, alone = laws(beta_own=0.1), laws(beta=0, beta_own=0.1)
    assert [s.startswith(own) for s in both] == [False, False, True, False]
    assert [s.startswith(own) for s in alone] == [True, False]
    assert not any("own noise" in s for s in laws())


# --- ε ------------------------------------------------------------------------------------------


NO_CLIP = "No ε is stated: without --clip one sample can change a gradient by any amount."


def test_who_does_not_clip_has_no_epsilon():
    assert laws(rule="dp")[1:] == [NO_CLIP]
    assert laws(beta_own=0.1)[3:] == [NO_CLIP]
    assert laws(beta=0, beta_own=0.1)[1:] == [NO_CLIP]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"rule": "dp", "beta": 0.1}, "β"),
        ({"beta": 0.7, "beta_own": 0.1}, "β_own"),
        ({"beta": 0, "beta_own": 0.1}, "β_own"),
    ],
    ids=str,
)
def test_epsilon_is_that_of_the_noise_that_nobody_else_knows(settings, name):
    *_, release, run = laws(**EVERY, **settings)
    assert release == (
        "One release, a gradient over 50 samples with this noise on it, has "
        f"ε = 2C/(batch·{name}) = 0.8: if one sample is replaced by another, nothing that anyone "
        "can see becomes more than e^ε = 2.23 times as likely, whoever colludes."
    )
    assert run == TOTAL.format(f"ε = {79 * 0.8:.3g}")
    *_, release, run = laws(**EVERY, **settings, noise="gaussian")
    loss = 0.16 + 2 * math.sqrt(0.16 * math.log(1e5))
    assert release == (
        "Gaussian noise has no ε without a δ. One release, a gradient over 50 samples with this "
        f"noise on it, has (ε, δ) = ({loss:.3g}, 1e-05), from ρ = (C/(batch·{name}))²: "
        "except with a probability of about δ, replacing one sample makes nothing that anyone can "
        "see more than e^ε times as likely, whoever colludes."
    )
    whole = 157 * 0.16 + 2 * math.sqrt(157 * 0.16 * math.log(1e5))
    assert run == TOTAL.format(f"(ε, δ) = ({whole:.3g}, 1e-05)")


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("every", [0, 2])
def test_gaps_in_the_noise_leave_an_epsilon_for_the_first_message_only(noise, every):
    *_, run = laws(**{**EVERY, "noise_every": every}, rule="dp", noise=noise)
    assert run == FIRST_ONLY


@pytest.mark.parametrize(
    ("exponent", "words"),
    [(699.9, f"{math.exp(699.9):.3g}"), (700, "a number beyond all use")],
)
def test_an_epsilon_that_means_nothing_is_said_to(exponent, words):
    # ε = 2C / (batch·β), with a batch of 1 and β = 2.
    *_, release, _ = laws(rule="dp", clip=float(exponent), batch=1, beta=2.0, noise_every=1)
    assert f"e^ε = {words} times as likely" in release


SIZES = st.floats(0.01, 100.0)
STEPS = st.integers(1, 50)


@given(SIZES, st.integers(1, 1000), SIZES, STEPS)
def test_rho_is_half_the_square_of_the_shift_in_deviations_and_epsilon_the_shift_in_scales(
    clip, batch, scale, steps
):
    shift = 2 * clip * (1 / batch + steps - 1) / steps
    assert epsilon(clip, batch, scale, steps) == pytest.approx(shift / scale)
    assert rho(clip, batch, scale, steps) == pytest.approx(
        shift**2 / (2 * (math.sqrt(2) * scale) ** 2)
    )


# --- ε as figures -------------------------------------------------------------------------------


def promised(**settings):
    given = {"clip": 2.0, "batch": 50, "local_steps": 1, "noise_every": 1, "rounds": 40}
    return guarantee(make_settings({**given, **settings}))


OWN = [
    {"rule": "dp", "beta": 0.1},
    {"beta": 0.7, "beta_own": 0.1},
    {"beta": 0, "beta_own": 0.1},
]


@pytest.mark.parametrize("settings", OWN, ids=str)
@pytest.mark.parametrize("rounds", [1, 2, 40])
def test_over_a_run_all_releases_but_the_first_count_twice_and_in_rho_four_times(settings, rounds):
    laplace = promised(**settings, rounds=rounds)
    assert laplace.release == pytest.approx(0.8)
    assert laplace.run == pytest.approx((2 * rounds - 1) * 0.8)
    assert (laplace.delta, laplace.releases) == (0.0, rounds)
    gaussian = promised(**settings, rounds=rounds, noise="gaussian")
    assert gaussian.release == pytest.approx(of_rho(0.16))
    assert gaussian.run == pytest.approx(of_rho((4 * rounds - 3) * 0.16))
    assert (gaussian.delta, gaussian.releases) == (DELTA, rounds)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("settings", OWN, ids=str)
def test_without_clipping_nothing_is_promised_and_over_a_run_only_with_noise_in_every_round(
    settings, noise
):
    assert promised(**settings, noise=noise, clip=None) is None
    for every in (0, 2):
        gaps = promised(**settings, noise=noise, noise_every=every)
        assert gaps.run is None
        assert gaps.release == promised(**settings, noise=noise).release


@pytest.mark.parametrize(
    "settings", [{}, {"rule": "dsgt"}, {"beta": 0}, {"rule": "dp", "beta": 0}], ids=str
)
def test_noise_that_others_know_or_that_is_none_promises_nothing(settings):
    assert promised(**settings) is None


def test_a_promise_is_written_down_whole():
    assert Guarantee(0.5, None, 0.0, 7).to_dict() == {
        **{"release": 0.5, "run": None, "delta": 0.0, "releases": 7}
    }


def test_with_local_steps_later_ones_count_in_full_and_of_a_whole_pass_all_do():
    one, ten, whole = (promised(rule="dp", beta=0.1, local_steps=k) for k in (1, 10, "epoch"))
    # 2C / β is 40.
    assert one.release == pytest.approx(40 / 50)
    assert ten.release == pytest.approx(40 * (1 / 50 + 9) / 10)
    assert whole.release == pytest.approx(40)


@pytest.mark.parametrize(
    ("steps", "what", "part", "laplace"),
    [
        (1, "a gradient over 50 samples", "C/(batch·β)", 0.8),
        (10, "the mean of 10 gradients on a path", "0.902·C/β", 36.1),
        ("epoch", "the mean of all gradients on a path", "C/β", 40),
    ],
)
def test_with_local_steps_the_words_say_what_a_release_is(steps, what, part, laplace):
    every = {**EVERY, "rule": "dp", "beta": 0.1, "local_steps": steps}
    two = f"2·{part}" if steps == 10 else f"2{part}"
    assert laws(**every)[1].startswith(
        f"One release, {what} with this noise on it, has ε = {two} = {laplace:g}: if one sample"
    )
    loss = of_rho((laplace / 2) ** 2)
    assert laws(**every, noise="gaussian")[1].startswith(
        f"Gaussian noise has no ε without a δ. One release, {what} with this noise on it, has "
        f"(ε, δ) = ({loss:.3g}, 1e-05), from ρ = ({part})²: except"
    )


def path_mean(data, steps, clip, lam, c):
    """The mean of the clipped gradients on a path, one batch a step."""
    theta, total = 0.0, 0.0
    for k in range(steps):
        g = np.clip([slope(theta, x) for x in data[k]], -clip, clip).mean()
        total += g
        theta -= lam * (g + c)
    return total / steps


def slope(theta, x):
    """A gradient that turns over at once where θ crosses 0, as steep networks' do."""
    centre, size = x
    return size * np.sign(theta - centre)


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_replacing_one_sample_never_changes_the_mean_over_a_path_by_more(data, batch, steps):
    clip = 1.0
    samples = st.tuples(st.floats(-2, 2), st.floats(-5, 5))
    rows = [[data.draw(samples) for _ in range(batch)] for _ in range(steps)]
    other = [list(row) for row in rows]
    at = data.draw(st.integers(0, steps - 1))
    other[at][data.draw(st.integers(0, batch - 1))] = data.draw(samples)
    lam = data.draw(st.floats(0.01, 2.0))
    # What is added on the way differs too: it has one's own last gradient in it.
    first, second = (
        path_mean(d, steps, clip, lam, data.draw(st.floats(-2, 2))) for d in (rows, other)
    )
    assert abs(first - second) <= 2 * clip * spread(batch, steps) + 1e-12


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_and_by_as_much_where_one_sample_turns_all_that_comes_after(batch, steps):
    # Only one sample of the first batch has a gradient. Its sign decides to which side of 0 the
    # path goes; there all other gradients point the same way, and push on.
    def rows(sign):
        first = [(-sign * 10.0, 1.0), *[(0.0, 0.0)] * (batch - 1)]
        return [first] + [[(0.0, -1.0)] * batch] * (steps - 1)

    up, down = (path_mean(rows(sign), steps, 1.0, 0.1, 0.0) for sign in (1, -1))
    assert abs(up - down) == pytest.approx(2 * spread(batch, steps))
