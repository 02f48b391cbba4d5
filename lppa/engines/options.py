"""The command line's options for engines, made from `Wanted`, which has each of them once."""

from __future__ import annotations

from lppa.engines.engine import OPTIONS
from lppa.options import setting_option
from lppa.shell import Command


def engine_options(command: Command) -> Command:
    """Adds them all; `make_wanted` checks what they say."""
    for about in reversed(OPTIONS):
        command = setting_option(about)(command)
    return command
