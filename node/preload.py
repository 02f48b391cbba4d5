"""Imported once by the fork server, so that every local node starts with PyTorch in memory."""

import gc

import lppa.node.client  # noqa: F401

# What is imported by now lives as long as the process: out of the collector's reach, its pages
# stay shared between all nodes.
gc.collect()
gc.freeze()
