"""The curves of one run or of several: which figures, in which unit, on which scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lppa.coordinator.figures import Spread
from lppa.coordinator.reported import BAND, FIGURES, Curve
from lppa.report.chart import Axis, Line, Point, Range, line_chart
from lppa.report.formats import figure, percent
from lppa.report.markup import Markup
from lppa.report.record import Row, RunRecord

Value = TypeVar("Value")


@dataclass(frozen=True)
class Chart:
    """One chart with what stands above and below it."""

    name: str
    note: str
    drawing: Markup | None


def charts(runs: Sequence[RunRecord], names: Sequence[str]) -> list[Chart]:
    """All curves, each with one line or one pair of lines per run."""
    accuracy, *others = (_figure_chart(*one, runs, names) for one in drawn())
    return [
        accuracy,
        *(_metric_chart(metric, runs, names) for metric in metric_names(runs)),
        *others,
        Chart(
            "Consensus",
            "How far the clients' models are from their mean. 0: all are the same.",
            _plain_chart("Consensus", CONSENSUS, runs, names, lambda row: row.consensus),
        ),
        Chart(
            "Conservation",
            "What noise has left in the sum: ‖Σγ − Σg‖ against the larger of Σ‖γ‖ and Σ‖g‖. "
            "How much of it rounding explains stands with the figures above.",
            _plain_chart("Conservation", CONSERVATION, runs, names, lambda row: row.conservation),
        ),
        Chart("Noise and gradient", *_noise_chart(runs, names)),
    ]


PERCENT = Axis("%", lambda v: percent(v, 2), lambda v, d: f"{100 * v:.{max(0, d - 2)}f}")
LOSS = Axis("value", figure, lambda v, d: f"{v:.{d}f}" if v < 1e5 else f"{v:.0e}")
METRIC = replace(
    LOSS, title="on test set", tick=lambda v, d: f"{v:,.{d}f}" if abs(v) < 1e5 else f"{v:.3g}"
)
CONSENSUS = Axis("root mean square", figure, log=True)
CONSERVATION = Axis("residual (ratio)", figure, log=True)
NORMS = Axis("L2, mean over clients", figure, log=True)
WIDE = 300.0  # greatest over least value from which a linear scale shows nothing
BOTH = {"gradient_norm", "noise_norm"}
RATIO = Axis("‖noise‖ ÷ ‖gradient‖", figure, log=True)


def drawn() -> list[tuple[str, Curve]]:
    """The reported figures that have a curve of their own."""
    return [(name, one.curve) for name, one in FIGURES.items() if one.curve is not None]


def _figure_chart(
    name: str, curve: Curve, runs: Sequence[RunRecord], names: Sequence[str]
) -> Chart:
    def of(row: Row) -> Spread | None:
        return row.reported.get(name)

    plain = replace(PERCENT if curve.percent else LOSS, title=curve.axis)
    axis = plain if curve.percent else axis_for(plain, runs, of)
    return Chart(curve.title, curve.note, _spread_chart(curve.title, axis, runs, names, of))


def metric_names(runs: Sequence[RunRecord]) -> list[str]:
    """All that runs are judged by besides accuracy, in their order."""
    return list(dict.fromkeys(name for run in runs for row in run.rows for name in row.metrics))


def _metric_chart(metric: str, runs: Sequence[RunRecord], names: Sequence[str]) -> Chart:
    def of(row: Row) -> Spread | None:
        return row.metrics.get(metric)

    name, axis = f"Test {metric}", axis_for(METRIC, runs, of)
    return Chart(name, BAND, _spread_chart(name, axis, runs, names, of))


def axis_for(axis: Axis, runs: Sequence[RunRecord], of: Callable[[Row], Spread | None]) -> Axis:
    """Logarithmic if one run diverges: else nothing could be seen of the others."""
    known = [spread for run in runs for _, spread in _known(run.rows, of)]
    least = min((spread.min for spread in known), default=0.0)
    greatest = max((spread.max for spread in known), default=0.0)
    return replace(axis, log=least > 0 and greatest > WIDE * least)


def points(rows: Sequence[Row], of: Callable[[Row], float | None]) -> tuple[Point, ...]:
    """A figure by round, where it is known."""
    return tuple(_known(rows, of))


def _known(rows: Sequence[Row], of: Callable[[Row], Value | None]) -> list[tuple[int, Value]]:
    return [(row.round, value) for row in rows if (value := of(row)) is not None]


def _spread_chart(
    name: str,
    axis: Axis,
    runs: Sequence[RunRecord],
    names: Sequence[str],
    of: Callable[[Row], Spread | None],
) -> Markup | None:
    lines = []
    for k, run in enumerate(runs):
        known = _known(run.rows, of)
        band: tuple[Range, ...] = tuple((r, s.min, s.max) for r, s in known)
        lines.append(Line(names[k], tuple((r, s.mean) for r, s in known), band, k))
    return line_chart(name, axis, lines)


def _plain_chart(
    name: str,
    axis: Axis,
    runs: Sequence[RunRecord],
    names: Sequence[str],
    of: Callable[[Row], float | None],
) -> Markup | None:
    lines = [Line(names[k], points(run.rows, of), (), k) for k, run in enumerate(runs)]
    return line_chart(name, axis, lines)


def _noise_chart(runs: Sequence[RunRecord], names: Sequence[str]) -> tuple[str, Markup | None]:
    """Both norms where the clients' own reports have them, else their ratio."""
    if not any(row.reported.keys() >= BOTH for run in runs for row in run.rows):
        drawing = _plain_chart("Noise and gradient", RATIO, runs, names, lambda row: row.ratio)
        return "How large a client's noise is beside its gradient. 0: there is none.", drawing
    lines = []
    for k, run in enumerate(runs):
        gradient = points(run.rows, lambda row: row.mean("gradient_norm"))
        noise = points(run.rows, lambda row: row.mean("noise_norm"))
        lines.append(Line(f"{names[k]}, gradient", gradient, (), k))
        lines.append(Line(f"{names[k]}, noise", noise, (), k, dashed=True))
    note = (
        "Solid: norm of a client's gradient. Dashed: norm of the noise that it added last; "
        "at 0 there is none."
    )
    return note, line_chart("Noise and gradient", NORMS, lines)
