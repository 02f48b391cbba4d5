"""What the audit says of dsgd before a run, against what attackers in real processes recorded."""

from __future__ import annotations

import math

import pytest
import torch

from lppa.attack.knowledge import read_knowledge
from lppa.attack.observation import OBSERVATIONS
from lppa.auditing.assemble import case_of
from lppa.auditing.document import audit, rounds_of
from lppa.node.learner import make_learner
from lppa.node.log import log_path
from lppa.protocol.errors import WrongUse

VICTIM, BETA, LAST, STEP = 0, 0.05, 3, 0.05
BASE = {
    **{"rule": "dsgd", "dataset": "digits", "model": "mlp", "rounds": LAST + 1, "local_steps": 1},
    **{"init": "independent", "weights": "random", "beta": BETA, "lr": STEP, "dtype": "float64"},
    **{"noise_exchange": "tensor", "eval_every": 100, "eval_samples": 10, "seed": 5},
}
# Settings, attackers, and in units of β on a gradient what the audit must say of each.
GRID = [
    ({"noise_every": 0}, (1,), [0, 0, 0]),
    ({"noise_every": 1}, (1,), [2 * math.sqrt(3) / STEP] * 3),
    (
        {"noise_every": 2, "noise_exchange": "seed", "mixing": "combine-then-adapt", "finish": 2},
        (1,),
        [0, 2 * math.sqrt(3) / STEP, 0, 2 * math.sqrt(3) / STEP],
    ),
    ({"noise_every": 1, "topology": "ring", "finish": 1}, (1, 4), [0] * 4),
    (
        {"noise_every": 1, "beta_own": BETA, "noise": "gaussian", "lr_decay": 1.0},
        (1, 2, 3, 4),
        [math.sqrt(2) * k / STEP for k in (1, 2, 3)],
    ),
]


@pytest.mark.parametrize(("settings", "attackers", "expected"), GRID, ids=str)
def test_attackers_get_every_gradient_with_the_noise_that_the_audit_says(
    local_run, settings, attackers, expected
):
    done = local_run(5, attackers=attackers, **{**BASE, **settings})
    assert done.summary["status"] == "completed", done.summary
    plan = done.blueprint
    case = case_of(plan, LAST)
    rounds = rounds_of(case, audit(case, attackers, VICTIM))["rounds"]
    said = [0 if row["gradient"] == "exact" else row["gradient"] for row in rounds]
    assert said == pytest.approx(expected)
    known = read_knowledge([log_path(done.folder, a) for a in attackers], plan.W)
    learner = make_learner(plan.settings, VICTIM, plan.nodes, plan.run_seed, torch.device("cpu"))
    for t, deviation in enumerate(expected):
        targets = [OBSERVATIONS[name](known, VICTIM, t) for name in ("difference", "two-hop")]
        # Where the gradient was taken, by the truth of what was sent.
        row = known.row(VICTIM, t)
        point = known.vector(VICTIM, t, "theta")
        if plan.settings.mixing == "adapt-then-combine":
            point = sum(w * known.vector(j, t, "theta") for j, w in row.items())
        true = learner.gradient(point, t)
        for target in targets:
            torch.testing.assert_close(target.terms[0].theta, point, rtol=1e-6, atol=1e-8)
            assert target.sigma == pytest.approx(deviation * BETA, abs=1e-12)
            error = target.vector - true
            if deviation:
                assert float(error.std()) == pytest.approx(deviation * BETA, rel=0.05)
            else:
                assert float(error.norm() / true.norm()) < 1e-5
    with pytest.raises(WrongUse):
        OBSERVATIONS["difference"](known, VICTIM, len(expected))


def test_the_naive_attacker_has_the_noise_that_it_does_not_reckon_with(local_run):
    # One model at the start and equal weights: all that is between two models is step and noise.
    done = local_run(5, attackers=(1,), **{**BASE, "init": "common", "weights": "uniform"})
    known = read_knowledge([log_path(done.folder, 1)], done.blueprint.W)
    target = OBSERVATIONS["naive"](known, VICTIM, 0)
    # Its noise of round 0 is mixed away at once, and that of round 1 is there: 8 draws each.
    assert target.ignored == pytest.approx(BETA * math.sqrt(2 * 16) / STEP)
    assert float(target.vector.std()) == pytest.approx(target.ignored, rel=0.05)
