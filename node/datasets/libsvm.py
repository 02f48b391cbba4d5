"""RCV1 in LIBSVM's text format: sparse from the file to the batch.

scikit-learn reads the file; this module checks what it read and, where something is wrong, finds
the line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lppa.node.datasets.cache import Prepared
from lppa.node.datasets.files import OPENERS, FoundFile, check_written_down
from lppa.protocol.errors import WrongUse

RCV1_COLUMNS = 47_236


def read_libsvm(path: Path, columns: int) -> dict[str, np.ndarray]:
    """The parts of a CSR matrix (data, indices, indptr) and y in {0, 1} from labels -1 and +1."""
    from sklearn.datasets import load_svmlight_file

    try:
        x, y = load_svmlight_file(str(path), n_features=columns, dtype=np.float32, zero_based=False)
    except EOFError:
        raise WrongUse(f"{path}: truncated: the packed data ends too early") from None
    except OSError as error:
        raise WrongUse(f"{path}: damaged or unreadable ({error.strerror or error})") from None
    except (ValueError, OverflowError) as error:
        raise _fault(path, columns, " ".join(str(error).split())) from None
    if not len(y):
        raise WrongUse(f"{path}: no rows")
    if not (np.isin(y, (-1, 1)).all() and np.isfinite(x.data).all()):
        raise _fault(path, columns, "a label or value is out of range")
    # 32 bits hold 2 billion entries, forty times the full test part.
    return {
        "data": x.data,
        "indices": x.indices.astype(np.int32),
        "indptr": x.indptr.astype(np.int64),
        "y": (y > 0).astype(np.uint8),
    }


def _fault(path: Path, columns: int, otherwise: str) -> WrongUse:
    """What is wrong with the first wrong line: slow, but only on the way to an error."""
    with OPENERS.get(path.suffix, open)(path, "rb") as file:
        for line, text in enumerate(file, start=1):
            reason = _wrong_with(text.decode("latin-1").split("#")[0].split(), columns)
            if reason:
                return WrongUse(f"{path}, line {line}: {reason}")
    return WrongUse(f"{path}: {otherwise}")


def _wrong_with(fields: list[str], columns: int) -> str | None:
    if not fields:
        return None
    try:
        label = float(fields[0])
    except ValueError:
        label = math.nan
    if label not in (-1, 1):
        return f"label {fields[0]!r} is out of range (-1 or +1)"
    before = 0
    for entry in fields[1:]:
        place, _, value = entry.partition(":")
        try:
            number, column = float(value), int(place)
        except ValueError:
            return f"{entry!r} is not column:value"
        if not before < column <= columns:
            return f"column {column} is out of order or out of range (1 to {columns:,})"
        if not math.isfinite(number):
            return f"{entry!r} is not a finite number"
        before = column
    return None


def prepare_rcv1(found: Mapping[str, FoundFile]) -> Prepared:
    """RCV1: is a story on corporate or economic matters (+1: CCAT, ECAT; positive)?

    The others are on government or markets (-1: GCAT, MCAT), as LIBSVM prepared them. Whichever
    rows the two files hold are used, over the full 47,236 columns.
    """
    arrays = {}
    for part in ("train", "test"):
        path = found[f"rcv1_{part}.binary"].path
        check_written_down(path)
        for name, array in read_libsvm(path, RCV1_COLUMNS).items():
            arrays[f"y_{part}" if name == "y" else f"{name}_{part}"] = array
    return Prepared(arrays)
