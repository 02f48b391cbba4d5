"""A .csv file as named columns of text: finds what separates values, checks every line.

What the texts mean, as numbers or categories, is decided in `csv_tables`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lppa.protocol.errors import WrongUse

if TYPE_CHECKING:
    from _csv import Reader

SEPARATORS = (",", ";", "\t")
LOOKED_AT = 20  # lines that tell the separator
MOST_BYTES = 200_000_000  # as Python texts they take fifteen times that
MISSING = frozenset(("", "?", "na", "n/a", "#n/a", "nan", "null", "none"))  # in small letters


@dataclass(frozen=True)
class Text:
    """The columns of a file, their names, and the line that each row begins on.

    `comma` says that numbers may be written with a decimal comma: where semicolons separate.
    """

    path: Path
    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    comma: bool = False

    def number(self, text: str) -> float | None:
        """What a text is as a number, None if it is none."""
        try:
            # Python's own way to group digits is nobody's in a table.
            return None if "_" in text else float(text.replace(",", ".") if self.comma else text)
        except ValueError:
            return None


def read_text(path: Path) -> Text:
    """The whole file; raises WrongUse with the number of the line that is wrong."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise WrongUse(
            f"{path}: {size / 1e6:,.0f} MB are too big for a .csv file (at most "
            f"{MOST_BYTES / 1e6:,.0f}): use fewer rows, or a .npz file"
        )
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            separator = _separator(list(islice(file, LOOKED_AT)))
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _checked(path, file, separator)
    except UnicodeDecodeError:
        raise WrongUse(f"{path}: not UTF-8 text; save it as “CSV UTF-8”") from None
    except OSError as error:
        raise WrongUse(f"{path}: cannot be read ({error.strerror or error})") from None


def is_missing(text: str) -> bool:
    """Whether a text says that there is no value."""
    return text.lower() in MISSING


def _separator(first: Sequence[str]) -> str:
    """What cuts the first lines into most values, as many in all of them if possible."""

    def fit(separator: str) -> tuple[bool, bool, int]:
        try:
            widths = [len(row) for row in _reader(first, separator) if row]
        except csv.Error:
            widths = []
        width = widths[0] if widths else 0
        return width > 1, len(set(widths)) == 1, width

    return max(SEPARATORS, key=fit)


def _reader(lines: Iterable[str], separator: str, strict: bool = False) -> Reader:
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=strict)


def _checked(path: Path, lines: Iterable[str], separator: str) -> Text:
    # Strict: else a quote that is never closed makes one value of all rows below it.
    reader = _reader(lines, separator, strict=True)
    rows, began, names = [], [], None
    first = 1  # a row in quotes may go over several lines
    try:
        for row in reader:
            if not row or (len(row) == 1 and not row[0].strip()):
                pass  # an empty line
            elif names is None:
                names = _names(path, row)
            elif len(row) != len(names):
                raise WrongUse(
                    f"{path}, line {first}: {len(row)} values, and the header has {len(names)} "
                    "columns"
                )
            else:
                rows.append(row)
                began.append(first)
            first = reader.line_num + 1
    except csv.Error as error:
        fault = "a quote is never closed" if "end of data" in str(error) else error
        raise WrongUse(f"{path}, line {first}: {fault}") from None
    if names is None:
        raise WrongUse(f"{path}: empty; the first line must be the names of the columns")
    if not rows:
        raise WrongUse(f"{path}: no rows below the header")
    columns = tuple(tuple(map(str.strip, column)) for column in zip(*rows, strict=True))
    return Text(path, names, columns, tuple(began), separator == ";")


def _names(path: Path, row: Sequence[str]) -> tuple[str, ...]:
    """The header, on one line each; what is all numbers is none."""
    names = tuple(" ".join(name.split()) for name in row)
    if all(_is_number(name) for name in names):
        raise WrongUse(
            f"{path}: no header; the first line must be the names of the columns, and it is "
            f"{', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
        )
    for name in names:
        if name and names.count(name) > 1:
            raise WrongUse(f"{path}: {names.count(name)} columns are called {name!r}")
    if len(names) == 1:
        raise WrongUse(
            f"{path}: one column only, {names[0]!r}; values are separated by a comma, a semicolon "
            "or a tab"
        )
    return names


def _is_number(name: str) -> bool:
    try:
        float(name.replace(",", "."))
    except ValueError:
        return is_missing(name)
    return True
