"""Findings that are made up, and what is said of them."""

from __future__ import annotations

import math

from lppa.auditing.assemble import GIVEN, Hidden, case_of
from lppa.auditing.collusion import Collusion
from lppa.auditing.exposure import Exposure
from lppa.auditing.verdict import advice, judge
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint

UNKNOWN = math.inf
NO_EXAMPLES = "The quadratic problem has no examples to hide: no grade beyond what is exact."
HIDE = Hidden(0.01, GIVEN)
GRADED = ("Open: ", "Weak: ", "Hidden: ")
SUM = (
    "The sum of all clients' gradients is known to all: noise that cancels cancels in it. Who "
    "subtracts its own share has the mean over the others' examples"
)
EVERY = "--noise-every 1 --noise-exchange seed"
NOTHING_ALONE = "No node alone learns a gradient or a change of a gradient exactly."


def case(nodes=5, rounds=4, hide=HIDE, **settings):
    """Noise at the start only, far more than is needed, unless something else is asked for."""
    given = {
        **{"local_steps": 1, "init": "independent", "mixing": "combine-then-adapt", "seed": 1},
        **{"noise_every": 0, "noise_exchange": "tensor", "beta": 0.5},
    }
    blueprint = make_blueprint(make_settings({**given, **settings}), nodes, "test")
    return case_of(blueprint, rounds, hide)


def pair(attackers, victim, unseen=0.0, **values):
    """An attacker, or several, that learn nothing but what is given."""
    nothing = dict.fromkeys(("g0", "g1", "change", "telescoped"), UNKNOWN)
    attackers = (attackers,) if isinstance(attackers, int) else tuple(attackers)
    return Exposure(attackers, victim, {**nothing, **values}, unseen)


def judged(found, sets=None, unsure=(), notes=(), nodes=5, rounds=4, **settings):
    collusion = Collusion(dict(sets or {}), set(unsure))
    return judge(case(nodes, rounds, **settings), found, collusion, notes)


def sentences(found, *rest, **settings):
    """What is said besides the grade and the sum of all, which have tests of their own."""
    told = judged(found, *rest, **settings).sentences
    return [s for s in told if not s.startswith(GRADED) and not s.startswith(SUM)]


# One averaging takes all noise out: models bear any.
FREE = {"mixing": "adapt-then-combine", "weights": "uniform"}


def advised(found, nodes=5, **settings):
    asked = case(nodes, **settings)
    return advice(asked, asked.schedule(), found)
