"""From a 32-byte seed to noise for any round: the same whole numbers on every machine.

A key stream (ChaCha20: who learns some of an edge's noise cannot compute the rest) gives 32 bits
for each coordinate, and a quantile function in pieces turns them into a multiple of the grid's
step. All of it is integers and single IEEE operations, so the bits do not depend on the machine,
and sums of noise are exact. Which seeds there are, and who knows them, is not decided here.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms

GRID_BITS = 16  # grid points between 0 and β; leaves 8 bits of a float32 for tails and sums
CHUNK = 1 << 14  # words at a time: what is worked on stays in the processor's cache
BLOCK = 16  # words of the stream that one count of it makes
WORDS = 2.0**31  # magnitudes that a signed word can have
# A float32's sign, its exponent and the first 8 bits of its fraction number the pieces.
PIECE_BITS = 15
PIECES = 1 << (32 - PIECE_BITS)
COMMITTED = 256  # draws that a commitment is made over
NO_TABLE: np.ndarray = np.zeros(0, np.int32)  # without noise nothing is looked up


def laplace(p: np.ndarray) -> np.ndarray:
    """How far out, in units of β, the noise lies that a part p of all noise is further out than."""
    out: np.ndarray = -np.log(p)
    return out


def gaussian(p: np.ndarray) -> np.ndarray:
    """The same for noise with Laplace noise's variance, so that β means the same in both."""
    from scipy.special import ndtri

    out: np.ndarray = -math.sqrt(2.0) * ndtri(p / 2.0)
    return out


QUANTILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "laplace": laplace,
    "gaussian": gaussian,
}


def grid_step(beta: float) -> float:
    """The power of two that all draws are multiples of: about β / 2^16."""
    return 2.0 ** (math.floor(math.log2(beta)) - GRID_BITS)


class Expander:
    """Expands seeds into noise of one distribution, scale and size, chunk by chunk.

    Memory is one vector and a few chunks, however many seeds are added up.
    """

    def __init__(self, distribution: str, beta: float, size: int) -> None:
        self.distribution = distribution
        self.beta = beta
        self.size = size
        self.step = grid_step(beta) if beta else 0.0
        self.values, self.slopes = (
            quantile_table(distribution, beta / self.step) if beta else (NO_TABLE, NO_TABLE)
        )

    def total(
        self,
        terms: Iterable[tuple[int, bytes]],
        t: int,
        epoch: int = 0,
        where: range | None = None,
    ) -> np.ndarray:
        """Σ sign · noise over (sign, seed) in round t, in steps of the grid: exact integers.

        Of all coordinates, or of those that are named.
        """
        where = range(self.size) if where is None else where
        streams = [(sign, keystream(seed, t, epoch, where.start)) for sign, seed in terms]
        return self._sum(streams, len(where))

    def _sum(self, streams: Sequence[tuple[int, CipherContext]], size: int) -> np.ndarray:
        # No draw reaches 2^22 steps, so that this many of them cannot run over.
        sums: np.ndarray = np.zeros(size, np.int32 if len(streams) < 512 else np.int64)
        if self.beta == 0.0:
            return sums
        work = _Work(min(size, CHUNK))
        for first in range(0, size, CHUNK):
            part = sums[first : first + CHUNK]
            for sign, stream in streams:
                draws = self._draws(stream, work)[: len(part)]
                if sign > 0:
                    part += draws
                else:
                    part -= draws
        return sums

    def expand(self, seed: bytes, t: int, epoch: int = 0) -> np.ndarray:
        """The noise of one seed in round t, as float64."""
        return self.total([(1, seed)], t, epoch) * self.step

    def commitment(self, seed: bytes) -> bytes:
        """A hash over the first draws of the first round, and over what they are made with.

        Two ends that agree on it have the same seed, scale, distribution and arithmetic.
        """
        drawn = self._sum([(1, keystream(seed, 0))], min(self.size, COMMITTED))
        about = f"lppa noise {self.distribution} {self.beta.hex()} {self.size}".encode()
        return hashlib.sha256(
            about + hashlib.sha256(seed).digest() + drawn.astype("<i4").tobytes()
        ).digest()

    def _draws(self, stream: CipherContext, work: _Work) -> np.ndarray:
        """The next chunk of draws; overwritten by the next call."""
        stream.update_into(work.zeros, work.words)
        # As a float the word has its sign and its place on a logarithmic scale in its bits.
        np.copyto(work.real, work.signed, casting="unsafe")
        np.right_shift(work.bits, PIECE_BITS, out=work.piece, casting="unsafe")
        np.take(self.values, work.piece, out=work.value, mode="clip")
        np.take(self.slopes, work.piece, out=work.slope, mode="clip")
        np.bitwise_and(work.bits, (1 << PIECE_BITS) - 1, out=work.bits)
        np.multiply(work.slope, work.bits.view(np.int32), out=work.slope)
        np.add(work.slope, 1 << (PIECE_BITS - 1), out=work.slope)
        np.right_shift(work.slope, PIECE_BITS, out=work.slope)
        return np.add(work.value, work.slope, out=work.value)


class _Work:
    """The memory that chunks pass through."""

    def __init__(self, count: int) -> None:
        self.zeros = memoryview(ZEROS)[: 4 * count]
        self.words = bytearray(4 * count + 63)  # the cipher wants a block more than it fills
        self.signed = np.frombuffer(self.words, "<i4", count)
        self.real = np.empty(count, np.float32)
        self.bits = self.real.view(np.uint32)
        self.piece = np.empty(count, np.intp)
        self.value = np.empty(count, np.int32)
        self.slope = np.empty(count, np.int32)


ZEROS = bytes(4 * CHUNK)


def keystream(seed: bytes, t: int, epoch: int = 0, first: int = 0) -> CipherContext:
    """The stream of a seed for a round, from its word `first` on; what it makes of zeros is random
    to all others.

    A round that is done again in a later epoch has another stream: no pad is used twice.
    """
    block, word = divmod(first, BLOCK)
    # The block counter, the round, the epoch, what it is for.
    nonce = struct.pack("<III4s", block, t, epoch, b"lppa")
    stream = Cipher(algorithms.ChaCha20(seed, nonce), mode=None).encryptor()
    if word:
        stream.update(bytes(4 * word))
    return stream


@lru_cache(maxsize=4)
def quantile_table(distribution: str, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Where each piece begins and how far it goes, in steps of the grid, by a float32's top bits.

    `ratio` is β in steps. A piece spans 1/256 of its own probability at most, on which a straight
    line misses the quantile function by less than one step.
    """
    values, slopes = np.zeros(PIECES, np.int32), np.zeros(PIECES, np.int32)
    lowest = int(np.float32(1.0).view(np.uint32)) >> PIECE_BITS
    highest = int(np.float32(WORDS).view(np.uint32)) >> PIECE_BITS
    edges = (np.arange(lowest, highest + 1, dtype=np.uint32) << PIECE_BITS).view(np.float32)
    share = edges.astype(np.float64) / WORDS
    places = np.rint(QUANTILES[distribution](share) * ratio).astype(np.int32)
    values[lowest : highest + 1] = places
    slopes[lowest:highest] = np.diff(places)
    # The word 0 is further out than any other; it has the lowest bits of all.
    values[0] = np.rint(QUANTILES[distribution](np.array([0.5 / WORDS])) * ratio)[0]
    negative = PIECES // 2
    values[negative:], slopes[negative:] = -values[:negative], -slopes[:negative]
    for table in (values, slopes):
        table.setflags(write=False)
    return values, slopes


def derive_seed(seed: int, labels: Sequence[int | str]) -> bytes:
    """A seed that can be repeated, for the purpose that the labels name."""
    return hashlib.sha256("/".join(map(str, ("noise", seed, *labels))).encode()).digest()
