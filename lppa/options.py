"""The command line's options: those made from the settings, and those that commands share.

Also the layers that a setting comes from. What a command alone takes stands with that command.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lppa.completion import complete_run, complete_setting
from lppa.protocol.book import IN_CLEAR, AddressBook
from lppa.protocol.checks import check_number, default_of, flag, option
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import OWN, PRESETS, Settings, make_settings
from lppa.running.rundir import ABOUT
from lppa.shell import FC, Command

if TYPE_CHECKING:
    from lppa.running.scout import Scout

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

log = logging.getLogger("lppa.options")

MOST_NODES = 10_000
MOST_SETTINGS = 1 << 14  # bytes of a file

# Not a setting, since a run by hand has as many as its address book; but checked like one.
NODES = option(5, "Number of clients.  [default: as --config says, else 5]", kind=int, least=2)

nodes_option = click.option("-n", "--nodes", type=int, help=NODES.metadata["help"])
peers_option = click.option(
    "--peers",
    type=click.Path(path_type=Path),
    required=True,
    help="The run's address book, written by `lppa peers`.",
)
insecure_option = click.option(
    "--insecure",
    is_flag=True,
    help=f"Links over TCP without encryption, for a run without keys; it means that {IN_CLEAR}.",
)
name_option = click.option(
    "--name", help="The run's name: its directory is runs/NAME. Instead of --out."
)
resume_option = click.option(
    "--resume",
    metavar="RUN",
    shell_complete=complete_run,
    help="Go on with a run that was broken off, from its checkpoints; its settings stay.",
)
tensorboard_option = click.option(
    "--tensorboard", is_flag=True, help="Write event files for TensorBoard too."
)
# As they were typed: `lppa.running.naming` finds them, where an error can be told in one line.
run_argument = click.argument("run", metavar="RUN", shell_complete=complete_run)
runs_argument = click.argument(
    "runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run
)

ALWAYS = ("as_json", "quiet", "verbose", "tensorboard", "problem", "rule", "secure", "chaos")


def refuse_others(*taken: str) -> None:
    """A run that goes on has its settings already: refuses those that were typed."""
    context = click.get_current_context()
    for name in context.params:
        typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if typed and name not in (*taken, *ALWAYS):
            option = name.replace("_", "-")
            raise WrongUse(f"--resume goes on with a run as it is: leave --{option} out")


def typed_options(*left_out: str) -> list[str]:
    """What was typed, so that it can be typed again elsewhere; without some of it."""
    context, words = click.get_current_context(), []
    for one in context.command.params:
        name = one.name or ""
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not given or name in left_out or not isinstance(one, click.Option):
            continue
        value, option = context.params[name], max(one.opts, key=len)
        if one.is_flag:
            words.append(option if value else max(one.secondary_opts, key=len))
        else:
            words.append(f"{option}={value}")
    return words


def json_option(help: str = "Print one JSON document.") -> Callable[[FC], FC]:
    """--json, given to the command as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=help)


def out_option(help: str, kind: str = "any", **more: Any) -> Callable[[FC], FC]:
    """--out, where something goes: `file`, `folder`, or any, which the command itself checks."""
    path = click.Path(path_type=Path, file_okay=kind != "folder", dir_okay=kind != "file")
    return click.option("--out", type=path, help=help, **more)


run_out_option = out_option("The run's directory.  [default: runs/<time>-<rule>-<dataset>]")


def key_option(whose: str, file: str) -> Callable[[FC], FC]:
    """--key, the secret key of a process that is started by hand."""
    text = f"{whose} secret key.  [default: keys/{file} beside peers.json]"
    return click.option("--key", type=click.Path(path_type=Path), help=text)


def warn_in_clear(book: AddressBook) -> None:
    """Says in a line what --insecure means, where it means anything."""
    if book.exposed:
        log.warning("warning: --insecure: %s", IN_CLEAR)


def victim_option(help: str = "Whom to attack: comma-separated ids, or all.") -> Callable[[FC], FC]:
    """--victim, as text."""
    return click.option("--victim", default="0", show_default=True, help=help)


def data_dir_option(help: str) -> Callable[[FC], FC]:
    """--data-dir, a folder that may be missing: where data is found is not known here."""
    path = click.Path(file_okay=False, path_type=Path)
    return click.option("--data-dir", type=path, help=help)


def settings_options(command: Command, only: Sequence[str] = ()) -> Command:
    """Adds an option for every setting, or for some; --preset, --config. Gives it `settings`."""
    chosen = [f for f in fields(Settings) if not only or f.name in only]

    def called(*args: Any, preset: str | None, config: Path | None, **options: Any) -> Any:
        given = {f.name: options.pop(f.name) for f in chosen}
        bring_code(given, options)
        layers = [PRESETS[preset] if preset else {}, read_config(config) if config else {}, given]
        return command(*args, settings=absolute_paths(make_settings(*layers)), **options)

    wrapped: Command = called
    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    # Where click keeps the options of what is no command yet.
    vars(wrapped)["__click_params__"] = list(getattr(command, "__click_params__", []))
    for about in reversed(chosen):
        wrapped = setting_option(about)(wrapped)
    wrapped = click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="Settings from a TOML file, or from the config.json of a run; options here win.",
    )(wrapped)
    return click.option(
        "--preset",
        type=click.Choice(sorted(PRESETS)),
        help="A named set of settings to start from: paper.",
    )(wrapped)


problem_option = click.option(
    "--problem",
    help="A problem of your own, FILE.py:NAME or package.module:NAME: an lppa.Problem, or a "
    "function that makes one.",
)


def bring_code(given: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Finds what --problem and --rule FILE.py:NAME name, and puts their names into the settings.

    A process beside this one loads it; `brought_code` gives the command that one.
    """
    problem, rule = options.get("problem"), given.get("rule")
    if problem is None and (rule is None or ":" not in rule):
        return
    # Imported late: most commands bring no code.
    from lppa.api import name_settings, own_code, scouted

    context = click.get_current_context()
    scout = context.with_resource(scouted(own_code(problem, rule or Settings().rule)))
    if scout is None:
        return
    told = {name: given[name] for name in ("dataset", "model") if given.get(name) is not None}
    names = scout.names()
    name_settings(told, rule or Settings().rule, names)  # refuses what does not go together
    given |= names
    if "problem" in options:
        context.meta["scout"] = scout
    else:
        # This command runs no nodes here: it wanted to know the names.
        scout.close()


def brought_code(settings: Settings) -> Scout | None:
    """Who has what the command was told to bring; a run that needs more than that is refused."""
    scout: Scout | None = click.get_current_context().meta.get("scout")
    code = None if scout is None else scout.code
    if settings.dataset.startswith(OWN) and (code is None or code.problem is None):
        raise WrongUse(f"{settings.dataset} is a problem of your own: --problem FILE.py:NAME")
    if settings.rule.startswith(OWN) and (code is None or code.rule is None):
        raise WrongUse(f"{settings.rule} is a rule of your own: --rule FILE.py:NAME")
    return scout


def chosen_nodes(given: int | None) -> int:
    """How many clients a run has: as -n says, else as --config says, else five."""
    nodes: int = click.get_current_context().meta.get("nodes", NODES.default)
    nodes = nodes if given is None else given
    check_count(nodes)
    return nodes


def check_count(nodes: int) -> None:
    """Refuses more clients than anybody can have meant, before room is made for them."""
    if nodes > MOST_NODES:
        raise WrongUse(f"a run has at most {MOST_NODES:,} nodes")


def read_settings_file(path: Path) -> Any:
    """What a small TOML or JSON file holds; raises OSError, or ValueError that says why not."""
    if path.stat().st_size > MOST_SETTINGS:
        # Keys that are nested a hundred thousand deep are read for hours.
        raise ValueError(f"more than {MOST_SETTINGS:,} bytes are no settings")
    text = path.read_text(encoding="utf-8")
    try:
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply; settings stand side by side") from None


def setting_option(about: Field[Any]) -> Callable[[FC], FC]:
    """The click option of one setting, or of what is made like one."""
    name = flag(about.name)
    if about.metadata["kind"] is bool:
        both = f"{name}/{name.replace('--', '--no-')}"
        return click.option(both, about.name, default=None, help=_help(about))
    # Values are checked with the settings, so that every entrance gives the same message.
    return click.option(
        name,
        about.name,
        type=str,
        help=_help(about),
        metavar=_metavar(about.metadata),
        shell_complete=complete_setting(about),
    )


def _metavar(about: Mapping[str, Any]) -> str:
    if about["choices"]:
        return "|".join(about["choices"])
    kinds = {int: "INTEGER", float: "NUMBER", str: "TEXT"}
    return "|".join([kinds[about["kind"]], *about["words"]])


def _help(about: Field[Any]) -> str:
    default, text = default_of(about), str(about.metadata["help"])
    return text if default is None else f"{text}  [default: {default}]"


def absolute_paths(settings: Settings) -> Settings:
    """Nodes may run in another folder, so what names a file or a folder is made absolute."""
    changed: dict[str, Any] = {}
    if settings.dataset.endswith((".npz", ".csv")):
        changed["dataset"] = str(Path(settings.dataset).expanduser().resolve())
    if settings.data_dir is not None:
        changed["data_dir"] = str(Path(settings.data_dir).expanduser().resolve())
    return replace(settings, **changed)


def read_config(path: Path) -> dict[str, Any]:
    """Settings from TOML or JSON; what is only a record in a run's config.json is left out.

    How many clients there are is no setting, and so not among them: `chosen_nodes` knows it.
    """
    try:
        content = read_settings_file(path)
    except OSError as error:
        raise WrongUse(f"--config {path} cannot be read: {error.strerror}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise WrongUse(f"--config {path} cannot be understood: {error}") from None
    if not isinstance(content, dict):
        raise WrongUse(f"--config {path} must hold settings by name")
    about = content.pop(ABOUT, None)
    # A run that is repeated has as many clients as it had.
    nodes = content.pop("nodes", about.get("nodes") if isinstance(about, dict) else None)
    try:
        make_settings(content)
        if nodes is not None:
            nodes = check_number("--nodes", nodes, NODES.metadata)
    except WrongUse as error:
        raise WrongUse(f"--config {path}: {error}") from None
    context = click.get_current_context(silent=True)
    if context is not None and nodes is not None:
        context.meta["nodes"] = nodes
    return content
