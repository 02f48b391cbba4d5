"""A user's own data: one .npz file with x_train, y_train, x_test and y_test.

x has one row per sample. Rows of two dimensions are images of one channel, of three (channels,
height, width), or (height, width, channels) where only the last size is 1 or 3; bytes are pixels
and scaled to [0, 1], everything else is used as it is. y counts classes from 0, or holds floating
numbers that a model is to come close to (regression).
"""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from lppa.node.datasets.cache import Prepared
from lppa.node.datasets.csv_tables import LARGEST, target_facts
from lppa.node.datasets.images import WHITE, channel_statistics
from lppa.protocol.errors import WrongUse

KEYS = ("x_train", "y_train", "x_test", "y_test")
CHANNELS = (1, 3)  # grey, or red, green and blue
LARGEST_LABEL = np.iinfo(np.uint16).max
# Real data seldom packs to less than a tenth; what unpacks to little is not asked.
MOST_PACKED = 100
UNSUSPECTED = 500_000_000  # bytes
_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def prepare_npz(path: Path) -> Prepared:
    """The four arrays, checked."""
    arrays = _read(path)
    targets = _numbers if arrays["y_train"].dtype.kind == "f" else _labels
    for part in ("train", "test"):
        arrays[f"x_{part}"] = _inputs(arrays[f"x_{part}"], f"{path}: x_{part}")
        arrays[f"y_{part}"] = targets(arrays[f"y_{part}"], f"{path}: y_{part}")
        rows, labels = len(arrays[f"x_{part}"]), len(arrays[f"y_{part}"])
        if rows != labels:
            raise WrongUse(f"{path}: x_{part} has {rows:,} rows, y_{part} has {labels:,} labels")
    x_train, x_test = arrays["x_train"], arrays["x_test"]
    if x_train.shape[1:] != x_test.shape[1:] or x_train.dtype != x_test.dtype:
        raise WrongUse(
            f"{path}: rows of x_test are {x_test.dtype} {x_test.shape[1:]}, of x_train "
            f"{x_train.dtype} {x_train.shape[1:]}"
        )
    scale = WHITE if x_train.dtype == np.uint8 else 1.0
    about = _regression if targets is _numbers else _classes
    facts = {"scale": scale, "shape": list(x_train.shape[1:]), **about(arrays, path)}
    return Prepared(arrays | _statistics(x_train, scale), facts)


def _classes(arrays: dict[str, np.ndarray], path: Path) -> dict[str, Any]:
    """How many classes there are; all must be known from training."""
    classes = int(arrays["y_train"].max()) + 1
    if arrays["y_test"].max() >= classes:
        raise WrongUse(
            f"{path}: label {arrays['y_test'].max()} of y_test is out of range "
            f"(y_train has 0 to {classes - 1})"
        )
    if classes < 2:
        raise WrongUse(f"{path}: y_train has one class only, nothing to learn")
    return {"classes": classes}


def _regression(arrays: dict[str, np.ndarray], path: Path) -> dict[str, Any]:
    """No classes, and by what targets are shifted and scaled."""
    y = arrays["y_train"]
    if (y == y[0]).all():
        raise WrongUse(f"{path}: y_train has one value only, nothing to learn")
    return {"classes": 0, **target_facts(y)}


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise WrongUse(f"{path}: one array only, expected {', '.join(KEYS)}")
        with file:
            _check_sizes(path, file.zip)
            missing = [key for key in KEYS if key not in file]
            if missing:
                raise WrongUse(f"{path}: {', '.join(missing)} missing; needed: {', '.join(KEYS)}")
            return {key: file[key] for key in KEYS}
    except OSError as error:
        raise WrongUse(f"{path}: cannot be read ({error.strerror or error})") from None
    # What a damaged or foreign file ends in depends on where it is damaged.
    except (
        ValueError,
        EOFError,
        KeyError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise WrongUse(f"{path}: not a readable .npz file ({_one_line(error)})") from None


def _check_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """What the arrays claim to be, before room is made for them or anything is unpacked."""
    there = set(archive.namelist())
    sizes = {
        name: archive.getinfo(name).file_size
        for name in (f"{key}.npy" for key in KEYS)
        if name in there
    }
    for name, size in sizes.items():
        with archive.open(name) as file:
            version = np.lib.format.read_magic(file)
            shape, _, dtype = _HEADERS[version](file)
            claimed = file.tell() + math.prod(shape) * dtype.itemsize
        # Objects are refused when they are read, whatever their size.
        if claimed != size and not dtype.hasobject:
            raise WrongUse(
                f"{path}: {name} claims {claimed / 1e9:,.3g} GB and holds {size / 1e9:,.3g}: it is "
                "damaged, or no data"
            )
    packed, unpacked = path.stat().st_size, sum(sizes.values())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if unpacked > memory or unpacked > max(UNSUSPECTED, MOST_PACKED * packed):
        raise WrongUse(
            f"{path}: {packed / 1e6:,.3g} MB would unpack to {unpacked / 1e6:,.0f} MB; if that is "
            "meant, use fewer rows or a smaller type, or save it unpacked by np.savez"
        )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _inputs(x: np.ndarray, where: str) -> np.ndarray:
    if x.dtype.kind not in "biuf":
        raise WrongUse(f"{where} holds {x.dtype}, not numbers")
    if x.ndim not in (2, 3, 4) or not x.size:
        raise WrongUse(f"{where} has shape {x.shape}: expected samples, then one to three sizes")
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4:
        x = _channels_first(x, where)
    if x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    if not np.isfinite(x).all():
        row = int(np.argwhere(~np.isfinite(x))[0, 0])
        raise WrongUse(f"{where}, row {row}: a value is not a finite number")
    return x


def _channels_first(x: np.ndarray, where: str) -> np.ndarray:
    """Images as (channels, height, width), whichever way their one or three channels come."""
    first, last = (x.shape[axis] in CHANNELS for axis in (1, 3))
    if first and last:
        raise WrongUse(
            f"{where} has shape {x.shape}: channels could be the first or the last size of an "
            "image; give images with sides above 3, or flat rows for --model mlp"
        )
    if not first and not last and x.shape[3] < min(x.shape[1:3]):
        raise WrongUse(
            f"{where} has shape {x.shape}: {x.shape[3]} channels seem to come last, where only one "
            "or three are known; give images as (samples, channels, height, width)"
        )
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if last else x


def _labels(y: np.ndarray, where: str) -> np.ndarray:
    if y.dtype.kind not in "biu":
        raise WrongUse(f"{where} holds {y.dtype}, labels must be whole numbers")
    if y.ndim != 1 or not len(y):
        raise WrongUse(f"{where} has shape {y.shape}: expected one label per sample")
    wrong = np.flatnonzero((y < 0) | (y > LARGEST_LABEL))
    if len(wrong):
        raise WrongUse(
            f"{where}: label {y[wrong[0]]} of sample {wrong[0]} is out of range "
            f"(0 to {LARGEST_LABEL:,})"
        )
    return y.astype(np.uint16)


def _numbers(y: np.ndarray, where: str) -> np.ndarray:
    if y.dtype.kind not in "biuf":
        raise WrongUse(f"{where} holds {y.dtype}, not numbers")
    if y.ndim != 1 or not len(y):
        raise WrongUse(f"{where} has shape {y.shape}: expected one number per sample")
    y = y.astype(np.float64)
    wrong = np.flatnonzero(~(np.abs(y) <= LARGEST))  # NaN is among them
    if len(wrong):
        raise WrongUse(f"{where}: {y[wrong[0]]} of sample {wrong[0]} is no number to learn")
    return y


def _statistics(x: np.ndarray, scale: float) -> dict[str, np.ndarray]:
    """What normalising needs: per channel of images, per column of tables."""
    if x.ndim == 4:
        return channel_statistics(x, scale)
    flat = channel_statistics(x[:, :, None, None], scale)
    return {name: values[:, 0, 0] for name, values in flat.items()}
