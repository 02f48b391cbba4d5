"""Processes as people read them."""

from __future__ import annotations

import pytest

from lppa.protocol.names import MOST_NAMED, name_all


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ({3}, "node 3"),
        ({3, 1}, "nodes 1, 3"),
        (set(range(12)), "nodes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"),
        (set(range(1000)), "nodes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 989 more"),
    ],
)
def test_of_many_nodes_the_first_are_named_and_the_others_counted(nodes, said):
    assert name_all(nodes) == said
    assert said.count(",") < MOST_NAMED
