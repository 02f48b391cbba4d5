"""What is asked of Slurm and read from it, without any Slurm."""

from __future__ import annotations

import io
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.engines.engine import Wanted
from lppa.engines.registry import make_engine
from lppa.engines.slurm import ask, choose_slots, repeated, step, was_requeued
from lppa.engines.slurm_job import Ear, Request, SlurmJob, State
from lppa.protocol.errors import WrongUse


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 5)), min_size=1))
def test_slurms_short_numbers_are_read_as_they_were_meant(runs):
    text = ",".join(f"{value}(x{times})" if times > 1 else str(value) for value, times in runs)
    assert repeated(text) == [value for value, times in runs for _ in range(times)]


@pytest.mark.parametrize("text", ["", "two", "2(x", "1,,2", "-1"])
def test_what_is_no_number_of_slurms_says_nothing(text):
    assert repeated(text) == []


@pytest.mark.parametrize(
    ("told", "slots"),
    [
        ({"SLURM_TASKS_PER_NODE": "3,1", "SLURM_JOB_CPUS_PER_NODE": "8(x2)"}, (3, 1)),
        ({"SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_CPUS_PER_NODE": "8,4"}, (8, 4)),
        ({"SLURM_TASKS_PER_NODE": "1(x2)"}, (1, 1)),
        ({"SLURM_TASKS_PER_NODE": "4"}, (1, 1)),
        ({}, (1, 1)),
    ],
)
def test_hosts_get_clients_by_their_tasks_else_by_their_cpus(told, slots):
    assert choose_slots(2, 4, told) == slots


def test_what_a_person_asks_of_sbatch_comes_last_and_so_wins(tmp_path):
    job = SlurmJob(Wanted(6, cpus_per_node=1.5, slurm_options="--ntasks=2 --comment='two words'"))
    command = Request(tmp_path / "50%", (), True, tuple(job.options)).command
    assert command[-4:] == ["--ntasks=6", "--cpus-per-task=2", "--ntasks=2", "--comment=two words"]
    assert "--no-kill" in command
    assert f"--error={tmp_path}/50%%/slurm.err" in command


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "sbatch: unrecognized option '--nope'\nTry \"sbatch --help\" for more information\n",
            "refused: sbatch: unrecognized option '--nope'",
        ),
        (
            "warning\nsbatch: error: no such partition\n",
            "refused: sbatch: error: no such partition",
        ),
        ('Try "sbatch --help" for more information\n', "refused: it did not say why"),
        ("", "refused: it did not say why"),
    ],
)
def test_a_program_of_slurms_that_refuses_is_told_with_its_reason(said, words):
    with pytest.raises(WrongUse) as told:
        ask("sh", "-c", 'printf %s "$0" >&2; exit 1', said)
    assert str(told.value).endswith(words)


def test_the_script_of_a_job_is_what_a_shell_reads_as_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("-n", "4", "--name=it's here; $HOME")
    script = Request(tmp_path, arguments, False, ()).script
    shown = script.replace("exec ", "printf '%s\\n' ")
    said = subprocess.run(["sh"], input=shown, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-3:] == list(arguments)


def test_a_step_is_on_one_host_and_passes_frames_on_at_once():
    command = step("node-7")
    assert command[-2:] == ["host", "--spared"]
    assert {"--nodelist=node-7", "--overlap", "--unbuffered"} <= set(command)


@pytest.mark.parametrize(
    "wanted", [{"slurm_options": "'"}, {"slurm_options": "gpu"}, {"gpus_per_node": 1.0}]
)
def test_what_makes_no_sense_is_refused_before_slurm_hears_of_it(wanted, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(WrongUse):
        make_engine(Wanted(4, "slurm", **wanted))


def test_a_job_was_requeued_if_slurm_counts_its_starts(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    assert not was_requeued()
    monkeypatch.setenv("SLURM_RESTART_COUNT", "0")
    assert not was_requeued()
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert was_requeued()


@given(st.text("aä\n", max_size=30), st.integers(1, 5))
def test_what_a_job_says_is_passed_on_once_and_in_whole_lines(tmp_path_factory, text, size):
    path, heard = tmp_path_factory.mktemp("job") / "err", io.StringIO()
    ear, raw = Ear(path, heard), text.encode()
    for at in range(0, len(raw), size):
        with path.open("ab") as file:
            file.write(raw[at : at + size])
        ear.listen()
    assert heard.getvalue() == text[: text.rfind("\n") + 1]


def test_states_are_told_in_plain_words():
    assert str(State("PENDING", "Resources")) == "pending (Resources)"
    assert str(State("RUNNING", "None")) == "running"
    assert str(State("NODE_FAIL", "NodeDown")) == "node fail"
