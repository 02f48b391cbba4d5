"""The flat model: views and not copies, and the same numbers as the plain network."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from lppa.models import flat
from lppa.models.flat import FlatModel
from lppa.models.networks import NETWORKS, build

SHAPE, CLASSES = (1, 8, 8), 5


def plain(name, seed=0):
    return build(name, SHAPE, CLASSES, torch.Generator().manual_seed(seed))


def batch(seed=0, dtype=torch.float32, size=6):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, *SHAPE, generator=generator, dtype=dtype)
    return x, torch.randint(CLASSES, (size,), generator=generator)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(list(NETWORKS)),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 1000),
)
def test_the_flat_gradient_is_autograds_to_the_last_bit(name, dtype, seed):
    model = FlatModel(plain(name, seed), dtype, "cpu")
    twin = plain(name, seed).to(dtype)
    x, y = batch(seed, dtype)
    loss = cross_entropy(twin(x), y)
    expected = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, twin.parameters())])
    gradient, value = model.gradient(model.vector(), x, y)
    assert gradient.dtype == dtype
    assert torch.equal(gradient, expected)
    assert value == loss.item()


@pytest.mark.parametrize("name", NETWORKS)
def test_the_layout_tiles_the_vector_in_the_networks_order(name):
    network = plain(name)
    named = [(key, tuple(p.shape)) for key, p in network.named_parameters()]
    model = FlatModel(network, torch.float32, "cpu")
    assert [(key, shape) for key, _, _, shape in model.layout] == named
    starts, stops = [s.start for s in model.layout], [s.stop for s in model.layout]
    assert starts == [0, *stops[:-1]]
    assert model.size == stops[-1] == sum(p.numel() for p in network.parameters())


def test_the_vector_is_what_the_network_came_with_and_a_fresh_copy_each_time():
    expected = torch.cat([p.detach().reshape(-1) for p in plain("cnn").parameters()])
    model = FlatModel(plain("cnn"), torch.float32, "cpu")
    first = model.vector()
    first.zero_()
    model.bind(first)
    assert torch.equal(model.vector(), expected)


def test_bound_parameters_are_views_of_the_vector():
    model = FlatModel(plain("cnn"), torch.float32, "cpu")
    theta = model.vector()
    model.bind(theta)
    for slot, parameter in zip(model.layout, model.module.parameters(), strict=True):
        assert parameter.data_ptr() == theta[slot.start :].data_ptr()
    x, _ = batch()
    before = model.module(x)
    theta.mul_(0.5)
    assert not torch.equal(model.module(x), before)


def test_a_large_networks_gradient_has_the_same_bits(monkeypatch):
    class Partly(nn.Module):
        """One layer is not learned, and one has no part in the output."""

        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.fixed, self.unused, self.last = (nn.Linear(4, 4) for _ in range(3))
            self.fixed.requires_grad_(False)

        def forward(self, x):
            return self.last(self.fixed(x))

    found = []
    for large in (1 << 22, 0):
        monkeypatch.setattr(flat, "LARGE", large)
        model = FlatModel(Partly(), torch.float32, "cpu")
        found.append(model.gradient(model.vector(), torch.ones(3, 4), torch.tensor([0, 1, 2]))[0])
    assert torch.equal(*found)
    assert not found[0][:40].any()
    assert found[0][40:].any()


def test_a_large_model_keeps_neither_its_start_nor_what_it_was_last_at(monkeypatch):
    monkeypatch.setattr(flat, "LARGE", 0)
    model = FlatModel(plain("cnn"), torch.float32, "cpu")
    expected, theta = model.vector(), model.hand_over()
    assert torch.equal(theta, expected)
    assert model.hand_over() is None
    with pytest.raises(ValueError, match="handed over"):
        model.vector()
    first, _ = model.gradient(theta, *batch(1))
    kept = [parameter.untyped_storage().nbytes() for parameter in model.module.parameters()]
    assert max(kept) == 4, "of one number that stands for all"
    again, _ = model.gradient(expected, *batch(1))
    assert torch.equal(first, again)


def test_a_gradient_changes_neither_theta_nor_an_earlier_gradient():
    model = FlatModel(plain("cnn"), torch.float32, "cpu")
    theta = model.vector()
    first, _ = model.gradient(theta, *batch(1))
    kept = first.clone()
    second, _ = model.gradient(theta, *batch(2))
    assert torch.equal(theta, model.vector())
    assert torch.equal(first, kept)
    assert not torch.equal(first, second)


def test_the_same_gradient_twice_has_the_same_bits():
    model = FlatModel(plain("cnn"), torch.float32, "cpu")
    (first, loss), (again, loss_again) = (
        model.gradient(model.vector(), *batch()) for _ in range(2)
    )
    assert torch.equal(first, again)
    assert loss == loss_again


def test_logits_are_the_plain_networks_and_carry_no_graph():
    model = FlatModel(plain("cnn", seed=1), torch.float32, "cpu")
    other = FlatModel(plain("cnn", seed=2), torch.float32, "cpu").vector()
    x, _ = batch()
    logits = model.outputs(other, x)
    assert torch.equal(logits, plain("cnn", seed=2)(x))
    assert not logits.requires_grad


def test_a_state_dict_loads_into_the_plain_network_and_shares_no_memory():
    model = FlatModel(plain("cnn", seed=1), torch.float32, "cpu")
    theta = model.vector()
    state = model.state_dict(theta)
    x, _ = batch()
    expected = model.outputs(theta, x)
    theta.zero_()
    network = plain("cnn", seed=9)
    network.load_state_dict(state)
    assert torch.equal(network(x), expected)


@pytest.mark.parametrize(
    "theta", [torch.zeros(3), torch.zeros(1, 5), torch.zeros(5, dtype=torch.float64)]
)
def test_a_vector_of_another_size_or_type_is_refused(theta):
    model = FlatModel(nn.Linear(4, 1), torch.float32, "cpu")
    with pytest.raises(ValueError, match="needs a vector of 5 "):
        model.bind(theta)


# --- running averages ---------------------------------------------------------------------------


def normalising(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))


def test_a_step_moves_running_averages_as_the_network_itself_does():
    step, plain_network = 0.03, normalising().double()
    model = FlatModel(normalising(), torch.float64, "cpu", average_step=step)
    x, y = torch.randn(16, 4, dtype=torch.float64), torch.randint(0, 2, (16,))
    theta = model.vector()
    kept = theta.clone()
    g, loss = model.gradient(theta, x, y)
    # θ is the caller's, and stays.
    assert torch.equal(theta, kept)
    expected = nn.functional.cross_entropy(plain_network(x), y)
    expected.backward()
    assert loss == pytest.approx(expected.item())
    with torch.no_grad():
        for parameter in plain_network.parameters():
            parameter -= step * parameter.grad
    moved = model.state_dict(theta - step * g)
    for name, tensor in plain_network.state_dict().items():
        if name != "1.num_batches_tracked":
            torch.testing.assert_close(moved[name], tensor, rtol=1e-12, atol=1e-14)
    assert model.learned == sum(p.numel() for p in plain_network.parameters())
    assert model.size == model.learned + 6


def test_in_use_a_network_goes_by_its_averages_and_changes_nothing():
    model, x = FlatModel(normalising(), torch.float64, "cpu"), torch.randn(5, 4).double()
    theta = model.vector() + 0.01
    kept, plain_network = theta.clone(), normalising().double()
    plain_network.load_state_dict(model.state_dict(theta))
    expected = plain_network.eval()(x)
    assert torch.equal(model.outputs(theta, x), expected)
    assert torch.equal(model.outputs(theta, x[:1]), plain_network(x[:1]))
    assert torch.equal(theta, kept)
    assert model.module.training


def test_a_variance_that_noise_took_below_zero_counts_as_zero():
    model = FlatModel(normalising(), torch.float32, "cpu")
    theta = model.vector()
    theta[model.learned :] = -1.0
    assert model.outputs(theta, torch.randn(5, 4)).isfinite().all()


def test_weights_that_two_layers_share_are_there_once_and_load_under_both_names():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
            self.two.weight = self.one.weight

        def forward(self, x):
            return self.two(self.one(x))

    model = FlatModel(Tied(), torch.float32, "cpu")
    assert model.size == 9 + 3 + 3
    theta, x = torch.randn(model.size), torch.randn(2, 3)
    network = Tied()
    network.load_state_dict(model.state_dict(theta))
    assert torch.equal(network(x), model.outputs(theta, x))


def test_how_many_batches_were_seen_follows_from_the_step_and_not_from_the_process():
    model, x, y = FlatModel(normalising(), torch.float32), torch.randn(8, 4), torch.zeros(8).long()
    theta = model.vector()
    for step in (5, 6):  # one that has gone on from a checkpoint after five
        model.have_seen(step)
        model.gradient(theta, x, y)
    assert model.state_dict(theta)["1.num_batches_tracked"] == 7
