"""`lppa attack`: attacks what attacker nodes have recorded. A thin shell over `campaign`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click

from lppa.attack.names import parse_attacks, parse_victims
from lppa.options import json_option, out_option, runs_argument, victim_option
from lppa.running.naming import find_runs
from lppa.shell import Finite, is_quiet, numbers, show_errors, verbosity

if TYPE_CHECKING:
    from lppa.attack.campaign import Found
    from lppa.attack.restarts import Step


@click.command(
    epilog="Example: lppa attack runs/NAME --attack difference/idlg,naive/dlg --victim all"
)
@runs_argument
@click.option(
    "--attack",
    "attacks",
    default="naive/dlg",
    show_default=True,
    help="OBSERVATION/INVERSION, comma-separated; an inversion alone means naive. Observations: "
    "naive, neighbour, difference, two-hop. Inversions: dlg, idlg, cosine, likelihood, svd, "
    "labels. With collude:1,3/ before it, those attackers pool what they know.",
)
@victim_option()
@click.option("--attackers", help="Who attacks, each alone, comma-separated.  [default: all]")
@click.option(
    "--rounds",
    "at",
    default="0",
    show_default=True,
    help="Rounds to attack, comma-separated.",
)
@click.option("--restarts", type=click.IntRange(1), default=4, show_default=True)
@click.option(
    "--attack-seconds",
    type=Finite(min=0, min_open=True),
    help="Most time for one attack.",
)
@click.option("--attack-seed", type=int, default=0, show_default=True, help="Seed of the restarts.")
@click.option("--float64", is_flag=True, help="Attack in double precision.")
@out_option("Where curves over several runs go.  [default: attacks/ in the first RUN]")
@json_option("Print the results as JSON.")
@verbosity
@show_errors
def attack(
    runs: tuple[str, ...],
    attacks: str,
    victim: str,
    attackers: str | None,
    at: str,
    restarts: int,
    attack_seconds: float | None,
    attack_seed: int,
    float64: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Try to reconstruct victims' data from what attacker nodes recorded in each RUN.

    RUN is a run's directory, its name in runs/, or latest. The attack uses the attackers' logs
    alone. Where a run was told to --reveal-batches, the result is compared with the truth
    afterwards. Results are kept in attacks/ of each RUN, with curves over rounds; runs that differ
    in β give curves over β.
    """
    wanted, victims, rounds = parse_attacks(attacks), parse_victims(victim), numbers(at, "--rounds")
    alone = None if attackers is None else numbers(attackers, "--attackers")
    folders = find_runs(runs)
    import torch

    from lppa.attack.campaign import Wanted, attack_runs
    from lppa.attack.restarts import Options

    options = Options(
        restarts,
        seconds=attack_seconds,
        seed=attack_seed,
        dtype=torch.float64 if float64 else None,
    )
    results = attack_runs(folders, Wanted(wanted, alone, victims, rounds), options, ProgressBar)
    curves = draw_curves(results, out)
    if as_json:
        told = [{"run": str(folder), **result.to_dict()} for folder, result in results]
        click.echo(json.dumps(told, indent=2))
        return
    from lppa.attack.tables import print_tables

    several = len(folders) > 1
    print_tables(
        [result for _, result in results],
        "attacks" if several else f"attacks on {folders[0].name}",
        [folder.name for folder, _ in results] if several else (),
    )
    places = [folder / "attacks" for folder in folders]
    for path in [*places, *(curve for curve in curves if curve.parent not in places)]:
        click.echo(f"results in {path}")


def draw_curves(results: Sequence[Found], out: Path | None) -> list[Path]:
    """Curves over β of several runs; those over rounds are each run's own."""
    from lppa.attack.curves import draw_over_beta

    folders = list(dict.fromkeys(folder for folder, _ in results))
    if len(folders) < 2:
        return []
    return draw_over_beta(out or folders[0] / "attacks", [result for _, result in results])


class ProgressBar:
    """How many attacks are done and what the present one is at; on a terminal only, not with -q."""

    def __init__(self, attacks: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        console = Console(stderr=True)
        columns = (BarColumn(20), MofNCompleteColumn(), Elapsed(), TextColumn("{task.description}"))
        hidden = is_quiet() or not console.is_terminal
        self.bar = Progress(*columns, console=console, disable=hidden)
        self.task = self.bar.add_task("attacking", total=attacks)

    def __enter__(self) -> ProgressBar:
        self.bar.start()
        return self

    def start(self, name: str) -> Step:
        """Names the next attack; the step that comes back tells how far it is."""
        self.bar.update(self.task, description=name)

        def step(restart: int, iteration: int, loss: float) -> None:
            text = f"{name}: restart {restart}, step {iteration}, loss {loss:.3g}"
            self.bar.update(self.task, description=text)

        return step

    def advance(self) -> None:
        """One attack more is done."""
        self.bar.advance(self.task)

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
