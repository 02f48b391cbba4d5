"""Five real processes on every data set with every way to split it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from lppa.attack.scene import open_scene
from lppa.finished import load
from lppa.protocol.errors import WrongUse

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
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 130)
    x = random.normal(size=(130, 7)) + y[:, None]
    file = tmp_path / "own.npz"
    np.savez(file, x_train=x[:100], y_train=y[:100], x_test=x[100:], y_test=y[100:])
    trains(local_run, str(file), "iid", model="mlp")


def people(file, rows=120):
    """A small table: a number and a category tell the height, and the height a size."""
    lines = ["age,group,height,size"]
    for k in range(rows):
        height = 100 + k % 40 * 1.5 + (20 if k % 3 else 0)
        lines.append(f"{k % 40},{'ab'[k % 3 > 0]},{height},{'tall' if height > 140 else 'small'}")
    file.write_text("\n".join(lines))
    return str(file)


def outputs_of(folder):
    """How many outputs the network has that a client ended with."""
    return len(list(load(folder).model(0).parameters())[-1])


SHORT = {"nodes": 3, "rounds": 12, "eval_every": 4, "seed": 1, "beta": 0.0}


def test_three_clients_learn_the_classes_of_a_table(local_run, tmp_path):
    run = local_run(dataset=people(tmp_path / "people.csv"), target="size", **SHORT)
    assert run.summary["status"] == "completed", run.summary
    assert run.summary["accuracy"]["mean"] > 0.9
    partition = json.loads((run.folder / "partition.json").read_text())
    assert partition["names"] == ["small", "tall"]
    page = (run.folder / "report.html").read_text()
    assert "of 2 classes" in page
    assert "client 0, small:" in page
    assert outputs_of(run.folder) == 2


@pytest.mark.parametrize("partition", ["iid", "quantity:0.5"])
def test_three_clients_come_close_to_the_numbers_of_a_table(local_run, tmp_path, partition):
    file = people(tmp_path / "people.csv")
    run = local_run(dataset=file, target="height", partition=partition, **SHORT)
    summary = run.summary
    assert summary["status"] == "completed", summary
    assert summary["accuracy"] is None
    assert list(summary["metrics"]) == ["rmse", "r2"]
    assert summary["metrics"]["r2"]["min"] > 0.8
    # In the target's own units, and the loss in those that it is learned in.
    deviation = np.std([float(line.split(",")[2]) for line in Path(file).read_text().split()[1:]])
    ratio = summary["metrics"]["rmse"]["mean"] / deviation
    assert ratio == pytest.approx(summary["loss"] ** 0.5, rel=0.2)
    rows = json.loads((run.folder / "partition.json").read_text())["labels"]
    assert sum(map(sum, rows)) == 96
    page = (run.folder / "report.html").read_text()
    assert "Test rmse" in page
    assert "Test r2" in page
    assert "Test accuracy" not in page
    assert "96 training samples." in page
    assert outputs_of(run.folder) == 1


def test_numbers_to_come_close_to_are_not_split_by_class(local_run, tmp_path):
    with pytest.raises(WrongUse, match=r"shares out classes.*regression.*use iid or quantity"):
        file = people(tmp_path / "people.csv")
        local_run(dataset=file, target="height", partition="dirichlet:0.5", nodes=3)


def test_a_users_own_file_with_floating_targets_is_regression(local_run, tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=(130, 4))
    y = 1000 + 50 * x[:, 0]
    file = tmp_path / "own.npz"
    np.savez(file, x_train=x[:100], y_train=y[:100], x_test=x[100:], y_test=y[100:])
    # Clipping takes each sample's own gradient of the same loss.
    summary = local_run(dataset=str(file), clip=100.0, **SHORT).summary
    assert summary["status"] == "completed", summary
    assert summary["metrics"]["rmse"]["mean"] < 25


def test_attacks_on_numbers_are_refused(local_run, tmp_path):
    file = people(tmp_path / "people.csv")
    run = local_run(dataset=file, target="height", attackers=(1,), **{**SHORT, "rounds": 1})
    with pytest.raises(WrongUse, match="look for examples with classes"):
        open_scene(run.folder, [1])
