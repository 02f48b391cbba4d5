"""Rows of plain values as CSV, in one way for all tables that leave this program."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any


def to_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of plain values; a column that any of them has is a column."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
