"""A matrix as a small PNG picture: what would be too many cells to draw one by one."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

from lppa.report.markup import Markup, tag

BLUE = (42, 120, 214)
RED = (208, 59, 59)
AMBER = (240, 170, 40)
GREEN = (60, 160, 100)


def encode_png(rgba: np.ndarray) -> bytes:
    """A PNG file from rows of pixels of four bytes each."""
    height, width, _ = rgba.shape
    rows = np.zeros((height, 1 + 4 * width), dtype=np.uint8)  # each row begins with its filter, 0
    rows[:, 1:] = rgba.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def heat_pixels(shares: np.ndarray, colour: tuple[int, int, int] = BLUE) -> np.ndarray:
    """Pixels of one colour, the stronger the larger the share; they suit any background."""
    rgba = np.zeros((*shares.shape, 4), dtype=np.uint8)
    rgba[..., :3] = colour
    rgba[..., 3] = np.round(255 * np.clip(shares, 0, 1)).astype(np.uint8)
    return rgba


def png_width(picture: bytes) -> int:
    """How many pixels a PNG file is wide."""
    return int.from_bytes(picture[16:20], "big")


def embedded(picture: bytes, alt: str, **attributes: Any) -> Markup:
    """A PNG inside the page itself."""
    source = "data:image/png;base64," + base64.b64encode(picture).decode()
    return tag("img", src=source, alt=alt, **attributes)
