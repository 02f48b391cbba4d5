"""Files that are there whole or not at all; what stands in them is the caller's matter."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_atomically(
    path: Path, content: str | bytes, mode: int = 0o644, durably: bool = False
) -> None:
    """Writes a file so that it is there whole or not at all; `durably` also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode() if isinstance(content, str) else content
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
            if durably:
                file.flush()
                os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def keep_lines(path: Path, wanted: Callable[[int, str], bool]) -> None:
    """Keeps some lines of a file, by their number and text; a torn last line goes."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    kept = [line for number, line in enumerate(whole) if wanted(number, line)]
    if kept != lines:
        write_atomically(path, "".join(kept))
