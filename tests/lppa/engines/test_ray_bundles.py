"""What is asked of Ray: room for every node, whole hosts or whole GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.engines.ray_bundles import bundles_for, check_share
from lppa.protocol.errors import WrongUse

nodes = st.integers(1, 300)
cpus = st.floats(1e-4, 64)


@given(nodes, cpus)
def test_without_gpus_every_node_has_a_bundle_of_its_own(count, share):
    bundles = bundles_for(count, share, 0)
    assert bundles.sizes == (1,) * count
    assert all(set(one) == {"CPU"} for one in bundles.asked)
    assert bundles.cpus >= sum(one["CPU"] for one in bundles.asked) - 1e-4


@given(nodes, cpus, st.floats(0.01, 1) | st.integers(1, 8))
def test_with_gpus_all_nodes_have_room_and_no_gpu_has_more_than_it_can_bear(count, share, gpus):
    bundles = bundles_for(count, share, gpus)
    assert sum(bundles.sizes) == count
    for size, one in zip(bundles.sizes, bundles.asked, strict=True):
        assert size >= 1
        assert one["GPU"] == bundles.gpus >= 1
        assert size * gpus <= one["GPU"] * (1 + 1e-3)


@pytest.mark.parametrize(("gpus", "sizes"), [(0.5, (2, 2, 1)), (1 / 3, (3, 2)), (1, (1,) * 5)])
def test_nodes_with_a_part_of_a_gpu_share_one(gpus, sizes):
    assert bundles_for(5, 1, gpus).sizes == sizes


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 1e-5])
def test_a_share_that_ray_cannot_count_is_refused(value):
    with pytest.raises(WrongUse, match="--cpus-per-node must be from"):
        check_share("--cpus-per-node", value)


def test_more_than_one_gpu_must_be_whole_ones():
    assert check_share("--gpus-per-node", 2.0, whole_above=1) == 2
    with pytest.raises(WrongUse, match="a part of one, or whole ones"):
        check_share("--gpus-per-node", 1.5, whole_above=1)


@pytest.mark.parametrize(
    ("share", "there", "words"),
    [
        (0, 0, "run fewer nodes, or give each less by --cpus-per-node"),
        (0.5, 4, "run fewer nodes, or give each less by --cpus-per-node or --gpus-per-node"),
        (0.5, 0, "leave --gpus-per-node out, or ask for no more than there is"),
        (4, 2, "leave --gpus-per-node out, or ask for no more than there is"),
    ],
)
def test_who_finds_no_room_is_told_what_would_make_some(share, there, words):
    assert bundles_for(5, 1, share).advice(there) == words
