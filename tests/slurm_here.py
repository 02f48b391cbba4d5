"""A small Slurm on this machine, for tests and for trying things out; gone when it is let go.

    python tests/slurm_here.py [--nodes N] [--cpus N] [COMMAND...]

Starts munged, slurmctld and one slurmd per node, all with random ports on the loopback address and
their files in a folder of their own. Runs the command with SLURM_CONF set, or else prints
SLURM_CONF=... and waits for the end of standard input. Leaves neither a process nor a file behind.
It needs `slurm-wlm` and `munge`, but no service of either, and no right that the user has not.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from ports import Ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo")
CANNOT = 77  # the exit code where there is no Slurm to bring up; the reason is on standard error
PATIENCE = 60.0  # seconds for the daemons to come, and to go
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

CONFIGURATION = """\
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
# Without the second a job that is queued again waits two minutes.
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SchedulerParameters=batch_sched_delay=0
KillWait=20
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs
GresTypes=gpu
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Gres=gpu:2"
# Two devices that are everywhere stand for graphics cards: Slurm counts and names them.
CARDS = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"


class Cannot(Exception):
    """There can be no Slurm here; says why."""


@contextlib.contextmanager
def slurm_here(nodes: int = 2, cpus: int = 8) -> Iterator[Path]:
    """A Slurm with that many nodes of that many CPUs each; gives its slurm.conf."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        raise Cannot(f"{', '.join(missing)} not installed (apt install slurm-wlm munge)")
    os.environ["PATH"] = path
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Short: the name of a socket has little room. For munge nobody else may write into it.
    folder = Path(tempfile.mkdtemp(prefix="slurm-here-", dir="/tmp"))
    folder.chmod(0o755)
    ports = Ports()
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        names = [f"here{i + 1}" for i in range(nodes)]
        configuration = configure(folder, names, cpus, ports.choose(nodes + 1))
        os.environ["SLURM_CONF"] = str(configuration)
        daemons += [start_munge(folder), start(folder, "slurmctld", "-D")]
        daemons += [start(folder, "slurmd", "-D", "-N", name) for name in names]
        wait_for(lambda: ready(daemons, nodes), folder)
        yield configuration
    finally:
        take_down(daemons)
        ports.close()
        shutil.rmtree(folder, ignore_errors=True)


def configure(folder: Path, names: list[str], cpus: int, ports: list[int]) -> Path:
    """Writes all that the daemons read."""
    host, user = socket.gethostname().partition(".")[0], getpass.getuser()
    own = {"host": host, "user": user, "folder": folder, "port": ports[0]}
    nodes = "\n".join(
        NODE.format(name=name, host=host, port=port, cpus=cpus)
        for name, port in zip(names, ports[1:], strict=True)
    )
    for made in ("state", *names):
        (folder / made).mkdir(mode=0o700)
    (folder / "gres.conf").write_text(CARDS)
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(nodes=nodes, **own))
    return configuration


def start_munge(folder: Path) -> subprocess.Popen[bytes]:
    """By which the others know each other; returns when it listens."""
    key = folder / "munge.key"
    with os.fdopen(os.open(key, os.O_CREAT | os.O_WRONLY, 0o400), "wb") as file:
        file.write(secrets.token_bytes(128))
    where = {"key-file": key, "socket": folder / "munge.sock", "pid-file": folder / "munged.pid"}
    where |= {"log-file": folder / "munged.log", "seed-file": folder / "munged.seed"}
    options = [f"--{name}={path}" for name, path in where.items()]
    daemon = start(folder, "munged", "--foreground", *options)
    wait_for(lambda: alive([daemon]) and where["socket"].exists(), folder)
    return daemon


def start(folder: Path, *command: str) -> subprocess.Popen[bytes]:
    """A daemon in the foreground; it ends with this process, however that ends."""
    output = (folder / f"{command[0]}-{command[-1].rpartition('/')[2]}.out").open("wb")
    with output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            start_new_session=True,
        )


def prctl(what: int, value: int) -> None:
    """Asks Linux for something that Python has no name for."""
    ctypes.CDLL(None, use_errno=True).prctl(what, value, 0, 0, 0)


def alive(daemons: list[subprocess.Popen[bytes]]) -> bool:
    """True; raises Cannot if a daemon has ended."""
    for daemon in daemons:
        if daemon.poll() is not None:
            raise Cannot(f"{' '.join(map(str, daemon.args))} ended with {daemon.returncode}")
    return True


def ready(daemons: list[subprocess.Popen[bytes]], nodes: int) -> bool:
    """Whether all nodes take jobs."""
    alive(daemons)
    return ask("sinfo", "--noheader", "--Node", "--format=%T").split() == ["idle"] * nodes


def ask(*command: str) -> str:
    """What a program of Slurm says; nothing where it fails."""
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return ""
    return told.stdout if told.returncode == 0 else ""


def wait_for(condition, folder: Path) -> None:
    """Returns when it is true; raises Cannot, with what the daemons said, if it will not be."""
    deadline = time.monotonic() + PATIENCE
    try:
        while not condition():
            if time.monotonic() > deadline:
                raise Cannot(f"not ready within {PATIENCE:g} s")
            time.sleep(0.05)
    except Cannot as error:
        files = [*folder.glob("*.log"), *folder.glob("*.out")]
        said = [path.read_text(errors="replace").strip().splitlines()[-2:] for path in files]
        words = " | ".join(line for lines in said for line in lines)
        raise Cannot(f"Slurm cannot be brought up here: {error}: {words}") from None


def take_down(daemons: list[subprocess.Popen[bytes]]) -> None:
    """Ends the jobs, then the daemons, then whatever of theirs is left."""
    if len(daemons) > 1:
        ask("scancel", f"--user={getpass.getuser()}")
        deadline = time.monotonic() + PATIENCE
        while ask("squeue", "--noheader").strip() and time.monotonic() < deadline:
            time.sleep(0.1)
    # munged last: the others speak with each other to the end.
    for daemon in reversed(daemons):
        daemon.terminate()
        try:
            daemon.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    # What lost its parent is ours: daemons of steps, and what those have not ended.
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for child in map(int, children):
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def leave(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=8)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, leave)
    try:
        with slurm_here(options.nodes, options.cpus) as configuration:
            if options.command:
                return subprocess.call(options.command)
            print(f"SLURM_CONF={configuration}", flush=True)
            sys.stdin.read()
            return 0
    except Cannot as error:
        print(error, file=sys.stderr)
        return CANNOT
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
