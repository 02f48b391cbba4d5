"""How well something is hidden, in one word: open, weak or hidden.

The word follows from one number, the noise in an attacker's way over the size of what it wants;
docs/protection.md has the measurements that the two thresholds come from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lppa.auditing.exposure import Exposure

GRADES = ("open", "weak", "hidden")
# Our best attack on single images, any network that was tried: up to 5.5 some come out above 20 dB;
# from 17 on none gains more than 2 dB over the mean image.
OPEN_BELOW = 6.0
HIDDEN_FROM = 20.0
MEANING = {
    "open": "examples can be rebuilt",
    "weak": "more than a guess leaks",
    "hidden": "our best attack on a single example gets no more than a guess",
}


def grade_of(ratio: float) -> str:
    """The word for a ratio of what is in the way to what is to be hidden."""
    if ratio < OPEN_BELOW:
        return "open"
    return "weak" if ratio < HIDDEN_FROM else "hidden"


def graded(found: Exposure, size: float | None) -> tuple[float | None, str]:
    """The ratio and the grade of a pair; `size` is that of what is to be hidden, in units of β.

    Without fresh noise, what cannot be told apart from others' gradients is hidden by those alone:
    weak, whatever their size. Where there is no example to hide there is no ratio.
    """
    if found.exact:
        return 0.0, "open"
    if math.isinf(found.least):  # no message has a gradient in it
        return None, "hidden"
    if size is None or found.least == 0.0:
        return None, "weak"
    ratio = found.least / size
    grade = grade_of(ratio)
    return (None, "weak") if found.bare and grade == "hidden" else (ratio, grade)


def worst(grades: Iterable[str]) -> str:
    """The lowest of several grades."""
    return min(grades, key=GRADES.index, default="hidden")
