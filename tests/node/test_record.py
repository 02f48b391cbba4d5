"""What a node keeps on its own disk."""

from __future__ import annotations

import stat

import torch

from lppa.node.record import Record


def test_a_vector_is_written_alike_whether_or_not_it_is_a_part_of_a_larger_one(tmp_path):
    record = Record(tmp_path / "0")
    try:
        both = torch.arange(10.0)
        record.tensors("parts.pt", {"theta": both[:5], "gamma": both[5:]})
        record.tensors("whole.pt", {"theta": both[:5].clone(), "gamma": both[5:].clone()})
    finally:
        record.close()
    parts, whole = (
        (tmp_path / "0" / name).read_bytes().replace(name.removesuffix(".pt").encode(), b"")
        for name in ("parts.pt", "whole.pt")
    )
    assert parts == whole
    read = torch.load(tmp_path / "0" / "parts.pt", weights_only=True)
    assert torch.equal(read["gamma"], both[5:])
    assert stat.S_IMODE((tmp_path / "0" / "parts.pt").stat().st_mode) == 0o600
