"""Which device a client's model lives on."""

from __future__ import annotations

import re

from lppa.protocol.errors import WrongUse


def choose_device(wanted: str, place: int, gpus: int) -> str:
    """The device for the node at a place on its machine: `auto` spreads nodes over its GPUs."""
    if wanted == "cpu" or (wanted == "auto" and gpus == 0):
        return "cpu"
    if wanted in ("auto", "cuda"):
        if gpus == 0:
            raise WrongUse("--device cuda: this machine has no CUDA device that PyTorch can use")
        return f"cuda:{place % gpus}"
    match = re.fullmatch(r"cuda:(\d+)", wanted)
    if match is None:
        raise WrongUse(f"--device must be auto, cpu, cuda or cuda:K, not {wanted!r}")
    if int(match[1]) >= gpus:
        raise WrongUse(f"--device {wanted}: this machine has {gpus} CUDA devices")
    return wanted
