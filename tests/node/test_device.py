"""Which device a client gets, with a pretended number of GPUs."""

from __future__ import annotations

import pytest

from lppa.node.device import choose_device
from lppa.protocol.errors import WrongUse


@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("wanted", ["auto", "cuda"])
def test_clients_are_spread_over_the_gpus_by_their_ids(wanted, gpus):
    chosen = [choose_device(wanted, node, gpus) for node in range(3 * gpus)]
    assert chosen == [f"cuda:{k}" for k in range(gpus)] * 3


def test_without_a_gpu_auto_is_the_cpu():
    assert {choose_device("auto", node, 0) for node in range(5)} == {"cpu"}


@pytest.mark.parametrize("gpus", [0, 1, 4])
def test_the_cpu_can_be_asked_for_whatever_there_is(gpus):
    assert choose_device("cpu", 3, gpus) == "cpu"


@pytest.mark.parametrize("node", [0, 1, 7])
def test_one_gpu_can_be_asked_for_by_every_client(node):
    assert choose_device("cuda:1", node, 2) == "cuda:1"


@pytest.mark.parametrize("wanted", ["cuda", "cuda:0"])
def test_a_gpu_that_is_asked_for_and_not_there_is_wrong_use(wanted):
    with pytest.raises(WrongUse, match=f"--device {wanted}"):
        choose_device(wanted, 0, 0)


def test_a_number_beyond_the_gpus_says_how_many_there_are():
    with pytest.raises(WrongUse, match="2 CUDA devices"):
        choose_device("cuda:2", 0, 2)


@pytest.mark.parametrize("wanted", ["gpu", "cuda:", "cuda:-1", "cuda:1.5", "cuda:x", "", "CPU"])
def test_any_other_word_is_wrong_use(wanted):
    with pytest.raises(WrongUse, match="auto, cpu, cuda or cuda:K"):
        choose_device(wanted, 0, 4)
