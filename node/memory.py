"""How much memory this process really takes, and giving back what it no longer needs."""

from __future__ import annotations

import ctypes
import resource
from functools import cache
from pathlib import Path


def proportional_bytes() -> int | None:
    """The proportional set size of this process, in which shared pages count in proportion.

    None where the system does not tell.
    """
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return None


def peak_bytes() -> int:
    """The most that this process ever had in memory, shared pages included."""
    # The kernel counts kilobytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def give_back() -> None:
    """Hands to the system what was freed here: the C library keeps it for later.

    With hundreds of nodes on a machine, what each keeps of its last evaluation is missed.
    """
    _trim()(0)


@cache
def _trim() -> ctypes._NamedFuncPointer | type[int]:
    # A library that has no such function keeps nothing, or cannot be asked.
    return getattr(ctypes.CDLL(None), "malloc_trim", int)
