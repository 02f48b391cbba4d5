"""The table of networks says what the networks and the data sets really are."""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest
import torch

from lppa.models.networks import build
from lppa.node.datasets import load_dataset
from lppa.node.datasets.catalogue import CATALOGUE
from lppa.node.datasets.load import source_of
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import make_settings
from lppa.running.known_networks import NETWORKS, known_network
from lppa.running.prepare import check_recorded, make_blueprint

SAMPLE = {"rcv1": 1_000}  # measured on a part: fewer rows than there are is the cautious side


def parameters(dataset, model):
    source = source_of(dataset)
    with torch.device("cpu"):
        module = build(model, source.shape, source.classes, torch.Generator())
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("dataset", "model"), sorted(NETWORKS))
def test_parameters_and_rows_are_those_of_the_network_and_of_the_data(dataset, model):
    known = NETWORKS[dataset, model]
    assert known.parameters == parameters(dataset, model)
    rows, _ = source_of(dataset).rows
    assert known.rows == SAMPLE.get(dataset, rows) <= rows


def test_the_embedded_digits_have_as_many_rows():
    assert NETWORKS["digits", "cnn"].rows == len(load_dataset("digits").train)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif("LPPA_DATA" not in os.environ, reason="LPPA_DATA is not set")
@pytest.mark.parametrize("dataset", sorted({name for name, _ in NETWORKS} - {"digits"}))
def test_the_real_data_has_at_least_as_many_rows(dataset):
    most = max(known.rows for (name, _), known in NETWORKS.items() if name == dataset)
    assert len(load_dataset(dataset).train) >= most


def test_every_data_set_is_known_with_the_model_that_it_has_by_default():
    for dataset in CATALOGUE:
        settings = make_settings({"dataset": dataset})
        assert known_network(settings) == NETWORKS[dataset, settings.model]


def test_the_quadratic_problem_is_no_network():
    for dataset in ("quadratic", "quadratic-shared"):
        assert known_network(make_settings({"dataset": dataset})) is None


@pytest.mark.parametrize("model", ["cnn", "mlp", "lenet"])
@pytest.mark.parametrize("dataset", ["own.npz", "adult"])
def test_what_is_not_known_is_taken_for_the_most_cautious_of_its_kind(dataset, model):
    if (dataset, model) in NETWORKS:
        dataset = "other.npz"
    found = known_network(make_settings({"dataset": dataset, "model": model}))
    alike = [known for (_, name), known in NETWORKS.items() if name == model]
    assert found.example_rms == max(known.example_rms for known in alike)
    assert found.weight_rms == min(known.weight_rms for known in alike)
    assert found.parameters == max(known.parameters for known in alike)
    assert found.rows == 0


@pytest.mark.parametrize(
    ("dataset", "model", "attackers", "refused"),
    [
        ("rcv1", "mlp", (1,), True),
        ("rcv1", "mlp", (), False),
        ("digits", "mlp", (1,), False),
        ("rcv1", "mlp:9", (1,), False),  # nobody knows yet how large it is
    ],
)
def test_attackers_that_could_not_record_a_run_are_refused_before_it(
    dataset, model, attackers, refused
):
    run = make_blueprint(make_settings({"dataset": dataset, "model": model}), 5, "test")
    with (
        pytest.raises(WrongUse, match="at most 4,194,304 parameters") if refused else nullcontext()
    ):
        check_recorded(run, attackers)
