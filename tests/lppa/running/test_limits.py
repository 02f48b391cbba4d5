"""What a machine does not allow is told before anything starts, with what to do about it."""

from __future__ import annotations

import resource
import tempfile

import pytest

from lppa.protocol.errors import WrongUse
from lppa.running import limits


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine whose limits a test sets, by their names below /proc/sys and in its group."""
    told: dict[str, int] = {}
    monkeypatch.setattr(limits, "_kernel", told.get)
    monkeypatch.setattr(limits, "_group_limit", told.get)
    monkeypatch.setattr(limits.os, "getuid", lambda: 1000)
    free = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda which: told.get(which, (free, free)))
    monkeypatch.setattr(resource, "setrlimit", lambda which, both: told.update({which: both}))
    monkeypatch.setattr(limits, "free_memory", lambda: told.get("free"))
    return told


@pytest.mark.parametrize(
    ("which", "value", "remedy"),
    [
        (resource.RLIMIT_NOFILE, (1024, 2048), r"`ulimit -n 3036`"),
        (resource.RLIMIT_NPROC, (500, 500), r"`ulimit -u 8000`"),
        ("kernel/threads-max", 3000, r"`sysctl kernel\.threads-max=8000`"),
        ("kernel/pid_max", 3000, r"`sysctl kernel\.pid_max=8000`"),
        ("fs/file-max", 5000, r"`sysctl fs\.file-max=12144`"),
        ("vm/max_map_count", 1000, r"`sysctl vm\.max_map_count=65530`"),
        ("pids.max", 3000, r"`--pids-limit 8000`"),
        ("free", 10_100_000_000, r"10\.1 GB are free: .* at most 500 nodes"),
    ],
)
def test_each_limit_is_told_with_what_raises_it(machine, which, value, remedy):
    limits.check_machine(1000, encrypted=False)
    machine[which] = value
    with pytest.raises(WrongUse, match=remedy):
        limits.check_machine(1000, encrypted=False)
    if which != "vm/max_map_count":
        limits.check_machine(5, encrypted=True)


def test_what_this_process_may_raise_itself_is_raised(machine):
    machine[resource.RLIMIT_NOFILE] = (1024, 100_000)
    machine[resource.RLIMIT_NPROC] = (1024, 100_000)
    limits.check_machine(1000, encrypted=False)
    assert machine[resource.RLIMIT_NOFILE] == (3036, 100_000)
    assert machine[resource.RLIMIT_NPROC] == (100_000, 100_000)


def test_a_folder_whose_sockets_would_have_too_long_a_name_is_refused(monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/tmp/" + "x" * 80)
    with pytest.raises(WrongUse, match="TMPDIR=/tmp"):
        limits.check_temporary_folder()


def test_this_machine_says_how_much_memory_is_free():
    assert (limits.free_memory() or 0) > 1 << 20


@pytest.mark.parametrize(
    ("nodes", "timeout", "given"), [(5, 3.0, 3.0), (64, 3.0, 16.0), (64, 99.0, 99.0)]
)
def test_a_crowd_is_given_more_time_and_nobody_less(monkeypatch, nodes, timeout, given):
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    assert limits.enough_time(timeout, nodes) == given
