"""Spoiled messages, logs and address books are refused or do no harm."""

from __future__ import annotations

import pytest
from script_modules import import_script


@pytest.fixture(scope="module")
def fuzzer():
    return import_script("fuzz")


@pytest.mark.parametrize(("target", "count"), [("message", 5000), ("log", 500), ("book", 500)])
def test_nothing_spoiled_breaks_a_reader(fuzzer, target, count):
    found = fuzzer.fuzz("short", count, target)
    assert found["faults"] == []
    # It would prove little if nothing were ever taken, or nothing ever refused.
    assert found["refused"] > count / 20
    assert found["taken"] > count / 50


def test_the_same_seed_finds_the_same(fuzzer):
    first, second = (fuzzer.fuzz("twice", 300) for _ in range(2))
    assert {**first, "slowest": 0} == {**second, "slowest": 0}


def test_every_kind_of_message_is_among_those_that_are_spoiled(fuzzer):
    made = {type(message) for message in fuzzer.valid_messages(fuzzer.Rng(0))}
    assert made == set(fuzzer.codec.KINDS.values())
    for frames in fuzzer.seeds_of_messages():
        assert fuzzer.check_message(frames) == "taken"


@pytest.mark.parametrize(
    ("annotation", "careless"),
    [
        ("dict[str, Any]", lambda value: isinstance(value, dict)),
        ("int", lambda value: isinstance(value, int)),
        ("tuple[int, ...]", lambda value: isinstance(value, list)),
        ("str", lambda value: True),
    ],
)
def test_a_careless_check_in_the_codec_is_found(fuzzer, monkeypatch, annotation, careless):
    monkeypatch.setitem(fuzzer.codec.CHECKS, annotation, careless)
    assert fuzzer.fuzz("careless 4", 20000)["faults"]


def test_a_reader_that_raises_something_else_is_found(fuzzer, monkeypatch):
    def raises(frames, run):
        raise KeyError("sender")

    monkeypatch.setattr(fuzzer, "decode", raises)
    assert fuzzer.fuzz("raises", 10)["fault"] == 10
