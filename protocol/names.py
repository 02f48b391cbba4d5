"""Processes by name, as people read them in messages and errors."""

from __future__ import annotations

from lppa.protocol.codec import COORDINATOR


def describe(process: int) -> str:
    """A process by name, for people."""
    return "the coordinator" if process == COORDINATOR else f"node {process}"


def name_all(nodes: set[int]) -> str:
    """Nodes in words: `node 3`, or `nodes 1, 3`."""
    listed = ", ".join(map(str, sorted(nodes)))
    return f"node {listed}" if len(nodes) == 1 else f"nodes {listed}"
