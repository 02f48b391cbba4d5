"""Runs as jobs of a real Slurm with two nodes, which is brought up here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from hosts import NODES, SMALL, alone
from processes import command_line, eventually, marked, read_lines, read_summary
from script_modules import import_script

pytestmark = pytest.mark.slow

OPTIONS = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
TWO = "--slurm-options=--nodes=2 --ntasks-per-node=2 --gres=gpu:2"
LONG = "--chaos=slow:0@7x1"  # time enough to break it off, with a checkpoint of round 6


@pytest.fixture(scope="module")
def lab():
    return import_script("chaos_lab")


@pytest.fixture(scope="module")
def wanted(lab, tmp_path_factory):
    """What the run ends with on this machine alone."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    assert alone(folder, attackers=(1,)).status == "completed"
    return lab.results(folder, NODES)


@pytest.fixture
def job(slurm, started):
    """Starts the run as a job, and knows its files."""
    return Job(started)


class Job:
    """The command that submits and follows a job."""

    def __init__(self, started):
        self.started = started
        self.folder = started.here / "run"

    def start(self, *options):
        begin = [f"-n{NODES}", "--attacker=1", *OPTIONS, "--out=run", *options]
        return self.started.command("lppa", "run", "--engine=slurm", TWO, *begin)

    def go_on(self):
        command = self.started.command("lppa", "run", "--engine=slurm", TWO, "--resume=run")
        return command.end()

    @property
    def number(self):
        return (self.folder / "slurm.job").read_text().strip()

    def hosts(self):
        """The processes of `lppa host` by the Slurm node that they are on."""
        found = {}
        for pid in marked(self.started.mark):
            if command_line(pid).endswith("host --spared") and "srun" not in command_line(pid):
                found[environment(pid).get("SLURMD_NODENAME")] = pid
        return found


def environment(pid):
    raw = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    return dict(one.partition("=")[::2] for one in raw.split("\0") if one)


def slurm_says(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def same(lab, wanted, run):
    assert lab.differences(wanted, lab.results(run, NODES)) == []
    assert lab.leftovers(run) == []


@pytest.mark.parametrize("tasks", ["host", "client"])
def test_a_job_on_two_nodes_ends_with_the_bits_of_a_local_run(lab, wanted, job, tasks):
    command = job.start("--json", f"--slurm-tasks={tasks}")
    steps = 2 if tasks == "host" else NODES
    # One more is the coordinator's own.
    eventually(lambda: len(slurm_says("squeue", "--steps", "--noheader").splitlines()) >= steps)
    ended = command.end()
    assert ended.code == 0, ended
    # One document, and all of it.
    assert json.loads(ended.out)["status"] == "completed"
    same(lab, wanted, job.folder)
    job.started.all_end()


@pytest.mark.parametrize("how", ["scancel", "Ctrl-C"])
def test_a_job_that_is_cancelled_can_be_gone_on_with(lab, wanted, job, how):
    command = job.start(LONG)
    command.says("round 6/12")
    if how == "scancel":
        slurm_says("scancel", job.number)
    else:
        command.signal(signal.SIGINT)
    ended = command.end()
    assert ended.code == 130, ended
    assert ended.errors[-1].startswith("error: the run was interrupted in round"), ended
    assert read_summary(job.folder)["status"] == "interrupted"
    job.started.all_end()
    ended = job.go_on()
    assert ended.code == 0, ended
    assert "note: going on from round" in ended.err
    same(lab, wanted, job.folder)


def test_a_job_that_slurm_queues_again_goes_on_and_has_one_result(lab, wanted, job):
    command = job.start(LONG, "--json")
    command.says("round 6/12")
    slurm_says("scontrol", "requeue", job.number)
    ended = command.end()
    assert ended.code == 0, ended
    assert "note: going on from round" in ended.err
    assert json.loads(ended.out)["status"] == "completed"
    same(lab, wanted, job.folder)
    job.started.all_end()


def test_a_host_that_is_lost_costs_its_clients_alone_if_others_may_go_on(job):
    command = job.start(LONG, "--on-failure=continue", "--rule=dsgt")
    command.says("round 6/12")
    hosts = job.hosts()
    assert set(hosts) == {"here1", "here2"}
    for pid in hosts.values():
        # Slurm's own word on which cards it may use.
        assert environment(pid)["CUDA_VISIBLE_DEVICES"] == "0,1"
    os.kill(hosts["here2"], signal.SIGKILL)
    ended = command.end()
    assert ended.code == 0, ended
    last = [event for event in read_lines(job.folder / "views.jsonl") if event["kind"] == "view"]
    assert last[-1]["members"] == [0, 1]
    job.started.all_end()


def test_a_job_that_waits_is_cancelled_without_a_trace(job):
    command = job.start("--slurm-options=--hold")
    command.says("pending")
    number = job.number
    command.signal(signal.SIGINT)
    assert command.end().code == 130
    assert not job.folder.exists()
    assert "CANCELLED" in slurm_says("scontrol", "show", "job", number)


def test_a_job_whose_follower_was_killed_is_followed_again(job):
    command = job.start(LONG)
    command.says("round 6/12")
    command.signal(signal.SIGKILL)
    command.end()
    ended = job.go_on()
    assert ended.code == 0, ended
    assert f"note: job {job.number} is at it already: following it" in ended.err
    assert "round 12/12" in ended.err
    job.started.all_end()


def test_what_slurm_refuses_is_told_in_one_line_and_leaves_nothing(job):
    ended = job.start("--slurm-options=--partition=none-such").end()
    assert ended.code == 2, ended
    (line,) = ended.errors
    assert line.startswith("error: --engine slurm: sbatch refused: ")
    assert not job.folder.exists()


def test_what_is_wrong_inside_the_job_is_told_outside_with_its_exit_code(job):
    ended = job.start("--dataset=none-such.npz").end()
    assert ended.code == 2, ended
    assert "none-such.npz" in ended.errors[-1]
