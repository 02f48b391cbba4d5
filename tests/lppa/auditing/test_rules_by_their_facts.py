"""A rule that nobody has named yet: its facts alone make audits, β and attacks understand it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lppa.attack.knowledge import Knowledge
from lppa.attack.observation import OBSERVATIONS
from lppa.auditing.assemble import GIVEN, Hidden, case_of
from lppa.auditing.compare import bytes_per_round
from lppa.auditing.document import audit
from lppa.models.rules import FACTS, STEPS, Facts, NoisyDsgd
from lppa.protocol.messages import Plan
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint

HIDE = Hidden(0.01, GIVEN, 64)


class HalfSteps(NoisyDsgd):
    """As D-SGD, with steps of half the length."""

    def run(self, schedule, over):
        step = over.step
        over.step = lambda t: step(t) / 2
        super().run(schedule, over)

    def weight(self, step):
        return step / 2


def audited(rule, **settings):
    """An audit under a rule that the settings' own check need not know."""
    known = make_settings({"seed": 1, "beta": 0.1, "rounds": 5, **settings})
    blueprint = make_blueprint(replace(known, rule=rule), 5, "test")
    return audit(case_of(blueprint, 4, HIDE)), blueprint


@pytest.fixture
def half_steps(monkeypatch):
    monkeypatch.setitem(FACTS, "half-steps", Facts(HalfSteps(), "difference"))


@pytest.fixture
def loud(monkeypatch):
    """D-SGD with noise that stays: an update and a noise of ours that no rule of ours has."""
    monkeypatch.setitem(FACTS, "loud", Facts(STEPS, "own"))


def test_another_update_is_audited_by_its_own_messages(half_steps):
    found, blueprint = audited("half-steps", topology="ring")
    beside, _ = audited("dsgd", topology="ring")
    assert found.targets == beside.targets
    for pair, other in zip(found.pairs, beside.pairs, strict=True):
        for target, noise in other.noise.items():
            expected = noise if isinstance(noise, str) else pytest.approx(2 * noise)
            assert pair.noise[target] == expected
        assert pair.ratio == pytest.approx(2 * other.ratio, rel=1e-5)
    assert bytes_per_round(blueprint) == bytes_per_round(
        replace(blueprint, settings=replace(blueprint.settings, rule="dsgd"))
    )


def test_half_a_step_needs_half_the_noise(half_steps):
    shorter, longer = (audited(rule, beta="auto")[1] for rule in ("half-steps", "dsgd"))
    assert shorter.settings.scale == pytest.approx(longer.settings.scale / 2, rel=0.05)


def test_another_noise_is_audited_as_what_it_is(loud):
    found, _ = audited("loud", clip=1.0)
    # One draw of deviation √2·β over the step K·λ, whoever attacks.
    for pair in found.pairs:
        assert pair.noise["gradient"] == pytest.approx(math.sqrt(2) / 0.3)
    assert set(found.smallest.values()) == {None}
    said = " ".join(found.law)
    assert "loud adds one draw per release" in said
    assert "1/(K·λ) = 3.333 times as large" in said
    assert found.epsilon is not None and found.epsilon.run is not None
    assert "--beta-own" not in (found.advice or "")


def test_a_rule_without_facts_is_graded_open():
    found, _ = audited("nobody-knows")
    assert (found.grade, found.pairs) == ("open", [])
    assert "Nobody has audited the rule nobody-knows" in found.verdict[0]


def test_attacks_go_by_what_a_rule_sends_and_not_by_its_name(monkeypatch):
    """Messages without γ under the name of a rule that has one: once its facts say so."""
    settings = make_settings({"rule": "lppa", "dataset": "quadratic", "noise_every": 0, "lr": 0.1})
    rng = np.random.default_rng(1)
    W, theta, g = np.full((3, 3), 1 / 3), rng.normal(size=(3, 7)), rng.normal(size=(3, 7))
    known = Knowledge(Plan("x", 3, settings.to_dict(), 0, {}, "", ""), {1}, 2, W)
    for t, vectors in enumerate((theta, W @ theta - 2 * 0.1 * g)):
        for node in range(3):
            known.states[node, t] = {"theta": torch.from_numpy(vectors[node])}
    monkeypatch.setitem(FACTS, "lppa", Facts(STEPS, "none"))
    target = OBSERVATIONS["difference"](known, 0, 0)
    np.testing.assert_allclose(target.vector, g[0], atol=1e-12)
    assert target.sigma == 0
