"""The paper's figures, from finished cells: what is to be drawn, as plain points.

How it is drawn is in `drawing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lppa.reproduce.cells import Cell, Results
from lppa.reproduce.experiments import (
    COLUMNS,
    CURVE_ATTACKS,
    DSGT,
    EXPERIMENTS,
    NAIVE,
    NOISY,
    PICTURES,
    RULES,
    Plan,
    Variant,
)
from lppa.reproduce.privacy import WHO
from lppa.reproduce.summaries import (
    NOTHING,
    Spread,
    accuracy,
    attack_figures,
    curve,
    spread,
)
from lppa.reproduce.table import count_missing, row_notes

Point = tuple[float, Spread]

ACCURACY = "highest mean test accuracy (%)"
RAW = "mean squared error, not clamped"
CLAMPED = "mean squared error, clamped"
RANGE = "(range of an input = 1)"
NO_VALUES = "The paper shows this as a picture only: there are no values to compare with."


@dataclass(frozen=True)
class Curve:
    """A line with its spread; `name` says whose it is and gives it its colour."""

    name: str
    points: list[Point]


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `middle` is what of a point's spread is drawn: mean or median."""

    title: str
    x: str
    y: str
    curves: list[Curve]
    levels: list[Curve] = field(default_factory=list)
    log_x: bool = False
    log_y: bool = False
    middle: str = "mean"
    ticks: tuple[str, ...] = ()
    """Names in the place of numbers 0, 1, … on the horizontal axis: points are not joined then."""


@dataclass(frozen=True)
class Figure:
    """Panels side by side, or pictures one above the other (a title, and a file if it is there)."""

    name: str
    title: str
    panels: list[Panel] = field(default_factory=list)
    pictures: list[tuple[str, str | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: int = 0


def training_figure(plan: Plan, results: Results) -> Figure:
    """Fig. 3a: accuracy over rounds."""
    curves = []
    for variant in COLUMNS:
        seeds = plan.seeds_of("fig-training")
        cells = [plan.training(plan.shown, variant, seed) for seed in seeds]
        curves.append(Curve(variant.title, curve(results, cells)))
    panel = Panel("", "communication round", "mean test accuracy (%)", curves)
    return _figure("fig-training", "Training curves", plan, results, [panel])


def attack_curve_figure(plan: Plan, results: Results) -> Figure:
    """Fig. 3b: what the attack gets out of the messages of each round."""
    rounds = plan.size.curve_rounds
    panels = []
    for y, figure, log in ((RAW, "mse_raw", True), (CLAMPED, "mse_clamped", False)):
        curves, all_cells = [], []
        for variant, attack in CURVE_ATTACKS:
            cells = [plan.attacked(plan.shown, variant, 1, rounds)]
            all_cells += cells
            points = [
                (at, spread(attack_figures(results, cells, attack, figure, at))) for at in rounds
            ]
            curves.append(Curve(_attack_title(variant, attack), _there(points)))
        guesses = [(at, _guess(results, all_cells, figure, at)) for at in rounds]
        panels.append(
            Panel(
                "not clamped" if log else "clamped, as a person sees it",
                "communication round",
                f"{y}\n{RANGE}",
                curves,
                [Curve("mean of public data", _there(guesses))],
                log_y=log,
                middle="median",
            )
        )
    return _figure("fig-dlg-curve", "The DLG attack over rounds", plan, results, panels)


def image_figure(plan: Plan, results: Results) -> Figure:
    """Fig. 4: what the attack reconstructs."""
    pictures = []
    for variant, attack in PICTURES:
        cell = plan.attacked(plan.shown, variant, 1)
        found = results.get(cell.key, NOTHING).pictures
        pictures.append((_attack_title(variant, attack), found.get(plan.full_name(attack))))
    made = _figure("fig-dlg-images", "What the DLG attack reconstructs", plan, results, [])
    return Figure(made.name, made.title, [], pictures, made.notes, made.missing)


def noise_figure(plan: Plan, results: Results) -> Figure:
    """Fig. 5: accuracy and error of the attack against the scale of the noise."""
    betas, seeds = plan.size.betas, plan.seeds_of("fig-noise")

    def trained(variant: Variant, beta: float) -> list[Cell]:
        return [plan.training(plan.shown, variant, s, beta=beta) for s in seeds]

    def attacked(variant: Variant, beta: float) -> list[Cell]:
        return [plan.attacked(plan.shown, variant, s, beta=beta) for s in seeds]

    def error(cells: Sequence[Cell], figure: str) -> Spread | None:
        return spread(attack_figures(results, cells, NAIVE, figure))

    x = "scale β of the noise"
    accuracies = [
        Curve(v.title, _there([(b, accuracy(results, trained(v, b)).best) for b in betas]))
        for v in NOISY
    ]
    plain = accuracy(results, [plan.training(plan.shown, DSGT, s) for s in seeds]).best
    level = [Curve(DSGT.title, _there([(b, plain) for b in betas]))]
    panels = [Panel("accuracy", x, ACCURACY, accuracies, level, log_x=True)]
    for y, figure, log in ((RAW, "mse_raw", True), (CLAMPED, "mse_clamped", False)):
        curves = [
            Curve(v.title, _there([(b, error(attacked(v, b), figure)) for b in betas]))
            for v in NOISY
        ]
        bare = [plan.attacked(plan.shown, DSGT, s) for s in seeds]
        levels = [
            Curve(DSGT.title, _flat(betas, error(bare, figure))),
            Curve("mean of public data", _flat(betas, _guess(results, bare, figure, 0))),
        ]
        title = "the paper's attacker, not clamped" if log else "clamped, as a person sees it"
        panels.append(Panel(title, x, f"{y}\n{RANGE}", curves, levels, True, log, middle="median"))
    notes = _ratios(panels[1])
    return _figure("fig-noise", "Performance against the noise", plan, results, panels, notes)


def _ratios(panel: Panel) -> list[str]:
    """The paper says that LPPA's error is about √2 times DP's, whatever β is."""
    dp, lppa = ({x: s.median for x, s in c.points} for c in panel.curves)
    ratios = [f"{lppa[b] / dp[b]:.3g} at β = {b:g}" for b in dp if b in lppa and dp[b] > 0]
    if not ratios:
        return []
    return [f"Raw error of LPPA ÷ DP, medians (the paper: about √2): {', '.join(ratios)}."]


def sweep_figure(
    plan: Plan,
    results: Results,
    name: str,
    title: str,
    x: str,
    values: Sequence[int],
    cell: Callable[[Variant, int, int], Cell],
) -> Figure:
    """Fig. 6: the highest accuracy of each rule against one setting."""
    seeds = plan.seeds_of(name)
    curves = [
        Curve(
            variant.title,
            _there(
                [
                    (v, accuracy(results, [cell(variant, seed, v) for seed in seeds]).best)
                    for v in sorted(values)
                ]
            ),
        )
        for variant in RULES
    ]
    panel = Panel("", x, ACCURACY, curves, log_x=True)
    return _figure(name, title, plan, results, [panel])


def local_epoch_figure(plan: Plan, results: Results) -> Figure:
    """Fig. 6a: local updates between two exchanges."""
    return sweep_figure(
        plan,
        results,
        "fig-local-epoch",
        "Performance against the local epoch",
        "local updates in each round",
        plan.size.local_steps,
        plan.local,
    )


def clients_figure(plan: Plan, results: Results) -> Figure:
    """Fig. 6b: the number of clients."""
    return sweep_figure(
        plan,
        results,
        "fig-clients",
        "Performance against the number of clients",
        "clients",
        plan.size.clients,
        lambda variant, seed, nodes: plan.training(plan.shown, variant, seed, nodes=nodes),
    )


MAKERS: dict[str, Callable[[Plan, Results], Figure]] = {
    "fig-training": training_figure,
    "fig-dlg-curve": attack_curve_figure,
    "fig-dlg-images": image_figure,
    "fig-noise": noise_figure,
    "fig-local-epoch": local_epoch_figure,
    "fig-clients": clients_figure,
}


def plain_points(figure: Figure) -> list[dict[str, Any]]:
    """All points of a figure as rows of numbers; of pictures, which there are."""
    rows = [
        {
            "panel": panel.title,
            "curve": line.name,
            "x": x,
            "mean": s.mean,
            "deviation": s.deviation,
            "median": s.median,
            "least": s.least,
            "most": s.most,
            "count": s.count,
        }
        for panel in figure.panels
        for line in (*panel.curves, *panel.levels)
        for x, s in line.points
    ]
    return rows or [{"picture": title, "file": file} for title, file in figure.pictures]


def _figure(
    name: str,
    title: str,
    plan: Plan,
    results: Results,
    panels: list[Panel],
    notes: Sequence[str] = (),
) -> Figure:
    cells = EXPERIMENTS[name](plan)
    said = [*notes, *_diverged(results, cells), *row_notes(results, cells), NO_VALUES]
    whole = f"{title}: {plan.shown}"
    return Figure(name, whole, panels, [], said, count_missing(results, cells))


def _diverged(results: Results, cells: Sequence[Cell]) -> list[str]:
    ends = [
        f"{cell.name} in round {results[cell.key].diverged_in}"
        for cell in {cell.key: cell for cell in cells}.values()
        if results.get(cell.key, NOTHING).diverged
    ]
    return [f"Diverged: {', '.join(ends)}."] if ends else []


def _attack_title(variant: Variant, attack: str) -> str:
    return variant.title if attack == NAIVE else f"{variant.title}; {WHO[attack]}"


def _guess(results: Results, cells: Sequence[Cell], figure: str, at: int) -> Spread | None:
    return spread(attack_figures(results, cells, NAIVE, figure, at, guess="mean"))


def _there(points: Sequence[tuple[float, Spread | None]]) -> list[Point]:
    return [(x, y) for x, y in points if y is not None]


def _flat(xs: Sequence[float], level: Spread | None) -> list[Point]:
    return _there([(x, level) for x in xs])
