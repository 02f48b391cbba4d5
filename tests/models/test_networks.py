"""Networks: their layers, the shapes they take, and where their first weights come from."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lppa.models.networks import NETWORKS, build, cnn, lenet, mlp
from lppa.protocol.errors import WrongUse

IMAGES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def flat(network):
    return torch.cat([p.detach().reshape(-1) for p in network.parameters()])


def layers(network, kind):
    return [layer for layer in network.modules() if isinstance(layer, kind)]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["cnn", "mlp", "lenet"]),
    st.tuples(st.integers(1, 3), st.integers(4, 33), st.integers(4, 33)),
    st.integers(2, 12),
)
def test_every_network_sizes_itself_to_any_image(name, shape, classes):
    network = build(name, shape, classes, seeded(0))
    assert network(torch.zeros(2, *shape)).shape == (2, classes)


@pytest.mark.parametrize("shape", IMAGES)
def test_the_cnn_is_two_convolutions_and_one_linear_layer(shape):
    network = cnn(shape, 10)
    convolutions = layers(network, nn.Conv2d)
    assert [c.out_channels for c in convolutions] == [16, 32]
    assert {c.kernel_size for c in convolutions} == {(5, 5) if shape[1] >= 16 else (3, 3)}
    assert len(layers(network, nn.Linear)) == 1
    assert len(layers(network, nn.MaxPool2d)) == len(layers(network, nn.ReLU)) == 2


@pytest.mark.parametrize("shape", [(20,), (1, 8, 8), (4, 5)])
def test_the_mlp_takes_vectors_as_well_as_images(shape):
    network = mlp(shape, 3)
    widths = [len(p) for name, p in network.named_parameters() if name.endswith("bias")]
    assert widths == [128, 64, 3]
    assert network(torch.zeros(5, *shape)).shape == (5, 3)


def test_the_lenet_is_the_one_of_the_inversion_papers():
    network = lenet((3, 32, 32), 100)
    assert [c.stride for c in layers(network, nn.Conv2d)] == [(2, 2), (2, 2), (1, 1)]
    assert layers(network, nn.Linear)[0].in_features == 768
    assert len(layers(network, nn.Sigmoid)) == 3


def test_the_lenets_weights_and_biases_fill_the_interval_of_half():
    for parameter in build("lenet", (1, 28, 28), 10, seeded(1)).parameters():
        assert parameter.abs().max() <= 0.5
    assert flat(build("lenet", (1, 28, 28), 10, seeded(1))).abs().max() > 0.49


@pytest.mark.parametrize("name", NETWORKS)
def test_the_first_weights_depend_on_the_generator_alone(name):
    torch.manual_seed(1)
    first = flat(build(name, (1, 8, 8), 10, seeded(4)))
    torch.manual_seed(2)
    assert torch.equal(first, flat(build(name, (1, 8, 8), 10, seeded(4))))
    assert not torch.equal(first, flat(build(name, (1, 8, 8), 10, seeded(5))))


@pytest.mark.parametrize("name", NETWORKS)
def test_building_leaves_torchs_own_generator_alone(name):
    before = torch.get_rng_state()
    build(name, (1, 8, 8), 10, seeded(4))
    assert torch.equal(before, torch.get_rng_state())


def test_threads_that_build_at_once_do_not_draw_each_others_numbers():
    def vectors(_):
        return [flat(build("cnn", (3, 32, 32), 10, seeded(seed))) for seed in range(30)]

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(vectors, range(4))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def test_one_generator_gives_a_different_network_each_time():
    generator = seeded(4)
    first, second = (flat(build("mlp", (6,), 2, generator)) for _ in range(2))
    assert not torch.equal(first, second)


def test_an_unknown_model_is_answered_with_the_known_ones():
    with pytest.raises(WrongUse, match="model resnet: use one of cnn, cnn-6-16, mlp, lenet"):
        build("resnet", (1, 8, 8), 10, seeded(0))


@pytest.mark.parametrize("name", ["cnn", "cnn-6-16", "lenet"])
def test_a_network_for_images_refuses_plain_vectors(name):
    with pytest.raises(WrongUse, match=rf"model {name} needs images .* shape \(20,\)"):
        build(name, (20,), 10, seeded(0))


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        # 6·(25+1) + 16·(6·25+1) + (256+1)·120 + 121·84 + 85·10, as the benchmark's network has
        ((1, 28, 28), 44_426),
        ((3, 32, 32), 62_006),
    ],
)
def test_the_network_of_the_benchmark_has_its_size(shape, parameters):
    network = build("cnn-6-16", shape, 10, seeded(0))
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert network(torch.zeros(3, *shape)).shape == (3, 10)


def test_an_mlp_has_the_widths_that_its_name_says():
    network = build("mlp:32-16-8", (108,), 2, seeded(0))
    sizes = [tuple(p.shape) for p in network.parameters()]
    assert sizes == [(108, 32), (32,), (16, 32), (16,), (8, 16), (8,), (2, 8), (2,)]
    same = build("mlp:128-64", (108,), 2, seeded(4)).state_dict()
    for name, tensor in build("mlp", (108,), 2, seeded(4)).state_dict().items():
        assert torch.equal(tensor, same[name])


def test_first_weights_can_be_normal_with_constant_biases():
    network = build("mlp:400-300", (108,), 2, seeded(0), weights=(0.1, 0.25))
    weights = torch.cat([p.detach().flatten() for p in network.parameters() if p.dim() > 1])
    biases = torch.cat([p.detach() for p in network.parameters() if p.dim() == 1])
    assert abs(float(weights.std()) - 0.1) < 0.002 and abs(float(weights.mean())) < 0.002
    assert set(biases.tolist()) == {0.25}


def test_the_cnn_refuses_images_too_small_to_pool_twice():
    with pytest.raises(WrongUse, match="sides of at least 4"):
        cnn((1, 3, 8), 10)
