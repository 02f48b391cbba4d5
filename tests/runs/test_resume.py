"""Runs that were broken off go on, and end as if nothing had happened."""

from __future__ import annotations

import json
import shutil
import signal

import pytest
from processes import eventually, marked, node_pids, read_lines
from script_modules import import_script

from lppa.coordinator.membership import Event
from lppa.coordinator.plan import Blueprint
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import make_settings
from lppa.running.chaos import parse_chaos
from lppa.running.display import Silent
from lppa.running.past import read_past
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local
from lppa.running.rundir import RunDirectory

NODES = 4
SMALL = {
    "dataset": "quadratic",
    "rounds": 12,
    "eval_every": 2,
    "checkpoint_every": 3,
    "beta": 0.1,
    "topology": "ring",
    "timeout": 300,
}


@pytest.fixture(scope="module")
def chaos():
    """What a run leaves, and how to damage it: from the script of the long trials."""
    return import_script("chaos_lab")


def blueprint_of(**settings) -> Blueprint:
    return make_blueprint(make_settings({**SMALL, **settings}), NODES, "run")


def begin(folder, trouble=None, attackers=(), **settings):
    told = parse_chaos(trouble, NODES)
    blueprint = blueprint_of(**settings)
    return run_local(blueprint, folder, Silent(), attackers=attackers, chaos=told)


def go_on(folder, trouble=None):
    past, told = read_past(folder), parse_chaos(trouble, NODES)
    return run_local(
        past.blueprint, folder, Silent(), attackers=past.attackers, chaos=told, past=past
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"rule": "lppa", "local_steps": 2, "momentum": 0.5},
        {"rule": "lppa", "noise_exchange": "tensor", "noise_every": 3, "checkpoint_every": 1},
        {"rule": "dp", "noise_every": 0, "finish": 2},
        {"rule": "dsgd", "topology": "directed-ring", "dtype": "float64"},
    ],
)
def test_a_run_whose_nodes_are_killed_twice_ends_with_the_same_bits(chaos, tmp_path, settings):
    assert begin(tmp_path / "alone", seed=1, **settings).status == "completed"
    assert begin(tmp_path / "run", "kill:1@5,kill:2@5", seed=1, **settings).status == "failed"
    assert go_on(tmp_path / "run", "kill:0@10").status == "failed"
    assert go_on(tmp_path / "run").status == "completed"
    alone, broken = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert chaos.differences(alone, broken) == []
    assert chaos.leftovers(tmp_path / "run") == []


def test_a_run_without_a_seed_goes_on_alike_from_copies_one_of_them_damaged(chaos, tmp_path):
    assert begin(tmp_path / "run", "exit:1@8").status == "failed"
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    for node, harm in ((0, lambda raw: raw[:-1]), (2, lambda raw: raw[:40] + b"x" + raw[41:])):
        newest = sorted((tmp_path / f"copy/nodes/{node}/checkpoints").iterdir())[-1]
        newest.write_bytes(harm(newest.read_bytes()))
    for name in ("run", "copy"):
        assert go_on(tmp_path / name).status == "completed"
    one, other = (chaos.results(tmp_path / name, NODES) for name in ("run", "copy"))
    assert chaos.differences(one, other) == []


def test_figures_that_were_damaged_do_not_keep_a_run_from_going_on(chaos, tmp_path):
    begin(tmp_path / "whole", seed=1)
    assert begin(tmp_path / "broken", "kill:2@8", seed=1).status == "failed"
    # What a power cut leaves: no checksum is over these, and nothing follows from them.
    (tmp_path / "broken/summary.json").write_text("[]")
    for name in ("history.jsonl", "metrics.jsonl", "nodes/1/metrics.jsonl"):
        with (tmp_path / "broken" / name).open("ab") as file:
            file.write(b"\xff\xfe\0\n[1]\n{}\n")
    assert go_on(tmp_path / "broken").status == "completed"
    whole, broken = (chaos.results(tmp_path / name, NODES) for name in ("whole", "broken"))
    assert chaos.differences(whole, broken) == []


def test_recorded_logs_and_batches_go_on_without_a_gap_or_a_double(chaos, tmp_path):
    settings = {
        "dataset": "digits",
        "model": "mlp",
        "batch": 8,
        "local_steps": 2,
        "reveal_batches": True,
        "seed": 1,
    }
    assert begin(tmp_path / "alone", attackers=(1, 3), **settings).status == "completed"
    assert begin(tmp_path / "run", "kill:1@8", (1, 3), **settings).status == "failed"
    assert go_on(tmp_path / "run").status == "completed"
    alone, broken = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert len(alone["logs"]) == 2
    assert all(len(lines) == 2 * 13 for lines in alone["batches"])
    assert chaos.differences(alone, broken) == []


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(chaos, tmp_path):
    assert begin(tmp_path / "alone", seed=1, attackers=(0,)).status == "completed"
    assert begin(tmp_path / "run", "kill:1@1", (0,), seed=1).status == "failed"
    assert go_on(tmp_path / "run").status == "completed"
    alone, broken = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert chaos.differences(alone, broken) == []


def test_nobody_goes_on_with_a_run_that_goes_on_or_has_ended(tmp_path):
    blueprint = blueprint_of()
    living = RunDirectory(tmp_path / "run", blueprint)
    past = read_past(tmp_path / "run")
    with pytest.raises(WrongUse, match="another process still writes"):
        RunDirectory(tmp_path / "run", past.blueprint, old=True)
    living.record("summary.json", {"status": "completed"})
    living.lock.free()
    with pytest.raises(WrongUse, match="has come to its end"):
        RunDirectory(tmp_path / "run", past.blueprint, old=True)


def test_a_resumed_run_knows_its_attackers_though_they_had_not_begun(tmp_path):
    directory = RunDirectory(tmp_path / "run", blueprint_of(), attackers=(2, 3))
    directory.lock.free()
    assert read_past(tmp_path / "run").attackers == (2, 3)


def test_a_resumed_run_knows_whom_it_began_without(tmp_path):
    directory = RunDirectory(tmp_path / "run", blueprint_of(topology="full"))
    directory.change(Event("view", 0, round=0, members=(0, 1, 3)))
    directory.lock.free()
    past = read_past(tmp_path / "run")
    assert past.expected == {0, 1, 3}
    assert [(view.epoch, view.members) for view, _ in past.parts] == [(0, (0, 1, 3))]


@pytest.mark.slow
def test_nodes_end_with_a_run_that_is_killed_and_it_goes_on_to_the_same_bits(
    chaos, started, tmp_path
):
    out = tmp_path / "run"
    settings = {**SMALL, "rounds": 60, "latency": 20, "seed": 1}
    told = [x for k, v in settings.items() for x in (f"--{k.replace('_', '-')}", v)]
    command = started.command("lppa", "run", "-n", NODES, "--out", out, "-q", *told)
    eventually(lambda: len(read_lines(out / "history.jsonl")) > 5 and len(node_pids(out)) == NODES)
    command.signal(signal.SIGKILL)
    eventually(lambda: node_pids(out) == {}, what="nobody outlives the run")
    command.end()
    eventually(lambda: not marked(started.mark), what="nor does the fork server")
    assert not (out / "summary.json").exists()
    ended = started.command("lppa", "run", "--resume", out, "-q").end()
    assert ended.code == 0, ended.err
    assert list(started.temporary.glob("lppa-*")) == []
    run_local(make_blueprint(make_settings(settings), NODES, "run"), tmp_path / "alone", Silent())
    alone, broken = (chaos.results(path, NODES) for path in (tmp_path / "alone", out))
    assert chaos.differences(alone, broken) == []
    assert json.loads((out / "summary.json").read_text())["status"] == "completed"


def test_what_a_run_should_have_taken_away_when_it_was_killed_goes_with_the_next_look(tmp_path):
    directory = RunDirectory(tmp_path / "run", blueprint_of())
    (tmp_path / "run/nodes/0/checkpoints").mkdir(parents=True)
    directory.record("summary.json", {"status": "completed"})
    with pytest.raises(WrongUse, match="has come to its end"):
        read_past(tmp_path / "run")
    assert not (tmp_path / "run/nodes/0/checkpoints").exists()
