"""Breaks runs off, and says whether they end as if nothing had happened.

    python scripts/chaos.py kills --kills 200 --work /tmp/chaos --results kills.jsonl
    python scripts/chaos.py losses --work /tmp/chaos --results losses.jsonl

Results are appended to a file, one line a trial; trials that it has are not made again. Needs no
network. How it is done is in the modules beside this one."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from chaos_by_hand import PHASES, give_back, lead, soak_run
from chaos_cuts import EXCHANGES, cut, undisturbed
from chaos_kills import draw, try_out
from chaos_lab import laboratory
from chaos_losses import LOSSES, lose, notice


def known_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep_row(path: Path, row: dict[str, Any]) -> None:
    """Appends a result, so that its trial is not made again."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


@click.group()
def main() -> None:
    """Break runs off, and see what comes of them."""


work_option = click.option("--work", type=click.Path(path_type=Path), required=True)
results_option = click.option("--results", type=click.Path(path_type=Path), required=True)


@main.command()
@click.option("--kills", default=200, show_default=True, help="How many times something is killed.")
@click.option("--only", help="Numbers of trials to make, whether or not they were made.")
@work_option
@results_option
def kills(kills: int, only: str | None, work: Path, results: Path) -> None:
    """Kill nodes, launchers and whole runs at random moments; go on; compare."""
    rows = known_rows(results)
    done = {row["trial"] for row in rows}
    numbers: Sequence[int] = [int(n) for n in only.split(",")] if only else range(100_000)
    with laboratory(work) as lab:
        for number in numbers:
            if not only and sum(row["kills"] for row in rows) >= kills:
                break
            if number in done and not only:
                continue
            row = try_out(lab, draw(number))
            rows.append(row)
            keep_row(results, row)
            click.echo(f"{number}: {row['kills']} kills, {row['wrong'] or 'identical'}", err=True)
    survived = sum(row["kills"] for row in rows if row["identical"])
    total = sum(row["kills"] for row in rows)
    click.echo(f"{survived} of {total} kills survived with identical results, in {len(rows)} runs")
    sys.exit(survived != total)


@main.command()
@click.option("--only", help="A part of the names of those to look at.")
@work_option
@results_option
def losses(only: str | None, work: Path, results: Path) -> None:
    """Lose nodes for good, and go on without them."""
    known = {row["name"] for row in known_rows(results)}
    with laboratory(work) as lab:

        def keep(row: dict[str, Any]) -> None:
            keep_row(results, row)
            click.echo(f"{row['name']}: {row['wrong'] or 'as it should be'}", err=True)
            lab.end_all()

        for name in LOSSES:
            if name not in known and (only or "") in name:
                keep(lose(lab, name))
        if not any("and back" in name for name in known) and (only or "") in "lost and back":
            keep(give_back(lab))
        for number in range(10):
            for kind in ("notice", "kill in a change of view"):
                name = f"{kind} {number}"
                if name not in known and (only or "") in name:
                    chance = random.Random(name)
                    keep({"name": name, **notice(lab, chance, during_change=kind != "notice")})
    rows = known_rows(results)
    times = [row["noticed"] for row in rows if "noticed" in row]
    if times:
        click.echo(f"noticed after {min(times):.2f} to {max(times):.2f} s, {len(times)} times")
    wrong = [row["name"] for row in rows if row["wrong"]]
    click.echo(f"{len(rows) - len(wrong)} of {len(rows)} losses as they should be")
    sys.exit(bool(wrong))


@main.command()
@click.option("--only", help="A part of the names of those to look at.")
@work_option
@results_option
def coordinators(only: str | None, work: Path, results: Path) -> None:
    """Kill the coordinator in each phase, and start another."""
    known = {row["name"] for row in known_rows(results)}
    with laboratory(work) as lab:
        for phase in PHASES:
            if phase in known or (only or "") not in phase:
                continue
            try:
                row = lead(lab, phase)
            except (TimeoutError, RuntimeError, OSError) as error:
                row = {"name": phase, "wrong": [repr(error)]}
            keep_row(results, row)
            click.echo(f"{phase}: {row['wrong'] or 'as it should be'}", err=True)
            lab.end_all()
    sys.exit(any(row["wrong"] for row in known_rows(results)))


@main.command()
@click.option("--runs", default=100, show_default=True)
@work_option
@results_option
def cuts(runs: int, work: Path, results: Path) -> None:
    """Cut connections of encrypted runs; compare."""
    known = {row["name"] for row in known_rows(results)}
    with laboratory(work) as lab:
        whole = [undisturbed(lab, exchange) for exchange in EXCHANGES]
        for number in range(runs):
            if number in known:
                continue
            row = cut(lab, number, whole[number % len(whole)])
            keep_row(results, row)
            click.echo(f"{number}: {row['cuts']} cuts, {row['wrong'] or 'identical'}", err=True)
            lab.end_all()
    rows = known_rows(results)
    right = [row for row in rows if not row["wrong"]]
    total = sum(row["cuts"] for row in rows)
    click.echo(f"{len(right)} of {len(rows)} runs with {total} cut connections ended identical")
    sys.exit(len(right) != len(rows))


@main.command()
@click.option("--seconds", default=7200.0, show_default=True)
@click.option("--every", default=60.0, show_default=True, help="Seconds from kill to kill.")
@work_option
@results_option
def soak(seconds: float, every: float, work: Path, results: Path) -> None:
    """Kill a node every minute for two hours; each comes back."""
    with laboratory(work) as lab:
        row = soak_run(lab, seconds, every)
    keep_row(results, row)
    click.echo(json.dumps(row))
    sys.exit(bool(row["wrong"]))


if __name__ == "__main__":
    main()
