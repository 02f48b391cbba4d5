"""Dead units are counted in the layer that has the most of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lppa.models.dead import dead_share
from lppa.models.networks import build


def layer(*biases):
    """A layer whose units are on or off by their bias alone."""
    linear = nn.Linear(3, len(biases))
    nn.init.zeros_(linear.weight)
    linear.bias.data = torch.tensor(biases)
    return linear


X = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])


def test_the_share_is_that_of_the_worst_layer():
    first, second = layer(1.0, -1.0, 1.0), layer(1.0, 0.0, -1.0)
    assert dead_share(nn.Sequential(first, nn.ReLU()), X) == pytest.approx(1 / 3)
    assert dead_share(nn.Sequential(first, nn.ReLU(), second, nn.ReLU()), X) == pytest.approx(2 / 3)
    assert dead_share(nn.Sequential(second, nn.ReLU(), first, nn.ReLU()), X) == pytest.approx(2 / 3)


def test_a_unit_that_is_on_for_one_input_lives():
    linear = layer(0.0, 0.0)
    linear.weight.data[0, 0] = 1.0
    assert dead_share(nn.Sequential(linear, nn.ReLU()), X) == 0.5
    assert dead_share(nn.Sequential(linear, nn.ReLU()), X[1:]) == 1.0


def test_a_channel_lives_where_any_of_its_places_does():
    convolution = nn.Conv2d(1, 4, 1, bias=False)
    convolution.weight.data = torch.tensor([1.0, -1.0, 0.0, 2.0]).view(4, 1, 1, 1)
    x = torch.zeros(2, 1, 3, 3)
    x[1, 0, 2, 1] = 1.0
    assert dead_share(nn.Sequential(convolution, nn.ReLU()), x) == 0.5


def test_without_a_relu_nothing_can_die():
    assert dead_share(nn.Sequential(nn.Linear(3, 2), nn.Sigmoid()), X) is None
    lenet = build("lenet", (1, 8, 8), 10, torch.Generator())
    assert dead_share(lenet, torch.rand(2, 1, 8, 8)) is None


@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_a_fresh_network_lives_and_one_pushed_below_zero_is_dead(name):
    module = build(name, (1, 8, 8), 10, torch.Generator().manual_seed(1))
    x = torch.rand(50, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    assert dead_share(module, x) < 0.5
    for parameter in module.parameters():
        parameter.data -= 10.0
    assert dead_share(module, x) == 1.0


def test_looking_leaves_no_trace():
    module = build("mlp", (3,), 2, torch.Generator())
    dead_share(module, X)
    assert not any(m._forward_hooks for m in module.modules())
    assert all(p.grad is None for p in module.parameters())
