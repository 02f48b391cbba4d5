"""A user's own table: a .csv file with a header, of which one column is to be predicted.

Numbers stay as they are, categories become one-hot columns, and what is missing is the column's
mean with a column beside it that says so. One row in five is for testing. All that is learned of
the data here, means and categories, comes from the training part only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lppa.node.datasets.cache import Prepared
from lppa.node.datasets.csv_text import Text, is_missing, read_text
from lppa.protocol.errors import WrongUse

FEW = 50  # different values that still are categories, or classes
TEST_SHARE = 5  # one row in so many is for testing
SHUFFLE = 20_240_229  # any number, but the same in every process and for ever
MOST_NUMBERS = 250_000_000
LARGEST = 1e30  # squares of what is beyond overflow
NAMED = 20  # columns that an error lists
BOOLEANS = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"))


@dataclass(frozen=True)
class Feature:
    """What became of a column: columns of numbers, and which of them are to be standardised."""

    names: tuple[str, ...]
    values: np.ndarray
    scaled: tuple[bool, ...]


@dataclass(frozen=True)
class Targets:
    """What is to be predicted: class numbers and their names, or numbers and no names.

    `rows` are those that have a value at all.
    """

    y: np.ndarray
    names: tuple[str, ...]
    rows: np.ndarray


class LeftOut(Exception):
    """A column that nothing can be learned from, and why."""


def prepare_csv(path: Path, target: str | None, task: str) -> Prepared:
    """The table as arrays like those of a .npz file; `task` is auto, classes or regression."""
    text = read_text(path)
    column = _find(text, target)
    targets = _targets(text, column, task)
    train, test = split_rows(len(targets.y))
    warnings = []
    if len(targets.rows) < len(text.lines):
        count = len(text.lines) - len(targets.rows)
        warnings.append(f"{_rows(count)} without a {text.names[column]} left out")
    learned = np.zeros(len(text.lines), bool)
    learned[targets.rows[train]] = True
    features = list(_features(text, column, learned, warnings))
    if not features:
        raise WrongUse(f"{path}: no column is left to learn from: {'; '.join(warnings)}")
    x = np.concatenate([feature.values[targets.rows] for feature in features], axis=1, dtype="f8")
    scaled = np.concatenate([feature.scaled for feature in features])
    mean, std = np.zeros(len(scaled)), np.ones(len(scaled))
    mean[scaled], std[scaled] = statistics(x[train][:, scaled])
    arrays = {"x_train": x[train], "x_test": x[test], "mean": mean, "std": std}
    arrays |= {"y_train": targets.y[train], "y_test": targets.y[test]}
    facts: dict[str, Any] = {
        "classes": len(targets.names),
        "shape": [x.shape[1]],
        "names": list(targets.names),
        "columns": [name for feature in features for name in feature.names],
        "warnings": warnings,
    }
    return Prepared(arrays, facts | ({} if targets.names else target_facts(targets.y[train])))


def split_rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows for training and for testing, each in the file's order."""
    order = np.random.Generator(np.random.PCG64(SHUFFLE)).permutation(count)
    tested = max(1, round(count / TEST_SHARE))
    return np.sort(order[tested:]), np.sort(order[:tested])


def statistics(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of every column; 1 for what does not vary."""
    mean, std = rows.mean(0), rows.std(0)
    # Of equal values rounding may leave a little.
    std[std <= 1e-12 * np.abs(mean)] = 1.0
    return mean, std


def target_facts(y: np.ndarray) -> dict[str, float]:
    """By what targets are shifted and scaled while training."""
    mean, std = statistics(y[:, None])
    return {"y_mean": float(mean[0]), "y_std": float(std[0])}


def _find(text: Text, target: str | None) -> int:
    """Where the target is among the columns."""
    names = [name for name in text.names if name]
    there = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" * (len(names) > NAMED))
    if target is None:
        raise WrongUse(f"{text.path}: which column is to be predicted? --target, one of: {there}")
    wanted = " ".join(target.split())
    if not wanted or wanted not in text.names:
        raise WrongUse(f"{text.path}: no column {target!r} for --target; there are: {there}")
    return text.names.index(wanted)


def _targets(text: Text, column: int, task: str) -> Targets:
    values, where = text.columns[column], f"{text.path}: --target {text.names[column]}"
    rows = np.array([k for k, value in enumerate(values) if not is_missing(value)], np.int64)
    if len(rows) < 2:
        raise WrongUse(f"{where} has {_rows(len(rows))} with a value, and two are the least")
    numbers = _numbers(text, column)
    if numbers is None and task == "regression":
        raise WrongUse(f"{where} is no column of numbers{_stranger(text, column)}")
    if numbers is None:
        known = np.array([values[row] for row in rows])
        distinct, codes = np.unique(known, return_inverse=True)
        names = distinct.tolist()
    else:
        known = numbers[rows]
        distinct, codes = np.unique(known, return_inverse=True)
        whole = bool((distinct == np.floor(distinct)).all())
        if task == "regression" or (task == "auto" and not (whole and len(distinct) <= FEW)):
            names = []
        else:
            names = [f"{value:.0f}" if whole else repr(value) for value in distinct.tolist()]
    if len(distinct) < 2:
        raise WrongUse(f"{where} has one value only, {values[rows[0]]!r}: nothing to learn")
    if not names:
        return Targets(known, (), rows)
    if len(names) > max(FEW, len(rows) // 10):
        raise WrongUse(
            f"{where} has {len(names):,} different values in {_rows(len(rows))}, too many to be "
            f"classes{_stranger(text, column)}"
        )
    return Targets(codes.reshape(-1).astype(np.uint16), tuple(names), rows)


def _features(
    text: Text, target: int, learned: np.ndarray, warnings: list[str]
) -> Iterator[Feature]:
    """All columns but the target; why others are left out is added to the warnings."""
    width = 0
    for column, name in enumerate(text.names):
        if column == target:
            continue
        try:
            feature = _feature(text, column, learned)
        except LeftOut as why:
            called = f"column {name!r}" if name else f"column {column + 1}"
            warnings.append(f"{called} left out: {why}")
            continue
        width += len(feature.names)
        if width * len(text.lines) > MOST_NUMBERS:
            raise WrongUse(
                f"{text.path}: too big: {len(text.lines):,} rows with {width:,} columns or more, "
                "categories counted one by one"
            )
        yield feature


def _feature(text: Text, column: int, learned: np.ndarray) -> Feature:
    name, values = text.names[column], text.columns[column]
    if not name:
        # Most often the row's number, as some programs write it; it tells what the order tells.
        raise LeftOut("it has no name")
    missing = np.fromiter(map(is_missing, values), bool, len(values))
    if missing[learned].all():
        raise LeftOut("it has no values")
    numbers = _numbers(text, column)
    if numbers is None:
        numbers = _booleans(values, missing)
        if numbers is None:
            return _categories(text, column, missing, learned)
        scaled = False
    else:
        scaled = True
    filled = np.where(missing, numbers[learned & ~missing].mean(), numbers)[:, None]
    if not missing[learned].any():
        return Feature((name,), filled, (scaled,))
    both = np.concatenate([filled, missing[:, None]], axis=1)
    return Feature((name, f"{name} missing"), both, (scaled, False))


def _numbers(text: Text, column: int) -> np.ndarray | None:
    """A column as numbers, NaN where it has none; None if it holds anything else."""
    found = np.full(len(text.lines), np.nan)
    for row, value in enumerate(text.columns[column]):
        if is_missing(value):
            continue
        number = text.number(value)
        if number is None:
            return None
        found[row] = number
    wrong = np.flatnonzero(np.abs(found) > LARGEST)
    if len(wrong):
        raise WrongUse(
            f"{text.path}, line {text.lines[wrong[0]]}: {text.names[column]} is "
            f"{text.columns[column][wrong[0]]}, which is too large a number"
        )
    return found


def _booleans(values: Sequence[str], missing: np.ndarray) -> np.ndarray | None:
    """0 and 1 for no and yes; None if there is anything else."""
    small = [value.lower() for value in values]
    there = {value for value, gone in zip(small, missing, strict=True) if not gone}
    for no, yes in BOOLEANS:
        if there <= {no, yes}:
            return np.array([float(value == yes) for value in small])
    return None


def _categories(text: Text, column: int, missing: np.ndarray, learned: np.ndarray) -> Feature:
    """A column for each category of the training part; a row without any of them is zero there."""
    values = np.array(text.columns[column])
    count = len(np.unique(values[~missing]))
    if count > FEW:
        raise LeftOut(
            f"it is text with {count:,} different values, and {FEW} are the most"
            f"{_stranger(text, column)}"
        )
    known = np.unique(values[learned & ~missing])
    hot = values[:, None] == known
    names = [f"{text.names[column]} = {category}" for category in known.tolist()]
    if missing[learned].any():
        hot = np.concatenate([hot, missing[:, None]], axis=1)
        names.append(f"{text.names[column]} missing")
    return Feature(tuple(names), hot, (False,) * len(names))


def _stranger(text: Text, column: int) -> str:
    """Where most of a column are numbers, the first that is none: likely nobody meant it."""
    values = text.columns[column]
    strange = [k for k, v in enumerate(values) if not is_missing(v) and text.number(v) is None]
    if not strange or len(strange) > len(values) / 2:
        return ""
    return f" ({values[strange[0]][:30]!r} on line {text.lines[strange[0]]} is not a number)"


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"
