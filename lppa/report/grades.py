"""Grades as the page shows them: a word with its colour, and the number behind it in words."""

from __future__ import annotations

from lppa.report.formats import compact
from lppa.report.markup import Markup, no_wrap, tag
from lppa.report.record import Audit, Pair

KINDS = {"open": "bad", "weak": "fair", "hidden": "good"}  # classes of the style
UNGRADED = "not graded"


def kind_of(grade: str | None) -> str:
    """The class of a grade's colour; green is for hidden only."""
    return KINDS.get(grade or "", "")


def grade_key(grade: str, said: str | None = None) -> Markup:
    """A grade on its colour; `said` stands in place of the word."""
    return tag("span", said or grade, class_=f"key grade {kind_of(grade)}")


def words_of(pair: Pair) -> str:
    """A pair's grade; what is exact says so."""
    return "open, exact" if pair.exact else pair.grade


def overall_words(audit: Audit) -> str:
    """The grade of the whole."""
    if audit.exact:
        return "open, exact"
    return audit.grade or UNGRADED


def reason(audit: Audit) -> str:
    """What the grade of the whole comes from, in a line."""
    pair = audit.worst
    if audit.exact:
        return "something is learned with no noise on it"
    if audit.grade is None or pair is None:
        return "nothing is learned exactly; how well the rest is hidden is not on record"
    if audit.hide is None:
        return "nothing is learned exactly, and there are no examples to hide"
    if pair.ratio is None:
        return "others' gradients alone are in the way, no fresh noise"
    return f"noise {no_wrap(f'{compact(pair.ratio)} ×')} an example's share, for one curious client"
