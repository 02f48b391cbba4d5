"""On the real data sets; all are skipped where LPPA_DATA is not set."""

import gzip
import json
import logging
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from lppa.node.datasets import load_dataset, split
from lppa.node.datasets.catalogue import CATALOGUE
from lppa.node.datasets.samples import SparseSamples
from lppa.protocol.errors import WrongUse

pytestmark = pytest.mark.data


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_data_set_loads_and_gives_batches_of_its_shape(real, name):
    dataset = load_dataset(name, real)
    assert dataset.name == name
    for samples in (dataset.train, dataset.test):
        rows = np.array([len(samples) - 1, 0, 3])
        x, y = samples.take(rows, torch.float32)
        assert x.shape == (3, *dataset.shape)
        assert y.tolist() == samples.y[rows].tolist()
        assert set(np.unique(samples.y)) == set(range(dataset.classes))
        dense = x.to_dense()
        assert dense.isfinite().all()
        if len(dataset.shape) == 3:
            assert 0 <= dense.min() < dense.max() <= 1


@pytest.mark.parametrize("spec", ["iid", "quantity:0.5", "dirichlet:0.1", "classes:2"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_data_set_can_be_split_in_every_way(real, name, spec):
    y = load_dataset(name, real).train.y
    parts = split(spec, y, 5, 0)
    assert min(map(len, parts)) > 0
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))


@pytest.mark.parametrize("name", ["mnist", "fmnist", "adult", "covtype"])
def test_complete_sets_have_the_published_rows(real, name):
    dataset = load_dataset(name, real)
    assert (len(dataset.train), len(dataset.test)) == CATALOGUE[name].rows


def test_our_checksums_are_of_what_is_in_the_files_that_torchvision_publishes():
    from torchvision.datasets import CIFAR10, MNIST, FashionMNIST

    ours = {file.name: file.md5 for file in CATALOGUE["cifar10"].files}
    assert ours == dict(map(tuple, CIFAR10.train_list + CIFAR10.test_list))
    for name, published in (("mnist", MNIST), ("fmnist", FashionMNIST)):
        names = [file.name + file.packing for file in CATALOGUE[name].files]
        assert sorted(names) == sorted(packed for packed, _ in published.resources)


@pytest.mark.parametrize("name", ["mnist", "fmnist"])
def test_the_packed_files_are_those_that_torchvision_publishes(real, name):
    import hashlib

    import torchvision.datasets

    published = dict(
        {"mnist": torchvision.datasets.MNIST, "fmnist": torchvision.datasets.FashionMNIST}[
            name
        ].resources
    )
    load_dataset(name, real)  # checks the content
    for file in CATALOGUE[name].files:
        path = file.find(real)
        if path.suffix == ".gz":
            assert hashlib.md5(path.read_bytes()).hexdigest() == published[path.name]


def test_normalised_mnist_has_the_well_known_statistics(real):
    train = load_dataset("mnist", real, normalize=True).train
    assert train.mean.item() == pytest.approx(0.1307, abs=1e-4)
    assert train.std.item() == pytest.approx(0.3081, abs=1e-4)


def test_cifar_says_when_batches_are_missing(real, caplog):
    with caplog.at_level(logging.WARNING):
        dataset = load_dataset("cifar10", real)
    batches = len(dataset.train) // 10_000
    assert (batches == 5) == (not caplog.text)
    if batches < 5:
        assert f"{batches} of 5 training batches were found" in caplog.text


def test_adult_is_standardised_and_one_hot(real):
    dataset = load_dataset("adult", real)
    x = dataset.train.x
    assert np.allclose(x[:, :6].mean(0, dtype=np.float64), 0, atol=1e-4)
    assert np.allclose(x[:, :6].std(0, dtype=np.float64), 1, atol=1e-4)
    assert (x[:, 6:].sum(1) == 8).all()
    # As the names file says: 24.08 % and 23.62 % earn more than 50,000.
    assert dataset.train.y.mean() == pytest.approx(0.2408, abs=1e-4)
    assert dataset.test.y.mean() == pytest.approx(0.2362, abs=1e-4)


def test_covtype_is_stratified_and_every_row_is_used(real):
    dataset = load_dataset("covtype", real)
    assert len(dataset.train) + len(dataset.test) == 581_012
    assert int(dataset.train.y.sum()) + int(dataset.test.y.sum()) == 283_301
    assert dataset.train.y.mean() == pytest.approx(dataset.test.y.mean(), abs=1e-4)


def test_rcv1_is_what_scikit_learn_reads_and_stays_sparse(real):
    from sklearn.datasets import load_svmlight_file

    dataset = load_dataset("rcv1", real)
    file = CATALOGUE["rcv1"].files[0].find(real)
    x, y = load_svmlight_file(str(file), n_features=47_236, dtype=np.float32)
    assert isinstance(dataset.train, SparseSamples)
    rows = np.arange(0, len(y), 7)[::-1][:100]
    batch, labels = dataset.train.take(rows, torch.float32)
    assert batch.layout == torch.sparse_csr
    assert np.array_equal(batch.to_dense().numpy(), x[rows].toarray())
    assert labels.tolist() == (y[rows] > 0).astype(int).tolist()


def test_one_changed_pixel_in_the_real_files_is_noticed(real, tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    shutil.copytree(real / "MNIST" / "raw", raw)
    file = raw / "t10k-images-idx3-ubyte.gz"
    content = bytearray(gzip.decompress(file.read_bytes()))
    content[5000] ^= 1
    file.chmod(0o600)
    file.write_bytes(gzip.compress(content, 1))
    with pytest.raises(WrongUse, match="wrong checksum") as error:
        load_dataset("mnist", tmp_path)
    assert str(file) in str(error.value)


# Each process touches every image; all are alive while memory is measured.
MEASURE = """
import json, sys
import numpy as np
from lppa.node.datasets import load_dataset

dataset = load_dataset("mnist", sys.argv[1])
total = int(dataset.train.x.sum())
print("ready", flush=True)
sys.stdin.readline()
total = int(dataset.train.x.sum())  # again: a machine short of memory may have let pages go
shares = {"mapped": 0, "resident": 0}
mine = False
for line in open("/proc/self/smaps"):
    fields = line.split()
    if "-" in fields[0] and not fields[0].endswith(":"):
        mine = line.rstrip().endswith("x_train.npy")
    elif mine and fields[0] == "Pss:":
        shares["mapped"] += int(fields[1]) * 1024
    elif mine and fields[0] == "Rss:":
        shares["resident"] += int(fields[1]) * 1024
print(json.dumps(shares), flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_five_processes_share_one_copy_of_the_images(real):
    size = load_dataset("mnist", real).train.x.nbytes
    children = [
        subprocess.Popen(
            [sys.executable, "-c", MEASURE, str(real)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(5)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    shares = []
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
        shares.append(json.loads(child.stdout.readline()))
    for child in children:
        child.communicate("\n")
    assert all(share["resident"] >= 0.9 * size for share in shares), "each has touched all images"
    assert sum(share["mapped"] for share in shares) <= 1.2 * size, "and yet there is one copy"
