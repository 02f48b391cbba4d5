"""What attackers learn, by writing everything out: to compare the quick way with."""

from __future__ import annotations

import math

import numpy as np

from lppa.models.leakage import deviations, view
from lppa.models.tracking import best_estimate, known_rows, messages


def assert_both_ways_agree(schedule, attackers, wanted, atol):
    """The same deviations for all that is wanted, what is exact and what is unknown included."""
    rows = messages(schedule)
    known = known_rows(schedule, rows, attackers)
    found = [best_estimate(known, rows, rows.combination(terms)) for terms in wanted]
    slow = np.array([math.inf if one is None else one.deviation for one in found])
    quick = deviations(view(schedule, attackers), wanted)
    assert np.array_equal(quick == 0, slow == 0)
    assert np.array_equal(np.isinf(quick), np.isinf(slow))
    finite = np.isfinite(quick)
    np.testing.assert_allclose(quick[finite], slow[finite], rtol=1e-7, atol=atol)
