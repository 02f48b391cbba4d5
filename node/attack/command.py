"""`lppa attack`: attacks what attacker nodes have recorded. A thin shell over `run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lppa.protocol.errors import WrongUse
from lppa.protocol.shell import numbers, show_errors, verbosity


@click.command(
    epilog="Example: lppa attack runs/NAME --attack difference/idlg,naive/dlg --victim 0"
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--attack",
    "attacks",
    default="naive/dlg",
    show_default=True,
    help="OBSERVATION/INVERSION, several by commas; an inversion alone means naive. Observations: "
    "naive, neighbour, difference, two-hop. Inversions: dlg, idlg, cosine, likelihood, svd, "
    "labels.",
)
@click.option("--victim", type=int, default=0, show_default=True, help="The node under attack.")
@click.option("--attackers", help="Pool the logs of these nodes.  [default: of all attackers]")
@click.option("--rounds", "at", default="0", show_default=True, help="Rounds to attack, by commas.")
@click.option("--restarts", type=click.IntRange(1), default=4, show_default=True)
@click.option("--attack-seconds", type=float, help="Most time for one attack.")
@click.option("--attack-seed", type=int, default=0, show_default=True, help="Seed of the restarts.")
@click.option("--float64", is_flag=True, help="Attack in double precision.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@verbosity
@show_errors
def attack(
    run: Path,
    attacks: str,
    victim: int,
    attackers: str | None,
    at: str,
    restarts: int,
    attack_seconds: float | None,
    attack_seed: int,
    float64: bool,
    as_json: bool,
) -> None:
    """Try to reconstruct a victim's data from what attacker nodes recorded in RUN.

    The attack uses the attackers' logs alone. Where the run was told to --reveal-batches, the
    result is compared with the truth afterwards.
    """
    if not run.is_dir():
        raise WrongUse(f"{run} is not the directory of a run")
    import torch

    from lppa.node.attack.restarts import Options
    from lppa.node.attack.run import attack_round, draw_rounds, open_scene, parse_attacks

    torch.set_num_threads(1)
    wanted = parse_attacks(attacks)
    pooled = None if attackers is None else numbers(attackers, "--attackers")
    rounds = numbers(at, "--rounds")
    scene = open_scene(run, pooled, victim)
    dtype = torch.float64 if float64 else None
    results = []
    with progress_bar(len(wanted) * len(rounds)) as advance:
        for what in wanted:
            for t in rounds:
                options = Options(
                    restarts,
                    seconds=attack_seconds,
                    seed=attack_seed,
                    dtype=dtype,
                    on_step=advance(f"{what.name}, round {t}"),
                )
                results.append(attack_round(scene, what, t, options))
    draw_rounds(run, results)
    if as_json:
        click.echo(json.dumps(results, indent=2))
    else:
        print_table(results, run)


class progress_bar:
    """A bar over the steps of each attack, on standard error; nothing in a pipe."""

    def __init__(self, attacks: int) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("attacking", total=attacks)

    def __enter__(self) -> Any:
        self.bar.start()

        def advance(name: str) -> Any:
            def step(restart: int, iteration: int, loss: float) -> None:
                text = f"{name}: restart {restart}, step {iteration}, loss {loss:.3g}"
                self.bar.update(self.task, description=text)

            return step

        return advance

    def __exit__(self, *error: object) -> None:
        self.bar.stop()


def print_table(results: list[dict[str, Any]], run: Path) -> None:
    """A row for each attack, with the trivial guess beside it."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"attacks on {run.name}")
    for column in ("attack", "round", "PSNR", "mean image", "SSIM", "labels", "seconds"):
        left = column == "attack"
        longest = max(len(result["attack"]) for result in results) if left else None
        table.add_column(column, justify="left" if left else "right", min_width=longest)
    for result in results:
        scored, mean = result.get("score", {}), result.get("baselines", {}).get("mean", {})
        table.add_row(
            result["attack"],
            str(result["round"]),
            figure(scored.get("psnr"), "{:.1f} dB"),
            figure(mean.get("psnr"), "{:.1f} dB"),
            figure(scored.get("ssim"), "{:.2f}"),
            figure(scored.get("label_accuracy"), "{:.0%}"),
            f"{result['seconds']:.1f}",
        )
    console = Console()
    console.print(table)
    console.print(f"results in {run / 'attacks'}", markup=False, highlight=False, soft_wrap=True)


def figure(value: float | None, shape: str) -> str:
    """A number in its shape; a dash where there is none."""
    return "–" if value is None else shape.format(value)
