"""Runs in a line each, whatever state they are in; and which of them may be removed."""

from __future__ import annotations

import json
import time

import pytest

from lppa.protocol.errors import WrongUse
from lppa.running.listing import check_removable, list_run, list_runs, remove_run


def test_runs_are_listed_with_the_newest_first(put_run, tmp_path):
    put_run("old", ago=500, summary={})
    put_run("new", ago=100, summary={"status": "failed", "error": "node 1 was lost"})
    (tmp_path / "runs" / "no run").mkdir()
    (tmp_path / "runs" / "file").write_text("")
    new, old = list_runs(tmp_path / "runs")
    assert (new.name, new.status, new.reason) == ("new", "failed", "node 1 was lost")
    assert (old.name, old.status, old.accuracy, old.grade) == ("old", "completed", 0.75, "hidden")
    assert (old.rule, old.dataset, old.nodes, old.topology) == ("lppa", "digits", 3, "ring")
    assert old.noise_to_example == 29.5
    assert 499 < old.age < 600


def test_a_folder_that_is_not_there_has_no_runs(tmp_path):
    assert list_runs(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("quiet", "status"), [(0, "running?"), (350, "running?"), (370, "unfinished")]
)
def test_without_a_summary_a_run_is_judged_by_its_silence(put_run, quiet, status):
    # Evaluated every 5 rounds, none of which takes longer than the timeout of 60 s.
    listed = list_run(put_run("run", ago=5000, quiet=quiet), time.time())
    assert listed.status == status
    assert (listed.accuracy, listed.grade) == (0.5, "weak")


def test_a_node_that_writes_shows_that_a_run_goes_on(put_run):
    folder = put_run("run", ago=5000)
    assert list_run(folder, time.time()).status == "unfinished"
    (folder / "nodes" / "0" / "metrics.jsonl").write_text("{}\n")
    assert list_run(folder, time.time()).status == "running?"


@pytest.mark.parametrize("content", ["", "nonsense", "[1]", '{"accuracy": 3}', '{"round": 1'])
def test_broken_files_do_not_hide_a_run(put_run, content):
    folder = put_run("run", ago=5000)
    for file in ("config.json", "summary.json", "history.jsonl", "audit.json"):
        (folder / file).write_text(content)
    listed = list_run(folder, time.time())
    assert (listed.name, listed.accuracy, listed.rule) == ("run", None, None)


def test_a_line_that_is_being_written_does_not_count(put_run):
    folder = put_run("run")
    with (folder / "history.jsonl").open("a") as file:
        file.write('{"round": 15, "accuracy": {"mean": 0.9}}')
    assert list_run(folder, time.time()).accuracy == 0.5


def test_a_run_is_removed_and_nothing_else(put_run, tmp_path):
    folder, other = put_run("first"), put_run("second")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("mine")
    (folder / "link").symlink_to(precious)
    remove_run(check_removable("first", tmp_path / "runs"))
    assert not folder.exists()
    assert other.exists()
    assert (precious / "thesis.txt").read_text() == "mine"


def test_what_is_not_a_run_of_ours_is_not_removed(put_run, tmp_path):
    base = tmp_path / "runs"
    elsewhere = put_run("elsewhere", base=tmp_path / "other")
    foreign = base / "foreign"
    foreign.mkdir(parents=True)
    (foreign / "config.json").write_text(json.dumps({"name": "somebody's"}))
    (base / "plain").mkdir()
    (base / "link").symlink_to(elsewhere)
    # A folder above the run, or a way out of runs/ and back into something else.
    refused = {
        "foreign": "no config.json of a run",
        "plain": "not a run's directory",
        "link": "is a link",
        str(elsewhere): "not directly in",
        "../other/elsewhere": "not directly in",
        "nothing": "not a folder",
        str(base): "not a run's directory",
        ".": "not a run's directory",
    }
    for name, reason in refused.items():
        with pytest.raises(WrongUse, match=reason):
            check_removable(name, base)
    assert elsewhere.exists()
