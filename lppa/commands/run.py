"""`lppa run`: an experiment, here or by an engine. A thin shell over `run_by`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from lppa.attack.names import check_call
from lppa.coordinator.figures import Summary
from lppa.engines.engine import NAMES, make_wanted
from lppa.engines.options import engine_options
from lppa.engines.registry import make_engine
from lppa.engines.slurm import begun_before
from lppa.engines.slurm_job import SlurmJob, Voice
from lppa.options import (
    brought_code,
    chosen_nodes,
    json_option,
    name_option,
    nodes_option,
    problem_option,
    refuse_others,
    resume_option,
    run_out_option,
    settings_options,
    tensorboard_option,
    typed_options,
    victim_option,
)
from lppa.protocol.checks import check_ids
from lppa.protocol.errors import BLEW_UP, WrongUse
from lppa.protocol.settings import Settings
from lppa.running.chaos import parse_chaos
from lppa.running.display import choose_display, print_results
from lppa.running.naming import find_run, new_folder
from lppa.running.past import read_past
from lppa.running.prepare import make_blueprint
from lppa.running.records import report_on
from lppa.running.run import run_by
from lppa.shell import (
    INTERRUPTED,
    call_lppa,
    is_quiet,
    lppa_output,
    numbers,
    show_errors,
    verbosity,
)


@click.command(epilog="Example: lppa run -n 5 --rule lppa --topology ring --rounds 50 --seed 1")
@nodes_option
@problem_option
@run_out_option
@name_option
@click.option("--attacker", help="Nodes that record what they see, comma-separated.")
@click.option("--attack", help="What they do with it after the run: see `lppa attack --help`.")
@victim_option("Whom they attack: comma-separated ids, or all.")
@resume_option
@click.option(
    "--chaos",
    help="What is to go wrong, comma-separated: kill, stop, exit, exception or slow, then"
    " NODE@ROUND, as in kill:3@7. slow:2@5x0.5 makes every round from there half a second longer.",
)
@click.option("--secure", is_flag=True, help="Encrypt the links, although they are local.")
@engine_options
@tensorboard_option
@json_option("Print summary.json on standard output.")
@verbosity
@show_errors
@settings_options
def run(
    nodes: int | None,
    problem: str | None,
    out: Path | None,
    name: str | None,
    attacker: str | None,
    attack: str | None,
    victim: str,
    resume: str | None,
    chaos: str | None,
    secure: bool,
    tensorboard: bool,
    as_json: bool,
    settings: Settings,
    **engines: Any,
) -> None:
    """Run an experiment with every client as a process of its own, on this machine or on others."""
    begun = begun_before(engines["engine"], out)
    if resume is not None:
        # Where a run goes on is not how it goes on.
        refuse_others("resume", *NAMES)
        begun = find_run(resume)
    past = None if begun is None else read_past(begun)
    if past is None:
        scout = brought_code(settings)
        folder = new_folder(out, name, settings)
        nodes = chosen_nodes(nodes)
        blueprint = make_blueprint(settings, nodes, folder.name)
        settings = blueprint.settings
        attackers = check_attack(attacker, attack, victim, nodes)
    else:
        folder, blueprint, attackers = past.folder, past.blueprint, past.attackers
        scout, settings = brought_code(blueprint.settings), blueprint.settings
    trouble = parse_chaos(chaos, blueprint.nodes, settings.total)
    engine = make_engine(make_wanted(blueprint.nodes, engines))
    display = choose_display(settings.total, is_quiet())
    if isinstance(engine, SlurmJob):
        where = f"--out={folder}" if past is None else f"--resume={folder}"
        words = [*typed_options("out", "name", "resume", "slurm_options"), where]
        voice = Voice(display.say, sys.stderr, sys.stdout)
        sys.exit(engine.run(folder, words, settings.on_failure == "continue", voice))
    summary = run_by(
        engine, blueprint, folder, display, secure, attackers, tensorboard, scout, trouble, past
    )
    if attack is None or not summary.ended:
        finish(summary, folder, as_json)
        return
    options = ["attack", str(folder), "--attack", attack, "--victim", victim]
    options += ["-q"] * is_quiet()
    if as_json:
        attacks = json.loads(lppa_output(*options, "--json"))
        report_on(folder)
        finish(summary, folder, as_json, attacks=attacks)
    else:
        finish(summary, folder, as_json)
        ended = call_lppa(*options)
        report_on(folder)
        sys.exit(ended)


def check_attack(
    attacker: str | None, attack: str | None, victim: str, nodes: int
) -> tuple[int, ...]:
    """The attackers' ids; what cannot be attacked is refused before anything starts."""
    if attacker is None:
        if attack is not None:
            raise WrongUse("--attack needs to know which node attacks: --attacker ID")
        return ()
    attackers = tuple(dict.fromkeys(numbers(attacker, "--attacker")))
    check_ids(attackers, nodes)
    if attack is not None:
        check_call(attack, victim, attackers, nodes)
    return attackers


def finish(summary: Summary, folder: Path, as_json: bool, **more: Any) -> None:
    """Prints the result of a run, and more that came of it, and leaves with its exit code."""
    if as_json:
        click.echo(json.dumps({**summary.to_dict(), **more, "directory": str(folder)}, indent=2))
    else:
        print_results(summary, str(folder))
    if summary.ended:
        return
    hopeless = BLEW_UP in (summary.error or "")  # it would end in the same way again
    if not is_quiet() and not hopeless and any(folder.glob("nodes/*/checkpoints/*")):
        click.echo(f"there are checkpoints: go on with it by --resume {folder}", err=True)
    click.echo(f"error: the run {describe(summary)}", err=True)
    sys.exit(INTERRUPTED if summary.status == "interrupted" else 1)


def describe(summary: Summary) -> str:
    """How a run ended that did not come to its end."""
    if summary.status == "failed":
        return f"failed: {summary.error}"
    return f"was interrupted in round {summary.round}"
