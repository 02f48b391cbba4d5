"""`lppa export`."""

from __future__ import annotations

import csv
import io

import pytest
from click.testing import CliRunner

from lppa.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def lppa(*argv):
    return CliRunner().invoke(main, [str(word) for word in argv])


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def runs(put_run):
    for name, ago in (("first", 500), ("second", 100)):
        folder = put_run(name, ago=ago, summary={})
        (folder / "nodes" / "0" / "metrics.jsonl").write_text(
            '{"node": 0, "round": 5, "accuracy": null, "loss": 0.1, "bytes": {"state": 7}}\n'
        )


@pytest.mark.parametrize("options", [(), ("--csv",), ("--csv", "-"), ("-q",)])
def test_a_history_goes_to_standard_output_unless_told_otherwise(runs, options):
    result = lppa("export", "latest", *options)
    assert result.exit_code == 0, result.output
    expected = {"run": "second", "round": "5", "node": "0"}
    expected |= {"accuracy": "", "loss": "0.1", "bytes_state": "7"}
    assert table(result.stdout) == [expected]


def test_it_goes_to_a_file_that_is_named(runs, tmp_path):
    result = lppa("export", "first", "second", "--csv", "out.csv")
    assert result.stdout == "out.csv: 2 rows of 2 runs\n"
    assert [row["run"] for row in table((tmp_path / "out.csv").read_text())] == ["first", "second"]


def test_a_run_in_the_place_of_the_file_is_told(runs):
    result = lppa("export", "first", "--csv", "runs/second")
    assert result.exit_code == 2
    assert "is it a RUN?" in result.stderr


def test_a_file_that_cannot_be_written_is_told_in_one_line(runs, tmp_path):
    (tmp_path / "file").write_text("")
    result = lppa("export", "first", "--csv", "file/below.csv")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --csv file/below.csv cannot be written")


def test_a_summary_has_a_row_for_each_run(runs):
    rows = table(lppa("export", "first", "second", "--summary").stdout)
    assert [(row["run"], row["status"], row["accuracy_mean"]) for row in rows] == [
        ("first", "completed", "0.75"),
        ("second", "completed", "0.75"),
    ]
