"""Grades against attacks: many small runs, what the audit says of a pair, what our attacks get.

Usage: python scripts/grade_grid.py OUT [--write docs/grade-grid.md]
Every run is real: processes, sockets, a recording attacker. Resumable: OUT/grid.jsonl keeps what is
done.
"""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import click
from resumable import measure_missing, publish

from lppa.attack.campaign import Wanted, attack_runs
from lppa.attack.names import parse_attacks
from lppa.attack.restarts import Options
from lppa.protocol.settings import make_settings
from lppa.running.display import Silent
from lppa.running.launch import stop_fork_server
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local

BASE = {
    "dataset": "digits",
    "model": "lenet",
    "batch": 1,
    "rounds": 3,
    "eval_every": 1,
    "eval_samples": 50,
    "init": "independent",
    "reveal_batches": True,
    "timeout": 300,
    "seed": 3,
}
VICTIM, ATTACKER = 0, 1
ATTACKS = (
    "neighbour/likelihood",
    "difference/dlg",
    "difference/likelihood",
    "two-hop/likelihood",
)
OPTIONS = Options(restarts=2)


def grid() -> dict[str, tuple[int, dict[str, Any]]]:
    """By name the number of nodes and the settings of each run."""
    cases: dict[str, tuple[int, dict[str, Any]]] = {}

    def add(nodes: int, **settings: Any) -> None:
        name = " ".join([str(nodes), *(f"{key}={value}" for key, value in settings.items())])
        cases[name] = (nodes, settings)

    for topology, every, beta in product(
        ("full", "ring", "directed-ring"), (0, 1), (0.0001, 0.01, 0.1, 0.5, 2.0)
    ):
        add(5, rule="lppa", topology=topology, noise_every=every, beta=beta)
    for every, beta, steps in ((1, 0.02, 2), (1, 0.02, 4), (1, 1.0, 2), (1, 1.0, 4), (2, 0.02, 2)):
        add(5, rule="lppa", noise_every=every, beta=beta, local_steps=steps)
    for every, beta in product((0, 1), (0.01, 0.1, 1.0, 4.0)):
        add(5, rule="dp", noise_every=every, beta=beta)
    for own in (0.00001, 0.01, 0.1, 1.0, 4.0):
        add(2, rule="lppa", noise_every=1, beta=1.0, beta_own=own)
        add(5, rule="lppa", topology="star", noise_every=1, beta=0.1, beta_own=own)
    for topology in ("full", "ring"):
        add(5, rule="dsgt", topology=topology)
    for model, beta in product(("cnn", "mlp"), (0.02, 0.3, 2.0)):
        add(5, rule="lppa", noise_every=1, beta=beta, model=model)
    # On sparse graphs none of these attacks can be made on it.
    for every, beta in ((1, 0.0001), (1, 0.001), (1, 0.01), (1, 0.1), (1, 1.0), (0, 1.0)):
        add(5, rule="dsgd", noise_every=every, beta=beta)
    add(5, rule="dsgd", noise_every=1, beta=0.5, local_steps=4)
    add(5, rule="dsgd", noise_every=1, beta=0.5, batches="same")
    add(2, rule="lppa", noise_every=1, beta=1.0)
    add(5, rule="lppa", noise_every=1, beta=0.5, batches="same")
    add(5, rule="lppa", noise_every=1, beta=0.5, finish=2)
    add(5, rule="lppa", noise_every=1, beta=0.5, noise="gaussian")
    return cases


def try_one(nodes: int, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A run, the grade of the pair before and after it, and the best that attacks get."""
    told = make_settings({"local_steps": 1, **BASE, **settings})
    blueprint = make_blueprint(told, nodes, folder.name)
    attacker = 0 if settings.get("topology") == "star" else ATTACKER
    victim = 1 if attacker == 0 else VICTIM
    summary = run_local(blueprint, folder, Silent(), attackers=(attacker,))
    audit = json.loads((folder / "audit.json").read_text())
    (pair,) = [p for p in audit["pairs"] if p["attackers"] == [attacker] and p["victim"] == victim]
    # Attacks that this attacker cannot make are left out.
    wanted = Wanted(parse_attacks(",".join(ATTACKS)), (attacker,), (victim,))
    results = [result for _, result in attack_runs([folder], wanted, OPTIONS)]
    scored = [r for r in results if r["score"].get("psnr") is not None]
    best = max(scored, key=lambda r: r["score"]["psnr"] - r["baselines"]["mean"]["psnr"])
    return {
        "status": summary["status"],
        "ratio": pair["ratio"],
        "grade": pair["grade"],
        "attack": best["attack"],
        "psnr": best["score"]["psnr"],
        "mean": best["baselines"]["mean"]["psnr"],
        "label": best["score"].get("label_accuracy"),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The grid in Markdown, worst hidden first."""
    lines = [
        "| settings | noise ÷ example | grade | best attack | PSNR | mean image | gain |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda r: -1.0 if r["ratio"] is None else r["ratio"]):
        ratio = "–" if row["ratio"] is None else f"{row['ratio']:.3g}"
        gain = row["psnr"] - row["mean"]
        lines.append(
            f"| {row['name']} | {ratio} | {row['grade']} | {row['attack']} | {row['psnr']:.1f} | "
            f"{row['mean']:.1f} | {gain:+.1f} |"
        )
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--write", type=click.Path(path_type=Path), help="Write the table there.")
def main(out: Path, write: Path | None) -> None:
    """Run the grid, or what is missing of it, and print its table."""
    numbered = {name: (number, case) for number, (name, case) in enumerate(grid().items())}

    def measure(name: str) -> dict[str, Any]:
        number, (nodes, settings) = numbered[name]
        shutil.rmtree(out / str(number), ignore_errors=True)
        return try_one(nodes, settings, out / str(number))

    rows = measure_missing(out / "grid.jsonl", numbered, measure)
    stop_fork_server()
    publish(table(rows), write)


if __name__ == "__main__":
    main()
