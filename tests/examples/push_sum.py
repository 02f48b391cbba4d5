"""A rule of one's own: push-sum SGD, where a weight travels beside the vector that it belongs to.

lppa run --rule push_sum.py:PushSum
"""

import torch

import lppa


@lppa.rule("push-sum")
class PushSum:
    """x' = Σ w x − Kλ·ḡ(θ), w' = Σ w w, θ = x / w."""

    travels = ("x", "w")
    scalars = ("w",)

    def start(self, theta, local):
        return {"theta": theta, "x": theta, "w": torch.ones(1, dtype=theta.dtype)}

    def combine(self, own, mixed, t, local):
        g = local.gradient(mixed["x"] / mixed["w"], torch.zeros_like(own["x"]), t)
        x = mixed["x"] - local.step(t) * g
        return {"theta": x / mixed["w"], "x": x, "w": mixed["w"]}
