"""How long a process computes before another one has its turn on the same core.

Local clients outnumber the cores, and each gradient of a small model takes about as long as a turn:
whoever comes next finds the caches full of others' numbers. Only Linux lets a process ask for more.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct

SECONDS = 0.02
# struct sched_attr as it was first: size, policy, flags, nice, priority, runtime, deadline, period.
ATTRIBUTES = struct.Struct("IIQiIQQQ")
# The number of the call sched_setattr, which the C library has no name for.
CALLS = {"x86_64": 314, "aarch64": 274, "riscv64": 274}


def take_long_turns(seconds: float = SECONDS) -> bool:
    """Asks the kernel for longer turns, for this process and what it forks; says if it was asked.

    Others do not wait longer for it: who asks for short turns goes first. Kernels before 6.12 take
    no notice.
    """
    call = CALLS.get(platform.machine())
    if call is None or not hasattr(os, "SCHED_BATCH"):
        return False
    policy = os.sched_getscheduler(0)
    if policy not in (os.SCHED_OTHER, os.SCHED_BATCH):
        return False
    told = (ATTRIBUTES.size, policy, 0, os.getpriority(os.PRIO_PROCESS, 0), 0)
    asked = ATTRIBUTES.pack(*told, round(seconds * 1e9), 0, 0)
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).syscall(call, 0, asked, 0) == 0)
    return False
