"""The list of hosts, and the commands that are made of it."""

from __future__ import annotations

import shlex

import pytest

from lppa.engines.engine import Wanted
from lppa.engines.registry import make_engine
from lppa.engines.ssh import SshEngine, SshHost, read_hosts
from lppa.protocol.errors import WrongUse


@pytest.fixture
def listed(tmp_path):
    """Writes a list and reads it."""

    def write(text):
        (tmp_path / "hosts").write_text(text)
        return tmp_path / "hosts"

    return write


def test_a_list_says_where_hosts_are_and_what_runs_there(listed):
    text = "# ours\n\nalpha\nbob@beta:2222 slots=3 data=/data #\n[fd00::2]:22 python=/x/python\n"
    assert read_hosts(listed(text)) == [
        SshHost("alpha"),
        SshHost("beta", "bob", 2222, 3, data="/data"),
        SshHost("fd00::2", port=22, python="/x/python"),
    ]


def test_a_mark_of_an_editor_is_no_part_of_a_name(tmp_path):
    (tmp_path / "hosts").write_text("alpha\nbeta\n", encoding="utf-8-sig")
    assert read_hosts(tmp_path / "hosts") == [SshHost("alpha"), SshHost("beta")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no host"),
        ("alpha\nalpha slots=2", "line 2: alpha is there already"),
        ("-oProxyCommand=x", "is no host"),
        ("a/b", "is no host"),
        ("alpha:0", "there is no port 0"),
        ("alpha:70000", "there is no port 70000"),
        ("alpha slots=0", "slots=0 is no number"),
        ("alpha slots=two", "slots=two is no number"),
        ("alpha slots=1 slots=2", "is none of slots=N"),
        ("alpha 4", "'4' is none of slots=N"),
        ("alpha slot=4", "is none of slots=N"),
        ("alpha python=", "is none of slots=N"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused_with_its_line(listed, text, words):
    with pytest.raises(WrongUse) as refusal:
        read_hosts(listed(text))
    assert words in str(refusal.value)
    assert "a line is like" in str(refusal.value) or "slots=N" in str(refusal.value)


def test_a_list_that_is_not_there_is_told(tmp_path):
    with pytest.raises(WrongUse, match="cannot be read"):
        read_hosts(tmp_path / "hosts")


def test_a_command_asks_nobody_and_survives_the_shell_there():
    host = SshHost("beta", "bob", 2222, 3, "/my python/bin/python", "/it's data")
    command = host.command(["ssh", "-F", "config"])
    assert command[:3] == ["ssh", "-F", "config"]
    assert "BatchMode=yes" in command
    assert command[command.index("-p") + 1] == "2222"
    assert command[command.index("-l") + 1] == "bob"
    assert command[-3:-1] == ["--", "beta"]
    there = ["env", "LPPA_DATA=/it's data", "/my python/bin/python", "-m", "lppa", "host"]
    assert shlex.split(command[-1]) == there


def test_an_engine_refuses_what_it_has_no_use_for(listed):
    hosts = listed("127.0.0.1\n")
    with pytest.raises(WrongUse, match="--address is of no use with --engine ssh"):
        make_engine(Wanted(4, "ssh", hosts=hosts, address="auto"))
    with pytest.raises(WrongUse, match="--hosts is of no use with --engine local"):
        make_engine(Wanted(4, "local", hosts=hosts))
    with pytest.raises(WrongUse, match="--hosts FILE"):
        make_engine(Wanted(4, "ssh"))
    assert make_engine(Wanted(4, "local")) is None
    assert isinstance(make_engine(Wanted(4, "ssh", hosts=hosts)), SshEngine)


def test_nodes_go_to_hosts_by_their_slots(listed):
    engine = SshEngine(Wanted(6, hosts=listed("127.0.0.1 slots=2\n127.0.0.2\n127.0.0.3 slots=3\n")))
    assert engine.blocks == [(0, 1), (2,), (3, 4, 5)]
    assert engine.address == "127.0.0.1"
