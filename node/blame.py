"""Whose code an error came from: people's own is named with its file and line."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("protocol", "node", "coordinator", "models", "lppa")
OURS = (
    *(f"{ROOT / folder}/" for folder in FOLDERS),
    *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "purelib", "platlib")),
)


def blame(error: BaseException) -> str | None:
    """An error that went through somebody's own code, in one line; None where it did not.

    The last line of their own counts: what they called there may have raised it.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: SyntaxError: {error.msg}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith("<frozen") or _is_ours(frame.filename):
            continue
        where = f"{frame.filename}, line {frame.lineno}, in {frame.name}"
        return f"{where}: {type(error).__name__}: {error}"
    return None


def _is_ours(filename: str) -> bool:
    return str(Path(filename).resolve()).startswith(OURS)
