"""Writes the API reference: static pages made from docstrings by pdoc.

Usage: python scripts/api_docs.py OUT
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

import pdoc

import lppa
from lppa.protocol.settings import Settings

# In the order in which people meet them.
NAMES = ("run", "Run", "History", "load", "audit", "Problem", "rule", "Local", "Listener")
ERRORS = ("LppaError", "WrongUse", "RunFailed")
# What people call, then what those meet who write a rule, a launcher or a listener.
MODULES = (
    "lppa",
    "lppa.protocol.settings",
    "lppa.node.updates",
    "lppa.node.state",
    "lppa.protocol.view",
    "lppa.protocol.messages",
    "lppa.running.launcher",
    "lppa.running.listener",
)


def main(out: Path) -> None:
    """Writes all pages below a folder."""
    if {*NAMES, *ERRORS} != set(lppa.__all__):
        raise SystemExit("the names of lppa.__all__ are not those of scripts/api_docs.py")
    lppa.__all__ = [*NAMES, *ERRORS]
    for name in lppa.__all__:
        # They are loaded on first use, and pdoc shows only what is there.
        setattr(lppa, name, getattr(lppa, name))
    # Else the page has PyTorch's whole text about its default.
    del lppa.Problem.loss
    Settings.__doc__ = f"{Settings.__doc__}\n\n{settings_table()}"
    pdoc.render.configure(docformat="markdown", show_source=False)
    pdoc.pdoc(*MODULES, output_directory=out)


def settings_table() -> str:
    """All settings with their defaults and help texts, which no docstring has."""
    lines = ["| setting | default | |", "|---|---|---|"]
    for about in fields(Settings):
        words = about.metadata["help"].replace("|", "\\|")
        lines.append(f"| `{about.name}` | `{about.default!r}` | {words} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
