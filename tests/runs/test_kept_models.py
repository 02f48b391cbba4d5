"""model.pt as somebody else uses it: in the plain network, with what PyTorch itself offers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from processes import read_lines

from lppa.models.networks import build
from lppa.node.datasets import describe, load_dataset


@pytest.mark.parametrize(
    ("model", "dtype"), [("cnn", "float32"), ("mlp", "float32"), ("lenet", "float64")]
)
def test_the_model_of_a_node_loads_into_its_network_and_says_what_the_run_says(
    local_run, model, dtype
):
    run = local_run(
        nodes=3, model=model, dtype=dtype, rounds=4, local_steps=3, eval_every=4, init="independent"
    )
    about = describe("digits")
    test = load_dataset("digits", normalize=True).test
    x, y = test.take(np.arange(len(test)), getattr(torch, dtype))
    for node in range(3):
        folder = run.folder / "nodes" / str(node)
        network = build(model, about.shape, about.classes, torch.Generator()).to(x.dtype)
        kept = torch.load(folder / "model.pt", weights_only=True)
        network.load_state_dict(kept, strict=True)
        # Local steps are taken on a private path: the model is θ of the end, bit by bit.
        flat = torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()])
        assert torch.equal(flat, run.final("theta")[node])
        assert list(kept) == list(network.state_dict())
        with torch.no_grad():
            logits = network(x)
        told = read_lines(folder / "metrics.jsonl")[-1]
        assert float((logits.argmax(1) == y).double().mean()) == pytest.approx(told["accuracy"])
        loss = float(torch.nn.functional.cross_entropy(logits, y))
        assert loss == pytest.approx(told["loss"], rel=1e-5)
