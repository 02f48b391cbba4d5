"""What is left of a client's noise when one of its neighbours leaves.

The noise on the edges between the two goes with it: nobody takes it away any more, and in the next
exchange there is none of it. What that means for the others' model is not looked at here.
"""

from __future__ import annotations

from lppa.auditing.assemble import Case
from lppa.auditing.collusion import neighbours
from lppa.auditing.exposure import plain, unseen_noise
from lppa.auditing.findings import Dropout
from lppa.auditing.grade import grade_of
from lppa.models.schedule import Schedule, with_noise_in_every_round


def worst_dropout(case: Case, schedule: Schedule) -> Dropout | None:
    """The departure that leaves a client the least noise before one neighbour that stays.

    None where there is no noise, or nobody who could stay.
    """
    noisy = with_noise_in_every_round(schedule)  # whenever noise is due, this is what is left of it
    left = [
        (unseen_noise(noisy, (gone, spy), victim), victim, gone, spy)
        for victim in range(case.nodes)
        for gone in neighbours(schedule, victim)
        for spy in neighbours(schedule, victim) - {gone}
    ]
    if not left or not schedule.any_noise or not schedule.update.gradients(schedule):
        return None
    noise, victim, gone, spy = min(left)
    ratio = None if case.size is None else noise / case.size
    without = "open" if noise == 0 else "weak"
    return Dropout(
        victim=victim,
        gone=gone,
        attackers=[spy],
        # As it enters, in γ or in θ: what is on a gradient is in the ratio.
        noise=plain(noise * schedule.update.weight(schedule.step(0))),
        ratio=ratio,
        grade=without if ratio is None else grade_of(ratio),
    )
