"""An audit on a terminal: its tables, its verdict and the law of the noise, for people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from lppa.auditing.findings import AuditDocument, Compared, Dropout, Pair, PerRound
from lppa.running.display import in_bytes

LINES = 24  # of the table; more pairs are grouped by what they learn
WORDS = {"exact": "EXACT", None: "–"}
COLOURS = {"open": "bold red", "weak": "yellow", "hidden": "green"}


def show(found: AuditDocument) -> None:
    """One audit: the table of pairs, the verdict, what to change, and the law."""
    from rich.console import Console

    console = Console()
    title = f"{found.rule}, {found.topology} with {found.nodes} nodes: noise left, in β"
    heads = ("attacker", "victim", *found.targets, "÷ example", "grade")
    _print(console, title, heads, table_lines(found), found.legend)
    if found.per_round is not None:
        show_rounds(console, found.per_round)
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    for sentence in found.verdict:
        say(f"- {sentence}")
    if found.dropout:
        anyway = " What is open anyway stays so." if found.grade == "open" else ""
        say(f"- {dropout_sentence(found.dropout)}{anyway}")
    if found.advice:
        say(f"To change that: {found.advice}.")
    say("About the noise:")
    for sentence in found.law:
        say(f"- {sentence}")


def show_rounds(console: Any, told: PerRound) -> None:
    """What one pair learns of each round."""
    by = ", ".join(map(str, told.attackers))
    title = f"node {by} on node {told.victim}, round by round: noise left, in β"
    columns = {
        "gradient": "gradient",
        "change": "change from the one before",
        "ratio": "÷ example",
    }
    if all(row.change is None for row in told.rounds):
        del columns["change"]
    lines = [[str(row.round), *(cell(row[k]) for k in columns), row.grade] for row in told.rounds]
    heads = ("round", *columns.values(), "grade")
    _print(console, title, heads, lines)


def show_comparison(rows: Sequence[Compared], nodes: int, rule: str) -> None:
    """Several topologies side by side."""
    from rich.console import Console

    lines = [
        [
            row.topology,
            *(
                [
                    f"{row.beta:g}",
                    cell(row.noise),
                    cell(row.ratio),
                    cell(row.smallest),
                    in_bytes(row.bytes) if row.bytes is not None else "–",
                    f"{row.spectral_gap:.3g}",
                    row.grade,
                ]
                if row.refused is None
                else ["", "", "", "", "", "", "refused"]
            ),
        ]
        for row in rows
    ]
    heads = (
        "topology",
        "β",
        "noise left, in β",
        "÷ example",
        "coalition",
        "sent a round",
        "gap",
        "grade",
    )
    console = Console()
    legend = (
        "coalition: the fewest nodes that together learn something exactly. gap: the spectral gap; "
        "the larger, the faster models agree."
    )
    _print(console, f"{rule} with {nodes} nodes", heads, lines, legend)
    for row in rows:
        if row.refused is not None:
            told = f"{row.topology}: {row.refused}"
            console.print(told, markup=False, highlight=False, soft_wrap=True)


def dropout_sentence(told: Dropout) -> str:
    """What is left when a neighbour leaves."""
    noise = told.noise
    left = "nothing" if isinstance(noise, str) else f"{noise:.3g} β"
    by = ", ".join(map(str, told.attackers))
    return (
        f"If node {told.gone} leaves, {left} of node {told.victim}'s noise is left against "
        f"node {by}: {told.grade}."
    )


def _print(
    console: Any, title: str, heads: Sequence[str], lines: Sequence[Sequence[str]], legend: str = ""
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    # Eight columns have room on a terminal of 80 only without lines between them.
    table = Table(
        title=title,
        caption=legend or None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for name in heads:
        # Folded, not cut: random-regular:3 and random-regular:4 differ in their last letter.
        table.add_column(name, justify="right", overflow="fold")
    for line in lines:
        *rest, grade = line
        colour = COLOURS.get(grade)
        table.add_row(*rest, f"[{colour}]{grade}[/]" if colour else grade)
    console.print(table)


def table_lines(found: AuditDocument) -> list[list[str]]:
    """A line per pair; where there are many, one for all pairs that learn the same."""
    groups: dict[tuple[str, ...], list[Pair]] = {}
    for pair in found.pairs:
        groups.setdefault(_cells(found, pair), []).append(pair)
    if len(found.pairs) <= LINES:
        return [
            [_ids(pair.attackers), str(pair.victim), *_cells(found, pair)] for pair in found.pairs
        ]
    common = sorted(groups.items(), key=lambda item: -len(item[1]))
    lines = [
        [
            f"{_ids(pairs[0].attackers)}, …",
            f"{pairs[0].victim}, … ({len(pairs)} pairs)",
            *cells,
        ]
        for cells, pairs in common[:LINES]
    ]
    rest = sum(len(pairs) for _, pairs in common[LINES:])
    empty = [""] * (len(found.targets) + 2)
    return [*lines, ["…", f"{rest} more pairs: --json", *empty]] if rest else lines


def _cells(found: AuditDocument, pair: Pair) -> tuple[str, ...]:
    return (*(cell(pair.noise[t]) for t in found.targets), cell(pair.ratio), pair.grade)


def cell(value: float | str | None) -> str:
    """A number with three digits, however small; or a word."""
    return f"{value:.3g}" if isinstance(value, (int, float)) else WORDS.get(value, str(value))


def _ids(nodes: list[int]) -> str:
    return ", ".join(map(str, nodes))
