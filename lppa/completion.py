"""What a shell offers when Tab is pressed: values of settings, and runs.

Called once for each press, in a process of its own, and so to be quick; what a value means and
whether it is right is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from typing import Any

import click
from click.shell_completion import CompletionItem

from lppa.protocol.settings import NEED_IMAGES, QUADRATICS, RULES, Settings

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_setting(about: Field[Any]) -> Complete:
    """Completes the values of one setting."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        rules = about.metadata
        if about.name in NAMED:
            return _beginning(NAMED[about.name](), incomplete) + _path(about.name, incomplete)
        return _beginning((*rules["choices"], *rules["words"]), incomplete)

    return complete


def complete_named(name: str) -> Complete:
    """Completes an argument that is one of the settings by its nature."""
    (about,) = (field for field in fields(Settings) if field.name == name)
    return complete_setting(about)


def complete_run(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Runs by name, the newest first, and folders: a run may lie anywhere."""
    from lppa.running.naming import LATEST, RUNS, runs_below

    base = context.params.get("base") or RUNS
    names = [folder.name for folder in runs_below(base)]
    known = _beginning([LATEST, *names] if names else [], incomplete)
    return known or [CompletionItem(incomplete, type="dir")]


def _datasets() -> Iterable[str]:
    from lppa.node.datasets.catalogue import CATALOGUE

    forms = [f"{name}:{form}" for name, source in CATALOGUE.items() for form in source.forms]
    return (*CATALOGUE, *forms, *QUADRATICS)


def _topologies() -> Iterable[str]:
    from lppa.coordinator.topology import FIXED, RANDOM

    return (*FIXED, *RANDOM)


# Settings whose values are open, and so no choices: what is known of them by name.
NAMED: dict[str, Callable[[], Iterable[str]]] = {
    "dataset": _datasets,
    "rule": lambda: RULES,
    "topology": _topologies,
    "partition": lambda: ("iid", "quantity:", "dirichlet:", "benchmark:", "classes:"),
    "model": lambda: (*NEED_IMAGES, "mlp", "mlp:"),
    "device": lambda: ("auto", "cpu", "cuda"),
    "data_dir": tuple,
    "hosts": tuple,
}
PATHS = {"dataset": "file", "topology": "file", "data_dir": "dir", "hosts": "file"}


def _beginning(values: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(value) for value in values if value.startswith(incomplete)]


def _path(name: str, incomplete: str) -> list[CompletionItem]:
    """Asks the shell for files, too, once there is something that could be one."""
    kind = PATHS.get(name)
    if kind is None or (kind == "file" and not incomplete):
        return []
    return [CompletionItem(incomplete, type=kind)]
