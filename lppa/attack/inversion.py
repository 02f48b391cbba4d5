"""All inversions by name: from a target and what is public about the victim to a reconstruction.

The registry and one function that checks what it is asked. How each works is in its own module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lppa.attack.closed_form import labels, svd
from lppa.attack.dlg import dlg, idlg
from lppa.attack.regularised import cosine, likelihood
from lppa.attack.restarts import Options, Reconstruction
from lppa.attack.target import Target, Victim
from lppa.protocol.errors import WrongUse

Inversion = Callable[[Target, Victim, Options], Reconstruction]

INVERSIONS: dict[str, Inversion] = {
    "dlg": dlg,
    "idlg": idlg,
    "cosine": cosine,
    "likelihood": likelihood,
    "svd": svd,
    "labels": labels,
}


def invert(
    name: str, target: Target, victim: Victim, options: Options | None = None, **changes: Any
) -> Reconstruction:
    """Run an inversion by name; keywords change single options (restarts=8, seconds=60, ...)."""
    if name not in INVERSIONS:
        raise WrongUse(f"unknown inversion {name}: use one of {', '.join(INVERSIONS)}")
    options = replace(options or Options(), **changes)
    if options.restarts < 1:
        raise WrongUse(f"an attack needs at least one restart, not {options.restarts}")
    return INVERSIONS[name](target, victim, options)
