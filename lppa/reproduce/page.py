"""The page that answers in a minute: one table, one figure, ten claims, and where the rest is.

Written anew from finished cells each time; nothing on it is maintained by hand. Longer words about
how results are made stand in method.md beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lppa.reproduce import paper
from lppa.reproduce.accuracy import level, measured, theirs_of
from lppa.reproduce.cells import Cell, Results
from lppa.reproduce.claims import Verdict, verdicts
from lppa.reproduce.costs import cost, in_time
from lppa.reproduce.experiments import COLUMNS, DP, DSGT, EXPERIMENTS, LPPA, Plan, Variant
from lppa.reproduce.figures import Curve, Figure, Panel
from lppa.reproduce.readings import READINGS
from lppa.reproduce.summaries import Spread
from lppa.reproduce.table import NONE, called, deviation, markdown_rows, rows_seen

NEAR = 3.0  # points within which DSGT is the paper's
ENOUGH = 3  # seeds
FIGURE = "overview"


def page(plan: Plan, results: Results, suffix: str = "") -> str:
    """README.md of a folder of results."""
    reading = READINGS[plan.reading]
    claims = markdown_rows(
        ("the paper says", "verdict", "what was seen", "shown by"),
        [
            (one.claim, f"*{one.said}*", one.seen, links(plan, results, one.shown_by, suffix))
            for one in verdicts(plan, results)
        ],
    )
    lines = [
        "# The paper's tables and figures, run again",
        "",
        f"Highest accuracy in per cent, mean ± standard deviation over seeds; reading "
        f"`{plan.reading}`: {reading.about}.",
        "",
        *markdown_rows(
            ("data set", "rule", "paper", "ours", "difference", "seeds", "same conclusion"),
            summary_rows(plan, results),
        ),
        "",
        f"Same conclusion: DSGT is within {NEAR:g} points of the paper's; DP is below DSGT by more "
        "than a standard deviation of DSGT, as in the paper; LPPA is within one of it. The paper "
        "has one DP, and can be read both ways. Fewer than three seeds show nothing.",
        "",
        f"![ours beside the paper's]({FIGURE}{suffix}.png)",
        "",
        "## Ten claims",
        "",
        *claims,
        "",
        f"Each verdict goes by a criterion that stands in [claims{suffix}.md](claims{suffix}.md), "
        "and needs three seeds or nine attacks.",
        "",
        "## One click down",
        "",
        *(f"- {links(plan, results, name, suffix)}: {what}" for name, what in FILES.items()),
        "- [method.md](method.md): how results are made, what is compared, what was chosen where "
        "the paper is silent",
        "- `cells.jsonl`: every run, one line each, with all that determines it",
        "",
        "## What is there",
        "",
        *markdown_rows(
            ("what", "cells", "finished", "the rest on one core, very roughly", "command"),
            work_rows(plan, results),
        ),
    ]
    return "\n".join(lines) + "\n"


FILES = {
    "table1": "accuracy, equal shares",
    "table2": "what attackers rebuild",
    "table3": "accuracy, unequal amounts of data",
    "table4": "accuracy, unequal labels",
    "readings": "the first table in every reading",
    "fig-training": "training curves",
    "fig-dlg-curve": "the attack over rounds",
    "fig-dlg-images": "what attacks show",
    "fig-noise": "accuracy and attack against β",
    "fig-local-epoch": "accuracy against local updates",
    "fig-clients": "accuracy against the number of clients",
}


def links(plan: Plan, results: Results, names: str, suffix: str) -> str:
    """Where experiments are to be found, as links; those of which there is nothing by name."""
    words = []
    for name in names.split():
        end = "png" if name.startswith("fig") else "md"
        there = any(cell.key in results for cell in EXPERIMENTS[name](plan))
        words.append(f"[{name}]({name}{suffix}.{end})" if there else f"{name} (not run yet)")
    return ", ".join(words)


def claims_page(plan: Plan, results: Results, suffix: str = "") -> str:
    """All claims with their criteria."""
    lines = ["# Ten claims of the paper, and how each is judged", ""]
    for number, one in enumerate(verdicts(plan, results), 1):
        shown = links(plan, results, one.shown_by, suffix)
        lines += claim_lines(number, one, shown)
    return "\n".join(lines).rstrip() + "\n"


def claim_lines(number: int, one: Verdict, shown: str) -> list[str]:
    return [
        f"## {number}. {one.claim}: {one.said}",
        "",
        f"- Holds where {one.criterion}.",
        f"- Seen: {one.seen}.",
        f"- Shown by {shown}: `lppa reproduce {one.shown_by}`.",
        "",
    ]


def summary_rows(plan: Plan, results: Results) -> list[list[str]]:
    """A row for each data set and rule."""
    rows = []
    for dataset in plan.datasets:
        for variant in COLUMNS:
            found = measured(plan, results, "table1", (dataset, "iid"), variant)
            cells = [plan.training(dataset, variant, s) for s in plan.seeds_of("table1")]
            theirs = theirs_beside(dataset, variant)
            best: Spread | None = found["highest"]
            away = None if best is None or theirs is None else best.mean - theirs.mean
            rows.append(
                [
                    called(dataset, results, cells),
                    variant.title,
                    written(theirs, plan.deviation),
                    written(best, plan.deviation),
                    NONE if away is None else f"{away:+.2f}",
                    str(found["seeds"]),
                    in_a_word(same_conclusion(plan, results, dataset, variant)),
                ]
            )
    return rows


def theirs_beside(dataset: str, variant: Variant) -> paper.Value | None:
    """The paper's value; its one DP stands beside both of ours."""
    same = DP if variant.rule == DP.rule else variant
    return theirs_of("table1", (dataset, "iid"), same)


def written(value: Spread | paper.Value | None, kind: str) -> str:
    if value is None:
        return NONE
    around = deviation(value, kind)
    return f"{value.mean:.2f}" + ("" if around is None else f" ± {around:.2f}")


def in_a_word(answer: bool | None) -> str:
    return NONE if answer is None else "yes" if answer else "**no**"


def same_conclusion(plan: Plan, results: Results, dataset: str, variant: Variant) -> bool | None:
    """Whether a rule does here what it does in the paper; None where too little was run."""
    theirs = theirs_beside(dataset, variant)
    base, found = (
        measured(plan, results, "table1", (dataset, "iid"), v)["highest"] for v in (DSGT, variant)
    )
    if theirs is None or base is None or found is None or min(base.count, found.count) < ENOUGH:
        return None
    if variant is DSGT:
        return bool(abs(base.mean - theirs.mean) <= NEAR)
    if variant is LPPA:
        return level(found, base)
    return bool(base.mean - found.mean > (base.deviation or 0.0))


def weigher(plan: Plan, results: Results) -> Callable[[Cell], float]:
    """What a cell is expected to cost; where a data set was seen to be a sample, as a sample."""
    cells = [cell for make in EXPERIMENTS.values() for cell in make(plan)]
    seen = {dataset: min(rows) for dataset, rows in rows_seen(results, cells).items()}
    return lambda cell: cost(cell, seen.get(cell.dataset))


def work_rows(plan: Plan, results: Results) -> list[list[str]]:
    """How much of each experiment is there, and what the rest would take."""
    rows, weigh = [], weigher(plan, results)
    for name, make in EXPERIMENTS.items():
        cells = {cell.key: cell for cell in make(plan)}
        left = [cell for key, cell in cells.items() if key not in results]
        seconds = sum(map(weigh, left))
        rows.append(
            [
                name,
                str(len(cells)),
                str(len(cells) - len(left)),
                in_time(seconds) if left else NONE,
                f"`lppa reproduce {name}`",
            ]
        )
    return rows


def overview(plan: Plan, results: Results) -> Figure:
    """The first table as a picture: ours with their spread, and the paper's hollow beside them."""
    curves, levels = [], []
    width = 0.8 / len(COLUMNS)
    for place, variant in enumerate(COLUMNS):
        ours, theirs = [], []
        for at, dataset in enumerate(plan.datasets):
            x = at + (place - (len(COLUMNS) - 1) / 2) * width
            best = measured(plan, results, "table1", (dataset, "iid"), variant)["highest"]
            value = theirs_of("table1", (dataset, "iid"), variant)
            if best is not None:
                ours.append((x, best))
            if value is not None:
                mean = value.mean
                theirs.append((x, Spread(mean, value.deviation, 5, mean, mean, mean)))
        curves.append(Curve(variant.title, ours))
        levels.append(Curve(f"{variant.title} (paper)", theirs))
    panel = Panel("", "", "highest mean test accuracy (%)", curves, levels, ticks=plan.datasets)
    return Figure(FIGURE, "Table 1: ours (filled) beside the paper's (hollow)", [panel])


def plan_lines(plan: Plan, results: Results, names: Sequence[str], cores: int) -> list[str]:
    """What a call would run, and how long that would take here."""
    seen: set[str] = set(results)
    lines, total, weigh = [], 0.0, weigher(plan, results)
    for name in EXPERIMENTS:
        cells = {c.key: c for c in EXPERIMENTS[name](plan)} if name in names else {}
        left = [cell for key, cell in cells.items() if key not in seen]
        seen |= cells.keys()
        seconds = sum(map(weigh, left)) / cores
        total += seconds
        if cells:
            lines.append(f"{name}: {len(left)} cells to run, very roughly {in_time(seconds)}")
    return [*lines, f"all: very roughly {in_time(total)} on {cores} cores"]
