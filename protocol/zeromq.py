"""ZeroMQ, with a libsodium that was built to be fast. Whatever else knows ZeroMQ imports it here.

The wheels of pyzmq bring a libsodium that was compiled without optimisation: encrypted links are
ten times as slow with it as with the same library from elsewhere. PyNaCl brings one that is fast,
and shows its functions; where that is loaded first and for all to see, ZeroMQ's calls go there.
Without PyNaCl, or where a process had ZeroMQ before this, all works as well, and slower.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from importlib.util import find_spec


def load_fast_sodium() -> None:
    """Puts PyNaCl's functions before those of any library that is loaded later."""
    if sys.platform != "linux":  # elsewhere a library's calls go where they were linked to
        return
    with suppress(ImportError, OSError):
        found = find_spec("nacl._sodium")
        if found is not None and found.origin is not None:
            ctypes.CDLL(found.origin, mode=ctypes.RTLD_GLOBAL)


load_fast_sodium()

import zmq  # noqa: E402
from zmq.utils.monitor import recv_monitor_message  # noqa: E402

__all__ = ["recv_monitor_message", "zmq"]
