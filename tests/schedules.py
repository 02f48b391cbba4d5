"""Schedules by the numbers that they follow from, as settings have them."""

from __future__ import annotations

from functools import partial

from lppa.models.rules import FACTS
from lppa.models.schedule import Schedule
from lppa.protocol.settings import decayed, noise_due


def make_schedule(
    W,
    rule,
    noise_every,
    adapt_first,
    common_start,
    lam,
    rounds,
    beta_own=0.0,
    lam_decay=0.0,
    finish=0,
    beta_noise=True,
):
    """A rule by its name; noise every so many rounds, and steps of length lam that get shorter."""
    return Schedule(
        W=W,
        rule=FACTS[rule],
        noisy=partial(noise_due, noise_every),
        step=partial(decayed, lam, lam_decay),
        adapt_first=adapt_first,
        common_start=common_start,
        rounds=rounds,
        beta_own=beta_own,
        finish=finish,
        beta_noise=beta_noise,
    )
