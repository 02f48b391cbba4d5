"""Which node runs on which host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.engines.placing import place
from lppa.protocol.errors import WrongUse


@given(st.integers(2, 2000), st.lists(st.integers(0, 300), min_size=1, max_size=40))
def test_every_node_has_one_place_and_hosts_get_their_share_of_the_slots(nodes, slots):
    if sum(slots) == 0:
        with pytest.raises(WrongUse, match="slots"):
            place(nodes, slots)
        return
    blocks = place(nodes, slots)
    assert [node for block in blocks for node in block] == list(range(nodes))
    for block, share in zip(blocks, slots, strict=True):
        assert abs(len(block) - nodes * share / sum(slots)) <= 1
        assert share or not block


def test_as_many_nodes_as_slots_fill_each_host_as_it_says():
    assert place(6, [1, 3, 2]) == [(0,), (1, 2, 3), (4, 5)]


def test_a_run_without_hosts_is_refused():
    with pytest.raises(WrongUse, match="no host"):
        place(4, [])
