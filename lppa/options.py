"""Command-line options made from the settings, and the layers that a setting comes from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any

import click

from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import (
    PRESETS,
    Settings,
    check_number,
    default_of,
    flag,
    make_settings,
    option,
)
from lppa.running.rundir import ABOUT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


# Not a setting, since a run by hand has as many as its address book; but checked like one.
NODES = option(5, "Number of clients.  [default: as --config says, else 5]", kind=int, least=2)


def settings_options(command: Callable, only: Sequence[str] = ()) -> Callable:
    """Adds an option for every setting, or for some; --preset, --config. Gives it `settings`."""
    chosen = [f for f in fields(Settings) if not only or f.name in only]

    def wrapped(*args: Any, preset: str | None, config: Path | None, **options: Any) -> Any:
        given = {f.name: options.pop(f.name) for f in chosen}
        layers = [PRESETS[preset] if preset else {}, read_config(config) if config else {}, given]
        return command(*args, settings=absolute_paths(make_settings(*layers)), **options)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = list(getattr(command, "__click_params__", []))
    for about in reversed(chosen):
        wrapped = _option(about)(wrapped)
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


def chosen_nodes(given: int | None) -> int:
    """How many clients a run has: as -n says, else as --config says, else five."""
    if given is not None:
        return given
    return click.get_current_context().meta.get("nodes", NODES.default)


def _option(about: Field) -> Callable:
    """The click option of one setting."""
    name = flag(about.name)
    if about.metadata["kind"] is bool:
        both = f"{name}/{name.replace('--', '--no-')}"
        return click.option(both, about.name, default=None, help=_help(about))
    # Values are checked with the settings, so that every entrance gives the same message.
    return click.option(
        name, about.name, type=str, help=_help(about), metavar=_metavar(about.metadata)
    )


def _metavar(about: Any) -> str:
    if about["choices"]:
        return "|".join(about["choices"])
    kinds = {int: "INTEGER", float: "NUMBER", str: "TEXT"}
    return "|".join([kinds[about["kind"]], *about["words"]])


def _help(about: Any) -> str:
    default = default_of(about)
    return about.metadata["help"] + ("" if default is None else f"  [default: {default}]")


def absolute_paths(settings: Settings) -> Settings:
    """Nodes may run in another folder, so what names a file or a folder is made absolute."""
    changed = {}
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
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
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
