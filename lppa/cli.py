"""`lppa`: the umbrella command. Loads a subcommand's module only when that subcommand is called."""

from __future__ import annotations

import importlib
from typing import Any

import click
from click.shell_completion import CompletionItem

from lppa.shell import leave_interrupted, usage_in_one_line, version_option

# name -> (module:attribute, one line for the list of commands)
COMMANDS = {
    "run": ("lppa.commands.run:run", "Run an experiment, on this machine or on others."),
    "peers": ("lppa.commands.peers:peers", "Write peers.json and the key files."),
    "attack": ("lppa.commands.attack:attack", "Attack what attacker nodes recorded."),
    "runs": ("lppa.commands.runs:runs", "List or remove runs."),
    "report": ("lppa.commands.report:report", "Write a page about runs."),
    "watch": ("lppa.commands.watch:watch", "See a run in the browser, live."),
    "export": ("lppa.commands.export:export", "Write runs' figures as a table."),
    "sweep": ("lppa.commands.sweep:sweep", "Run all combinations of some settings."),
    "audit": ("lppa.commands.audit:audit", "Say what a rule hides, before training."),
    "bench": ("lppa.commands.bench:bench", "Measure speed as ratios in one run."),
    "datasets": ("lppa.commands.datasets:datasets", "List or fetch data sets."),
    "reproduce": (
        "lppa.commands.reproduce:reproduce",
        "Run the paper's tables and figures again.",
    ),
    "models": ("lppa.commands.models:models", "List the networks and their sizes."),
    "partition": ("lppa.commands.datasets:partition", "Show how data is split over clients."),
}
# What commands start on other machines: not in the list for people.
HIDDEN = {"host": "lppa.commands.host:host"}


class Lazy(click.Group):
    """A group that knows its commands by name and imports the one that is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS and name not in HIDDEN:
            return None
        where = HIDDEN[name] if name in HIDDEN else COMMANDS[name][0]
        module, _, attribute = where.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # From the table: a press of Tab is not to import every command.
        known = [
            CompletionItem(name, help=about[1])
            for name, about in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return known + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with usage_in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with usage_in_one_line():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            # While a command is being loaded; once it runs, it sees to that by itself.
            leave_interrupted()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about[1]) for name, about in COMMANDS.items()])


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: lppa run -n 5 --rule lppa --topology ring",
)
@version_option
def main() -> None:
    """Decentralized federated learning with lossless privacy-preserving aggregation."""
