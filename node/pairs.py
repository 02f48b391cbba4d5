"""The noise of an edge that goes both ways: one draw where there were two, of the same law.

Two neighbours i and j that send to each other would each add one draw and take away the other's:
what enters is the difference of two independent draws, and the very same one, with the other sign,
at the other end. Here both ends draw that difference at once, from its own quantile function and
from a key that both ends' seeds make. So noise costs half as much, and its law, its covariance and
who knows it are as they were. How single draws are made, and the grid, is in `expansion`.

Every step is on integers or a single IEEE operation, so that the bits are those of every machine.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from lppa.node.expansion import grid_step

CHUNK = 1 << 16  # words at a time, at most: few calls for each, and all in the processor's cache
MANY = 1 << 15  # words that are worth the making of a second cipher
BLOCK = 4  # words of the stream that one count of it makes
WORDS = 2.0**31  # magnitudes that a signed word can have
# A float32's sign, its exponent and the first 10 bits of its fraction number the pieces. Of the
# other 13 bits the first 9 say where in its piece a draw is.
PIECE_BITS, PLACE_BITS = 13, 9
PIECES, PLACES = 1 << (32 - PIECE_BITS), 1 << PLACE_BITS
# By how much bits are moved; as arrays, since of a number NumPy makes one in every call.
TO_PIECE, TO_PLACE = np.array(PIECE_BITS, np.uint32), np.array(PIECE_BITS - PLACE_BITS, np.uint32)
TO_SLOPE, TO_DRAW = np.array(32 - PLACE_BITS, np.int32), np.array(PLACE_BITS, np.int32)
# Below this every word has a piece of its own.
SINGLE = 2.0 ** (1 + 23 - PIECE_BITS)


# --- the law ------------------------------------------------------------------------------------


def laplace_difference(p: np.ndarray) -> np.ndarray:
    """How far out, in units of β, a part p of all differences of two Laplace draws is further out.

    That part is (1 + z/2) e^−z at z: five of Newton's steps are as exact as the numbers are.
    """
    log = _log(p)
    z: np.ndarray = _log(1.0 - 0.5 * log) - log
    for _ in range(5):
        z = z - (z - _log(1.0 + 0.5 * z) + log) * (2.0 + z) / (1.0 + z)
    return z


def gaussian_difference(p: np.ndarray) -> np.ndarray:
    """The same for Gaussian draws of the same variance, 2β²: their difference has twice that."""
    from scipy.special import ndtri

    out: np.ndarray = -2.0 * ndtri(p / 2.0)
    return out


QUANTILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "laplace": laplace_difference,
    "gaussian": gaussian_difference,
}


def _log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm by sums and products alone: NumPy's own may differ in a last bit
    between processors, and the ends of an edge must not."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < 0.7071
    mantissa, exponent = np.where(low, 2.0 * mantissa, mantissa), exponent - low
    t = (mantissa - 1.0) / (mantissa + 1.0)
    square, series = t * t, np.zeros_like(t)
    for k in range(21, 0, -2):
        series = series * square + 1.0 / k
    out: np.ndarray = exponent * 0.6931471805599453 + 2.0 * t * series
    return out


# --- the key ------------------------------------------------------------------------------------


def pair_key(lower: bytes, higher: bytes) -> bytes:
    """From the seed that the node with the lower id has sent, and that which the other has.

    Neither end fixes it alone, and who knows one of both seeds knows nothing of it.
    """
    return hashlib.sha256(b"lppa pair" + lower + higher).digest()


class Stream(Protocol):
    """Makes of zeros what is random to all others, on and on."""

    def update(self, data: bytes) -> bytes: ...

    def update_into(self, data: bytes, buf: bytearray) -> int: ...


def keystream(key: bytes, t: int, epoch: int = 0, first: int = 0, count: int = 0) -> Stream:
    """The stream of a key for a round, from its word `first` on; `count` words are wanted.

    AES-256 in counter mode: the standard's bits on every machine, twice as fast as ChaCha20 where
    the processor has AES, slower where not. The counter begins at (round, epoch, 0), and has 2^64
    blocks to the next: no pad is used twice.
    """
    if first == 0 and count >= MANY and authenticates_quicker():
        return FromTheStart(key, t, epoch)
    block, word = divmod(first, BLOCK)
    counter = struct.pack(">IIQ", t, epoch, block)
    stream = Cipher(algorithms.AES256(key), modes.CTR(counter)).encryptor()
    if word:
        stream.update(bytes(4 * word))
    return stream


class FromTheStart:
    """The same bits by GCM, for which OpenSSL has code that fills wide registers, and not for CTR.

    GCM counts in the last four of the counter's bytes, and its text begins at 2: the two blocks
    before that are made here.
    """

    def __init__(self, key: bytes, t: int, epoch: int) -> None:
        nonce = struct.pack(">III", t, epoch, 0)
        cipher = algorithms.AES256(key)
        self.rest = Cipher(cipher, modes.GCM(nonce)).encryptor()
        self.begun = Cipher(cipher, modes.CTR(nonce + bytes(4))).encryptor().update(bytes(32))

    def update(self, data: bytes) -> bytes:
        """As many of the next bytes as there are zeros."""
        taken, self.begun = self.begun[: len(data)], self.begun[len(data) :]
        return taken + self.rest.update(data[len(taken) :])

    def update_into(self, data: bytes, buf: bytearray) -> int:
        """The same into memory that is there, with 15 bytes more; how many bytes they are."""
        taken, self.begun = self.begun[: len(data)], self.begun[len(data) :]
        if not taken:
            return self.rest.update_into(data, buf)
        done = len(taken)
        buf[:done] = taken
        return done + self.rest.update_into(memoryview(data)[done:], memoryview(buf)[done:])


@cache
def authenticates_quicker() -> bool:
    """Whether this processor has what OpenSSL's wide GCM needs; then it takes 0.4 of CTR's time."""
    try:
        told = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    flags = next((line for line in told.splitlines() if line.startswith("flags")), "").split()
    return {"avx512f", "vaes", "vpclmulqdq"} <= set(flags)


# --- from words to draws ------------------------------------------------------------------------


class PairExpander:
    """Expands keys into differences of two draws of one distribution, scale and size."""

    def __init__(self, distribution: str, beta: float, size: int) -> None:
        self.size = size
        self.step = grid_step(beta) if beta else 0.0
        self.table = pieces(distribution, beta / self.step) if beta else None
        chunks = -(-size // CHUNK)
        self.chunk = -(-size // chunks)
        self.work = _Work(self.chunk)

    def total(
        self,
        terms: Iterable[tuple[int, bytes]],
        t: int,
        epoch: int = 0,
        where: range | None = None,
    ) -> np.ndarray:
        """Σ sign · difference over (sign, key) in round t, in steps of the grid: exact integers.

        Of all coordinates, or of those that are named.
        """
        where = range(self.size) if where is None else where
        # One that is added first, if there is one: then nothing has to change its sign.
        signed = sorted(terms, key=lambda term: term[0], reverse=True)
        wanted = where.start, len(where)
        streams = [(sign, keystream(key, t, epoch, *wanted)) for sign, key in signed]
        # No draw reaches 2^22 steps, so that this many of them cannot run over.
        kind = np.int32 if len(streams) < 512 else np.int64
        if self.table is None or not streams:
            return np.zeros(len(where), kind)
        sums: np.ndarray = np.empty(len(where), kind)
        (begin, stream), *others = streams
        for first in range(0, len(where), self.chunk):
            part = sums[first : first + self.chunk]
            self.work.draw(stream, self.table, part)
            if begin < 0:
                np.negative(part, out=part)
            for sign, other in others:
                draws = self.work.draw(other, self.table)[: len(part)]
                if sign > 0:
                    part += draws
                else:
                    part -= draws
        return sums


class _Work:
    """The memory that words pass through on their way to draws; kept, since new memory is slow."""

    def __init__(self, count: int) -> None:
        self.zeros = bytes(4 * count)
        self.words = bytearray(4 * count + 15)  # the cipher wants a block more than it fills
        self.signed = np.frombuffer(self.words, "<i4", count)
        # The same memory in all the ways that it is looked at: each view made anew takes its time.
        self.slope, self.piece = self.signed.view(np.int32), self.signed.view(np.uint32)
        self.pieces = torch.from_numpy(self.slope)
        self.real = np.empty(count, np.float32)
        self.bits, self.place = self.real.view(np.uint32), self.real.view(np.int32)
        self.draws = np.empty(count, np.int32)
        self.found = torch.from_numpy(self.draws)

    def draw(self, stream: Stream, table: torch.Tensor, to: np.ndarray | None = None) -> np.ndarray:
        """The next draws of a stream, `to` somewhere or to where the next call overwrites them."""
        stream.update_into(self.zeros, self.words)
        # As a float the word has its sign and its place on a logarithmic scale in its bits.
        np.copyto(self.real, self.signed, casting="unsafe")
        np.right_shift(self.bits, TO_PIECE, self.piece)
        # PyTorch's gather takes 32-bit places as they are.
        torch.index_select(table, 0, self.pieces, out=self.found)
        np.right_shift(self.bits, TO_PLACE, self.bits)
        np.left_shift(self.draws, TO_SLOPE, self.slope)
        np.right_shift(self.slope, TO_SLOPE, self.slope)
        np.multiply(self.slope, self.place, self.slope)
        np.add(self.draws, self.slope, self.draws)
        out = self.draws if to is None else to
        return np.right_shift(self.draws[: len(out)], TO_DRAW, out)


@lru_cache(maxsize=4)
def pieces(distribution: str, ratio: float) -> torch.Tensor:
    """The quantile function in straight lines, one number each, by a float32's top bits.

    `ratio` is β in steps. A number's lowest 9 bits are the line's slope in steps, signed. With the
    slope times a word's bits (those that number the piece, and those that say where in it) added,
    modulo 2^32, its upper 23 bits are the draw: so what the piece's own bits add is taken off here.
    """
    lowest = int(np.float32(1.0).view(np.uint32)) >> PIECE_BITS
    highest = int(np.float32(WORDS).view(np.uint32)) >> PIECE_BITS
    number = np.arange(lowest, highest + 1)
    edges = (number << PIECE_BITS).astype(np.uint32).view(np.float32).astype(np.float64)
    far = QUANTILES[distribution](edges / WORDS) * ratio
    true = np.append(np.diff(far), 0.0)
    true[edges < SINGLE] = 0.0
    # The word 0 is further out than any other; it has the lowest bits of all.
    furthest = QUANTILES[distribution](np.array([0.5 / WORDS])) * ratio
    table = np.zeros(PIECES, np.int32)
    table[0] = _lines(np.zeros(1, int), furthest, np.zeros(1))[0]
    table[lowest : highest + 1] = _lines(number, far, true)
    negative = number + PIECES // 2
    table[negative] = _lines(negative, -far, -true)
    return torch.from_numpy(table)


def _lines(number: np.ndarray, start: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Lines from where they start, with slopes rounded so that they are right in their middle."""
    slope = np.rint(true).astype(np.int64)
    # Of the places in a piece the lower end is taken, on average half of one too low.
    middle = start + 0.5 * (true - slope) + 0.5 * true / PLACES
    # What is cut off at last is half a step in the mean, where there is a slope.
    middle[slope != 0] += 0.5
    whole = np.rint(middle - slope / PLACES).astype(np.int64)
    packed = whole * PLACES + slope - slope * (number.astype(np.int64) * PLACES)
    out: np.ndarray = (packed & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return out
