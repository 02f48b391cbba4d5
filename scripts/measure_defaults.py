"""What the plain defaults reach on every data set, against one client that has all the data.

Usage: python scripts/measure_defaults.py OUT [--datasets digits,adult] [--write docs/defaults.md]
Every run is `lppa run -n N --dataset D --seed S --eval-every 80` with the options of its column.
Resumable: OUT/runs.jsonl keeps what is done.
"""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import click
import torch
from resumable import measure_missing, publish

from lppa.node.learner import make_learner
from lppa.protocol.settings import make_settings
from lppa.running.display import Silent
from lppa.running.launch import stop_fork_server
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local

DATASETS = ("digits", "mnist", "fmnist", "cifar10", "adult", "covtype", "rcv1")
SEEDS = "1,2,3"
COLUMNS: dict[str, tuple[int, dict[str, str]]] = {
    "full": (5, {}),
    "dirichlet": (5, {"partition": "dirichlet:0.3"}),
    "ring": (5, {"topology": "ring"}),
    "rr4": (8, {"topology": "random-regular:4"}),
}
RULES = {"full": ("lppa", "dsgt"), "ring": ("lppa", "dsgt"), "rr4": ("lppa", "dsgt")}


def alone(dataset: str, seed: int) -> dict[str, Any]:
    """One client with all the data and as many steps of the same size."""
    torch.set_num_threads(1)
    settings = make_settings({"dataset": dataset, "seed": seed})
    learner = make_learner(settings, 0, 1, seed, torch.device("cpu"))
    theta = learner.start()
    for step in range(settings.rounds * int(settings.local_steps)):
        theta = theta - settings.lr * learner.gradient(theta, step)
    return {"accuracy": learner.evaluate(theta, 0)["accuracy"]}


def together(dataset: str, column: str, rule: str, seed: int, folder: Path) -> dict[str, Any]:
    """A run with the defaults and the options of a column."""
    nodes, options = COLUMNS[column]
    told = {"dataset": dataset, "rule": rule, "seed": seed, "eval_every": 80, **options}
    shutil.rmtree(folder, ignore_errors=True)
    summary = run_local(make_blueprint(make_settings(told), nodes, folder.name), folder, Silent())
    audit = json.loads((folder / "audit.json").read_text())
    return {
        "accuracy": summary["accuracy"]["mean"],
        "worst": summary["accuracy"]["min"],
        "status": summary["status"],
        "grade": summary["grade"],
        "beta": audit["beta"],
        "ratio": min((p["ratio"] for p in audit["pairs"] if p["ratio"] is not None), default=None),
        "seconds": summary["seconds"]["total"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Means and deviations over seeds, in per cent, and the grades."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row["name"].split()[:3]), []).append(row)

    def cell(*key: str) -> str:
        values = [100 * row["accuracy"] for row in found.get(key, ())]
        if not values:
            return "–"
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.2f}{spread}"

    def grade(*key: str) -> str:
        some = found.get(key, ())
        grades = "/".join(sorted({row["grade"] for row in some}))
        ratios = [row["ratio"] for row in some if row["ratio"] is not None]
        return f"{grades} ({min(ratios):.0f})" if ratios else grades or "–"

    lines = [
        "| data | one client | full: lppa | dsgt | ring: lppa | dsgt | "
        "random-regular:4, 8 clients: lppa | dsgt | dirichlet:0.3: lppa |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {cell(name, 'alone', 'dsgt')} | "
        + " | ".join(
            cell(name, column, rule)
            for column in ("full", "ring", "rr4")
            for rule in ("lppa", "dsgt")
        )
        + f" | {cell(name, 'dirichlet', 'lppa')} |"
        for name in DATASETS
    ]
    lines += [
        "",
        "| data | full | ring | random-regular:4 | dirichlet:0.3 |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | "
        + " | ".join(grade(name, c, "lppa") for c in ("full", "ring", "rr4", "dirichlet"))
        + " |"
        for name in DATASETS
    ]
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--datasets", default=",".join(DATASETS), help="Comma-separated.")
@click.option("--columns", default="alone,ring,full,dirichlet,rr4", help="Comma-separated.")
@click.option("--seeds", default=SEEDS, show_default=True, help="Comma-separated.")
@click.option("--write", type=click.Path(path_type=Path), help="Write the tables there.")
def main(out: Path, datasets: str, columns: str, seeds: str, write: Path | None) -> None:
    """Run what is missing, and print the tables."""
    jobs = [
        f"{dataset} {column} {rule} {seed}"
        for seed in seeds.split(",")
        for column in columns.split(",")
        for rule in RULES.get(column, ("dsgt",) if column == "alone" else ("lppa",))
        for dataset in datasets.split(",")
    ]

    def measure(job: str) -> dict[str, Any]:
        dataset, column, rule, seed = job.split()
        if column == "alone":
            return alone(dataset, int(seed))
        return together(dataset, column, rule, int(seed), out / job.replace(" ", "-"))

    rows = measure_missing(out / "runs.jsonl", jobs, measure)
    stop_fork_server()
    publish(table(rows), write)


if __name__ == "__main__":
    main()
