"""Local nodes ask for long turns on a core, and stay what they are otherwise."""

import ctypes
import os
import platform
import subprocess
import sys

import pytest

from lppa.node.turns import ATTRIBUTES, CALLS, take_long_turns

LOOK = """
import os
os.nice(3)
from lppa.node.turns import take_long_turns
print(take_long_turns(), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
"""
GETTING = {"x86_64": 315, "aarch64": 275, "riscv64": 275}  # the call sched_getattr

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() not in CALLS,
    reason="a call of Linux's",
)


@linux
def test_a_process_keeps_its_priority_and_its_policy():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    # Whoever runs the tests may have been told to be nice already.
    nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3)
    assert done.stdout.split() == ["True", str(nice), str(os.sched_getscheduler(0))]


@linux
def test_what_is_asked_for_is_what_the_kernel_has_and_a_child_inherits_it():
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    if release < (6, 12):
        pytest.skip("this kernel takes no notice")
    pid = os.fork()
    if pid == 0:
        take_long_turns(0.01)
        if os.fork() == 0:
            room = ctypes.create_string_buffer(ATTRIBUTES.size)
            ctypes.CDLL(None).syscall(GETTING[platform.machine()], 0, room, ATTRIBUTES.size, 0)
            os._exit(0 if ATTRIBUTES.unpack(room.raw)[5] == 10_000_000 else 1)
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_machine_without_such_a_call_goes_on_without(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    assert take_long_turns() is False
