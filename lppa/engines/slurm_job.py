"""Slurm from outside: one job is submitted that runs `lppa run` inside, and followed to its end.

What the job says is said here too. The job's hosts are the business of `slurm`, inside it.
"""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lppa.coordinator.figures import ENDED
from lppa.engines.engine import Wanted
from lppa.engines.slurm import ask, run
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.files import make_private, write_atomically
from lppa.running.rundir import BEFORE
from lppa.running.signals import postponed
from lppa.shell import INTERRUPTED, LPPA

JOB, OUT, ERR, CODE, FINDER = BEFORE
LOOK_EVERY = 0.5  # seconds between looks at what the job has said
ASK_EVERY = 3.0  # seconds between questions to Slurm, which many ask
WARNING = 60  # seconds before a job's time is over in which the run can end in order
OVER = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"),
    *("BOOT_FAIL", "DEADLINE", "REVOKED"),
)
# Finds code that came from a program's memory, as the command finds it in any other file.
FIND_CODE = f"""\
from pathlib import Path

from lppa.own_code import unpack

code = unpack(Path(__file__).with_name({CODE!r}).read_bytes())
problem, rule = code.problem, code.rule
"""
CODES = {**dict.fromkeys(ENDED, 0), "failed": 1, "interrupted": INTERRUPTED}

Say = Callable[[str], None]


class SlurmJob:
    """A job that is yet to be: what stands for the engine where there are no hosts to name."""

    def __init__(self, wanted: Wanted) -> None:
        try:
            typed = shlex.split(wanted.slurm_options or "")
        except ValueError as error:
            raise WrongUse(f"--slurm-options cannot be understood: {error}") from None
        if any(not word.startswith("-") for word in typed[:1]):
            raise WrongUse(f"--slurm-options are like --time=1:00:00, not like {typed[0]!r}")
        self.options = [f"--ntasks={wanted.nodes}"]
        if wanted.cpus_per_node is not None:
            self.options.append(f"--cpus-per-task={max(1, math.ceil(wanted.cpus_per_node))}")
        # What the person has typed comes last, and so wins.
        self.options += typed

    def run(
        self,
        folder: Path,
        arguments: Sequence[str],
        goes_on: bool,
        voice: Voice,
        code: bytes | None = None,
    ) -> int:
        """Runs `lppa run` with these arguments in a job; returns its exit code.

        Such a run may go on if clients are lost, and so if hosts are. `code` is what a program
        brings that has it in no file: the job finds it where `code_words` says.
        """
        request = Request(folder, tuple(arguments), goes_on, tuple(self.options), code)
        try:
            return run_as_job(request, voice)
        finally:
            for name in (CODE, FINDER):
                (folder / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class Voice:
    """Who hears of a job: notes about it, and what it says itself; None is nobody."""

    say: Say
    err: TextIO | None
    out: TextIO | None


@dataclass(frozen=True)
class Request:
    """What a job is asked for: `arguments` are those of the `lppa run` inside it."""

    folder: Path
    arguments: tuple[str, ...]
    goes_on: bool
    options: tuple[str, ...]
    code: bytes | None = None

    @property
    def name(self) -> str:
        """What queues show."""
        return f"lppa-{self.folder.name}"

    @property
    def script(self) -> str:
        """The job: this command again. Slurm keeps it, so that nothing secret stands in it."""
        here, out = shlex.quote(str(Path.cwd())), shlex.quote(str(self.folder.resolve() / OUT))
        command = shlex.join([*LPPA, "run", *self.arguments])
        # A job that is started again has one result. The command takes the shell's place: the
        # warning before the job's time is over goes to its first process alone.
        return f"#!/bin/sh\n: >{out}\ncd {here} && exec {command}\n"

    @property
    def command(self) -> list[str]:
        """How it is submitted."""
        folder = self.folder.resolve()
        # Slurm has its own meaning for a % in these.
        out, err = (str(folder / name).replace("%", "%%") for name in (OUT, ERR))
        told = ["sbatch", "--parsable", f"--job-name={self.name}"]
        told += [f"--output={out}", f"--error={err}", "--open-mode=append"]
        told += ["--requeue", f"--signal=B:TERM@{WARNING}"]
        # Slurm would end the whole job with its first host.
        told += ["--no-kill"] if self.goes_on else []
        return [*told, *self.options]


def code_words(folder: Path, problem: bool, rule: bool) -> list[str]:
    """How the command in a job is told of a run's own code, which is in its directory."""
    where = folder.resolve() / FINDER
    told = {"problem": problem, "rule": rule}
    return [f"--{what}={where}:{what}" for what, brought in told.items() if brought]


def run_as_job(request: Request, voice: Voice) -> int:
    """Submits a job, or finds the one that is at it, and follows it; returns its exit code."""
    folder, say = request.folder, voice.say
    job = known_job(request)
    ear = Ear(folder / ERR, voice.err)
    try:
        if job is None:
            ear.skip()
            (folder / OUT).unlink(missing_ok=True)
            # A job whose number nobody has noted would go on alone.
            with postponed():
                job = submit(request)
            say(f"note: job {job} is submitted")
        else:
            say(f"note: job {job} is at it already: following it")
        follow(job, ear, say)
    except KeyboardInterrupt:
        if job is None:
            raise
        say(f"note: job {job} is cancelled")
        with contextlib.suppress(WrongUse):
            ask("scancel", job)
        follow(job, ear, say)
        if not any((folder / name).exists() for name in ("config.json", OUT)):
            forget(folder)
        with contextlib.suppress(RunFailed):
            return exit_code(job, folder)
        raise
    finally:
        # Its results, once it has come to them for good.
        Ear(folder / OUT, voice.out).listen()
    return exit_code(job, folder)


def known_job(request: Request) -> str | None:
    """The job that a run was submitted as, if it is not over."""
    try:
        job = (request.folder / JOB).read_text().strip()
    except OSError:
        return None
    found = look_up(job)
    # Numbers begin anew one day, and each cluster has its own.
    return job if found is not None and found.name == request.name and not found.over else None


def submit(request: Request) -> str:
    """Hands a job to Slurm; returns its number."""
    folder = request.folder
    fresh = not folder.exists()
    make_private(folder)
    if request.code is not None:
        write_atomically(folder / CODE, request.code)
        write_atomically(folder / FINDER, FIND_CODE)
    try:
        # With several clusters their name follows the number.
        job = ask(*request.command, given=request.script).strip().partition(";")[0]
    except WrongUse:
        if fresh:
            forget(folder)
        raise
    write_atomically(folder / JOB, f"{job}\n")
    return job


def forget(folder: Path) -> None:
    """Takes a run's directory away that nothing has come of."""
    for name in BEFORE:
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


@dataclass(frozen=True)
class State:
    """A job as Slurm sees it."""

    state: str
    reason: str = ""
    name: str = ""

    @property
    def over(self) -> bool:
        """Whether it will not come back."""
        return self.state in OVER

    def __str__(self) -> str:
        plain = self.state.lower().replace("_", " ")
        return plain if self.reason in ("", "None") or self.over else f"{plain} ({self.reason})"


def look_up(job: str) -> State | None:
    """How a job is; None if Slurm has forgotten it. Raises OSError if Slurm does not answer."""
    try:
        ended = run(["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T|%r|%j"])
    except subprocess.TimeoutExpired as error:
        raise OSError(str(error)) from None
    if ended.returncode:
        if "Invalid job id" in ended.stderr:
            return None
        raise OSError(ended.stderr.strip())
    told = ended.stdout.strip()
    return State(*told.split("|", 2)) if told else None


class Ear:
    """Says here what a job writes to a file, line by line."""

    def __init__(self, path: Path, to: TextIO | None) -> None:
        self.path = path
        self.to = to
        self.at = 0

    def skip(self) -> None:
        """What is there already was said before."""
        with contextlib.suppress(OSError):
            self.at = self.path.stat().st_size

    def listen(self) -> None:
        """Passes on what is new, in whole lines."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.at)
                new = file.read()
        except OSError:
            return
        new = new[: new.rfind(b"\n") + 1]
        self.at += len(new)
        if self.to is not None:
            print(new.decode(errors="replace"), end="", file=self.to, flush=True)


def follow(job: str, ear: Ear, say: Say) -> None:
    """Returns when a job is over, and all that it said has been said."""
    shown, asked = "", -ASK_EVERY
    while True:
        ear.listen()
        if time.monotonic() - asked >= ASK_EVERY:
            asked = time.monotonic()
            try:
                found = look_up(job)
            except OSError:
                # The one who knows is away: the job goes on, and so do we.
                found = State("")
            if found is None or found.over:
                ear.listen()
                return
            if str(found) not in ("", shown):
                shown = str(found)
                say(f"note: job {job} is {shown}")
        time.sleep(LOOK_EVERY)


def exit_code(job: str, folder: Path) -> int:
    """The one that the command inside has ended with; raises RunFailed where it was killed."""
    state, code = last_word(job)
    if code is not None and code[1] == 0 and state in ("COMPLETED", "FAILED"):
        return code[0]
    with contextlib.suppress(OSError, ValueError, KeyError):
        # It had time for its last words, which have been passed on.
        status = json.loads((folder / "summary.json").read_bytes())["status"]
        return CODES[status]
    how = f"is {State(state)}" if state else "is gone"
    begun = (folder / "config.json").exists()
    what = f"go on with it by --resume {folder}" if begun else f"see {folder / ERR}"
    raise RunFailed(f"job {job} {how}, and the run with it; {what}")


def last_word(job: str) -> tuple[str, tuple[int, int] | None]:
    """How a job ended: its state, exit code and signal; nothing is known of some."""
    with contextlib.suppress(WrongUse):
        told = ask(
            "sacct", "--noheader", "--allocations", "--parsable2", f"--jobs={job}",
            "--format=State,ExitCode",
        )  # fmt: skip
        # The last line is that of the last start; a state may say more, as in CANCELLED by 0.
        lines = [line.partition("|") for line in told.splitlines() if "|" in line]
        if lines and lines[-1][0].split()[0] in OVER:
            return lines[-1][0].split()[0], _code(lines[-1][2])
    # Without accounting Slurm remembers a job for some minutes.
    with contextlib.suppress(WrongUse):
        told = ask("scontrol", "--oneliner", "show", "job", job)
        fields = dict(word.split("=", 1) for word in told.split() if "=" in word)
        return fields.get("JobState", ""), _code(fields.get("ExitCode", ""))
    return "", None


def _code(text: str) -> tuple[int, int] | None:
    code, colon, number = text.partition(":")
    return (int(code), int(number)) if colon and code.isdigit() and number.isdigit() else None
