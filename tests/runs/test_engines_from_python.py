"""`lppa.run(engine=...)`: hosts over ssh, a job of Slurm and Ray, asked for in Python."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
from clusters import TOO_SLOW, TRIES, skip_too_slow
from hosts import SMALL
from processes import eventually, marked, read_lines
from sshd import Sshd

import lppa
from lppa.protocol.errors import RunFailed, WrongUse

NODES = 4
RUN = {**SMALL, "nodes": NODES}
OWN = {name: value for name, value in RUN.items() if name != "dataset"}
TWO = {"engine": "slurm", "slurm_options": "--nodes=2 --ntasks-per-node=2"}
# What a script or a notebook has in its memory, and in no module.
SCRIPT = """
import torch
import lppa


def problem():
    x = torch.linspace(-1, 1, 120).reshape(40, 3)
    y = (x.sum(1) > 0).long()
    return lppa.Problem(lambda: torch.nn.Linear(3, 2), (x, y), (x, y), name="mine")


@lppa.rule("average")
class Average:
    travels = ("theta",)

    def start(self, theta, local):
        return {"theta": theta}

    def combine(self, own, mixed, t, local):
        step = local.step(t) * local.gradient(mixed["theta"], torch.zeros_like(own["theta"]), t)
        return {"theta": mixed["theta"] - step}
"""


def bits(folder):
    found = [path.read_bytes() for path in sorted(Path(folder).glob("nodes/*/state.pt"))]
    assert len(found) == NODES
    return found


@pytest.fixture
def sshd(started, tmp_path):
    return Sshd(started, tmp_path / "sshd")


@pytest.fixture
def over_ssh(sshd):
    return {"engine": "ssh", "hosts": sshd.hosts, "ssh": sshd.ssh}


@pytest.fixture
def in_memory():
    """A problem and a rule of a program's own."""
    space = {"__name__": "__main__"}
    exec(SCRIPT, space)
    return space["problem"], space["Average"]


class Ear(lppa.Listener):
    """Remembers what it heard."""

    def __init__(self):
        self.rounds, self.said = [], []

    def row(self, row):
        self.rounds.append(row.round)

    def say(self, text):
        self.said.append(text)


def test_a_run_over_ssh_from_python_ends_with_the_bits_of_a_local_one(
    started, sshd, over_ssh, tmp_path
):
    here = lppa.run(**RUN, out=tmp_path / "here")
    ear = Ear()
    there = lppa.run(**RUN, out=tmp_path / "there", attackers=[1], listener=ear, **over_ssh)
    assert bits(there.folder) == bits(here.folder)
    assert there.history["loss"] == here.history["loss"]
    assert ear.rounds == list(range(2, 13, 2))
    assert list(there.folder.glob("attacks/*"))
    assert marked(started.mark) <= sshd.pids
    assert list(started.temporary.glob("lppa-*")) == []


def test_a_problem_and_a_rule_in_memory_go_to_hosts_over_ssh(over_ssh, in_memory, tmp_path):
    problem, rule = in_memory
    here = lppa.run(problem, rule=rule, **OWN, out=tmp_path / "here")
    there = lppa.run(problem, rule=rule, **OWN, out=tmp_path / "there", **over_ssh)
    assert there.summary["dataset"] == "own/mine"
    assert there.summary["rule"] == "own/average"
    assert bits(there.folder) == bits(here.folder)


def test_a_module_that_hosts_do_not_have_is_told_with_what_to_do(over_ssh, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here

    with pytest.raises(RunFailed, match=r"No module named 'only_here'.*have there what it imports"):
        lppa.run(only_here.problem, **OWN, out=tmp_path / "run", **over_ssh)


@pytest.mark.slow
def test_a_run_that_was_broken_off_here_goes_on_over_ssh(started, over_ssh, tmp_path):
    long = {**SMALL, "rounds": 60, "latency": 20}
    options = [x for k, v in long.items() for x in (f"--{k.replace('_', '-')}", v)]
    run = tmp_path / "run"
    command = started.command("lppa", "run", "-n", NODES, "--out", run, "-q", *options)
    eventually(lambda: command.poll() is not None or len(read_lines(run / "history.jsonl")) > 3)
    command.signal_group(signal.SIGINT)
    assert command.end().code == 130, command.err
    ear = Ear()
    ended = lppa.resume(run, listener=ear, **over_ssh)
    assert [text for text in ear.said if re.fullmatch("note: going on from round [1-9].*", text)]
    whole = lppa.run(**{**RUN, **long}, out=tmp_path / "whole")
    assert bits(ended.folder) == bits(whole.folder)


@pytest.mark.slow
def test_a_job_of_slurm_from_python_brings_code_along_and_leaves_none_of_it(
    slurm, in_memory, tmp_path
):
    problem, rule = in_memory
    here = lppa.run(problem, rule=rule, **OWN, out=tmp_path / "here")
    there = lppa.run(problem, rule=rule, **OWN, out=tmp_path / "there", attackers=[1], **TWO)
    assert bits(there.folder) == bits(here.folder)
    assert there.settings == here.settings
    assert list(there.folder.glob("attacks/*"))
    assert sorted(path.name for path in there.folder.glob("slurm*")) == [
        "slurm.err",
        "slurm.job",
        "slurm.out",
    ]
    assert there.model(0).weight.shape == (2, 3)


@pytest.mark.slow
def test_what_slurm_or_the_job_refuses_is_told_as_wrong_use(slurm, tmp_path):
    with pytest.raises(WrongUse, match="sbatch refused"):
        lppa.run(**RUN, out=tmp_path / "none", engine="slurm", slurm_options="--partition=none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(WrongUse, match="a listener hears nothing of a job"):
        lppa.run(**RUN, out=tmp_path / "none", listener=Ear(), **TWO)
    with pytest.raises(WrongUse, match=r"--interface nowhere0: .* has no such address"):
        lppa.run(**RUN, out=tmp_path / "none", interface="nowhere0", **TWO)


@pytest.mark.slow
def test_a_job_that_is_cancelled_is_told_as_an_interruption_and_goes_on(
    slurm, in_memory, tmp_path, capsys
):
    problem, _ = in_memory
    run, long = tmp_path / "run", {**OWN, "rounds": 40, "latency": 50}

    def cancel():
        eventually(lambda: len(read_lines(run / "history.jsonl")) > 3)
        subprocess.run(["scancel", (run / "slurm.job").read_text().strip()], check=True)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(RunFailed, match="the run was interrupted"):
        lppa.run(problem, **long, out=run, **TWO)
    canceller.join()
    capsys.readouterr()
    ended = lppa.resume(run, problem, quiet=False, **TWO)
    said = capsys.readouterr()
    assert re.search("^note: going on from round [1-9]", said.err, re.MULTILINE), said
    # Results are for whoever called, and not printed.
    assert said.out == ""
    whole = lppa.run(problem, **long, out=tmp_path / "whole")
    assert bits(ended.folder) == bits(whole.folder)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_a_ray_of_the_runs_own_takes_a_problem_in_memory(in_memory, tmp_path, monkeypatch):
    problem, rule = in_memory
    here = lppa.run(problem, rule=rule, **OWN, out=tmp_path / "here")
    # Sockets of Ray are below it.
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        monkeypatch.setenv("TMPDIR", short)
        ray = {"engine": "ray", "cpus_per_node": 0.5, "out": tmp_path / "there"}
        for _ in range(TRIES):
            try:
                there = lppa.run(problem, rule=rule, **OWN, **ray)
                break
            except RunFailed as error:
                if TOO_SLOW not in str(error):
                    raise
                shutil.rmtree(tmp_path / "there")
        else:
            skip_too_slow()
        assert list(Path(short).iterdir()) == []
    assert bits(there.folder) == bits(here.folder)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"engine": "foo"}, "--engine must be one of local, ray, slurm, ssh, not 'foo'"),
        ({"engine": None, "hosts": "x"}, "--hosts is of no use with --engine local"),
        ({"hosts": "x"}, "--hosts is of no use with --engine local"),
        ({"engine": "ssh"}, "needs to know the hosts"),
        ({"engine": "ssh", "hosts": 7}, "--hosts must be a text, not 7"),
        ({"engine": "ssh", "hosts": Path("nowhere.txt")}, "nowhere.txt cannot be read: No such"),
        ({"engine": "ssh", "hosts": "h", "ssh": "'"}, "cannot be understood: No closing quotation"),
        ({"engine": "ssh", "hosts": "h", "ssh": "no-such-ssh"}, "there is no no-such-ssh here"),
        ({"engine": "ssh", "hosts": "h", "address": "auto"}, "--address is of no use with"),
        ({"engine": "ray", "cpus_per_node": "two"}, "--cpus-per-node must be a number"),
        ({"engine": "slurm", "slurm_tasks": "node"}, "--slurm-tasks must be one of host, client"),
        ({"engine": "ssh", "host": "h"}, "unknown setting 'host'"),
    ],
)
def test_wrong_use_is_told_before_anything_starts(given, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h").write_text("127.0.0.1\n")
    with pytest.raises(WrongUse, match=reason):
        lppa.run(dataset="quadratic", **given)
    assert [path.name for path in tmp_path.iterdir()] == ["h"]


def test_an_option_that_no_engine_has_is_told_when_a_run_goes_on(tmp_path):
    with pytest.raises(WrongUse, match="unknown option 'host' of an engine; known: engine, hosts"):
        lppa.resume(tmp_path, engine="ssh", host="h")
