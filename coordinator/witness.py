"""What nodes say about each other in their reports, and what of it counts: two witnesses agree.

Nothing is done about it here: whoever is named is named to people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lppa.protocol.codec import BadMessage
from lppa.protocol.messages import Metrics
from lppa.protocol.names import name_all

MOST_TEXT = 200  # letters of what a node says about another


def check_words(values: Mapping[str, Any], nodes: int) -> None:
    """Raises BadMessage unless what a report says about others can be used."""
    for name in ("suspects", "heard"):
        said = values.get(name, {})
        if not isinstance(said, dict) or len(said) > nodes:
            raise BadMessage(f"a report whose {name} are no words about nodes")
        for node, text in said.items():
            if not (isinstance(node, str) and node.isdecimal() and len(node) < 8):
                raise BadMessage(f"a report whose {name} name no nodes")
            if not isinstance(text, str) or len(text) > MOST_TEXT or not text.isprintable():
                raise BadMessage(f"a report whose {name} are no words")


def two_faced(reports: Mapping[int, Metrics]) -> dict[int, tuple[int, int]]:
    """Senders whose state of one round was not the same for two receivers, with these two.

    Receivers that were in different views then have heard a round that was done twice.
    """
    first: dict[tuple[int, int], tuple[int, str]] = {}
    found: dict[int, tuple[int, int]] = {}
    for witness in sorted(reports):
        for name, digest in reports[witness].values.get("heard", {}).items():
            sender = int(name)
            if sender == witness:
                continue
            seen = (reports[witness].epoch, sender)
            other, before = first.setdefault(seen, (witness, digest))
            if before != digest:
                found.setdefault(sender, (other, witness))
    return found


def suspected(reports: Mapping[int, Metrics]) -> dict[int, dict[int, str]]:
    """By node who suspects it, and why."""
    found: dict[int, dict[int, str]] = {}
    for witness in sorted(reports):
        for name, why in reports[witness].values.get("suspects", {}).items():
            if int(name) != witness:
                found.setdefault(int(name), {})[witness] = why
    return found


def statements(reports: Mapping[int, Metrics]) -> list[tuple[str, bool]]:
    """What the reports of one round say of others, and whether two witnesses say it."""
    lines = [
        (
            f"node {sender} sent different states to nodes {a} and {b}, or one of these two does "
            "not tell what it got: compare their logs",
            True,
        )
        for sender, (a, b) in sorted(two_faced(reports).items())
    ]
    for node, witnesses in sorted(suspected(reports).items()):
        who, why = name_all(set(witnesses)), next(iter(witnesses.values()))
        says = "say" if len(witnesses) > 1 else "alone says"
        lines.append((f"node {node} is suspect, as {who} {says}: {why}", len(witnesses) > 1))
    return lines
