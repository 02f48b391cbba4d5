"""Looks at what neighbours send: who is far outside what the others are, and who sent what.

A peer is named here, and where that is asked for (--robust clip) its vectors are bounded in length;
whether it is at fault is for the coordinator to say, who hears several of us.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from lppa.node.lengths import Vector, length
from lppa.protocol.codec import FEW, all_finite

log = logging.getLogger("lppa.node")


# Times the longest of all others: noise and data make honest vectors differ by far less.
FAR = 100.0
# Times the middle length: what clipping leaves of a vector.
BOUND = 10.0


class Scrutiny:
    """What one client notices about its in-neighbours' vectors.

    `due` says of which rounds a hash of every sender's state is kept; `clip` whether vectors are
    bounded.
    """

    def __init__(self, me: int, due: Callable[[int], bool], clip: bool = False) -> None:
        self.me = me
        self.due = due
        self.clip = clip
        # Whom this client suspects, and why: the first reason that it had.
        self.suspects: dict[int, str] = {}
        # Hashes of what each sender's state was in the last round that is due.
        self.heard: dict[int, str] = {}
        self._lengths: dict[str, dict[int, float]] = {}

    def begin(self, vectors: Mapping[str, Vector]) -> bool:
        """A round begins, with these vectors of one's own; False if one may have no length."""
        self._lengths = {name: {self.me: length(vector)} for name, vector in vectors.items()}
        return all(math.isfinite(own[self.me]) for own in self._lengths.values())

    def see(self, t: int, sender: int, state: Mapping[str, np.ndarray], part: int = 0) -> None:
        """A sender's state as it arrived, or a part of it."""
        for name, lengths in self._lengths.items():
            lengths[sender] = length(state[name])
        if self.due(t):
            before = self.heard[sender] if part else ""
            self.heard[sender] = short_hash(state, before)

    def judge(self, t: int) -> None:
        """Names who is far outside, when all of a round have been seen."""
        for name, lengths in self._lengths.items():
            sender = max(lengths, key=lengths.__getitem__)
            others = max(own for node, own in lengths.items() if node != sender)
            if sender == self.me or lengths[sender] <= FAR * others:
                continue
            if sender not in self.suspects:
                self.suspects[sender] = (
                    f"its {name} of round {t} has length {lengths[sender]:.3g}, all others' here "
                    f"at most {others:.3g}"
                )
                log.warning("node %d is suspect: %s", sender, self.suspects[sender])

    def bounded(self, sender: int, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A sender's state, none of its vectors longer than those of most others allow."""
        return {name: self._shortened(name, sender, vector) for name, vector in state.items()}

    def _shortened(self, name: str, sender: int, vector: Tensor) -> Tensor:
        lengths = self._lengths[name]
        middle = sorted(lengths.values())[(len(lengths) - 1) // 2]
        if sender == self.me or lengths[sender] <= BOUND * middle:
            return vector
        # In the wider type: the length may be beyond the narrow one.
        shorter = vector.double() * (BOUND * middle / lengths[sender])
        return shorter.to(vector.dtype)

    def about(self) -> dict[str, dict[str, str]]:
        """What is reported with an evaluation."""
        return {
            "suspects": {str(node): why for node, why in self.suspects.items()},
            "heard": {str(node): digest for node, digest in self.heard.items()},
        }


def sum_is_finite(array: np.ndarray) -> bool:
    """What `all_finite` says, of many numbers in half the time: one pass, and nothing made."""
    # A sum has no value where one of its numbers has none. It may be beyond its type without that.
    if len(array) > FEW and array.dtype.kind == "f":
        found: float = torch.from_numpy(array).sum().item()
        if math.isfinite(found):
            return True
    return all_finite(array)


def short_hash(state: Mapping[str, np.ndarray], before: str = "") -> str:
    """A few letters that differ where two states do; `before` is the hash of earlier parts."""
    digest = hashlib.blake2b(before.encode(), digest_size=8)
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].view(np.uint8).data)
    return digest.hexdigest()
