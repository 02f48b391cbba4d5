"""Runs of D-SGD with noise in θ, as the tests of its audit look at them."""

from __future__ import annotations

import math

from lppa.auditing.assemble import case_of
from lppa.auditing.document import audit_blueprint
from lppa.auditing.exposure import exposures
from lppa.auditing.noise_law import law
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint

ROOT3 = math.sqrt(3)
STEP = 0.3  # ten steps of 0.03, the defaults


def blueprint(nodes=5, **settings):
    told = {"seed": 1, "rule": "dsgd", "finish": 0, **settings}
    return make_blueprint(make_settings(told), nodes, "test")


def schedule_of(nodes=5, rounds=4, **settings):
    return case_of(blueprint(nodes, **{"beta": 0.1, **settings}), rounds).schedule()


def values(schedule, attackers, victim=0):
    return exposures(schedule, attackers, [victim])[0].values


def singles(schedule):
    return [e for a in range(schedule.nodes) for e in exposures(schedule, [a])]


def verdict_of(nodes=5, **settings):
    return audit_blueprint(blueprint(nodes, **settings), None)


def laws(nodes=5, **settings):
    return " ".join(law(case_of(blueprint(nodes, **settings))))
