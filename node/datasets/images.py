"""Image sets: MNIST and Fashion-MNIST (idx files), CIFAR-10 (pickled batches), the digits.

From the content of raw files to arrays of bytes; scaling to [0, 1] happens when a batch is made.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lppa.node.datasets.cache import Prepared
from lppa.node.datasets.files import FoundFile, read
from lppa.protocol.errors import WrongUse

IMAGES_MAGIC = 0x803
LABELS_MAGIC = 0x801
SIDE = 28
CLASSES = 10
WHITE = 255.0

TRAIN_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))

# All that the published CIFAR-10 batches need to be unpickled.
HARMLESS = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


def parse_idx_images(content: bytes, path: Path) -> np.ndarray:
    """The images of an idx file as [n, 1, 28, 28] bytes."""
    if len(content) < 16:
        raise WrongUse(f"{path}: truncated: {len(content)} bytes are less than an idx header")
    magic, count, height, width = struct.unpack(">4I", content[:16])
    _check_magic(magic, IMAGES_MAGIC, "images", path)
    if (height, width) != (SIDE, SIDE):
        raise WrongUse(f"{path}: images of {height} x {width} pixels, expected {SIDE} x {SIDE}")
    _check_length(content, 16 + count * SIDE * SIDE, f"{count:,} images", path)
    return np.frombuffer(content, np.uint8, offset=16).reshape(count, 1, SIDE, SIDE)


def parse_idx_labels(content: bytes, path: Path) -> np.ndarray:
    """The labels of an idx file, each 0 to 9."""
    if len(content) < 8:
        raise WrongUse(f"{path}: truncated: {len(content)} bytes are less than an idx header")
    magic, count = struct.unpack(">2I", content[:8])
    _check_magic(magic, LABELS_MAGIC, "labels", path)
    _check_length(content, 8 + count, f"{count:,} labels", path)
    labels = np.frombuffer(content, np.uint8, offset=8)
    _check_labels(labels, path)
    return labels


def prepare_idx(found: Mapping[str, FoundFile]) -> Prepared:
    """MNIST or Fashion-MNIST from its four files."""
    arrays: dict[str, np.ndarray] = {}
    for part, stem in (("train", "train"), ("test", "t10k")):
        images = found[f"{stem}-images-idx3-ubyte"]
        labels = found[f"{stem}-labels-idx1-ubyte"]
        x, y = images.parse(parse_idx_images), labels.parse(parse_idx_labels)
        if len(x) != len(y):
            raise WrongUse(f"{labels.path}: {len(y):,} labels for {len(x):,} images")
        arrays |= {f"x_{part}": x, f"y_{part}": y}
    return Prepared(arrays | channel_statistics(arrays["x_train"], WHITE), {"scale": WHITE})


def read_cifar_batch(file: FoundFile) -> tuple[np.ndarray, np.ndarray]:
    """One batch of CIFAR-10 as ([n, 3, 32, 32] bytes, labels), if it is the published file.

    The other way round than elsewhere: nothing in the file is looked at before its checksum is
    known to be right, and what was checked is what is unpickled.
    """
    content = read(file.path)
    if file.raw.md5 is None:
        raise ValueError(f"{file.raw.path} has no published checksum: it must not be unpickled")
    file.check(content)
    return parse_cifar_batch(content, file.path)


def parse_cifar_batch(content: bytes, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels in a pickled batch; call it with checked content only."""
    try:
        batch = _HarmlessUnpickler(io.BytesIO(content), encoding="latin1").load()
        x = np.asarray(batch["data"], np.uint8).reshape(-1, 3, 32, 32)
        y = np.asarray(batch["labels"])
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError) as error:
        raise WrongUse(f"{path}: not a CIFAR-10 batch ({error})") from None
    _check_labels(y, path)
    if len(x) != len(y):
        raise WrongUse(f"{path}: {len(y):,} labels for {len(x):,} images")
    return x, y.astype(np.uint8)


def prepare_cifar(found: Mapping[str, FoundFile]) -> Prepared:
    """CIFAR-10 from those of its five training batches that are there, and its test batch."""
    there = [name for name in TRAIN_BATCHES if name in found]
    parts = [read_cifar_batch(found[name]) for name in there]
    x_test, y_test = read_cifar_batch(found["test_batch"])
    x_train = np.concatenate([x for x, _ in parts])
    y_train = np.concatenate([y for _, y in parts])
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    note = f"{len(there)} of {len(TRAIN_BATCHES)} training batches were found"
    facts = {"scale": WHITE} | ({"note": note} if len(there) < len(TRAIN_BATCHES) else {})
    return Prepared(arrays | channel_statistics(x_train, WHITE), facts)


def prepare_digits(found: Mapping[str, FoundFile]) -> Prepared:
    """scikit-learn's embedded 8x8 digits: 1,797 images, no file; every fifth is for testing."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = (bunch.images / 16.0).astype(np.float32)[:, None, :, :]
    y = bunch.target.astype(np.uint8)
    test = np.arange(len(y)) % 5 == 4
    arrays = {"x_train": x[~test], "y_train": y[~test], "x_test": x[test], "y_test": y[test]}
    return Prepared(arrays | channel_statistics(arrays["x_train"], 1.0))


def channel_statistics(x: np.ndarray, scale: float) -> dict[str, np.ndarray]:
    """Mean and standard deviation of each channel of [n, c, h, w], after scaling."""
    count = x[:, 0].size
    mean = x.sum((0, 2, 3), dtype=np.float64) / count / scale
    # In blocks of images: all squares at once would be eight times the images' size.
    squares = sum(
        np.square(x[first : first + 1000], dtype=np.float64).sum((0, 2, 3))
        for first in range(0, len(x), 1000)
    )
    std = np.sqrt(np.maximum(squares / count / scale**2 - mean**2, 0.0))
    std[std == 0] = 1.0
    return {"mean": mean[:, None, None], "std": std[:, None, None]}


class _HarmlessUnpickler(pickle.Unpickler):
    """Builds arrays and plain values; refuses to look up anything else by name."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in HARMLESS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def _check_magic(magic: int, expected: int, what: str, path: Path) -> None:
    if magic != expected:
        raise WrongUse(
            f"{path}: wrong magic number 0x{magic:08x}, an idx file of {what} begins with "
            f"0x{expected:08x}"
        )


def _check_length(content: bytes, expected: int, what: str, path: Path) -> None:
    if len(content) != expected:
        fault = "truncated" if len(content) < expected else "too long"
        raise WrongUse(f"{path}: {fault}: {what} need {expected:,} bytes, it has {len(content):,}")


def _check_labels(labels: np.ndarray, path: Path) -> None:
    wrong = np.flatnonzero((labels < 0) | (labels >= CLASSES))
    if len(wrong):
        raise WrongUse(
            f"{path}: label {labels[wrong[0]]} of sample {wrong[0]} is out of range "
            f"(0 to {CLASSES - 1})"
        )
