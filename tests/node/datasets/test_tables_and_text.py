import bz2
import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from lppa.node.datasets import load_dataset
from lppa.node.datasets.catalogue import CATALOGUE
from lppa.node.datasets.files import FoundFile, RawFile
from lppa.node.datasets.libsvm import prepare_rcv1, read_libsvm
from lppa.node.datasets.samples import SparseSamples
from lppa.node.datasets.tables import (
    parse_adult,
    parse_covtype,
    prepare_adult,
    prepare_adult_binary,
    prepare_covtype,
)
from lppa.protocol.errors import WrongUse

PERSON = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K"  # noqa: E501
OTHER = "50, ?, 83311, HS-grad, 9, Divorced, Sales, Husband, Black, Female, 0, 0, 13, Peru, >50K"


def found(folder: Path, contents: dict[str, str]):
    """Files without a published checksum, as a loader gets them."""
    for name, content in contents.items():
        (folder / name).write_text(content)
    return {name: FoundFile(RawFile(name), folder / name) for name in contents}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (PERSON.replace(" White,", ""), "line 3: 14 columns instead of 15"),
        (PERSON + ", x", "line 3: 16 columns instead of 15"),
        (PERSON.replace("State-gov", ""), "line 3: workclass is empty"),
        (PERSON.replace("39", "young"), "line 3: age is 'young', not a whole number"),
        (PERSON.replace("39", "nan"), "line 3: age is 'nan'"),
        (PERSON.replace("<=50K", ">60K"), "line 3: label '>60K' is out of range"),
    ],
)
def test_a_faulty_adult_row_is_named_with_file_line_and_fault(tmp_path, row, reason):
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data").write_text(f"{PERSON}\n\n{row}\n{OTHER}\n")
    (tmp_path / "adult" / "adult.test").write_text(OTHER)
    with pytest.raises(WrongUse) as error:
        load_dataset("adult", tmp_path)
    assert reason in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "adult" / "adult.data"))
    assert "\n" not in str(error.value)


def test_an_adult_file_that_is_not_the_published_one_is_refused(tmp_path):
    (tmp_path / "adult").mkdir()
    for name in ("adult.data", "adult.test"):
        (tmp_path / "adult" / name).write_text(f"{PERSON}\n{OTHER}\n")
    with pytest.raises(WrongUse, match=r"adult\.data: wrong checksum"):
        load_dataset("adult", tmp_path)


def test_an_empty_table_is_refused():
    for parse in (parse_adult, parse_covtype):
        with pytest.raises(WrongUse, match=r"empty\.csv: no rows"):
            parse(b"\n", Path("empty.csv"))


def test_adult_standardises_and_knows_only_what_the_training_part_shows(tmp_path):
    unknown = OTHER.replace("Peru", "Atlantis").replace(">50K", ">50K.")
    files = {
        "adult.data": f"{PERSON}\n{OTHER}\n",
        "adult.test": f"|1x3 Cross validator\n{unknown}\n",
    }
    arrays = prepare_adult(found(tmp_path, files)).arrays
    # 6 numbers, then two categories in each of 8 columns.
    assert arrays["x_train"].shape == (2, 22)
    assert arrays["x_train"].dtype == np.float32
    numbers = arrays["x_train"][:, :6]
    assert numbers[:, 0].tolist() == [-1, 1]
    assert (numbers[:, 4] == 0).all(), "a column without spread stays, at 0"
    assert (arrays["x_train"][:, 6:].sum(1) == 8).all()
    assert np.array_equal(arrays["x_test"][0, :-2], arrays["x_train"][1, :-2])
    assert arrays["x_test"][0, -2:].tolist() == [0, 0]
    assert (arrays["y_train"].tolist(), arrays["y_test"].tolist()) == ([0, 1], [1])


def forest(label=2, first=2596, **columns):
    row = [first, 51, 3, 258, 0, 510, 221, 232, 148, 6279, 1] + [0] * 43 + [label]
    for column, value in columns.items():
        row[int(column[1:])] = value
    return ",".join(map(str, row))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([forest(), "", forest()[2:].replace(",", "", 1)], "line 3: 54 columns instead of 55"),
        ([forest() + ",1"], "line 1: 56 columns instead of 55"),
        ([forest(), forest(8)], "line 2: label 8 is out of range (1 to 7)"),
        ([forest(), forest(0)], "line 2: label 0 is out of range"),
        ([forest(), forest(c20=2)], "line 2: an area or soil column is neither 0 nor 1"),
        ([forest(), forest(c3="x")], "line 2: invalid literal"),
        ([forest(), forest(c3=99999)], "99999"),
    ],
)
def test_a_faulty_covtype_row_is_named_with_file_line_and_fault(tmp_path, rows, reason):
    (tmp_path / "covtype").mkdir()
    file = tmp_path / "covtype" / "covtype.data.gz"
    file.write_bytes(gzip.compress("\n".join(rows).encode()))
    with pytest.raises(WrongUse) as error:
        load_dataset("covtype", tmp_path)
    assert reason in str(error.value)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


def test_binary_adult_tells_numbers_by_fifths_and_missing_values_by_zeros(tmp_path):
    ages = range(20, 70)
    people = [PERSON.replace("39", str(age), 1) for age in ages]
    files = {"adult.data": "\n".join([*people, OTHER]), "adult.test": f"{OTHER}.\n"}
    arrays = prepare_adult_binary(found(tmp_path, files)).arrays
    x, other = arrays["x_train"], arrays["x_test"][0]
    assert set(np.unique(x)) == {0, 1}
    assert x[:, :5].sum(0).tolist() == [11, 10, 11, 9, 10], "fifths; two are 50 years old"
    assert x[:50].sum(1).tolist() == [14] * 50, "one column for each fact"
    assert other.sum() == 13, "the work class is missing"


def test_covtype_tests_on_every_fourth_row_of_each_class_with_class_2_positive(tmp_path):
    rows = [forest(label=1 + n % 2, first=2000 + n) for n in range(16)]
    files = found(tmp_path, {"covtype.data": "\n".join(rows)})
    arrays = CATALOGUE["covtype"].prepare(files).arrays
    assert prepare_covtype(files, positive=1).arrays["y_test"].tolist() == [1, 0, 1, 0]
    assert arrays["y_train"].tolist() == [0, 1] * 6
    assert arrays["y_test"].tolist() == [0, 1, 0, 1]
    elevation = arrays["x_train"][:, 0]
    assert elevation.mean() == pytest.approx(0, abs=1e-6)
    assert elevation.std() == pytest.approx(1, abs=1e-6)
    assert set(np.unique(arrays["x_train"][:, 10:])) == {0, 1}, "indicators stay as they are"
    kept = np.array([2000 + n for n in range(16) if n // 2 % 4 != 3])
    tested = np.array([2006, 2007, 2014, 2015])
    assert arrays["x_test"][:, 0] == pytest.approx((tested - kept.mean()) / kept.std(), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("+1 1:0.5\n0 2:0.5\n", "line 2: label '0' is out of range (-1 or +1)"),
        ("+1 1:0.5\nyes 2:0.5\n", "line 2: label 'yes' is out of range"),
        ("+1 1:0.5\n-1 2:x\n", "line 2: '2:x' is not column:value"),
        ("+1 1:0.5\n-1 2\n", "line 2: '2' is not column:value"),
        ("+1 1:0.5\n-1 47237:1\n", "line 2: column 47237 is out of order or out of range"),
        ("+1 1:0.5\n-1 0:1\n", "line 2: column 0 is out of order or out of range"),
        ("+1 1:0.5\n-1 5:1 4:1\n", "line 2: column 4 is out of order"),
        ("+1 1:0.5\n-1 5:nan\n", "line 2: '5:nan' is not a finite number"),
        ("", "no rows"),
    ],
)
def test_a_faulty_libsvm_row_is_named_with_file_line_and_fault(tmp_path, text, reason):
    (tmp_path / "rcv1").mkdir()
    for part in ("train", "test"):
        file = tmp_path / "rcv1" / f"rcv1_{part}.binary.bz2"
        file.write_bytes(bz2.compress(text.encode()))
    with pytest.raises(WrongUse) as error:
        load_dataset("rcv1", tmp_path)
    assert reason in str(error.value)
    assert str(tmp_path / "rcv1" / "rcv1_train.binary.bz2") in str(error.value)
    assert "\n" not in str(error.value)


def test_a_libsvm_file_that_was_cut_short_or_is_none_is_named(tmp_path):
    file = tmp_path / "rcv1_train.binary.bz2"
    file.write_bytes(bz2.compress(b"+1 1:0.5\n" * 1000)[:-8])
    with pytest.raises(WrongUse, match=r"binary\.bz2: truncated"):
        read_libsvm(file, 47236)
    file.write_bytes(b"<html>")
    with pytest.raises(WrongUse, match=r"binary\.bz2: damaged"):
        read_libsvm(file, 47236)


def test_rcv1_stays_sparse_and_keeps_all_columns(tmp_path):
    text = {"rcv1_train.binary": "+1 1:0.5 47236:0.25\n-1\n", "rcv1_test.binary": "-1 3:1\n"}
    arrays = prepare_rcv1(found(tmp_path, text)).arrays
    assert arrays["data_train"].tolist() == [0.5, 0.25]
    assert arrays["indices_train"].tolist() == [0, 47235]
    assert arrays["indptr_train"].tolist() == [0, 2, 2]
    assert arrays["y_train"].tolist() == [1, 0]


def small_rcv1(folder, train="+1 1:0.5 7:0.25 47236:-0.1\n-1\n+1 3:0.75\n", test="-1 3:0.2\n"):
    (folder / "rcv1").mkdir(exist_ok=True)
    for part, text in (("train", train), ("test", test)):
        file = folder / "rcv1" / f"rcv1_{part}.binary.bz2"
        file.write_bytes(bz2.compress(text.encode()))
    return folder


def test_rcv1_is_scaled_to_a_mean_square_of_1_and_its_zeros_stay(tmp_path, caplog):
    folder = small_rcv1(tmp_path)
    raw, scaled = (load_dataset("rcv1", folder, normalize=n) for n in (False, True))
    rows = np.arange(3)
    before, after = (d.train.take(rows, torch.float64)[0] for d in (raw, scaled))
    assert after.values().square().mean() == pytest.approx(1.0)
    # No column is added and none is lost, and all values keep their proportions.
    assert torch.equal(after.col_indices(), before.col_indices())
    assert torch.equal(after.crow_indices(), before.crow_indices())
    factor = after.values() / before.values()
    assert factor.tolist() == pytest.approx([float(factor[0])] * 4)
    # The test part is scaled by what was learned from the training part.
    one, two = (d.test.take(np.arange(1), torch.float64)[0] for d in (raw, scaled))
    assert (two.values() / one.values()).tolist() == pytest.approx([float(factor[0])])
    assert before.values().tolist() == pytest.approx([0.5, 0.25, -0.1, 0.75])


@pytest.mark.parametrize("train", ["+1\n-1\n", "+1 1:0\n-1 2:0\n"])
def test_rows_without_any_value_are_not_divided_by_nothing(tmp_path, train):
    dataset = load_dataset("rcv1", small_rcv1(tmp_path, train), normalize=True)
    x, _ = dataset.train.take(np.arange(2), torch.float64)
    assert not x.to_dense().any()
    values = dataset.test.take(np.arange(1), torch.float64)[0].values()
    assert values.tolist() == pytest.approx([0.2])


def random_csr(rows, columns, seed=0):
    from scipy.sparse import random

    matrix = random(rows, columns, 0.05, "csr", np.float32, rng=np.random.default_rng(seed))
    y = np.arange(rows, dtype=np.uint8) % 2
    return matrix, SparseSamples(matrix.data, matrix.indices, matrix.indptr, y, columns)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_rows_are_taken_in_any_order_and_more_than_once(dtype, recwarn):
    matrix, samples = random_csr(40, 70)
    rows = np.array([7, 3, 3, 39, 0])
    x, y = samples.take(rows, dtype)
    assert x.layout == torch.sparse_csr
    assert (x.dtype, y.dtype, x.shape) == (dtype, torch.int64, (5, 70))
    assert np.array_equal(x.to_dense().numpy(), matrix[rows].toarray())
    assert y.tolist() == [1, 1, 1, 1, 0]
    # PyTorch's own; what other tests left behind may be warned of at any time.
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]


def test_a_sparse_batch_feeds_embedding_bag_as_it_is():
    matrix, samples = random_csr(40, 70)
    rows = np.arange(0, 40, 3)
    x, _ = samples.take(rows, torch.float64)
    weight = torch.randn(70, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    product = torch.nn.functional.embedding_bag(
        x.col_indices(),
        weight,
        x.crow_indices()[:-1],
        mode="sum",
        per_sample_weights=x.values(),
    )
    expected = torch.from_numpy(matrix[rows].toarray()).double() @ weight
    assert torch.allclose(product, expected)


def test_a_sparse_batch_may_have_empty_rows():
    samples = SparseSamples(
        np.array([2.0], np.float32),
        np.array([1], np.int32),
        np.array([0, 0, 1, 1]),
        np.zeros(3, np.uint8),
        columns=4,
    )
    x, _ = samples.take(np.array([0, 2, 1]), torch.float32)
    assert x.to_dense().tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 2, 0, 0]]
    empty, _ = samples.take(np.array([0]), torch.float32)
    assert empty.to_dense().tolist() == [[0, 0, 0, 0]]
