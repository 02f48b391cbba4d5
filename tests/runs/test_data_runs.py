"""Five real processes on every data set with every way to split it."""

from __future__ import annotations

import os

import pytest

PARTITIONS = ["iid", "quantity:0.5", "dirichlet:0.1", "classes:2"]
REAL = ["mnist", "fmnist", "cifar10", "adult", "rcv1", "covtype"]


def trains(local_run, dataset, partition, **settings):
    short = {"rounds": 2, "local_steps": 1, "batch": 16, "eval_samples": 200, "lr": 0.02, "seed": 1}
    run = local_run(dataset=dataset, partition=partition, **{**short, **settings})
    assert run.summary["status"] == "completed", run.summary
    assert 0 <= run.summary["accuracy"]["min"] <= run.summary["accuracy"]["max"] <= 1
    # Rounding of the noise, 6 million numbers on rcv1, against gradients that are far smaller.
    assert run.summary["conservation"] < 1e-4


@pytest.mark.parametrize("partition", PARTITIONS)
def test_five_clients_train_on_digits_however_they_are_split(local_run, partition):
    trains(local_run, "digits", partition)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif("LPPA_DATA" not in os.environ, reason="LPPA_DATA is not set")
@pytest.mark.parametrize("partition", ["iid", "quantity:0.5", "dirichlet:0.1", "classes"])
@pytest.mark.parametrize("dataset", REAL)
def test_five_clients_train_on_real_data_however_it_is_split(local_run, dataset, partition):
    binary = dataset in ("adult", "rcv1", "covtype")
    # The paper's #C: two labels of ten for images, one of two for tables.
    spec = f"classes:{1 if binary else 2}" if partition == "classes" else partition
    trains(local_run, dataset, spec)


def test_a_users_own_file_trains_like_any_other(local_run, tmp_path):
    import numpy as np

    random = np.random.default_rng(0)
    y = random.integers(0, 3, 130)
    x = random.normal(size=(130, 7)) + y[:, None]
    file = tmp_path / "own.npz"
    np.savez(file, x_train=x[:100], y_train=y[:100], x_test=x[100:], y_test=y[100:])
    trains(local_run, str(file), "iid", model="mlp")
