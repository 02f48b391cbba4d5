"""What the audit says before a run, against what attackers in real processes recorded.

Everything is seeded, so each of these runs gives the same figures every time. The network has
17,226 weights: a deviation that is measured over them is right to about one per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

from lppa.attack.knowledge import Knowledge, read_knowledge
from lppa.attack.observation import OBSERVATIONS
from lppa.auditing.assemble import case_of
from lppa.auditing.document import audit
from lppa.node.learner import make_learner
from lppa.node.log import log_path
from lppa.protocol.errors import WrongUse

VICTIM, ATTACKER, BETA, LAST = 0, 1, 0.05, 4
BASE = {
    "dataset": "digits",
    "model": "mlp",
    "rounds": LAST + 1,
    "local_steps": 1,
    "init": "independent",
    "mixing": "combine-then-adapt",
    "weights": "random",
    "beta": BETA,
    "noise_every": 0,
    "noise_exchange": "tensor",
    "dtype": "float64",
    "eval_every": 100,
    "eval_samples": 10,
    "seed": 5,
}
EXACT, MIXED = "exact", "mixed"  # for certain; not without the gradients of others
ROOT2, ROOT3 = math.sqrt(2), math.sqrt(3)


@dataclass(frozen=True)
class Spied:
    """What the audit said, what the attacker recorded, and the victim's true gradients."""

    said: dict
    known: Knowledge
    g: list[torch.Tensor]


@pytest.fixture
def spied(local_run):
    def run(nodes=5, attackers=(ATTACKER,), **settings):
        done = local_run(nodes, attackers=attackers, **{**BASE, **settings})
        assert done.summary["status"] == "completed", done.summary
        plan = done.blueprint
        (said,) = audit(case_of(plan, LAST), attackers, VICTIM)["pairs"]
        known = read_knowledge([log_path(done.folder, a) for a in attackers], plan.W)
        # The victim's batches again, in their order: one gradient at each model that it sent.
        cpu = torch.device("cpu")
        learner = make_learner(plan.settings, VICTIM, plan.nodes, plan.run_seed, cpu)
        g = [learner.gradient(known.state(VICTIM, t)[0], t) for t in range(LAST + 1)]
        return Spied(said, known, g)

    return run


def compare(value, estimates, truths):
    """An estimate that is said to be exact is; one that is said to be noisy is, by so much."""
    left = [estimate - true for estimate, true in zip(estimates, truths, strict=True)]
    if value == EXACT:
        for error, true in zip(left, truths, strict=True):
            assert float(error.norm() / true.norm()) < 1e-5
    else:
        assert float(torch.cat(left).std()) == pytest.approx(value * BETA, rel=0.1)


def hears_all_inputs(known):
    inputs = {j for j, w in enumerate(known.W[VICTIM]) if w > 0}
    return inputs <= set(known.heard(0))


# Settings, then what the audit must say of the first gradient and of a change.
GRID = [
    ({}, 2 * ROOT3, EXACT),
    ({"noise_every": 1}, 2 * ROOT3, 2 * ROOT3),
    ({"noise_every": 1, "noise_exchange": "seed", "noise": "gaussian"}, 2 * ROOT3, 2 * ROOT3),
    ({"noise_every": 1, "beta_own": BETA}, math.sqrt(12 + 2), math.sqrt(12 + 2)),
    ({"attackers": (1, 2, 3), "noise_every": 1}, 2.0, 2.0),
    ({"attackers": (1, 2, 3, 4), "noise_every": 1}, EXACT, EXACT),
    ({"rule": "dp"}, ROOT2, EXACT),
    ({"rule": "dp", "noise_every": 1, "mixing": "adapt-then-combine"}, ROOT2, ROOT2),
    ({"rule": "dsgt", "topology": "ring"}, EXACT, EXACT),
    ({"topology": "directed-ring"}, ROOT2, MIXED),
    ({"topology": "directed-ring", "init": "common"}, ROOT2, EXACT),
    ({"topology": "directed-ring", "nodes": 3}, ROOT2, EXACT),
    ({"topology": "directed-ring", "nodes": 3, "noise_every": 1}, ROOT2, ROOT2),
    ({"topology": "ring"}, 2.0, EXACT),
    ({"topology": "ring", "init": "common", "mixing": "adapt-then-combine"}, 2.0, EXACT),
    ({"topology": "star", "attackers": (1,)}, 2 * ROOT3, MIXED),
    ({"nodes": 2, "noise_every": 1}, EXACT, EXACT),
]


@pytest.mark.parametrize(("settings", "first", "change"), GRID, ids=lambda value: str(value))
def test_what_the_audit_says_is_what_attackers_find(spied, settings, first, change):
    run = spied(**settings)
    known, g = run.known, run.g
    assert run.said["g0"] == (first if first == EXACT else pytest.approx(first))
    assert run.said["change"] == (change if change in (EXACT, MIXED) else pytest.approx(change))
    compare(first, [OBSERVATIONS["neighbour"](known, VICTIM, 0).vector], g[:1])
    if change == MIXED:
        with pytest.raises(WrongUse, match="does not determine"):
            OBSERVATIONS["two-hop"](known, VICTIM, 0)
        return
    names = ["two-hop", "difference"] if hears_all_inputs(known) else ["two-hop"]
    for name in names:
        # The first change only: what comes later needs more rounds than were recorded.
        found = OBSERVATIONS[name](known, VICTIM, 0)
        compare(change, [found.vector], [g[1] - g[0]])


def test_the_telescoped_change_has_the_noise_that_the_audit_says(spied):
    run = spied(noise_every=1)
    assert run.said["telescoped"] == pytest.approx(2 * ROOT3 * math.sqrt(LAST))
    parts = [OBSERVATIONS["difference"](run.known, VICTIM, t).vector for t in range(LAST)]
    compare(run.said["telescoped"], [sum(parts)], [run.g[LAST] - run.g[0]])


@pytest.mark.parametrize("steps", [1, 8])
def test_who_hears_everyone_gets_no_more_from_many_local_steps_than_from_one(local_run, steps):
    """θ moves along γ alone: after taking out what γ told, nothing of the gradients is left in it.

    All that θ of round 1 tells beyond the messages of round 0 is rounding; and what γ tells of a
    change of the mean gradient has the noise of three edges on it, as with one step.
    """
    settings = {**BASE, "noise_every": 1, "local_steps": steps}
    done = local_run(5, attackers=(ATTACKER,), **settings)
    plan = done.blueprint
    (said,) = audit(case_of(plan, LAST), (ATTACKER,), VICTIM)["pairs"]
    assert said["g0"] == said["change"] == pytest.approx(2 * ROOT3)
    known = read_knowledge([log_path(done.folder, ATTACKER)], plan.W)
    # The truth, by living through the victim's rounds with its own data.
    learner = make_learner(plan.settings, VICTIM, plan.nodes, plan.run_seed, torch.device("cpu"))
    lam, g, c = plan.settings.lr, [], 0.0
    for t in range(LAST + 1):
        x, total = known.state(VICTIM, t)[0], 0.0
        for k in range(steps):
            inner = learner.gradient(x, t * steps + k)
            total, x = total + inner, x - lam * (inner + c)
        g.append(total / steps)
        row = known.row(VICTIM, t)
        mixed = [sum(w * known.state(j, t)[part] for j, w in row.items()) for part in (0, 1)]
        c = mixed[1] - g[-1]
        if t < LAST:
            predicted = mixed[0] - steps * lam * known.state(VICTIM, t)[1]
            torch.testing.assert_close(known.state(VICTIM, t + 1)[0], predicted)
    compare(2 * ROOT3, [OBSERVATIONS["neighbour"](known, VICTIM, 0).vector], g[:1])
    for t in range(LAST):
        change = OBSERVATIONS["difference"](known, VICTIM, t).vector
        compare(2 * ROOT3, [change], [g[t + 1] - g[t]])
