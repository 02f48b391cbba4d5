"""`lppa-node`: one client by hand. A thin shell over `client.run_node`."""

from __future__ import annotations

import logging
import math
import sys
from pathlib import Path

import click

from lppa.attack.names import parse_attacks, parse_victims
from lppa.options import (
    data_dir_option,
    insecure_option,
    key_option,
    out_option,
    peers_option,
    problem_option,
    victim_option,
    warn_in_clear,
)
from lppa.own_code import find, make_problem, register
from lppa.protocol.book import AddressBook, key_file, read_book, read_key
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import LONGEST_WAIT
from lppa.running.limits import check_open_files
from lppa.shell import Finite, OneLine, call_lppa, is_quiet, show_errors, verbosity


@click.command(
    cls=OneLine,
    epilog="Example: lppa-node --id 3 --peers peers.json",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--id", "node", type=int, required=True, help="This node's id in peers.json.")
@peers_option
@key_option("This node's", "node-ID.key")
@insecure_option
@out_option(
    "The run's directory; this node writes to nodes/ID in it.  "
    "[default: runs/ and the name that the coordinator gave it]"
)
@data_dir_option("Folder of the raw data on this machine.  [default: $LPPA_DATA, as in lppa run]")
@click.option(
    "--attack",
    help="Be an honest-but-curious attacker: follow the protocol, record what passes, and attack "
    "it after the run; see `lppa attack --help`.",
)
@victim_option()
@problem_option
@click.option("--rule", help="Where a rule of the run's own is: FILE.py:NAME.")
@click.option(
    "--least-beta",
    type=Finite(min=0),
    default=0.0,
    help="Refuse a plan with less noise than of this scale, or with noise that can be predicted.",
)
@click.option(
    "--least-noise-every",
    type=click.IntRange(min=1),
    help="Refuse a plan in which noise comes less often than every that many rounds.",
)
@click.option(
    "--allow-reveal-batches",
    is_flag=True,
    help="Take part although the plan lets nodes write their batches down; refused otherwise.",
)
@click.option(
    "--timeout",
    type=Finite(min=0, min_open=True, max=LONGEST_WAIT),
    default=30.0,
    show_default=True,
    help="Seconds that the coordinator may be silent before the plan has come.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    help="Go on from this node's checkpoints in this directory of a run.",
)
@click.option(
    "--orphan-timeout",
    type=Finite(min=0, min_open=True, max=LONGEST_WAIT),
    help="Seconds of the coordinator's silence after which this node ends.  [default: never]",
)
@verbosity
@show_errors
def main(
    node: int,
    peers: Path,
    key: Path | None,
    insecure: bool,
    out: Path | None,
    data_dir: Path | None,
    attack: str | None,
    victim: str,
    problem: str | None,
    rule: str | None,
    least_beta: float,
    least_noise_every: int | None,
    allow_reveal_batches: bool,
    timeout: float,
    resume: Path | None,
    orphan_timeout: float | None,
) -> None:
    """Take part in a run as one client.

    All that the node needs to know comes from the coordinator: start `lppa-coordinator` with the
    same peers.json, before or after the nodes. Code does not: a problem or a rule of the run's own
    is named here.
    """
    if resume is not None and out is not None:
        raise WrongUse("--resume and --out both say where the run is: give one of them")
    if math.isnan(least_beta):
        raise WrongUse("--least-beta must be a number")
    if math.isnan(timeout):
        raise WrongUse("--timeout must be a number of seconds")
    book = read_book(peers, insecure)
    book.node(node)
    secret = read_key(key or key_file(peers.parent, node)) if book.encrypted else None
    if attack is not None:
        check_attack(attack, victim, node, book)
    warn_in_clear(book)
    check_open_files(len(book.nodes), book.encrypted)
    logging.getLogger("lppa").info("node %d of run %s", node, book.run)
    # Imported late: PyTorch takes seconds, and wrong use should be told at once.
    from lppa.node.client import Means, run_node
    from lppa.node.policy import Policy

    learned = None if problem is None else make_problem(find(problem, "--problem"))
    if rule is not None:
        register(find(rule, "--rule"))
    means = Means(
        resume or out,
        timeout,
        data_dir,
        record=attack is not None,
        resume=resume is not None,
        problem=learned,
        orphan_timeout=orphan_timeout,
        policy=Policy(least_beta, least_noise_every, allow_reveal_batches),
    )
    folder = run_node(book, node, secret, means)
    if attack is not None:
        options = ["--attack", attack, "--victim", victim, "--attackers", str(node)]
        options += ["-q"] * is_quiet()
        sys.exit(call_lppa("attack", str(folder), *options))


def check_attack(attack: str, victim: str, node: int, book: AddressBook) -> None:
    """Refuses what this node cannot attack, before it takes part in anything."""
    for wanted in parse_attacks(attack):
        if set(wanted.colluders) - {node}:
            raise WrongUse(
                "collude needs the logs of other nodes: attack by `lppa attack RUN` after the run"
            )
    for other in parse_victims(victim) or ():
        book.node(other)
        if other == node:
            raise WrongUse(f"node {node} cannot be attacker and victim at once")
