"""`lppa audit`: what a linear attacker learns, before training. A thin shell over `document`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from lppa.coordinator.audit.assemble import MOST_ROUNDS, ROUNDS, case_of, check_nodes
from lppa.coordinator.audit.document import audit as make_audit
from lppa.coordinator.options import NODES, chosen_nodes, settings_options
from lppa.coordinator.plan import make_blueprint
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings
from lppa.protocol.shell import numbers, show_errors, verbosity

SETTINGS = (
    "topology",
    "weights",
    "rule",
    "noise",
    "beta",
    "noise_every",
    "noise_exchange",
    "beta_own",
    "clip",
    "batch",
    "mixing",
    "init",
    "local_steps",
    "lr_decay",
    "seed",
)
LINES = 24  # of the table; more pairs are grouped by what they learn
WORDS = {"exact": "EXACT", None: "–"}


@click.command(epilog="Example: lppa audit --topology ring -n 5 --rule lppa --noise-every 1")
@click.option("-n", "--nodes", type=int, help=NODES.metadata["help"])
@click.option(
    "--attackers",
    help="Nodes that pool what they know, comma-separated.  [default: each node by itself]",
)
@click.option("--victim", type=int, help="Look at this victim only.")
@click.option(
    "--rounds",
    type=click.IntRange(1, MOST_ROUNDS),
    default=ROUNDS,
    show_default=True,
    help="The last round whose messages are overheard, the first being 0.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for audit.json and audit.png, a map of attackers and victims.",
)
@click.option("--json", "as_json", is_flag=True, help="Print audit.json on standard output.")
@verbosity
@show_errors
@partial(settings_options, only=SETTINGS)
def audit(
    nodes: int | None,
    attackers: str | None,
    victim: int | None,
    rounds: int,
    out: Path | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """Say what the best linear attacker learns under a topology and a rule, before training.

    For each attacker and victim: the least standard deviation, in units of β, with which the
    victim's first and second gradient, a change between gradients, and the change over all rounds
    can be estimated, or EXACT, or – where they cannot be.
    """
    nodes = chosen_nodes(nodes)
    spies = None if attackers is None else numbers(attackers, "--attackers")
    blueprint = make_blueprint(settings, nodes, "audit")
    check_nodes(nodes, spies or (), victim)
    check_out(out)
    found = make_audit(case_of(blueprint, rounds), spies, victim)
    if out is not None:
        write(out, found)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    show(found)
    if out is not None:
        click.echo(f"written: {out / 'audit.json'}, {out / 'audit.png'}")


def check_out(out: Path | None) -> None:
    """Nothing that is there already is overwritten."""
    if out is None:
        return
    if out.exists() and not out.is_dir():
        raise WrongUse(f"--out {out} is a file, not a folder")
    for name in ("audit.json", "audit.png"):
        if (out / name).exists():
            raise WrongUse(f"{out / name} exists already; choose another --out")


def write(out: Path, found: dict[str, Any]) -> None:
    """audit.json and audit.png."""
    from lppa.coordinator.audit.picture import draw_audit
    from lppa.protocol.files import write_atomically

    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / "audit.json", json.dumps(found, indent=2) + "\n")
        draw_audit(out / "audit.png", found)
    except OSError as error:
        raise WrongUse(f"cannot write to {out}: {error.strerror}") from None


def show(found: dict[str, Any]) -> None:
    """The table, the verdict and the law, for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(
        title=f"{found['rule']}, {found['topology']} with {found['nodes']} nodes: noise left, in β"
    )
    for name in ("attacker", "victim", *found["targets"]):
        table.add_column(name, justify="right")
    for line in table_lines(found):
        table.add_row(*line)
    console.print(table)
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    for sentence in found["verdict"]:
        say(f"- {sentence}")
    if found["advice"]:
        say(f"To change that: {found['advice']}.")
    say("About the noise:")
    for sentence in found["law"]:
        say(f"- {sentence}")


def table_lines(found: dict[str, Any]) -> list[list[str]]:
    """A line per pair; where there are many, one for all pairs that learn the same."""
    groups: dict[tuple[str, ...], list[dict]] = {}
    for pair in found["pairs"]:
        groups.setdefault(tuple(_cell(pair[t]) for t in found["targets"]), []).append(pair)
    if len(found["pairs"]) <= LINES:
        return [
            [
                _ids(pair["attackers"]),
                str(pair["victim"]),
                *(_cell(pair[t]) for t in found["targets"]),
            ]
            for pair in found["pairs"]
        ]
    common = sorted(groups.items(), key=lambda item: -len(item[1]))
    lines = [
        [
            f"{_ids(pairs[0]['attackers'])}, …",
            f"{pairs[0]['victim']}, … ({len(pairs)} pairs)",
            *cells,
        ]
        for cells, pairs in common[:LINES]
    ]
    rest = sum(len(pairs) for _, pairs in common[LINES:])
    return [*lines, ["…", f"{rest} more pairs: --json"]] if rest else lines


def _cell(value: float | str | None) -> str:
    return f"{value:.2f}" if isinstance(value, float) else WORDS[value]


def _ids(nodes: list[int]) -> str:
    return ", ".join(map(str, nodes))
