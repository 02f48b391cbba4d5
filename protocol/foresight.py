"""Knows a neighbour's next state before it comes: all of it but the numbers in its vectors.

Who sends what in which round follows from the view, so that comparing a header's bytes with those
that are due takes the place of reading them. Whatever is not the next state is not judged here: it
is read in full by the codec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lppa.protocol.codec import Frame, header_of, plain_array, state_opening
from lppa.protocol.messages import State, Together


@dataclass
class Foresight:
    """What each sender sends next, in one epoch.

    `vectors` are names and sizes of a round, the same object as long as they are the same; `cut`
    are those of its first part.
    """

    run: str
    epoch: int
    dtype: np.dtype
    vectors: Callable[[int], Mapping[str, int]]
    # The round of each sender's next state.
    awaited: dict[int, int]
    cut: Callable[[int], Mapping[str, int]] | None = None
    _openings: dict[int, tuple[Mapping[str, int], Mapping[str, int], bytes]] = field(
        default_factory=dict
    )

    def read(self, sender: int, number: int, frames: Sequence[Frame]) -> State | None:
        """The sender's next state, if that is what the frames are."""
        round = self.awaited[sender]
        whole = self.vectors(round)
        known = self._openings.get(sender)
        if known is None or known[0] is not whole:
            known = self._opening(sender, round, whole)
        _, sizes, opening = known
        if len(frames) < 2 or frames[0] != header_of(opening, self.epoch, round, number):
            return None
        if len(frames) == 2 and len(sizes) > 1:
            # They have travelled in one frame.
            together = plain_array(frames[1], self.dtype)
            if together.size != sum(sizes.values()):
                return None
            return State(self.epoch, round, Together(together, sizes))
        found = [plain_array(frame, self.dtype) for frame in frames[1:]]
        if [vector.size for vector in found] != list(sizes.values()):
            return None
        return State(self.epoch, round, dict(zip(sizes, found, strict=True)))

    def saw(self, sender: int, round: int) -> None:
        """A state was taken: the next one is of the next round."""
        self.awaited[sender] = round + 1

    def _opening(
        self, sender: int, round: int, whole: Mapping[str, int]
    ) -> tuple[Mapping[str, int], Mapping[str, int], bytes]:
        """What travels, and how the header of a sender's states begins, until that changes."""
        sizes = whole if self.cut is None else self.cut(round)
        known = whole, sizes, state_opening(self.run, sender, self.dtype, sizes)
        self._openings[sender] = known
        return known
