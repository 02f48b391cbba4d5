"""Tables of one's own: what becomes of columns, and what is said of files that are none."""

import csv
import io
import logging
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lppa.node.datasets import csv_tables, csv_text, describe, load_dataset, split
from lppa.node.datasets.csv_tables import prepare_csv, split_rows
from lppa.protocol.errors import WrongUse

HOUSES = [
    ["rooms", "kind", "garden", "area", "price"],
    *([str(k % 4 + 1), ["flat", "house"][k % 2], ["no", "yes"][k % 3 == 0],
       f"{30 + k}.5", f"{100.25 + 3 * k}"] for k in range(40)),
]  # fmt: skip


def write(path, rows, separator=",", encoding="utf-8"):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=separator).writerows(rows)
    path.write_bytes(out.getvalue().encode(encoding))
    return str(path)


def changed(**columns):
    """The houses with other columns, in which a value may depend on the row."""
    header, *rows = HOUSES
    names = [*header, *(name for name in columns if name not in header)]
    known = [dict(zip(header, row, strict=True)) for row in rows]
    made = [
        {**row, **{name: str(of(k)) for name, of in columns.items()}} for k, row in enumerate(known)
    ]
    return [names, *([row[name] for name in names] for row in made)]


def whole(dataset, part):
    """All inputs of a part as they are stored."""
    samples = getattr(dataset, part)
    return samples.take(np.arange(len(samples)), torch.float64)[0].numpy()


@pytest.fixture
def table(tmp_path):
    return tmp_path / "table.csv"


def columns_of(path, target):
    return prepare_csv(path, target, "auto").facts["columns"]


def test_numbers_categories_and_booleans_become_columns(table):
    dataset = load_dataset(write(table, HOUSES), target="price")
    assert columns_of(table, "price") == ["rooms", "kind = flat", "kind = house", "garden", "area"]
    assert (dataset.shape, dataset.classes, dataset.names) == ((5,), 0, ())
    assert describe(str(table), target="price").shape == (5,)
    assert (len(dataset.train), len(dataset.test)) == (32, 8)
    train, test = split_rows(40)
    for part, rows in (("train", train), ("test", test)):
        x = whole(dataset, part)
        assert np.array_equal(x[:, 0], rows % 4 + 1)
        assert np.array_equal(x[:, 1], rows % 2 == 0)
        assert np.array_equal(x[:, 2], rows % 2 == 1)
        assert np.array_equal(x[:, 3], rows % 3 == 0)
        assert np.array_equal(x[:, 4], 30.5 + rows)
        assert np.array_equal(getattr(dataset, part).y, 100.25 + 3 * rows)


NAMES = st.text(st.characters(codec="utf-8", categories=["L"]), min_size=1, max_size=6)
NUMBERS = st.floats(-1e6, 1e6)


@given(st.data(), st.sampled_from(",;\t"), st.sampled_from(["utf-8", "utf-8-sig"]))
def test_what_is_written_comes_back_row_by_row(tmp_path_factory, data, separator, encoding):
    width = data.draw(st.integers(2, 5))
    names = data.draw(st.lists(NAMES, min_size=width, max_size=width, unique=True))
    names = [f"{name}-{k}" for k, name in enumerate(names)]
    rows = data.draw(
        st.lists(st.lists(NUMBERS, min_size=width, max_size=width), min_size=3, max_size=20)
    )
    for k, row in enumerate(rows):
        row[-1] = k + 0.5  # different and not whole
    path = tmp_path_factory.mktemp("law") / "law.csv"
    write(path, [names, *([repr(value) for value in row] for row in rows)], separator, encoding)
    found = prepare_csv(path, names[-1], "auto")
    assert found.facts["columns"] == names[:-1]
    train, test = split_rows(len(rows))
    assert sorted([*train, *test]) == list(range(len(rows)))
    for part, chosen in (("train", train), ("test", test)):
        assert np.array_equal(found.arrays[f"x_{part}"], np.array(rows)[chosen, :-1])
        assert np.array_equal(found.arrays[f"y_{part}"], np.array(rows)[chosen, -1])


@given(st.integers(2, 400))
def test_every_row_is_in_one_part_and_one_in_five_tests(count):
    train, test = split_rows(count)
    assert sorted([*train, *test]) == list(range(count))
    assert len(test) == max(1, round(count / 5))
    assert np.array_equal(split_rows(count)[0], train)


def test_only_the_training_part_tells_how_to_normalise(table):
    _, test = split_rows(40)
    odd = changed(area=lambda k: 1e6 if k in test else k)
    dataset = load_dataset(write(table, odd), target="price", normalize=True)
    x = whole(dataset, "train")
    assert np.allclose(x[:, [0, 4]].mean(0), 0)
    assert np.allclose(x[:, [0, 4]].std(0), 1)
    assert set(np.unique(x[:, 1:4])) == {0, 1}
    assert whole(dataset, "test")[:, 4].min() > 1e3


def test_dates_in_seconds_keep_their_digits_in_float32(table):
    dated = changed(area=lambda k: 1_700_000_000 + k)
    dataset = load_dataset(write(table, dated), target="price", normalize=True)
    x, _ = dataset.train.take(np.arange(32), torch.float32)
    assert x.dtype == torch.float32
    assert len(x[:, 4].unique()) == 32


def test_what_is_missing_is_the_mean_with_a_column_that_says_so(table):
    train, _ = split_rows(40)
    gone = set(train[:3].tolist())
    holes = changed(
        area=lambda k: "NA" if k in gone else k,
        kind=lambda k: "" if k in gone else "ab"[k % 2],
        garden=lambda k: "?" if k in gone else ["FALSE", "True"][k % 2],
    )
    dataset = load_dataset(write(table, holes), target="price")
    names = columns_of(table, "price")
    assert names == [
        "rooms", "kind = a", "kind = b", "kind missing", "garden", "garden missing", "area",
        "area missing",
    ]  # fmt: skip
    x = dict(zip(names, whole(dataset, "train").T, strict=True))
    known = train[3:]
    for name in ("kind", "garden", "area"):
        assert x[f"{name} missing"].tolist() == [1.0] * 3 + [0.0] * 29
    assert np.allclose(x["area"][:3], known.mean())
    assert np.allclose(x["garden"][:3], (known % 2).mean())
    assert not x["kind = a"][:3].any()
    assert not x["kind = b"][:3].any()


def test_columns_that_tell_nothing_are_left_out_with_a_warning_each_time(table, caplog):
    rows = changed(name=lambda k: f"house {k}", nothing=lambda k: "", area=lambda k: 7)
    many = [["", *rows[0]], *([str(k), *row] for k, row in enumerate(rows[1:] * 2))]
    for k, row in enumerate(many[1:]):
        row[-2], row[-3] = f"house {k}", f"{k}.5" if k != 8 else "dear"
    for _ in range(2):  # prepared, then from the cache
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            load_dataset(write(table, many), target="rooms")
        assert [record.getMessage() for record in caplog.records] == [
            f"{table}: column 1 left out: it has no name",
            f"{table}: column 'price' left out: it is text with 80 different values, and 50 are "
            "the most ('dear' on line 10 is not a number)",
            f"{table}: column 'name' left out: it is text with 80 different values, and 50 are "
            "the most",
            f"{table}: column 'nothing' left out: it has no values",
        ]


def test_rows_without_a_target_are_left_out_with_a_warning(table, caplog):
    holes = changed(price=lambda k: "" if k < 5 else k + 0.5)
    with caplog.at_level(logging.WARNING):
        dataset = load_dataset(write(table, holes), target="price")
    assert "5 rows without a price left out" in caplog.text
    assert len(dataset.train) + len(dataset.test) == 35
    assert min(whole(dataset, part)[:, 4].min() for part in ("train", "test")) == 35.5


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (lambda k: ("no", "yes", "perhaps")[k % 3], ("no", "perhaps", "yes")),
        (lambda k: (10, 9, -1)[k % 3], ("-1", "9", "10")),
        (lambda k: ("2.0", "1.0")[k % 2], ("1", "2")),
        (lambda k: ("true", "false")[k % 2], ("false", "true")),
        (lambda k: ("0.5", "0.25")[k % 2], ()),
    ],
)
def test_few_whole_numbers_and_texts_are_classes(table, values, names):
    dataset = load_dataset(write(table, changed(price=values)), target="price")
    assert (dataset.classes, dataset.names) == (len(names), names)
    if names:
        _, y = dataset.train.take(np.arange(32), torch.float32)
        assert y.dtype == torch.int64
        texts = [str(values(k)).removesuffix(".0") for k in split_rows(40)[0]]
        assert [names[label] for label in y.tolist()] == texts


def test_the_task_can_be_named_where_the_guess_is_wrong(table):
    path = write(table, HOUSES)
    assert load_dataset(path, target="rooms").classes == 4
    assert load_dataset(path, target="rooms", task="regression").classes == 0
    assert load_dataset(path, target="price").classes == 0
    assert load_dataset(path, target="price", task="classes").names[:2] == ("100.25", "103.25")
    with pytest.raises(WrongUse, match="kind is no column of numbers"):
        load_dataset(path, target="kind", task="regression")


def test_numbers_are_split_evenly_but_not_by_class(table):
    y = load_dataset(write(table, HOUSES), target="price").train.y
    for spec in ("iid", "quantity:5"):
        assert sum(map(len, split(spec, y, 3, 0))) == 32
    for spec in ("dirichlet:0.5", "classes:1"):
        with pytest.raises(WrongUse, match=f"--partition {spec} shares out classes"):
            split(spec, y, 3, 0)


def test_semicolons_bring_decimal_commas(table):
    rows = [[value.replace(".", ",") for value in row] for row in HOUSES]
    dataset = load_dataset(write(table, rows, ";", "utf-8-sig"), target="price")
    assert np.array_equal(whole(dataset, "train")[:, 4], 30.5 + split_rows(40)[0])
    assert dataset.classes == 0


def test_quotes_blank_lines_and_spaces_are_no_trouble(table):
    table.write_text('a b, "c, d",y\r\n\r\n1, "x, z",0\r\n2,"x\nw",1\r\n\r\n3 ,"x, z", 0\r\n')
    found = prepare_csv(table, " a  b ", "auto")
    assert found.facts["names"] == ["1", "2", "3"]
    assert len(found.arrays["x_train"]) == 2
    assert found.facts["columns"][-1] == "y"


@pytest.mark.parametrize(
    ("content", "target", "reason"),
    [
        ("a,b\n1,2\n3,4\n", "c", "no column 'c' for --target; there are: a, b"),
        ("a,b\n1,2\n3,4\n", None, "which column is to be predicted.* one of: a, b"),
        ("1,2\n3,4\n", "a", "no header; .* it is 1, 2"),
        ("", "a", "empty; the first line must be"),
        ("a,b\n", "a", "no rows"),
        ("a,b\n1,2\n3\n", "a", "line 3: 1 values, and the header has 2"),
        ('a,b\n"1\n\n",2\n3,4,5\n', "a", "line 5: 3 values, and the header has 2"),
        ("a,b\n1,2\n3,2\n", "b", "--target b has one value only, '2'"),
        ("a,b\n1,2\n3,\n", "b", "1 row with a value"),
        ('a,b\n1,x\n2,"y\n3,x\n', "b", "line 3: a quote is never closed"),
        ('a,b\n1,"x"y\n', "b", "line 2: ',' expected after"),
        ("a,a\n1,2\n", "a", "2 columns are called 'a'"),
        ("a\n1\n2\n", "a", "one column only"),
        ("a,b\n1,2\ninf,3\n", "b", "line 3: a is inf, which is too large"),
        ("a,b\n,2\n,3\n", "b", "no column is left to learn from: column 'a' left out"),
        (b"\xff\xfea\x00", "a", "not UTF-8"),
        ("a,b\n" + "x" * 140_000 + ",2\n", "b", "line 2: field larger"),
        ("a,b\n" + "".join(f"{k},t{k}\n" for k in range(60)), "b", "60 different values in 60"),
    ],
)
def test_a_faulty_table_is_named_with_its_fault_in_one_line(table, content, target, reason):
    table.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(WrongUse, match=reason) as error:
        load_dataset(str(table), target=target)
    assert str(error.value).startswith(str(table))
    assert "\n" not in str(error.value)


def test_a_table_that_is_too_big_or_not_there_is_refused(table, monkeypatch):
    with pytest.raises(WrongUse, match=re.escape("table.csv: no such file")):
        load_dataset(str(table), target="price")
    write(table, HOUSES)
    with monkeypatch.context() as patch:
        patch.setattr(csv_tables, "MOST_NUMBERS", 100)
        with pytest.raises(WrongUse, match="too big: 40 rows with 3 columns"):
            load_dataset(str(table), target="price")
    monkeypatch.setattr(csv_text, "MOST_BYTES", 100)
    with pytest.raises(WrongUse, match="too big"):
        load_dataset(str(table), target="price")


def test_each_target_is_prepared_once_and_kept_beside_the_others(table, monkeypatch):
    path = write(table, HOUSES)
    assert load_dataset(path, target="kind").names == ("flat", "house")
    assert load_dataset(path, target="price").classes == 0
    monkeypatch.setattr("lppa.node.datasets.load.prepare_csv", None)
    assert load_dataset(path, target="kind").names == ("flat", "house")
    assert load_dataset(path, target="price").classes == 0
