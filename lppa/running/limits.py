"""What a machine must allow a run of processes and sockets; asked before anything is started.

All limits that a run of many nodes has met: each is told with the command that raises it. Figures
were measured with `lppa bench --only growth`; they are estimates, and a little generous.
"""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

from lppa.protocol.errors import WrongUse

# Estimated: 64 files were enough for 9 nodes in clear and 4 encrypted, 40 too few for 8 in clear.
FILES, FILES_PER_LINK, FILES_PER_ENCRYPTED_LINK = 36, 3, 6
MOST_FILES = 1 << 16  # that a process allows itself
LONGEST_SOCKET = 107  # characters in the path of a socket, as Unix has it
IN_FOLDER = len("/pymp-01234567/listener-01234567")  # what the fork server puts below a folder
THREADS_PER_NODE = 4  # the node itself, one that sees the run's end, and two of ZeroMQ
MAPS_PER_NODE = 2_000  # counted in three nodes: 650 to 657
BYTES_PER_NODE = 19_000_000  # of its own, the kernel's part included, with a small model
BYTES_SHARED = 600_000_000  # PyTorch, once for all
CROWDED = 16  # nodes on a core from which on they are given more time
SECONDS_PER_NODE = 0.5  # of a core, for whatever is waited for: a start, or a round


def check_machine(nodes: int, encrypted: bool) -> None:
    """Refuses a run on this machine that it does not allow."""
    check_temporary_folder()
    check_open_files(nodes, encrypted)
    check_processes(nodes)
    check_memory(nodes)


def check_open_files(nodes: int, encrypted: bool) -> None:
    """Refuses a run of more nodes than a process may have files and sockets open for."""
    per_link = FILES_PER_ENCRYPTED_LINK if encrypted else FILES_PER_LINK
    needed = FILES + per_link * nodes
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    everywhere = _kernel("fs/file-max")
    if everywhere is not None and everywhere < 2 * needed:
        raise WrongUse(
            f"this machine allows {everywhere} open files in all, and {nodes} nodes need about "
            f"{2 * needed}: allow more with `sysctl fs.file-max={4 * needed}`, or take fewer nodes"
        )
    if resource.RLIM_INFINITY in (soft, hard) or needed <= soft:
        return
    if needed <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return
    raise WrongUse(
        f"a process may have {hard} files open here, and with {nodes} nodes each needs about "
        f"{needed}: allow more with `ulimit -n {needed}`, or take fewer nodes"
    )


def allow_files() -> None:
    """Lets this process, and those that it will start, have more files open, if they may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_processes(nodes: int) -> None:
    """Refuses a run of more processes, or threads in them, than this user or machine may have."""
    threads = THREADS_PER_NODE * nodes
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    # Root is not held to it.
    if os.getuid() and hard != resource.RLIM_INFINITY and threads > hard:
        raise WrongUse(
            f"this user may have {hard} processes and threads, and {nodes} nodes have about "
            f"{threads}: allow more with `ulimit -u {2 * threads}`, or take fewer nodes"
        )
    if os.getuid() and soft != resource.RLIM_INFINITY and threads > soft:
        resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    for name in ("kernel/threads-max", "kernel/pid_max"):
        most = _kernel(name)
        if most is not None and threads > most:
            raise WrongUse(
                f"this machine allows {most} processes and threads, and {nodes} nodes have about "
                f"{threads}: allow more with `sysctl {name.replace('/', '.')}={2 * threads}`, "
                "or take fewer nodes"
            )
    group = _group_limit("pids.max")
    if group is not None and threads > group:
        raise WrongUse(
            f"this container allows {group} processes and threads, and {nodes} nodes have about "
            f"{threads}: start it with more (`--pids-limit {2 * threads}`), or take fewer nodes"
        )
    maps = _kernel("vm/max_map_count")
    if maps is not None and maps < MAPS_PER_NODE:
        raise WrongUse(
            f"a process may have {maps} memory maps here, and PyTorch alone needs more: allow them "
            "with `sysctl vm.max_map_count=65530`"
        )


def check_memory(nodes: int) -> None:
    """Refuses a run of more nodes than there is memory for, even with a small model."""
    needed, free = BYTES_SHARED + BYTES_PER_NODE * nodes, free_memory()
    if free is not None and needed > free:
        most = max(0, (free - BYTES_SHARED) // BYTES_PER_NODE)
        raise WrongUse(
            f"{nodes} nodes need about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB "
            f"are free: end something else, or take at most {most} nodes"
        )


def free_memory() -> int | None:
    """Bytes that processes could still get, swap included; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    words = [line.replace(":", "").split() for line in lines]
    free = sum(int(line[1]) * 1024 for line in words if line[0] in ("MemAvailable", "SwapFree"))
    limit, used = _group_limit("memory.max"), _group_limit("memory.current")
    return free if limit is None or used is None else min(free, limit - used)


def enough_time(timeout: float, nodes: int) -> float:
    """Seconds to wait for others where many nodes share few cores: not less than was asked for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    crowd = nodes / (cores or 1)
    return timeout if crowd <= CROWDED else max(timeout, SECONDS_PER_NODE * crowd)


def check_temporary_folder() -> None:
    """Refuses a folder for temporary files in which no socket can be made."""
    folder, most = tempfile.gettempdir(), LONGEST_SOCKET - IN_FOLDER
    if len(folder.encode()) > most:
        raise WrongUse(
            f"sockets need a folder whose path has at most {most} characters, and {folder} has "
            f"{len(folder.encode())}: set TMPDIR to a shorter one, such as TMPDIR=/tmp"
        )


def _kernel(name: str) -> int | None:
    """A number that the kernel was told; None where there is none."""
    return _number(Path("/proc/sys") / name)


def _group_limit(name: str) -> int | None:
    """A number of the control group that this process is in, as containers have one."""
    try:
        group = Path("/proc/self/cgroup").read_text().partition("0::/")[2].splitlines()
    except OSError:
        return None
    root = Path("/sys/fs/cgroup")
    # In a container its own group stands at the root.
    places = [root / group[0] / name if group else root / name, root / name]
    return next((found for place in places if (found := _number(place)) is not None), None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        # `max` is no number either: no limit.
        return None
