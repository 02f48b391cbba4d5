"""report.html: from folders to the file. The functions that commands and a run's end call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lppa.protocol.errors import WrongUse
from lppa.protocol.files import write_atomically
from lppa.report.page import render_page
from lppa.report.reading import read_run
from lppa.report.record import RunRecord

REPORT = "report.html"


def write_report(run_folder: Path) -> Path:
    """Writes report.html into a run's directory."""
    path = run_folder / REPORT
    write_page([read_run(run_folder)], path)
    return path


def write_page(runs: Sequence[RunRecord], path: Path) -> int:
    """Writes one page about one run or several, whole or not at all; returns its size in bytes."""
    if path.is_dir():
        raise WrongUse(f"{path} is a folder: name a file for the report")
    content = render_page(runs).encode("utf-8")
    try:
        write_atomically(path, content)
    except OSError as error:
        raise WrongUse(f"the report {path} cannot be written: {error.strerror}") from None
    return len(content)
