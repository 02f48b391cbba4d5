"""`lppa run --engine ssh` against a real sshd: same bits, no secret shown, nothing left behind."""

from __future__ import annotations

import contextlib
import shlex
import signal
from pathlib import Path

import pytest
from hosts import NODES, SMALL, alone, blueprint_of
from processes import eventually, marked, read_lines, read_summary
from script_modules import import_script
from sshd import Sshd

from lppa.engines.engine import Wanted
from lppa.engines.ssh import SshEngine
from lppa.running.display import Silent
from lppa.running.run import run_placed


@pytest.fixture(scope="module")
def chaos():
    """What a run leaves, and how to compare it: from the script of the long trials."""
    return import_script("chaos_lab")


@pytest.fixture
def sshd(started, tmp_path):
    return Sshd(started, tmp_path / "sshd")


class Watched(SshEngine):
    """Remembers what it was to place."""

    def launcher(self, order):
        self.order = order
        return super().launcher(order)


class Onlooker(Silent):
    """Keeps what anybody on this machine could read while a run goes on."""

    def __init__(self):
        self.seen = b""

    def row(self, row):
        for process in Path("/proc").glob("[0-9]*"):
            for what in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    self.seen += (process / what).read_bytes()


def test_a_run_over_ssh_ends_with_the_bits_of_a_local_one_and_shows_no_key(chaos, sshd, tmp_path):
    assert alone(tmp_path / "alone", attackers=(2,)).status == "completed"
    engine = Watched(Wanted(NODES, hosts=sshd.hosts, ssh=sshd.ssh))
    assert engine.address == "127.0.0.1"
    onlooker = Onlooker()
    summary = run_placed(blueprint_of(), tmp_path / "run", onlooker, engine, (2,))
    assert summary.status == "completed", summary.error
    here, there = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert chaos.differences(here, there) == []
    assert chaos.leftovers(tmp_path / "run") == []
    assert b"lppa host" in onlooker.seen
    assert not any(key.encode() in onlooker.seen for key in engine.order.keys)


@pytest.mark.slow
def test_an_interrupted_run_over_ssh_leaves_nothing_there_and_goes_on_to_the_same_bits(
    chaos, sshd, started, tmp_path
):
    settings = {"rounds": 60, "latency": 20}
    told = {**SMALL, **settings}
    options = [x for k, v in told.items() for x in (f"--{k.replace('_', '-')}", v)]
    engine = ["--engine", "ssh", "--hosts", sshd.hosts, "--ssh", sshd.ssh, "-q"]
    run = tmp_path / "run"
    command = started.command("lppa", "run", "-n", NODES, "--out", run, *options, *engine)
    eventually(lambda: command.poll() is not None or len(read_lines(run / "history.jsonl")) > 3)
    command.signal_group(signal.SIGINT)
    assert command.end().code == 130, command.err
    assert read_summary(run)["status"] == "interrupted"
    eventually(lambda: marked(started.mark) <= sshd.pids, what="the hosts have ended")
    assert list(started.temporary.glob("lppa-*")) == []
    ended = started.command("lppa", "run", "--resume", run, *engine).end()
    assert ended.code == 0, ended.err
    assert alone(tmp_path / "alone", **settings).status == "completed"
    here, there = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert chaos.differences(here, there) == []


def refused(started, tmp_path, hosts, ssh):
    """What a person is told whose hosts cannot be used."""
    options = ["--engine", "ssh", "--hosts", hosts, "--ssh", ssh, "-q", "--dataset", "quadratic"]
    ended = started.command("lppa", "run", "-n", 4, "--out", tmp_path / "run", *options).end()
    assert ended.code != 0
    (error,) = ended.errors
    return error


def test_a_host_that_does_not_let_us_in_is_told_in_ssh_s_own_words(started, sshd, tmp_path):
    wrong = f"{sshd.ssh} -o IdentityFile={sshd.folder}/stranger"
    config = (sshd.folder / "client").read_text()
    (sshd.folder / "client").write_text(config.replace("/user\n", "/stranger\n"))
    error = refused(started, tmp_path, sshd.hosts, wrong)
    assert "was lost with host 127.0.0." in error
    assert "ssh ended with exit code 255" in error
    assert "Permission denied (publickey)" in error


def test_a_host_without_lppa_is_told_with_what_to_do(started, sshd, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho $0: No module named lppa >&2\nexit 1\n")
    python.chmod(0o755)
    (tmp_path / "list").write_text(f"127.0.0.1:{sshd.port} python={shlex.quote(str(python))}\n")
    error = refused(started, tmp_path, tmp_path / "list", sshd.ssh)
    assert "No module named lppa" in error
    assert "python=PATH" in error
