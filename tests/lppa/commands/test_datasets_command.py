import json

import numpy as np
import pytest
from click.testing import CliRunner

from lppa.commands.datasets import datasets, partition
from lppa.node.datasets.catalogue import CATALOGUE


def run(command, *arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def refusal(command, *arguments):
    """The one line that a wrong call is answered with."""
    result = run(command, *arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture
def own(tmp_path):
    """Ten samples of label 0, twenty of label 5."""
    path = tmp_path / "own.npz"
    y = np.repeat([0, 5], [10, 20])
    np.savez(path, x_train=np.zeros((30, 2)), y_train=y, x_test=np.zeros((3, 2)), y_test=y[:3])
    return path


def test_the_list_says_what_is_found_and_what_is_missing(tmp_path):
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data").write_text("")
    (tmp_path / "covtype").mkdir()
    (tmp_path / "covtype" / "covtype.data.gz").write_text("")
    result = run(datasets, "--data-dir", tmp_path)
    assert result.exit_code == 0, result.output
    assert str(tmp_path) in result.stdout
    told = [line for line in result.stdout.splitlines() if line.split()]
    assert "adult has other forms: adult:binary" in told
    lines = {line.split()[0]: line for line in told if "other forms" not in line}
    assert set(CATALOGUE) <= lines.keys()
    assert "embedded" in lines["digits"]
    assert "missing: lppa datasets fetch mnist" in lines["mnist"]
    assert "in adult, 1 of 2 files: not enough" in lines["adult"]
    assert lines["covtype"].rstrip().endswith("in covtype")


def test_the_list_as_json_is_one_document(tmp_path):
    result = run(datasets, "--json", "--data-dir", tmp_path)
    document = json.loads(result.stdout)
    assert document["data_dir"] == str(tmp_path)
    entries = {entry["name"]: entry for entry in document["datasets"]}
    assert entries.keys() == CATALOGUE.keys()
    assert entries["mnist"]["rows"] == {"train": 60_000, "test": 10_000}
    assert not entries["mnist"]["usable"]
    assert len(entries["mnist"]["missing"]) == 4
    assert entries["digits"]["usable"]


def test_fetching_what_needs_no_file_prepares_it():
    result = run(datasets, "fetch", "digits")
    assert result.exit_code == 0, result.output
    assert "nothing was missing" in result.stdout
    assert "1,438 training and 359 test rows" in result.stdout
    listed = json.loads(run(datasets, "--json").stdout)["datasets"]
    assert next(entry for entry in listed if entry["name"] == "digits")["prepared"]


def test_fetch_takes_its_options_before_or_after_its_name(tmp_path):
    after = run(datasets, "fetch", "digits", "--json", "--data-dir", tmp_path)
    before = run(datasets, "--json", "--data-dir", tmp_path, "fetch", "digits")
    assert json.loads(after.stdout) == json.loads(before.stdout)
    assert json.loads(after.stdout)["fetched"] == []


def test_fetching_an_unknown_name_is_wrong_use():
    assert "unknown data set 'mnits'" in refusal(datasets, "fetch", "mnits")


def test_the_table_shows_every_client_and_label(own):
    result = run(partition, own, "classes:1", "-n", 2)
    assert result.exit_code == 0, result.output
    words = [line.split() for line in result.stdout.splitlines()]
    assert ["client", "\\", "label", "0", "5", "all"] in words
    clients = [line for line in words if line and line[0] in ("0", "1")]
    assert sorted(line[1:] for line in clients) == [["10", "·", "10"], ["·", "20", "20"]]
    assert ["all", "10", "20", "30"] in words


def test_no_column_is_cut_off_however_many_labels(tmp_path):
    path = tmp_path / "many.npz"
    y = np.repeat(np.arange(60), 1000)
    np.savez(path, x_train=np.zeros((len(y), 1)), y_train=y, x_test=np.zeros((1, 1)), y_test=y[:1])
    result = run(partition, path, "iid", "-n", 1)
    assert result.stdout.count("1,000") == 120
    assert "…" not in result.stdout


def test_a_partition_as_json_is_one_document_and_depends_on_the_seed(own):
    first, again, other = (
        json.loads(run(partition, own, "dirichlet:0.5", "-n", 3, "--json", "--seed", seed).stdout)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first["counts"] != other["counts"]
    assert first["labels"] == [0, 5]
    assert np.sum(first["counts"], 0).tolist() == [10, 20]
    assert first["sizes"] == np.sum(first["counts"], 1).tolist()


def test_the_chart_is_a_picture(own, tmp_path):
    chart = tmp_path / "part.png"
    result = run(partition, own, "iid", "-n", 4, "--plot", chart, "--json")
    assert result.exit_code == 0, result.output
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert json.loads(result.stdout)["plot"] == str(chart)


@pytest.mark.parametrize("clients", [1, 30])
def test_the_chart_has_room_for_few_and_for_many(own, tmp_path, clients):
    result = run(partition, own, "iid", "-n", clients, "--plot", tmp_path / "part.svg")
    assert result.exit_code == 0, result.output
    assert "<svg" in (tmp_path / "part.svg").read_text()


def test_a_chart_that_cannot_be_written_is_wrong_use(own, tmp_path):
    for name in ("no/folder.png", "part.tiffany"):
        assert name in refusal(partition, own, "iid", "--plot", tmp_path / name)


def test_a_chart_without_an_ending_is_where_it_was_asked_for(own, tmp_path):
    chart = tmp_path / "chart"
    run(partition, own, "iid", "-n", 4, "--plot", chart)
    assert chart.read_bytes().startswith(b"\x89PNG")


def test_a_wrong_partition_is_refused_before_the_data_is_looked_at():
    assert "ALPHA" in refusal(partition, "no-such.npz", "dirichlet:0")


def test_more_clients_than_samples_is_wrong_use(own):
    assert "31 clients cannot share 30 samples" in refusal(partition, own, "iid", "-n", 31)


@pytest.mark.parametrize("command", [datasets, partition, datasets.commands["fetch"]])
def test_help_shows_an_example(command):
    assert "Example:\n    lppa " in run(command, "--help").stdout


def test_a_table_is_split_by_the_names_of_its_classes_or_by_rows(tmp_path):
    path = tmp_path / "own.csv"
    rows = [f"{k},{k + 0.5},{'pear' if k % 2 else 'apple'}" for k in range(50)]
    path.write_text("\n".join(["a,b,fruit", *rows]))
    kinds = run(partition, path, "classes:1", "-n", 2, "--target", "fruit", "--json")
    document = json.loads(kinds.stdout)
    assert document["labels"] == ["apple", "pear"]
    assert sum(document["sizes"]) == 40
    numbers = run(partition, path, "iid", "-n", 2, "--target", "b", "--json")
    document = json.loads(numbers.stdout)
    assert (document["labels"], document["counts"]) == (["rows"], [[20], [20]])
    assert "apple" in run(partition, path, "iid", "--target", "fruit").stdout
    assert "shares out classes" in refusal(partition, path, "classes:1", "--target", "b")
    assert "one of: a, b, fruit" in refusal(partition, path, "iid")
