"""What a run may be called: a path, a name below runs/, or `latest`; and names for new runs.

Only finds directories. What is in them is read by `listing`, `export` and `report`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings
from lppa.report.reading import MARKS
from lppa.running.rundir import ABOUT, check_free, default_folder

RUNS = Path("runs")
LATEST = "latest"
TRACES = ("nodes", "attacks")  # a node that was started by hand leaves these alone
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
SHOWN = 5  # names that an error tells


def find_run(named: str | Path, base: Path = RUNS) -> Path:
    """The directory of the run that is called so; raises WrongUse with what there is instead."""
    if str(named) == LATEST:
        runs = runs_below(base)
        if not runs:
            raise WrongUse(f"there is no {LATEST} run: no run is in {base}/")
        return runs[0]
    path, below = Path(named), base / named
    # A folder that happens to have the name of a run is not what was meant.
    for found in (path, below):
        if is_run(found) or any((found / trace).is_dir() for trace in TRACES):
            return found
    for found in (path, below):
        if found.is_dir():
            missing = f"none of {', '.join(MARKS)} is in it"
            raise WrongUse(f"{found} is not a run's directory: {missing}; {_there(base)}")
    raise WrongUse(f"{named} is not a folder, nor the name of a run in {base}/; {_there(base)}")


def find_runs(named: Iterable[str | Path], base: Path = RUNS) -> list[Path]:
    """Several runs, each once, in the order that they were named in."""
    return list(dict.fromkeys(find_run(one, base) for one in named))


def find_or_await(named: str | Path, base: Path = RUNS) -> Path:
    """Like `find_run`, but a run that is not there may be yet to come."""
    path = Path(named)
    if str(named) == LATEST or path.exists() or (base / named).exists():
        # What there is need not be a run by now: one begins with an empty folder.
        return path if path.is_dir() and not any(path.iterdir()) else find_run(named, base)
    # A bare name is one for `lppa run --name`.
    return base / named if NAME.fullmatch(str(named)) and base.is_dir() else path


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's directory."""
    return any((folder / name).is_file() for name in MARKS)


def runs_below(base: Path) -> list[Path]:
    """The runs directly in a folder, the newest first; none if it is not there."""
    try:
        found = [folder for folder in base.iterdir() if is_run(folder)]
    except OSError:
        return []
    return sorted(found, key=lambda folder: (*began(folder), folder.name), reverse=True)


def began(folder: Path) -> tuple[float, int]:
    """When a run began, in seconds, and a finer time for runs of the same second.

    As it says itself, since copies have new dates; by its oldest file if it does not.
    """
    dates = []
    for name in MARKS:
        try:
            dates.append((folder / name).stat().st_mtime_ns)
        except OSError:
            continue
    oldest = min(dates, default=0)
    about: Any = read_config(folder).get(ABOUT)
    try:
        said = datetime.strptime(about["started"], "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except (TypeError, KeyError, ValueError):
        said = float(oldest // 10**9)
    return said, oldest


def read_config(folder: Path) -> dict[str, Any]:
    """A run's config.json; nothing if it is not there or broken."""
    try:
        content = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def new_folder(out: Path | None, name: str | None, settings: Settings) -> Path:
    """Where a new run goes: as --out or --name says, else a name made of the time."""
    if out is not None and name is not None:
        raise WrongUse("--out and --name both say where the run goes: give one of them")
    if name is None:
        folder = out or default_folder(settings)
        check_free(folder)
        return folder
    check_name(name)
    # Not even an empty folder is shared: a name is for one run.
    if (RUNS / name).exists() or (RUNS / name).is_symlink():
        raise WrongUse(f"--name {name} is taken: {RUNS / name} exists already; choose another")
    return RUNS / name


def check_name(name: str) -> None:
    """Refuses what would be no plain folder below runs/, or mean another run."""
    if name == LATEST:
        raise WrongUse(f"--name {LATEST} always means the newest run: choose another")
    if not NAME.fullmatch(name):
        raise WrongUse(
            f"--name must be up to 100 letters, digits, . _ or -, the first no . or -; not {name!r}"
        )


def _there(base: Path) -> str:
    """What could have been meant, in few words."""
    names = [folder.name for folder in runs_below(base)]
    if not names:
        return f"no run is in {base}/"
    more = f" and {len(names) - SHOWN} more (see `lppa runs`)" if len(names) > SHOWN else ""
    return f"there: {', '.join(names[:SHOWN])}{more}"
