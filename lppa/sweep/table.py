"""A sweep's results as one table: a row for each combination, over its seeds; and who is best.

Pure: plain values in, text out. The picture of the same rows is in `front`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lppa.auditing.grade import worst
from lppa.reproduce.cells import Results
from lppa.reproduce.summaries import Spread, spread
from lppa.running.display import in_bytes
from lppa.sweep.grid import Combination, Sweep, in_short

NONE = "–"


@dataclass(frozen=True)
class Row:
    """A combination over those of its seeds that are finished; None where nothing was measured."""

    combination: Combination
    accuracy: Spread | None
    """After the last round, mean over clients, in per cent."""
    loss: Spread | None
    grade: str | None
    """The worst of any seed."""
    ratio: float | None
    """Noise over an example's share of the gradient, the least of any seed."""
    sent: float | None
    """Bytes of noise and state that all clients sent, mean over seeds."""
    finished: int
    diverged: int
    doubtful: int

    @property
    def label(self) -> str:
        """What varies, in a few words."""
        return self.combination.label


def make_rows(sweep: Sweep, results: Results) -> list[Row]:
    """A row for each combination, in the grid's order."""
    return [_row(combination, results) for combination in sweep.combinations]


def _row(combination: Combination, results: Results) -> Row:
    found = [results[cell.key] for cell in combination.cells if cell.key in results]

    def known(name: str) -> list[Any]:
        values = [getattr(result, name) for result in found]
        return [value for value in values if value is not None]

    # No ratio in one seed is no ratio at all: what is left would look better than it is.
    ratios = known("noise_to_example")
    grades, sizes = known("grade"), [sum(one.values()) for one in known("bytes")]
    return Row(
        combination,
        spread([100 * value for value in known("final")]),
        spread(known("loss")),
        worst(grades) if grades else None,
        min(ratios) if ratios and len(ratios) == len(found) else None,
        sum(sizes) / len(sizes) if sizes else None,
        len(found),
        sum(result.diverged for result in found),
        sum(result.doubtful for result in found),
    )


def front(rows: Iterable[Row]) -> list[Row]:
    """Those that no other beats in accuracy and protection both; from the least protected on."""
    placed = [
        (row.ratio, row.accuracy.mean, row)
        for row in rows
        if row.accuracy is not None and row.ratio is not None
    ]
    points = [(ratio, accuracy) for ratio, accuracy, _ in placed]
    best = [one for one in placed if not any(_beats(other, one[:2]) for other in points)]
    return [row for *_, row in sorted(best, key=lambda one: (one[0], -one[1]))]


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether one is as good as the other in both, and better in one."""
    return one != other and one[0] >= other[0] and one[1] >= other[1]


def columns(sweep: Sweep, rows: Sequence[Row]) -> list[str]:
    """The table's head; a loss stands there only if something has no accuracy."""
    loss = ["loss"] if any(row.accuracy is None and row.loss is not None for row in rows) else []
    names = ["accuracy (%)", *loss, "grade", "noise ÷ example", "sent", "seeds"]
    return [*sweep.axes, *names]


def text_rows(sweep: Sweep, rows: Sequence[Row]) -> list[list[str]]:
    """The rows as a person reads them."""
    made = []
    for row in rows:
        cells = {
            **{name: in_short(value) for name, value in row.combination.varied.items()},
            "accuracy (%)": _with_deviation(row.accuracy, ".2f"),
            "loss": _with_deviation(row.loss, ".3g"),
            "grade": row.grade or NONE,
            "noise ÷ example": NONE if row.ratio is None else f"{row.ratio:.3g}",
            "sent": NONE if row.sent is None else in_bytes(round(row.sent)),
            "seeds": str(row.finished),
        }
        made.append([cells[name] for name in columns(sweep, rows)])
    return made


def _with_deviation(value: Spread | None, shape: str) -> str:
    if value is None:
        return NONE
    text = f"{value.mean:{shape}}"
    return text if value.deviation is None else f"{text} ± {value.deviation:{shape}}"


def plain_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as numbers, for CSV and JSON."""
    best = {id(row) for row in front(rows)}
    return [
        {
            **row.combination.varied,
            "accuracy_mean": row.accuracy and row.accuracy.mean / 100,
            "accuracy_deviation": None
            if row.accuracy is None
            else _hundredth(row.accuracy.deviation),
            "loss_mean": row.loss and row.loss.mean,
            "loss_deviation": row.loss and row.loss.deviation,
            "grade": row.grade,
            "noise_to_example": row.ratio,
            "bytes": row.sent,
            "seeds": row.finished,
            "diverged": row.diverged,
            "doubtful": row.doubtful,
            "front": id(row) in best,
        }
        for row in rows
    ]


def _hundredth(value: float | None) -> float | None:
    return None if value is None else value / 100


def notes(sweep: Sweep, rows: Sequence[Row]) -> list[str]:
    """What a reader of the table has to know."""
    seeds = ", ".join(map(str, sweep.seeds))
    if len(sweep.seeds) == 1:
        said = [f"One seed, {seeds}: accuracy after the last round."]
    else:
        said = [
            f"Mean ± standard deviation over the seeds {seeds}: accuracy after the last round. "
            "Grade and noise ÷ example are the worst of any seed."
        ]
    missing = sum(len(row.combination.cells) - row.finished for row in rows)
    if missing:
        wanted = sum(len(row.combination.cells) for row in rows)
        said.append(f"Not complete: {missing} of {wanted} runs are missing.")
    for row in rows:
        name = row.label or "this run"
        if row.diverged:
            said.append(f"{name}: {row.diverged} diverged and count with what they last reached.")
        if row.doubtful:
            said.append(f"{name}: {row.doubtful} doubtful; `lppa report` on the run says why.")
    best = [row.label for row in front(rows)]
    if len(rows) > 1 and best:
        said.append("Not beaten in accuracy and protection both: " + "; ".join(best) + ".")
    return said


def markdown(sweep: Sweep, rows: Sequence[Row], title: str) -> str:
    """Title, table and notes."""
    head = columns(sweep, rows)
    lines = [f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in text_rows(sweep, rows)]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes(sweep, rows))]) + "\n"
