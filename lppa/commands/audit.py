"""`lppa audit`: what a linear attacker learns, before training. A thin shell over `document`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lppa.auditing.assemble import (
    GIVEN,
    MOST_ROUNDS,
    ROUNDS,
    Hidden,
    case_of,
    check_nodes,
)
from lppa.auditing.compare import compare as compare_topologies
from lppa.auditing.document import audit as make_audit
from lppa.auditing.document import rounds_of
from lppa.auditing.findings import AuditDocument, Compared
from lppa.auditing.grade import GRADES, worst
from lppa.auditing.looking import looked_at
from lppa.auditing.show import show, show_comparison
from lppa.options import (
    chosen_nodes,
    json_option,
    nodes_option,
    out_option,
    problem_option,
    settings_options,
)
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import OWN, RULES, Settings
from lppa.running.prepare import make_blueprint
from lppa.shell import Finite, numbers, show_errors, verbosity

if TYPE_CHECKING:
    from lppa.running.scout import Scout

SETTINGS = (
    "dataset",
    "target",
    "task",
    "data_dir",
    "partition",
    "normalize",
    "model",
    "init_weights",
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
    "batches",
    "local_steps",
    "lr",
    "lr_decay",
    "momentum",
    "finish",
    "seed",
)
FAILED = 3  # exit code where --fail-on found something


@click.command(epilog="Example: lppa audit -n 8 --dataset mnist --compare full,ring,star")
@nodes_option
@problem_option
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
    "--run-rounds",
    type=click.IntRange(1),
    help="Rounds of the run itself: dsgd tells of data that is in every gradient once more in each "
    "of them.  [default: 80]",
)
@click.option(
    "--gradient-rms",
    type=Finite(0.0, min_open=True),
    help="Size of what is to be hidden: root mean square, over all parameters, of an example's "
    "share of the gradient.  [default: as known of a network of ours on data of ours, else as "
    "measured before a run]",
)
@click.option("--compare", help="Compare topologies, comma-separated: full,ring,star.")
@click.option("--per-round", is_flag=True, help="Show what the best-placed attacker has per round.")
@click.option(
    "--fail-on",
    type=click.Choice(["open", "weak"]),
    help="Leave with exit code 3 if anything has this grade or a worse one.",
)
@out_option("Folder for audit.json and audit.png, a map of attackers and victims.")
@json_option("Print audit.json on standard output.")
@verbosity
@show_errors
@partial(settings_options, only=SETTINGS)
def audit(
    nodes: int | None,
    problem: str | None,
    attackers: str | None,
    victim: int | None,
    rounds: int,
    run_rounds: int | None,
    gradient_rms: float | None,
    compare: str | None,
    per_round: bool,
    fail_on: str | None,
    out: Path | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """Say what the best linear attacker learns under a topology and a rule, before training.

    For each attacker and victim: the least standard deviation, in units of β, with which the
    victim's first and second gradient, a change between gradients, and the change over all rounds
    (under dsgd the gradient that is known best, and the mean of all) can be estimated; EXACT; or
    mixed, where it cannot be told apart from others' by linear means.
    Beside it a grade, open, weak or hidden: by that noise over an example's share of the gradient.
    """
    if settings.rule.startswith(OWN):
        known = ", ".join(RULES)
        raise WrongUse(f"nobody has audited {settings.rule}, a rule of your own; use {known}")
    nodes = chosen_nodes(nodes)
    settings = settings if run_rounds is None else replace(settings, rounds=run_rounds)
    spies = None if attackers is None else numbers(attackers, "--attackers")
    hide = None if gradient_rms is None else Hidden(gradient_rms, GIVEN)
    check_out(out)
    refused: list[Compared] = []
    scout: Scout | None = click.get_current_context().meta.get("scout")
    if compare is not None:
        if spies is not None or victim is not None or per_round or out is not None:
            raise WrongUse("--compare goes without --attackers, --victim, --per-round and --out")
        names = list(dict.fromkeys(name.strip() for name in compare.split(",")))
        rows = compare_topologies(settings, nodes, names, rounds, hide, scout)
        grades = [row.grade for row in rows if row.grade is not None]
        refused = [row for row in rows if row.refused]
        if not grades:
            raise WrongUse(f"--compare: {rows[0].refused}")
        if as_json:
            told = [row.to_dict() for row in rows]
            content = {"nodes": nodes, "rule": settings.rule, "compare": told}
            click.echo(json.dumps(content, indent=2))
        else:
            show_comparison(rows, nodes, settings.rule)
    else:
        blueprint = make_blueprint(settings, nodes, "audit")
        check_nodes(nodes, spies or (), victim)
        case = case_of(looked_at(blueprint, hide, scout), rounds, hide)
        found = make_audit(case, spies, victim)
        if per_round:
            found = replace(found, per_round=rounds_of(case, found))
        grades = [found.grade]
        if out is not None:
            write(out, found)
        if as_json:
            click.echo(json.dumps(found.to_dict(), indent=2))
        else:
            show(found)
            if out is not None:
                click.echo(f"written: {', '.join(str(out / name) for name in files(found))}")
    if fail_on is not None and GRADES.index(worst(grades)) <= GRADES.index(fail_on):
        for row in refused:
            click.echo(f"warning: no grade for {row.topology}: {row.refused}", err=True)
        sys.exit(FAILED)
    if fail_on is not None and refused:
        # A script must not go on because of a typing error.
        raise WrongUse(f"--fail-on: no grade for {refused[0].topology}: {refused[0].refused}")


def files(found: AuditDocument) -> list[str]:
    """What an audit leaves in its folder."""
    return ["audit.json", "audit.png", *(["per-round.png"] if found.per_round else [])]


def check_out(out: Path | None) -> None:
    """Nothing that is there already is overwritten."""
    if out is None:
        return
    if out.exists() and not out.is_dir():
        raise WrongUse(f"--out {out} is a file, not a folder")
    for name in ("audit.json", "audit.png", "per-round.png"):
        if (out / name).exists():
            raise WrongUse(f"{out / name} exists already; choose another --out")


def write(out: Path, found: AuditDocument) -> None:
    """audit.json and the pictures."""
    from lppa.auditing.picture import draw_audit, draw_rounds
    from lppa.protocol.files import write_atomically

    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / "audit.json", json.dumps(found.to_dict(), indent=2) + "\n")
        draw_audit(out / "audit.png", found)
        if found.per_round is not None:
            draw_rounds(out / "per-round.png", found, found.per_round)
    except OSError as error:
        raise WrongUse(f"cannot write to {out}: {error.strerror}") from None
