"""What a run may be called, and what a new one may not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import make_settings
from lppa.running.naming import check_name, find_or_await, find_run, find_runs, new_folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_run_is_found_by_its_path_its_name_and_as_the_latest(put_run):
    put_run("old", ago=500)
    new = put_run("new", ago=100)
    assert find_run(new) == new
    assert find_run("runs/new") == Path("runs/new")
    assert find_run("old") == Path("runs/old")
    assert find_run("latest") == Path("runs/new")


def test_the_latest_is_the_one_that_began_last_whatever_the_dates_of_its_files(put_run):
    put_run("old", ago=500, quiet=0)
    put_run("new", ago=100, quiet=90)
    assert find_run("latest") == Path("runs/new")


def test_of_two_that_began_in_the_same_second_the_files_tell_the_latest(put_run):
    for name, date in (("a", 1000.2), ("b", 1000.7), ("c", 1000.4)):
        folder = put_run(name, now=1_700_000_000.0)
        for file in folder.iterdir():
            os.utime(file, (date, date))
    assert find_run("latest") == Path("runs/b")


def test_a_folder_that_has_a_runs_name_by_chance_is_not_taken_for_it(put_run, tmp_path):
    put_run("first")
    (tmp_path / "first").mkdir()
    assert find_run("first") == Path("runs/first")


def test_what_a_node_by_hand_leaves_is_a_run_too(tmp_path):
    (tmp_path / "mine" / "attacks").mkdir(parents=True)
    assert find_run("mine") == Path("mine")


def test_the_same_run_named_twice_counts_once(put_run):
    put_run("first", ago=500)
    put_run("second", ago=100)
    assert find_runs(["latest", "first", "second"]) == [Path("runs/second"), Path("runs/first")]


def test_an_unknown_name_is_told_with_what_there_is(put_run):
    for number in range(7):
        put_run(f"run-{number}", ago=100 - number)
    with pytest.raises(WrongUse) as error:
        find_run("nothing")
    text = str(error.value)
    assert "nothing is not a folder, nor the name of a run in runs/" in text
    assert "there: run-6, run-5, run-4, run-3, run-2 and 2 more (see `lppa runs`)" in text
    assert "\n" not in text


def test_without_any_run_that_is_what_is_told(tmp_path):
    for name in ("latest", "nothing"):
        with pytest.raises(WrongUse, match="no run is in runs/"):
            find_run(name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(WrongUse, match=r"empty is not a run.s directory: none of"):
        find_run("empty")


def test_a_run_that_is_yet_to_come_is_awaited_where_it_will_be(put_run, tmp_path):
    assert find_or_await("coming") == Path("coming")
    assert find_or_await("some/where") == Path("some/where")
    put_run("there")
    assert find_or_await("there") == Path("runs/there")
    assert find_or_await("coming") == Path("runs/coming")
    assert find_or_await("latest") == Path("runs/there")
    (tmp_path / "begun").mkdir()
    assert find_or_await("begun") == Path("begun")


@pytest.mark.parametrize("name", ["first", "a.b_c-d", "2026", "_x", "x" * 100])
def test_a_plain_name_is_the_folder_below_runs(name):
    assert new_folder(None, name, make_settings({})) == Path("runs") / name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "-n", "a/b", "a b", "ü", "x" * 101, "a\n"]
)
def test_a_name_that_is_no_plain_folder_is_refused(name):
    with pytest.raises(WrongUse, match="--name must be"):
        check_name(name)


def test_the_name_of_the_newest_run_is_taken_for_good():
    with pytest.raises(WrongUse, match="always means the newest run"):
        check_name("latest")


def test_a_name_that_is_taken_is_refused_even_if_nothing_is_there_but_a_folder(put_run, tmp_path):
    put_run("first")
    (tmp_path / "runs" / "empty").mkdir()
    (tmp_path / "runs" / "dangling").symlink_to(tmp_path / "gone")
    for name in ("first", "empty", "dangling"):
        with pytest.raises(WrongUse, match=f"--name {name} is taken"):
            new_folder(None, name, make_settings({}))


def test_a_place_and_a_name_together_are_refused():
    with pytest.raises(WrongUse, match="give one of them"):
        new_folder(Path("out"), "first", make_settings({}))
