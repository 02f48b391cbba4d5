"""`lppa-coordinator`: coordinates nodes started by hand. A thin shell over `run.coordinate`."""

from __future__ import annotations

from pathlib import Path

import click

from lppa.commands.run import finish
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.views import part_of
from lppa.options import (
    insecure_option,
    json_option,
    key_option,
    name_option,
    peers_option,
    refuse_others,
    resume_option,
    run_out_option,
    settings_options,
    tensorboard_option,
    warn_in_clear,
)
from lppa.protocol.book import key_file, read_book, read_key
from lppa.protocol.checks import check_ids
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.settings import Settings
from lppa.running.display import choose_display
from lppa.running.limits import check_open_files
from lppa.running.naming import find_run, new_folder
from lppa.running.past import read_past
from lppa.running.prepare import make_blueprint
from lppa.running.run import coordinate
from lppa.shell import OneLine, is_quiet, numbers, show_errors, verbosity


@click.command(
    cls=OneLine,
    epilog="Example: lppa-coordinator --peers peers.json --rule lppa --rounds 50",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@peers_option
@key_option("The coordinator's", "coordinator.key")
@insecure_option
@run_out_option
@name_option
@click.option(
    "--later",
    help="Nodes to begin without, comma-separated: each joins when it comes (with --on-failure "
    "continue).",
)
@resume_option
@tensorboard_option
@json_option("Print summary.json on standard output.")
@verbosity
@show_errors
@settings_options
def main(
    peers: Path,
    key: Path | None,
    insecure: bool,
    out: Path | None,
    name: str | None,
    later: str | None,
    resume: str | None,
    tensorboard: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Hand out the plan to nodes started with `lppa-node`, then collect their metrics.

    Training does not need the coordinator: if it dies, the nodes finish all the same.
    """
    book = read_book(peers, insecure)
    warn_in_clear(book)
    check_open_files(len(book.nodes), book.encrypted)
    secret = read_key(key or key_file(peers.parent, -1)) if book.encrypted else None
    if resume is None:
        past, folder = None, new_folder(out, name, settings)
        blueprint = make_blueprint(settings, len(book.nodes), folder.name)
        absent = check_later(later, blueprint)
    else:
        refuse_others("resume", "peers", "key")
        past, absent = read_past(find_run(resume)), ()
        folder, blueprint = past.folder, past.blueprint
        if blueprint.nodes != len(book.nodes):
            raise WrongUse(
                f"{folder} is a run of {blueprint.nodes} nodes, and {peers} has {len(book.nodes)}"
            )
    settings = blueprint.settings
    display = choose_display(settings.total, is_quiet())
    summary = coordinate(
        book, secret, blueprint, folder, display, tensorboard=tensorboard, past=past, later=absent
    )
    finish(summary, folder, as_json)


def check_later(later: str | None, blueprint: Blueprint) -> tuple[int, ...]:
    """The ids of those that come later; a graph that cannot do without them is refused."""
    if later is None:
        return ()
    absent = tuple(dict.fromkeys(numbers(later, "--later")))
    check_ids(absent, blueprint.nodes)
    if blueprint.settings.on_failure != "continue":
        raise WrongUse("--later goes with --on-failure continue")
    try:
        part_of(blueprint, sorted(set(range(blueprint.nodes)) - set(absent)), 0)
    except RunFailed as error:
        reason = str(error).partition("; go on")[0]
        raise WrongUse(f"--later {later}: {reason}") from None
    return absent
