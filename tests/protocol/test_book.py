"""The address book and key files: what is wrong with them is said before anything starts."""

from __future__ import annotations

import json
import stat

import pytest

from lppa.protocol.book import (
    NO_KEY,
    AddressBook,
    Peer,
    is_local,
    key_file,
    read_book,
    read_key,
    write_book,
    write_key,
)
from lppa.protocol.errors import WrongUse
from lppa.protocol.sockets import new_keys


def make_book(nodes=3, place="tcp://127.0.0.1:600", keys=True):
    peers = [Peer(f"{place}{i}", new_keys().public if keys else NO_KEY) for i in range(nodes + 1)]
    return AddressBook("run-1", peers[-1], tuple(peers[:-1]))


@pytest.fixture
def content(tmp_path):
    write_book(make_book(), tmp_path / "peers.json")
    return json.loads((tmp_path / "peers.json").read_text())


def read(tmp_path, content):
    (tmp_path / "peers.json").write_text(json.dumps(content))
    return read_book(tmp_path / "peers.json")


def test_a_book_comes_back_as_it_was_written(tmp_path):
    book = make_book()
    write_book(book, tmp_path / "peers.json")
    assert read_book(tmp_path / "peers.json") == book


def test_a_missing_book_says_how_to_make_one(tmp_path):
    with pytest.raises(WrongUse, match="lppa peers"):
        read_book(tmp_path / "peers.json")


def test_a_malformed_book_says_where(tmp_path):
    (tmp_path / "peers.json").write_text('{"run": ')
    with pytest.raises(WrongUse, match="line 1"):
        read_book(tmp_path / "peers.json")


def test_a_node_that_is_there_twice_is_named(tmp_path, content):
    content["nodes"][2]["id"] = 1
    with pytest.raises(WrongUse, match="node 1 is there twice"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (["run"], "", "run"),
        (["run"], 5, "run"),
        (["nodes"], [], "at least 2"),
        (["nodes"], {"0": {}}, "list"),
        (["coordinator"], None, "coordinator has no entry"),
        (["nodes", 0, "id"], "0", "whole number"),
        (["nodes", 0, "id"], 9, "0 to 2"),
        (["nodes", 0, "endpoint"], "127.0.0.1:5000", "tcp://HOST:PORT"),
        (["nodes", 0, "endpoint"], "tcp://127.0.0.1:65536", "no such port"),
        (["nodes", 0, "endpoint"], "tcp://127.0.0.1:70000", "no such port"),
        (["nodes", 0, "endpoint"], "tcp://*:5000", "tcp://HOST:PORT"),
        (["nodes", 0, "public_key"], "short", "CURVE key"),
        (["nodes", 0, "public_key"], "", "some have a public_key and some have none"),
    ],
)
def test_a_wrong_entry_is_refused_with_the_reason(tmp_path, content, path, value, reason):
    place = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(WrongUse, match=reason):
        read(tmp_path, content)


def test_two_processes_cannot_share_an_address(tmp_path, content):
    content["nodes"][0]["endpoint"] = content["coordinator"]["endpoint"]
    with pytest.raises(WrongUse, match="coordinator and node 0"):
        read(tmp_path, content)


def test_an_id_outside_the_book_is_refused():
    with pytest.raises(WrongUse, match="no node 7"):
        make_book().node(7)


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("tcp://127.0.0.1:1", True),
        ("tcp://127.9.9.9:1", True),
        ("tcp://localhost:1", True),
        ("tcp://[::1]:1", True),
        ("ipc:///tmp/x", True),
        ("tcp://10.0.0.1:1", False),
        ("tcp://example.org:1", False),
        ("tcp://0.0.0.0:1", False),
    ],
)
def test_only_loopback_is_local(endpoint, local):
    assert is_local(endpoint) is local


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1"])
def test_tcp_without_keys_is_read_only_where_it_was_asked_for(tmp_path, host):
    path, book = tmp_path / "peers.json", make_book(place=f"tcp://{host}:600", keys=False)
    write_book(book, path)
    with pytest.raises(WrongUse, match="--insecure, which means that links are not encrypted"):
        read_book(path)
    assert read_book(path, insecure=True) == book
    assert not book.encrypted


def test_sockets_in_a_folder_need_no_keys_and_a_book_with_keys_is_always_encrypted(tmp_path):
    path, book = tmp_path / "peers.json", make_book(place="ipc:///tmp/private/", keys=False)
    write_book(book, path)
    assert read_book(path) == book
    write_book(make_book(), path)
    assert read_book(path, insecure=True).encrypted


def test_a_key_file_is_for_its_owner_only(tmp_path):
    path = key_file(tmp_path, 3)
    secret = new_keys().secret
    write_key(path, secret)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path) == secret
    path.chmod(0o644)
    with pytest.raises(WrongUse, match="chmod 600"):
        read_key(path)


def test_a_missing_key_fails_closed(tmp_path):
    with pytest.raises(WrongUse, match="links are encrypted"):
        read_key(key_file(tmp_path, 0))
