"""How much memory this process really takes, and giving back what it no longer needs."""

from __future__ import annotations

import ctypes
import resource
from functools import cache
from pathlib import Path

# Names of options in the C library.
TRIM_THRESHOLD = -1
MMAP_THRESHOLD = -3


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


def keep_nothing() -> None:
    """From now on what is freed goes back to the system at once, if it is a megabyte or more.

    By itself the C library keeps parts of large vectors for later, each thread its own: as much as
    a model and a half where that has ten million parameters.
    """
    # A library that has no such function decides for itself.
    getattr(_library(), "mallopt", max)(MMAP_THRESHOLD, 1 << 20)


def keep_for_later() -> None:
    """From now on what is freed stays here for the next batch, up to half a gigabyte.

    By itself the C library hands the room of a batch's activations back and asks for it again in
    every gradient, and the system clears each page of it anew: a tenth of a gradient on images.
    """
    for option, most in ((TRIM_THRESHOLD, 1 << 29), (MMAP_THRESHOLD, 1 << 25)):
        getattr(_library(), "mallopt", max)(option, most)


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@cache
def _trim() -> ctypes._NamedFuncPointer | type[int]:
    # A library that has no such function keeps nothing, or cannot be asked.
    return getattr(_library(), "malloc_trim", int)
