"""Independent random streams from one seed, the same in every process and on every machine."""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *labels: int | str) -> int:
    """A 63-bit seed for the purpose that the labels name."""
    text = "/".join(map(str, (seed, *labels)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def stream(seed: int, *labels: int | str) -> np.random.Generator:
    """A generator for the purpose that the labels name."""
    return np.random.Generator(np.random.Philox(derive(seed, *labels)))
