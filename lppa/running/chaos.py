"""Trouble on purpose: a node that dies, stops, fails or is slow in a round that was named.

For tests and for people who want to see what a run does then. It happens inside the node itself,
between two rounds, so that it comes when it was asked for.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from lppa.protocol.errors import WrongUse

PATTERN = re.compile(
    r"(kill|stop|exit|exception|slow):(\d{1,6})@(\d{1,9})(?:x(\d{1,6}(?:\.\d+)?))?"
)
SLOW = 1.0  # seconds, where none are given


@dataclass(frozen=True)
class Trouble:
    """What happens to a node once it has done a round; `seconds` is how slow it is then."""

    kind: str
    node: int
    round: int
    seconds: float = SLOW


Chaos = tuple[Trouble, ...]


def parse_chaos(text: str | None, nodes: int, rounds: int | None = None) -> Chaos:
    """From `kill:3@7,slow:2@5x0.5`, for a run of so many rounds."""
    found = []
    for part in (text or "").split(",") if text else ():
        match = PATTERN.fullmatch(part.strip())
        if match is None or (match[4] is not None and match[1] != "slow"):
            raise WrongUse(
                f"--chaos {part!r} is not like kill:3@7 (kill, stop, exit, exception or slow, the "
                "node and the round), or slow:2@5x0.5 with seconds"
            )
        if int(match[2]) >= nodes:
            raise WrongUse(f"--chaos {part}: there is no node {match[2]} in a run of {nodes}")
        if rounds is not None and int(match[3]) > rounds:
            raise WrongUse(f"--chaos {part}: a run of {rounds} rounds has no round {match[3]}")
        seconds = SLOW if match[4] is None else float(match[4])
        found.append(Trouble(match[1], int(match[2]), int(match[3]), seconds))
    return tuple(found)


def trouble_of(chaos: Chaos, node: int) -> Callable[[int], None] | None:
    """What one node does to itself after each round; None where nothing."""
    mine = [trouble for trouble in chaos if trouble.node == node]
    if not mine:
        return None

    before: int | None = None

    def at_round(t: int) -> None:
        nonlocal before
        # A node that was behind when the graph changed skips rounds, but not what waits in them.
        since = t - 1 if before is None else before
        before = t
        for trouble in mine:
            if trouble.kind == "slow" and t >= trouble.round:
                time.sleep(trouble.seconds)
            elif since < trouble.round <= t:
                ENDS[trouble.kind]()

    return at_round


def _fail() -> None:
    raise ValueError("asked for by --chaos")


ENDS: dict[str, Callable[[], None]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "exit": lambda: sys.exit(3),
    "exception": _fail,
    "slow": lambda: None,
}
