"""What starts a run's nodes, tells which have died, and ends them. `launch` has the local one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

GRACE = 5.0  # seconds in which a node may end by itself


class Launcher(Protocol):
    """The processes of a run's nodes, wherever they are; none before `start`."""

    def start(self, coordinator: str, meanwhile: Callable[[], None]) -> None:
        """Starts all; whoever calls this calls `end` too, also after an interruption.

        `coordinator` is where it listens; `meanwhile` is called now and then where that takes long:
        the first of many wait for an answer.
        """

    def deaths(self) -> dict[int, str]:
        """Nodes whose process has ended badly, and how."""

    def end(self, patience: float = GRACE) -> None:
        """Waits for all to end, then makes them."""
