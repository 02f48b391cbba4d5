"""Ten things that the paper says, and what finished cells say of each.

A verdict is never stronger than its runs: three seeds or nine attacks, or it is not shown yet. Each
has its criterion here, in words beside the code. How the page looks is `page`'s matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lppa.reproduce import paper
from lppa.reproduce.accuracy import level, measured
from lppa.reproduce.cells import Cell, Results
from lppa.reproduce.experiments import (
    DIFFERENCE,
    DP,
    DP_EVERY_ROUND,
    DSGT,
    EXPERIMENTS,
    LPPA,
    LPPA_EVERY_ROUND,
    NAIVE,
    POOLED,
    PRIOR,
    RULES,
    Plan,
    Variant,
    rows_of,
)
from lppa.reproduce.privacy import WHO, attacked_cells, middle
from lppa.reproduce.summaries import Spread, accuracy, attack_figures, spread

HOLDS, HOLDS_IF, FAILS, OPEN = "holds", "holds if", "does not hold", "not shown yet"
SEEDS, ATTACKS = 3, 9
NEAR_LOSS = 3.0  # points within which a loss is the paper's
NEAR_ROOT = 0.1  # part of √2 within which a ratio is √2


@dataclass(frozen=True)
class Verdict:
    """What became of a claim: the verdict, what was seen, and what shows it."""

    claim: str
    verdict: str
    seen: str
    shown_by: str
    criterion: str
    whole: bool
    """Whether all is finished that shows it; else the verdict is one so far."""

    @property
    def said(self) -> str:
        """The verdict, no stronger than its runs."""
        return self.verdict if self.whole or self.verdict == OPEN else f"{self.verdict}, so far"


Judge = Callable[[Plan, Results], tuple[str, str]]


def of_parts(good: Sequence[str], bad: Sequence[str]) -> str:
    """Holds everywhere, somewhere, nowhere, or nobody knows."""
    if not good and not bad:
        return OPEN
    return HOLDS if not bad else HOLDS_IF if good else FAILS


def listed(words: Sequence[str]) -> str:
    return ", ".join(words)


def highest(plan: Plan, results: Results, name: str, row: paper.Row, of: Variant) -> Spread | None:
    """The highest accuracy of a rule in a row of a table."""
    found: Spread | None = measured(plan, results, name, row, of)["highest"]
    return found


def same_as_dsgt(
    plan: Plan, results: Results, names: Sequence[str], variant: Variant
) -> tuple[list[str], list[str], str]:
    """Rows where a rule is within one deviation of DSGT, rows where not, and the widest gap."""
    good: list[str] = []
    bad: list[str] = []
    gaps: list[tuple[float, str]] = []
    for name in names:
        for row in rows_of(name, plan.datasets):
            base, found = (highest(plan, results, name, row, v) for v in (DSGT, variant))
            within = level(found, base)
            if within is None or found is None or base is None:
                continue
            words = row[0] if len(names) == 1 else f"{row[0]} {row[1]}"
            (good if within else bad).append(words)
            gap = found.mean - base.mean
            gaps.append((abs(gap), f"{gap:+.2f} ± {base.deviation or 0:.2f} points on {words}"))
    return good, bad, f"the widest gap is {max(gaps)[1]}" if gaps else ""


def lossless(plan: Plan, results: Results) -> tuple[str, str]:
    good, bad, widest = same_as_dsgt(plan, results, ["table1"], LPPA)
    return of_parts(good, bad), gathered(good, bad, widest)


def gathered(good: Sequence[str], bad: Sequence[str], widest: str) -> str:
    """The rows of either kind in a sentence."""
    if not good and not bad:
        return "too few seeds"
    parts = [f"level with DSGT on {listed(good)}"] * bool(good)
    parts += [f"not level on {listed(bad)}"] * bool(bad)
    return "; ".join([*parts, widest])


def root_of_two(plan: Plan, results: Results) -> tuple[str, str]:
    good: list[str] = []
    bad: list[str] = []
    for beta in plan.size.betas:
        far = {
            variant: spread(
                attack_figures(
                    results,
                    [
                        plan.attacked(plan.shown, variant, seed, beta=beta)
                        for seed in plan.seeds_of("fig-noise")
                    ],
                    NAIVE,
                    "distance",
                )
            )
            for variant in (DP, LPPA)
        }
        dp, lppa = far[DP], far[LPPA]
        if dp is None or lppa is None or min(dp.count, lppa.count) < ATTACKS or not dp.median:
            continue
        ratio = lppa.median / dp.median
        near = abs(ratio / math.sqrt(2) - 1) <= NEAR_ROOT
        (good if near else bad).append(f"{ratio:.3g} at β = {beta:g}")
    verdict = OPEN if not good and not bad else FAILS if bad else HOLDS
    said = "distance of LPPA ÷ DP, medians: " + listed([*good, *bad])
    return verdict, said if good or bad else "too few attacks"


def dp_loses(plan: Plan, results: Results) -> tuple[str, str]:
    lost: dict[Variant, dict[paper.Row, float]] = {DP: {}, DP_EVERY_ROUND: {}}
    for row in rows_of("table1", plan.datasets):
        for variant, of in lost.items():
            found = measured(plan, results, "table1", row, variant)["loss"]
            if found is not None and found.count >= SEEDS:
                of[row] = found.mean
    rows = [row for row in lost[DP] if row in lost[DP_EVERY_ROUND]]
    theirs = paper.loss_of_rows("table1", DP.rule, rows)
    if not rows or theirs is None:
        return OPEN, "too few seeds"
    start, every = (sum(of[row] for row in rows) / len(rows) for of in lost.values())
    said = (
        f"{start:+.2f} points with noise at the start, {every:+.2f} in every round; the paper has "
        f"{theirs:+.2f} on the same {len(rows)} data sets"
    )
    if abs(start - theirs) <= NEAR_LOSS:
        return HOLDS, said
    return (HOLDS_IF if abs(every - theirs) <= NEAR_LOSS else FAILS), said


def dp_ends(plan: Plan, results: Results) -> tuple[str, str]:
    counts = {}
    for variant in (DP, DP_EVERY_ROUND):
        cells = [plan.training(plan.shown, variant, s) for s in plan.seeds_of("table1")]
        done = [cell for cell in cells if cell.key in results]
        counts[variant] = (accuracy(results, done).diverged, len(done))
    said = listed(
        [f"{variant.title}: {bad} of {all_} runs" for variant, (bad, all_) in counts.items()]
    )
    if min(done for _, done in counts.values()) < SEEDS:
        return OPEN, said
    all_of = {variant: bad == done for variant, (bad, done) in counts.items()}
    return (HOLDS if all_of[DP] else HOLDS_IF if all_of[DP_EVERY_ROUND] else FAILS), said


def beaten(results: Results, cells: Sequence[Cell], who: str) -> tuple[int, int]:
    """How many attacks came nearer than the mean of public data, and of how many."""
    figure = "mse_clamped"
    found = attack_figures(results, cells, who, figure)
    guesses = attack_figures(results, cells, who, figure, guess="mean")
    pairs = list(zip(found, guesses, strict=True))
    return sum(one < other for one, other in pairs), len(pairs)


def dlg_defeated(plan: Plan, results: Results) -> tuple[str, str]:
    counts = {}
    for who in (NAIVE, DIFFERENCE, PRIOR, POOLED):
        per = [beaten(results, attacked_cells(plan, d, LPPA), who) for d in plan.datasets]
        counts[who] = (sum(near for near, _ in per), sum(count for _, count in per))
    said = listed([f"{WHO[who]}: {near} of {count}" for who, (near, count) in counts.items()])
    said = f"attacks that come nearer than the mean row: {said}"
    if counts[NAIVE][1] < ATTACKS:
        return OPEN, "too few attacks"
    if counts[NAIVE][0] > counts[NAIVE][1] / 10:
        return FAILS, said
    others = [near for who, (near, _) in counts.items() if who != NAIVE]
    return (HOLDS_IF if any(others) else HOLDS), said


def tenfold(plan: Plan, results: Results) -> tuple[str, str]:
    good: list[str] = []
    bad: list[str] = []
    for dataset in plan.datasets:
        far = []
        for variant in (DSGT, LPPA):
            cells = attacked_cells(plan, dataset, variant)
            enough = len(attack_figures(results, cells, NAIVE, "distance")) >= ATTACKS
            far.append(middle(results, cells, NAIVE, "distance") if enough else None)
        plain, hidden = far
        if plain is not None and hidden is not None and plain > 0:
            ratio = hidden / plain
            (good if ratio >= 10 else bad).append(f"{dataset} {ratio:.3g}")
    theirs = {d: of[LPPA.rule] / of[DSGT.rule] for d, of in paper.TABLE2.items()}
    own = listed([f"{d} {ratio:.3g}" for d, ratio in theirs.items() if d in plan.datasets])
    if not good and not bad:
        return OPEN, "too few attacks"
    return of_parts(good, bad), f"distance of LPPA ÷ DSGT: {listed([*good, *bad])} (paper: {own})"


def falls(
    plan: Plan, results: Results, name: str, values: Sequence[int], cell: Callable[..., Cell]
) -> tuple[str, str]:
    """Whether accuracy at the last value is below that at the first by more than a deviation."""
    good: list[str] = []
    bad: list[str] = []
    for variant in RULES:
        first, last = (
            accuracy(results, [cell(variant, seed, value) for seed in plan.seeds_of(name)]).best
            for value in (min(values), max(values))
        )
        if first is None or last is None or min(first.count, last.count) < SEEDS:
            continue
        worse = first.mean - last.mean > (first.deviation or 0.0)
        words = f"{variant.title} {first.mean:.1f} → {last.mean:.1f} %"
        (good if worse else bad).append(words)
    said = f"from {min(values)} to {max(values)}: {listed([*good, *bad])}"
    return of_parts(good, bad), said if good or bad else "too few seeds"


def local_epochs(plan: Plan, results: Results) -> tuple[str, str]:
    return falls(plan, results, "fig-local-epoch", plan.size.local_steps, plan.local)


def clients(plan: Plan, results: Results) -> tuple[str, str]:
    def cell(variant: Variant, seed: int, nodes: int) -> Cell:
        return plan.training(plan.shown, variant, seed, nodes=nodes)

    return falls(plan, results, "fig-clients", plan.size.clients, cell)


def skew(plan: Plan, results: Results) -> tuple[str, str]:
    good, bad, widest = same_as_dsgt(plan, results, ["table3", "table4"], LPPA)
    if not good and not bad:
        return OPEN, "too few seeds"
    said = f"level with DSGT in {len(good)} of {len(good) + len(bad)} rows; {widest}"
    return of_parts(good, bad), said


def every_round(plan: Plan, results: Results) -> tuple[str, str]:
    good, bad, widest = same_as_dsgt(plan, results, ["table1"], LPPA_EVERY_ROUND)
    per = [
        beaten(results, attacked_cells(plan, dataset, LPPA_EVERY_ROUND), DIFFERENCE)
        for dataset in plan.datasets
    ]
    near, count = sum(one for one, _ in per), sum(every for _, every in per)
    said = gathered(good, bad, widest)
    said += f"; the attacker that subtracts comes nearer than the mean row in {near} of {count}"
    if count < ATTACKS or (not good and not bad):
        return OPEN, said
    return (FAILS if near > count / 10 else of_parts(good, bad)), said


JUDGED: tuple[tuple[str, Judge, str, str], ...] = (
    (
        "LPPA is lossless",
        lossless,
        "table1",
        "the mean over seeds is within one standard deviation of DSGT's, on each data set",
    ),
    (
        "LPPA hides √2 times as much as DP",
        root_of_two,
        "fig-noise",
        "the ratio of median distances is within a tenth of √2 for every β",
    ),
    (
        "DP loses 13 points",
        dp_loses,
        "table1",
        f"the mean loss is within {NEAR_LOSS:g} points of the paper's on the same data sets; "
        "holds if: noise is added in every round",
    ),
    (
        "DP ends in NaN",
        dp_ends,
        "fig-training",
        "all runs end with values that are no numbers; holds if: noise is added in every round",
    ),
    (
        "LPPA defeats DLG",
        dlg_defeated,
        "table2",
        "at most a tenth of attacks come nearer than the mean of public data; holds if: nobody "
        "subtracts messages or knows what data looks like",
    ),
    (
        "LPPA has ten times DSGT's error",
        tenfold,
        "table2",
        "the ratio of median distances is at least 10 on each data set; holds if: on those",
    ),
    (
        "More local epochs are worse",
        local_epochs,
        "fig-local-epoch",
        "the most are below the fewest by more than a standard deviation, for each rule",
    ),
    (
        "More clients are worse",
        clients,
        "fig-clients",
        "the most are below the fewest by more than a standard deviation, for each rule",
    ),
    (
        "LPPA is robust under skew",
        skew,
        "table3 table4",
        "within one standard deviation of DSGT in each row of tables 3 and 4",
    ),
    (
        "LPPA works with noise in every round",
        every_round,
        "table1 table2",
        "as lossless, and at most a tenth of attacks that subtract come nearer than the mean row",
    ),
)


def verdicts(plan: Plan, results: Results) -> list[Verdict]:
    """All ten, in the paper's order."""

    def whole(names: str) -> bool:
        return all(c.key in results for name in names.split() for c in EXPERIMENTS[name](plan))

    return [
        Verdict(claim, *judge(plan, results), shown_by, criterion, whole(shown_by))
        for claim, judge, shown_by, criterion in JUDGED
    ]
