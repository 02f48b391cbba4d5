import io

import numpy as np
import pytest
import torch

from lppa.node.datasets import describe, load_dataset
from lppa.protocol.errors import WrongUse


def write(path, **changed):
    """A file of ten rows of three numbers and two classes, with some arrays replaced."""
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.random((10, 3)),
        "y_train": np.arange(10) % 2,
        "x_test": rng.random((4, 3)),
        "y_test": np.arange(4) % 2,
    } | changed
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return arrays


@pytest.fixture
def own(tmp_path):
    return tmp_path / "own.npz"


def test_own_data_works_by_its_path(own):
    arrays = write(own)
    dataset = load_dataset(str(own))
    assert (dataset.shape, dataset.classes) == ((3,), 2)
    x, y = dataset.train.take(np.array([9, 0]), torch.float32)
    assert np.allclose(x.numpy(), arrays["x_train"][[9, 0]])
    assert y.tolist() == [1, 0]
    assert (describe(str(own)).shape, describe(str(own)).classes) == ((3,), 2)


def test_bytes_are_pixels_and_flat_images_get_a_channel(own):
    x = np.full((10, 5, 6), 51, np.uint8)
    write(own, x_train=x, x_test=x[:4])
    dataset = load_dataset(str(own))
    assert dataset.shape == (1, 5, 6)
    assert dataset.train.x.dtype == np.uint8
    batch, _ = dataset.train.take(np.array([1]), torch.float64)
    assert torch.allclose(batch, torch.tensor(0.2, dtype=torch.float64))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_images_with_their_channels_last_are_turned(own, channels, kind):
    x = np.random.default_rng(2).integers(0, 256, (10, 5, 6, channels)).astype(kind)
    write(own, x_train=x, x_test=x[:4])
    dataset = load_dataset(str(own))
    assert dataset.shape == describe(str(own)).shape == (channels, 5, 6)
    assert dataset.train.x.flags.c_contiguous
    batch, _ = dataset.train.take(np.array([7]), torch.float64)
    scale = 255 if kind is np.uint8 else 1
    for channel in range(channels):
        assert np.allclose(batch[0, channel].numpy() * scale, x[7, :, :, channel])
    upright = load_dataset(str(own), normalize=True)
    normal, _ = upright.train.take(np.arange(10), torch.float64)
    mean = normal.mean((0, 2, 3))
    assert torch.allclose(mean, torch.zeros(channels, dtype=torch.float64), atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 5, 6), (1, 5, 6), (2, 5, 6), (1, 3, 6), (3, 1, 5)])
def test_images_with_their_channels_first_stay_as_they_are(own, shape):
    x = np.random.default_rng(2).random((10, *shape)).astype(np.float32)
    write(own, x_train=x, x_test=x[:4])
    dataset = load_dataset(str(own))
    assert dataset.shape == shape
    assert np.array_equal(dataset.train.x, x)


@pytest.mark.parametrize("shape", [(50, 3), (50, 2, 4, 5)])
def test_normalising_uses_the_training_part_per_column_or_channel(own, shape):
    rng = np.random.default_rng(1)
    scales = np.arange(1, shape[1] + 1).reshape(-1, *[1] * (len(shape) - 2))
    x = rng.normal(5, 2, shape) * scales
    write(own, x_train=x, y_train=np.arange(50) % 2, x_test=x[:4] + 100)
    dataset = load_dataset(str(own), normalize=True)
    batch, _ = dataset.train.take(np.arange(50), torch.float64)
    others = [axis for axis in range(batch.ndim) if axis != 1]
    assert torch.allclose(batch.mean(others), torch.zeros(shape[1], dtype=torch.float64), atol=1e-6)
    assert torch.allclose(
        batch.std(others, unbiased=False), torch.ones(shape[1], dtype=torch.float64), atol=1e-6
    )
    shifted, _ = dataset.test.take(np.arange(4), torch.float64)
    assert float(shifted.mean()) > 3


def test_floating_targets_are_numbers_to_come_close_to(own):
    write(own, y_train=np.arange(10) / 4, y_test=np.arange(4))
    dataset = load_dataset(str(own))
    assert dataset.classes == describe(str(own)).classes == 0
    _, y = dataset.train.take(np.arange(10), torch.float64)
    assert y.dtype == torch.float64
    assert abs(float(y.mean())) < 1e-12
    assert abs(float(y.std(unbiased=False)) - 1) < 1e-12
    # The test part by the same measure.
    _, tested = dataset.test.take(np.array([1]), torch.float64)
    assert float(tested[0]) == pytest.approx(float(y[4]))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"y_test": None}, "y_test missing"),
        ({"x_train": None, "x_test": None}, "x_train, x_test missing"),
        ({"y_train": np.zeros(9, int)}, "x_train has 10 rows, y_train has 9 labels"),
        ({"y_train": np.array([0, -1] * 5)}, "label -1 of sample 1 is out of range"),
        ({"y_train": np.array([0, 10**7] * 5)}, "label 10000000 of sample 1 is out of range"),
        ({"y_test": np.array([0.0, 1.0] * 2)}, "labels must be whole numbers"),
        ({"y_train": np.array(["a", "b"] * 5)}, "labels must be whole numbers"),
        ({"y_train": np.array([0.5, np.nan] * 5)}, "nan of sample 1 is no number to learn"),
        ({"y_train": np.full(10, 0.5)}, "one value only"),
        ({"y_train": np.zeros((10, 1))}, "one number per sample"),
        ({"y_train": np.zeros((10, 1), int)}, "one label per sample"),
        ({"y_train": np.zeros(10, int), "y_test": np.zeros(4, int)}, "one class only"),
        ({"y_test": np.array([0, 1, 2, 0])}, "label 2 of y_test is out of range"),
        ({"x_test": np.zeros((4, 2))}, r"rows of x_test are float32 \(2,\)"),
        ({"x_test": np.zeros((4, 3), np.uint8)}, "rows of x_test are uint8"),
        ({"x_train": np.zeros(10)}, "has shape"),
        ({"x_train": np.zeros((10, 0))}, "has shape"),
        ({"x_train": np.zeros((10, 3, 8, 3))}, "channels could be the first or the last size"),
        ({"x_train": np.zeros((10, 1, 1, 1))}, "channels could be the first or the last size"),
        ({"x_train": np.zeros((10, 8, 8, 4))}, "4 channels seem to come last"),
        ({"x_train": np.array([["a"] * 3] * 10)}, "not numbers"),
        ({"x_train": np.array([[0, 0, 0]] * 9 + [[0, np.nan, 0]])}, "row 9: a value is not a fin"),
        ({"x_train": np.array([[0, 0, 1e300]] * 10)}, "row 0: a value is not a finite number"),
    ],
)
def test_faulty_own_data_is_named_with_its_fault(own, changed, reason):
    write(own, **changed)
    with pytest.raises(WrongUse, match=reason) as error:
        load_dataset(str(own))
    assert str(error.value).startswith(str(own))
    assert "\n" not in str(error.value)


def test_pickled_objects_are_never_loaded(own):
    write(own, x_train=np.array([{"a": 1}] * 10, dtype=object))
    with pytest.raises(WrongUse, match="not a readable"):
        load_dataset(str(own))


def test_a_file_that_is_none_or_not_there_is_named(own):
    with pytest.raises(WrongUse, match=r"own\.npz: no such file"):
        load_dataset(str(own))
    own.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(WrongUse, match=r"own\.npz: not a readable"):
        load_dataset(str(own))
    single = io.BytesIO()
    np.save(single, np.zeros(3))
    own.write_bytes(single.getvalue())
    with pytest.raises(WrongUse, match="one array only"):
        load_dataset(str(own))
    own.write_bytes(b"")
    with pytest.raises(WrongUse, match="not a readable"):
        load_dataset(str(own))


def test_a_file_that_was_cut_short_is_named(own):
    write(own)
    own.write_bytes(own.read_bytes()[:-100])
    with pytest.raises(WrongUse, match="not a readable"):
        load_dataset(str(own))


def test_a_changed_file_is_prepared_again_and_its_old_arrays_are_dropped(own, tmp_path):
    write(own)
    assert len(load_dataset(str(own)).train) == 10
    write(own, x_train=np.ones((20, 3)), y_train=np.arange(20) % 2)
    assert len(load_dataset(str(own)).train) == 20
    assert len(list((tmp_path / "cache").rglob("x_train.npy"))) == 1
