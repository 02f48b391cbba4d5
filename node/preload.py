"""Imported once by the fork server, so that every local node starts with PyTorch in memory.

What PyTorch sets up when it is first used is set up here, once for all: in a node of its own it
would take memory and time there. No gradient is taken, since that starts threads where there is a
GPU, and they do not survive a fork.
"""

import gc
import io

import torch

import lppa.node.client  # noqa: F401
from lppa.models.networks import build
from lppa.node.turns import take_long_turns
from lppa.protocol.settings import Settings, make_settings


def first_use() -> None:
    """Does a little of what every node does."""
    # Before anything is computed: threads would not survive the fork either.
    torch.set_num_threads(1)
    take_long_turns()
    make_settings(Settings().to_dict())
    module = build("cnn", (1, 8, 8), 10, torch.Generator().manual_seed(0))
    outputs = module(torch.zeros(8, 1, 8, 8))
    torch.nn.functional.cross_entropy(outputs, torch.zeros(8, dtype=torch.long))
    torch.save({"theta": torch.zeros(8)}, io.BytesIO())


first_use()
# What is imported by now lives as long as the process: out of the collector's reach, its pages
# stay shared between all nodes.
gc.collect()
gc.freeze()
