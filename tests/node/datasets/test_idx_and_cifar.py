import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from lppa.node.datasets import load_dataset
from lppa.node.datasets.catalogue import CATALOGUE
from lppa.node.datasets.files import FoundFile, RawFile, read
from lppa.node.datasets.images import (
    parse_cifar_batch,
    parse_idx_images,
    parse_idx_labels,
    prepare_cifar,
    prepare_idx,
    read_cifar_batch,
)
from lppa.protocol.errors import WrongUse


def images(count, magic=0x803, side=28):
    pixels = np.arange(count * side * side, dtype=np.uint8).tobytes()
    return struct.pack(">4I", magic, count, side, side) + pixels


def labels(values, magic=0x801):
    return struct.pack(">2I", magic, len(values)) + bytes(values)


def write_mnist(folder: Path, **changed):
    """A tiny MNIST; keyword arguments replace the content of one of its files."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    contents = {
        "train-images-idx3-ubyte": images(6),
        "train-labels-idx1-ubyte": labels([0, 1, 2, 3, 4, 9]),
        "t10k-images-idx3-ubyte": images(3),
        "t10k-labels-idx1-ubyte": labels([7, 8, 9]),
    }
    for name, content in contents.items():
        content = changed.get(name.split("-idx")[0].replace("-", "_"), content)
        (raw / f"{name}.gz").write_bytes(gzip.compress(content))
    return raw


def found(folder: Path, names, packing=".gz"):
    """Files without a published checksum, as a loader gets them."""
    return {name: FoundFile(RawFile(name, packing), folder / (name + packing)) for name in names}


MNIST_NAMES = [file.name for file in CATALOGUE["mnist"].files]


@pytest.mark.parametrize(
    ("which", "content", "reason"),
    [
        ("train_images", images(6)[:-1], "truncated: 6 images need 4,720 bytes, it has 4,719"),
        ("train_images", images(6)[:9], "truncated: 9 bytes are less than an idx header"),
        ("train_images", b"", "truncated"),
        ("train_images", images(6) + b"x", "too long"),
        ("train_images", images(6, magic=0x801), "wrong magic number 0x00000801"),
        ("train_images", images(6, side=32), "32 x 32 pixels, expected 28 x 28"),
        ("train_labels", labels([1, 2, 3])[:-1], "truncated: 3 labels need 11 bytes, it has 10"),
        ("train_labels", labels([1], magic=0x803), "wrong magic number 0x00000803"),
        ("train_labels", labels([0, 1, 2, 3, 10, 5]), "label 10 of sample 4 is out of range"),
        ("train_labels", b"abc", "truncated"),
    ],
)
def test_a_faulty_idx_file_is_named_with_its_fault(tmp_path, which, content, reason):
    raw = write_mnist(tmp_path, **{which: content})
    (name,) = (name for name in MNIST_NAMES if name.startswith(which.replace("_", "-")))
    parse = parse_idx_images if "images" in which else parse_idx_labels
    with pytest.raises(WrongUse, match=reason) as error:
        parse(content, raw / name)
    assert str(error.value).startswith(str(raw / name))
    assert "\n" not in str(error.value)


def test_through_the_loader_the_fault_is_told_before_the_checksum(tmp_path):
    raw = write_mnist(tmp_path, train_images=images(6, magic=7))
    with pytest.raises(WrongUse, match="wrong magic number 0x00000007") as error:
        load_dataset("mnist", tmp_path)
    assert str(raw / "train-images-idx3-ubyte.gz") in str(error.value)


def test_a_well_formed_file_that_is_not_the_published_one_is_refused(tmp_path):
    raw = write_mnist(tmp_path)
    with pytest.raises(
        WrongUse, match=r"wrong checksum.*6bbc9ace898e44ae57da46a324031adb"
    ) as error:
        load_dataset("mnist", tmp_path)
    assert str(raw / "train-images-idx3-ubyte.gz") in str(error.value)
    assert "\n" not in str(error.value)


def test_a_gzip_file_that_was_cut_short_is_called_truncated(tmp_path):
    raw = write_mnist(tmp_path)
    file = raw / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(WrongUse, match="truncated") as error:
        load_dataset("mnist", tmp_path)
    assert str(file) in str(error.value)


def test_a_gzip_file_that_is_none_is_called_damaged(tmp_path):
    raw = write_mnist(tmp_path)
    (raw / "train-images-idx3-ubyte.gz").write_bytes(b"<html>not found</html>")
    with pytest.raises(WrongUse, match=r"ubyte\.gz: damaged"):
        load_dataset("mnist", tmp_path)


def test_a_flipped_bit_in_packed_data_is_called_damaged(tmp_path):
    raw = write_mnist(tmp_path)
    file = raw / "train-images-idx3-ubyte.gz"
    content = bytearray(file.read_bytes())
    content[-6] ^= 1  # in gzip's own checksum
    file.write_bytes(content)
    with pytest.raises(WrongUse, match=r"ubyte\.gz: damaged"):
        load_dataset("mnist", tmp_path)


def test_images_and_labels_must_be_as_many(tmp_path):
    raw = write_mnist(tmp_path, t10k_labels=labels([1, 2]))
    with pytest.raises(WrongUse, match=r"t10k-labels.*2 labels for 3 images"):
        prepare_idx(found(raw, MNIST_NAMES))


def test_idx_files_become_bytes_and_a_batch_becomes_numbers_from_0_to_1(tmp_path):
    raw = write_mnist(tmp_path)
    prepared = prepare_idx(found(raw, MNIST_NAMES))
    x = prepared.arrays["x_train"]
    assert (x.shape, x.dtype, prepared.facts["scale"]) == ((6, 1, 28, 28), np.uint8, 255.0)
    assert prepared.arrays["y_test"].tolist() == [7, 8, 9]
    scaled = x / 255.0
    assert prepared.arrays["mean"].ravel() == pytest.approx(scaled.mean())
    assert prepared.arrays["std"].ravel() == pytest.approx(scaled.std())


def test_unpacked_files_are_read_as_well(tmp_path):
    for name in MNIST_NAMES:
        count = 6 if name.startswith("train") else 3
        content = images(count) if "images" in name else labels([0] * count)
        (tmp_path / name).write_bytes(content)
        file = RawFile(name, ".gz")
        assert file.find(tmp_path) == tmp_path / name
    prepared = prepare_idx(found(tmp_path, MNIST_NAMES, packing=""))
    assert len(prepared.arrays["y_train"]) == 6


def cifar_pickle(count, first_label=0):
    """A batch as CIFAR-10 has it, where numpy's module still has its old name."""
    data = np.arange(count * 3072, dtype=np.uint8).reshape(count, 3072)
    batch = {"data": data, "labels": [(first_label + row) % 10 for row in range(count)]}
    return pickle.dumps(batch, protocol=3).replace(b"numpy._core", b"numpy.core")


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_batch_whose_checksum_is_not_the_published_one_is_never_unpickled(tmp_path):
    sprung = tmp_path / "sprung"
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(pickle.dumps(Trap(sprung)))
    (folder / "test_batch").write_bytes(cifar_pickle(2))
    with pytest.raises(WrongUse, match="data_batch_1: wrong checksum"):
        load_dataset("cifar10", tmp_path)
    assert not sprung.exists()
    pickle.loads((folder / "data_batch_1").read_bytes())
    assert sprung.exists(), "the trap would have sprung"


def test_even_checked_content_can_build_nothing_but_arrays(tmp_path):
    sprung = tmp_path / "sprung"
    with pytest.raises(WrongUse, match="not a CIFAR-10 batch"):
        parse_cifar_batch(pickle.dumps(Trap(sprung)), tmp_path / "data_batch_1")
    assert not sprung.exists()


def test_a_file_without_a_published_checksum_is_never_unpickled(tmp_path):
    (tmp_path / "data_batch_1").write_bytes(cifar_pickle(2))
    with pytest.raises(ValueError, match="no published checksum"):
        read_cifar_batch(FoundFile(RawFile("data_batch_1"), tmp_path / "data_batch_1"))


def test_cifar_uses_the_batches_that_are_there_and_says_how_many(tmp_path):
    import hashlib

    files = {}
    for name, count in (("data_batch_2", 5), ("data_batch_4", 4), ("test_batch", 3)):
        (tmp_path / name).write_bytes(cifar_pickle(count))
        md5 = hashlib.md5((tmp_path / name).read_bytes()).hexdigest()
        files[name] = FoundFile(RawFile(name, md5=md5), tmp_path / name)
    prepared = prepare_cifar(files)
    assert prepared.arrays["x_train"].shape == (9, 3, 32, 32)
    assert prepared.arrays["y_train"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert prepared.facts["note"] == "2 of 5 training batches were found"


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1, 10]}, "label 10 of sample 1"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, "1 labels for 2 images"),
        ({"data": np.zeros((2, 3071), np.uint8), "labels": [1, 1]}, "not a CIFAR-10 batch"),
        ({"labels": [1]}, "not a CIFAR-10 batch"),
    ],
)
def test_a_faulty_batch_is_named_with_its_fault(batch, reason):
    content = pickle.dumps(batch, protocol=3).replace(b"numpy._core", b"numpy.core")
    with pytest.raises(WrongUse, match=reason) as error:
        parse_cifar_batch(content, Path("data_batch_3"))
    assert str(error.value).startswith("data_batch_3")


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(WrongUse, match="cannot be read"):
        read(tmp_path)


def test_the_embedded_digits_are_every_fifth_for_testing():
    from sklearn.datasets import load_digits

    bunch = load_digits()
    dataset = load_dataset("digits")
    assert (dataset.shape, dataset.classes) == ((1, 8, 8), 10)
    assert (len(dataset.train), len(dataset.test)) == (1438, 359)
    x, y = dataset.test.take(np.array([0, 1]), torch.float64)
    assert y.tolist() == bunch.target[[4, 9]].tolist()
    assert np.array_equal(x[:, 0].numpy() * 16, bunch.images[[4, 9]])


def test_normalised_digits_have_mean_0_and_deviation_1():
    dataset = load_dataset("digits", normalize=True)
    x, _ = dataset.train.take(np.arange(len(dataset.train)), torch.float64)
    assert float(x.mean()) == pytest.approx(0, abs=1e-9)
    assert float(x.std(unbiased=False)) == pytest.approx(1, abs=1e-9)
