"""Long measurements that go on where they stopped. Not a program: the others here import it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click


def measure_missing(
    kept: Path, jobs: Iterable[str], measure: Callable[[str], dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows of all jobs: those that the file has, and the others, measured and appended."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    known = {row["name"] for row in rows}
    for job in jobs:
        if job in known:
            continue
        row = {"name": job, **measure(job)}
        rows.append(row)
        with kept.open("a") as file:
            file.write(json.dumps(row) + "\n")
        click.echo(f"{job}: done", err=True)
    return rows


def publish(text: str, write: Path | None) -> None:
    """Prints a table, and writes it where that was asked for."""
    click.echo(text)
    if write is not None:
        write.write_text(text)
