"""Processes by name, as people read them in messages and errors."""

from __future__ import annotations

from lppa.protocol.codec import COORDINATOR

MOST_NAMED = 12


def describe(process: int) -> str:
    """A process by name, for people."""
    return "the coordinator" if process == COORDINATOR else f"node {process}"


def name_all(nodes: set[int]) -> str:
    """Nodes in words: `node 3`, `nodes 1, 3`, or the first of many and how many more."""
    ids = sorted(nodes)
    shown = ids if len(ids) <= MOST_NAMED else ids[: MOST_NAMED - 1]
    listed = ", ".join(map(str, shown))
    if len(shown) < len(ids):
        listed += f" and {len(ids) - len(shown)} more"
    return f"node {listed}" if len(ids) == 1 else f"nodes {listed}"
