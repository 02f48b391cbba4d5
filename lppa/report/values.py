"""Plain values out of JSON that may be anything: each function gives its type or nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

LARGEST = 1e300  # what is beyond is no measurement, and would overflow a scale


def number(value: Any) -> float | None:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -LARGEST < value < LARGEST:  # false for NaN too
        return None
    return float(value)


def whole(value: Any, least: int = 0) -> int | None:
    """A whole number that is not too small."""
    known = number(value)
    if known is None or known != math.floor(known) or known < least:
        return None
    return int(known)


def positive(value: Any) -> float | None:
    """A number that is not negative."""
    known = number(value)
    return known if known is not None and known >= 0 else None


def mapping(value: Any) -> dict[str, Any]:
    """A mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """Text that is not empty."""
    return value if isinstance(value, str) and value else None


def texts(value: Any) -> tuple[str, ...]:
    """The texts of a list."""
    return tuple(line for line in items(value) if text(line))


def numbers(value: Any) -> dict[str, float]:
    """What is a number in a mapping."""
    known = {name: number(found) for name, found in mapping(value).items()}
    return {name: found for name, found in known.items() if found is not None}


def ids(value: Any) -> tuple[int, ...]:
    """Clients; empty unless every one is an id."""
    nodes = items(value)
    known = tuple(node for node in map(whole, nodes) if node is not None)
    return known if len(known) == len(nodes) else ()


class Files:
    """Reads a folder's files, and remembers what could not be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []

    def json(self, name: str) -> Any:
        """A JSON document; None if it is not there or broken."""
        raw = self.bytes(name)
        if raw is None:
            return None
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            self.problems.append(f"{name} cannot be understood, and is left out")
            return None

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The objects of a file with one per line; a last line that is being written is not one."""
        raw = self.bytes(name)
        found, broken = [], 0
        for line in (raw or b"").splitlines(keepends=True):
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                broken += line.endswith(b"\n")
                continue
            if isinstance(content, dict):
                found.append(content)
            else:
                broken += 1
        if broken:
            self.problems.append(f"{broken} lines of {name} cannot be understood, and are left out")
        return found

    def bytes(self, name: str, most: int | None = None) -> bytes | None:
        """A file's content; None if it is not there, or cannot be read, or is too large."""
        path = self.folder / name
        try:
            if most is not None and path.stat().st_size > most:
                self.problems.append(f"{name} is too large, and is left out")
                return None
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self.problems.append(f"{name} cannot be read: {why}")
            return None
