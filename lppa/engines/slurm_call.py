"""A run asked for in Python as a Slurm job: the command that says the same, and what came of it.

How a job is submitted and followed is in `slurm_job`, for the command as for this.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from lppa.coordinator.figures import Summary
from lppa.engines.engine import NAMES, Wanted
from lppa.engines.slurm_job import ERR, SlurmJob, Voice, code_words
from lppa.protocol.checks import flag
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.settings import OWN, Settings
from lppa.running.listener import Listener
from lppa.running.private import private_folder
from lppa.running.scout import Scout

ERROR = "error: "


@dataclass(frozen=True)
class Call:
    """What `lppa.run` or `lppa.resume` was asked for; `begun` is a run that goes on."""

    wanted: Wanted
    settings: Settings
    folder: Path
    attackers: Sequence[int] = ()
    tensorboard: bool = False
    quiet: bool = True
    begun: bool = False

    def words(self, scout: Scout | None) -> list[str]:
        """The same as options of `lppa run`."""
        told = [f"--resume={self.folder}"] if self.begun else self._new()
        asked = {name: getattr(self.wanted, name) for name in NAMES if name != "slurm_options"}
        told += [f"{flag(name)}={value}" for name, value in asked.items() if value is not None]
        code = None if scout is None else scout.code
        if code is not None:
            told += code_words(self.folder, code.problem is not None, code.rule is not None)
        return [*told, *["--tensorboard"] * self.tensorboard, *["--quiet"] * self.quiet]

    def _new(self) -> list[str]:
        attackers = ",".join(map(str, self.attackers))
        told = [f"--nodes={self.wanted.nodes}", f"--out={self.folder}"]
        return told + [f"--attacker={attackers}"] * bool(attackers) + setting_words(self.settings)


def setting_words(settings: Settings) -> list[str]:
    """All settings as options, but those that code which the run brings has a name for."""
    brought = settings.dataset.startswith(OWN)
    told = []
    for about in fields(Settings):
        value, option = getattr(settings, about.name), flag(about.name)
        if value is None or str(value).startswith(OWN) or (brought and about.name == "model"):
            continue
        if isinstance(value, bool):
            told.append(option if value else option.replace("--", "--no-", 1))
        else:
            told.append(f"{option}={value}")
    return told


def run_called(job: SlurmJob, call: Call, listener: Listener, scout: Scout | None) -> Summary:
    """Runs it as a job, and waits for that."""
    words, code = call.words(scout), packed(scout)
    voice = Voice(listener.say, None if call.quiet else sys.stderr, None)
    goes_on = call.settings.on_failure == "continue"
    ended = job.run(call.folder, words, goes_on, voice, code)
    return summary_of(call.folder, ended)


def packed(scout: Scout | None) -> bytes | None:
    """The code that a run brings, if it does; who had it is not needed any more."""
    if scout is None or scout.code is None:
        return None
    with private_folder() as private:
        try:
            scout.keep_code(private / "code")
        finally:
            scout.close()
        return (private / "code").read_bytes()


def summary_of(folder: Path, code: int) -> Summary:
    """What a job has left; raises its last words where it came to no run."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        return Summary.from_dict(json.loads((folder / "summary.json").read_bytes()))
    said = ""
    with contextlib.suppress(OSError):
        said = (folder / ERR).read_text(errors="replace")
    words = [line.removeprefix(ERROR) for line in said.splitlines() if line.startswith(ERROR)]
    last = words[-1] if words else f"the job ended with exit code {code}; see {folder / ERR}"
    raise (WrongUse if code == WrongUse.exit_code else RunFailed)(last)
