"""Tables 1, 3 and 4: the highest accuracy of each rule beside the paper's; and each reading's.

For people a rule is a column, as in the paper; for programs each value has a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lppa.reproduce import paper
from lppa.reproduce.cells import Results
from lppa.reproduce.experiments import DSGT, EXPERIMENTS, RULES, Plan, Variant, rows_of, variants_of
from lppa.reproduce.readings import READINGS
from lppa.reproduce.summaries import Accuracy, Spread, accuracy, loss, spread
from lppa.reproduce.table import Table, called, count_missing, row_notes

TITLES = {
    "table1": "Table 1: highest accuracy (%) under homogeneous data partitioning",
    "table3": "Table 3: highest accuracy (%) under quantity distribution skew",
    "table4": "Table 4: highest accuracy (%) under label distribution skew",
}
OURS, LAST, THEIRS = "ours", "ours, last round", "paper"
ALL = "all"


def accuracy_table(plan: Plan, results: Results, name: str) -> Table:
    """Loss is DSGT minus the rule, over pairs with the same seed."""
    variants, seeds = variants_of(name), plan.seeds_of(name)
    rows: list[dict[str, Any]] = []
    data: list[dict[str, Any]] = []
    notes: list[str] = []
    for dataset, split in rows_of(name, plan.datasets):
        found = {v: measured(plan, results, name, (dataset, split), v) for v in variants}
        cells = [plan.training(dataset, v, s, split) for v in variants for s in seeds]
        where = {"data set": called(dataset, results, cells), "partition": split}
        rows += people_rows(where, found)
        data += [{**where, "rule": v.title, **values} for v, values in found.items()]
        for variant in variants:
            own = [plan.training(dataset, variant, seed, split) for seed in seeds]
            notes += diverged_notes(f"{dataset}, {split}, {variant.title}", accuracy(results, own))
    keys = rows_of(name, plan.datasets)
    rows += [mean_losses(name, keys, data, whose, variants[1:]) for whose in (OURS, THEIRS)]
    cells = EXPERIMENTS[name](plan)
    notes += row_notes(results, cells) + paper.doubts(name)
    titles = [variant.title for variant in variants]
    losses = [f"loss: {title}" for title in titles[1:]]
    return Table(
        name,
        TITLES[name],
        ("data set", "partition", "whose", *titles, *losses, "seeds"),
        rows,
        notes,
        count_missing(results, cells),
        data,
        deviation=plan.deviation,
    )


def measured(
    plan: Plan, results: Results, name: str, row: paper.Row, variant: Variant
) -> dict[str, Any]:
    """All that is known of a rule in one row of a table, ours and the paper's."""
    dataset, split = row
    seeds = plan.seeds_of(name)
    cells, plain = (
        [plan.training(dataset, v, seed, split) for seed in seeds] for v in (variant, DSGT)
    )
    found = accuracy(results, cells)
    theirs, base = theirs_of(name, row, variant), theirs_of(name, row, DSGT)
    other = variant is not DSGT
    return {
        "highest": found.best,
        "paper": theirs,
        "difference": found.best.mean - theirs.mean if found.best and theirs else None,
        "loss": loss(results, zip(plain, cells, strict=True)) if other else None,
        "paper's loss": base.mean - theirs.mean if other and theirs and base else None,
        "last round": found.final,
        "diverged": found.diverged,
        "seeds": found.best.count if found.best else 0,
    }


def people_rows(
    where: dict[str, Any], found: dict[Variant, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Ours, ours in the last round, and the paper's, with a column for each rule."""
    made = []
    for whose, value, lost in ((OURS, "highest", "loss"), (LAST, "last round", None)):
        row = {**where, "whose": whose, **{v.title: of[value] for v, of in found.items()}}
        if lost is not None:
            row |= {f"loss: {v.title}": of[lost] for v, of in found.items()}
            row["seeds"] = counts([of["seeds"] for of in found.values()])
        made.append(row)
    theirs = {v.title: of["paper"] for v, of in found.items()}
    losses = {f"loss: {v.title}": of["paper's loss"] for v, of in found.items()}
    return [*made, {**where, "whose": THEIRS, **theirs, **losses}]


def counts(seeds: Sequence[int]) -> str:
    """How many seeds the columns have: one number, or the least and the most."""
    least, most = min(seeds), max(seeds)
    return str(most) if least == most else f"{least} to {most}"


def theirs_of(name: str, row: paper.Row, variant: Variant) -> paper.Value | None:
    """The paper's value; it has none for data and rules that only we look at."""
    values = paper.ACCURACIES[name].get(row)
    return None if values is None or variant.noise_every else values[variant.rule]


def mean_losses(
    name: str,
    keys: Sequence[paper.Row],
    data: Sequence[dict[str, Any]],
    whose: str,
    variants: Sequence[Variant],
) -> dict[str, Any]:
    """The paper's last row: the mean loss over all rows, and the paper's for the same rows."""
    row: dict[str, Any] = {"data set": ALL, "whose": whose}
    for variant in variants:
        own = [one for one in data if one["rule"] == variant.title]
        there = {key: one["loss"] for key, one in zip(keys, own, strict=True) if one["loss"]}
        if whose == OURS:
            row[f"loss: {variant.title}"] = spread([found.mean for found in there.values()])
        elif not variant.noise_every:
            row[f"loss: {variant.title}"] = paper.loss_of_rows(name, variant.rule, there)
    return row


def diverged_notes(where: str, found: Accuracy) -> list[str]:
    """Says which runs of a row came to an early end."""
    if not found.diverged:
        return []
    said = f"{where}: {found.diverged} diverged; they count with the best that they reached"
    if found.untested:
        said += f", but for {found.untested} that never came to a test"
    return [said + "."]


def readings_table(plan: Plan, results: Results) -> Table:
    """The first table in every reading, and how far each is from the paper's columns."""
    data = []
    for reading in READINGS:
        own = replace(plan, reading=reading, seeds=len(plan.seeds_of("readings")))
        for dataset in plan.datasets:
            for variant in RULES:
                found = measured(own, results, "table1", (dataset, "iid"), variant)
                data.append(
                    {"reading": reading, "data set": dataset, "rule": variant.title, **found}
                )
    rows = [theirs_by_dataset(plan), *(by_dataset(plan, data, reading) for reading in READINGS)]
    cells = EXPERIMENTS["readings"](plan)
    notes = [
        "DSGT / DP, noise at the start / LPPA: highest accuracy in per cent, mean over seeds.",
        "`apart` is the mean of |ours − the paper's| over all that was run, in points.",
        *(f"{name}: {reading.about}." for name, reading in READINGS.items()),
        *(
            f"{one['reading']}, {one['data set']}, {one['rule']}: {one['diverged']} diverged."
            for one in data
            if one["diverged"]
        ),
        *row_notes(results, cells),
    ]
    return Table(
        "readings",
        "Readings of the paper's setting",
        ("reading", *plan.datasets, "apart", "seeds"),
        rows,
        notes,
        count_missing(results, cells),
        data,
        deviation=plan.deviation,
    )


def theirs_by_dataset(plan: Plan) -> dict[str, Any]:
    row: dict[str, Any] = {"reading": THEIRS}
    for dataset in plan.datasets:
        theirs = [theirs_of("table1", (dataset, "iid"), variant) for variant in RULES]
        row[dataset] = in_one([None if value is None else value.mean for value in theirs])
    return row


def by_dataset(plan: Plan, data: Sequence[dict[str, Any]], reading: str) -> dict[str, Any]:
    row: dict[str, Any] = {"reading": reading}
    own = [one for one in data if one["reading"] == reading]
    for dataset in plan.datasets:
        best = [one["highest"] for one in own if one["data set"] == dataset]
        row[dataset] = in_one([None if found is None else found.mean for found in best])
    away = [abs(one["difference"]) for one in own if one["difference"] is not None]
    row["apart"] = sum(away) / len(away) if away else None
    row["seeds"] = counts([one["seeds"] for one in own])
    return row


def in_one(values: Sequence[float | None]) -> str | None:
    """Several rules' values in one cell."""
    if not any(value is not None for value in values):
        return None
    return " / ".join("–" if value is None else f"{value:.2f}" for value in values)


def level(found: Spread | None, base: Spread | None) -> bool | None:
    """Whether two rules are within one deviation of the second; None with fewer than 3 seeds."""
    if found is None or base is None or min(found.count, base.count) < 3:
        return None
    return base.deviation is not None and abs(found.mean - base.mean) <= base.deviation
