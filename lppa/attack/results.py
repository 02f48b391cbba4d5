"""attacks/summary.json: the results of all attacks on a run, kept over calls.

A repeated attack takes the place of its earlier result. How results are shown is `tables`' matter.
"""

from __future__ import annotations

import fcntl
import json
import math
from pathlib import Path
from typing import Any

from lppa.protocol.files import write_atomically

KEY = ("attack", "attackers", "victim", "round")
"""What makes two results those of the same attack."""


def read_results(folder: Path) -> list[dict[str, Any]]:
    """All results that a run's directory has; none where nothing was attacked."""
    try:
        return json.loads((folder / "attacks" / "summary.json").read_text())
    except FileNotFoundError:
        return []


def keep(folder: Path, result: dict[str, Any]) -> None:
    """Adds a result; several attackers on one machine may do so at the same time."""
    with (folder / "attacks" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        merged = merge(read_results(folder), result)
        write_atomically(folder / "attacks" / "summary.json", json.dumps(merged, indent=2) + "\n")


def merge(results: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The results with a new one, in the place of the one that it repeats or at the end."""
    same = [_key(result) == _key(new) for result in results]
    if not any(same):
        return [*results, new]
    return [new if repeated else old for old, repeated in zip(results, same, strict=True)]


def finite(value: Any) -> Any:
    """The value with None for every number that JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return value


def _key(result: dict[str, Any]) -> list[Any]:
    return [result.get(name) for name in KEY]
