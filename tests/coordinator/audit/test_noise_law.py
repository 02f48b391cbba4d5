"""What is said of the noise's size and of ε, word for word where the words carry the meaning."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.coordinator.audit.assemble import case_of
from lppa.coordinator.audit.noise_law import degree_sum, epsilon, law, rho
from lppa.coordinator.plan import make_blueprint
from lppa.protocol.settings import make_settings

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
TWICE = (
    "a gradient is in two messages, with + in one and − in the next, so that a sample costs at "
    "most {} for each gradient that it takes part in."
)
EVERY = {"clip": 2.0, "batch": 50, "noise_every": 1}


def case(nodes=5, **settings):
    given = {"local_steps": 1, "seed": 1, **settings}
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
    assert run == f"Over a run releases add up: {TWICE.format('2ε')}"
    *_, release, run = laws(**EVERY, **settings, noise="gaussian")
    loss = 0.16 + 2 * math.sqrt(0.16 * math.log(1e5))
    assert release == (
        "Gaussian noise has no ε without a δ. One release, a gradient over 50 samples with this "
        f"noise on it, has (ε, δ) = ({loss:.3g}, 1e-05), from ρ = (C/(batch·{name}))² = 0.16: "
        "except with a probability of about δ, replacing one sample makes nothing that anyone can "
        "see more than e^ε times as likely, whoever colludes."
    )
    assert run == f"Over a run releases add up in ρ: {TWICE.format('4ρ')}"


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


@given(SIZES, st.integers(1, 1000), SIZES)
def test_rho_is_half_the_square_of_the_shift_in_deviations_and_epsilon_the_shift_in_scales(
    clip, batch, scale
):
    shift = 2 * clip / batch
    assert epsilon(clip, batch, scale) == pytest.approx(shift / scale)
    assert rho(clip, batch, scale) == pytest.approx(shift**2 / (2 * (math.sqrt(2) * scale) ** 2))
