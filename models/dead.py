"""Units that are zero for all inputs: a network whose layers are mostly that learns no more."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def dead_share(module: nn.Module, x: Tensor) -> float | None:
    """The share of units without any output for these inputs, in the layer that has the most.

    A unit is a feature or a channel behind a ReLU; None where there is no such layer.
    """
    shares: list[float] = []

    def look(_: nn.Module, __: tuple[Tensor, ...], out: Tensor) -> None:
        alive = (out > 0).movedim(1, 0).flatten(1).any(1)
        shares.append(1.0 - float(alive.float().mean()))

    hooks = [m.register_forward_hook(look) for m in module.modules() if isinstance(m, nn.ReLU)]
    if not hooks:
        return None
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            module(x)
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()
    return max(shares, default=None)
