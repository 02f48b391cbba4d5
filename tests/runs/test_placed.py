"""Runs whose nodes are on hosts behind pipes: same bits, same files, nothing left behind."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from hosts import NODES, SMALL, Pipes, alone, go_on, placed
from processes import eventually, marked, read_lines, read_summary
from script_modules import import_script

from lppa.api import name_settings, own_code, scouted
from lppa.running.display import Silent
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local, run_placed
from lppa.running.scout import Scout


@pytest.fixture(scope="module")
def chaos():
    """What a run leaves, and how to compare it: from the script of the long trials."""
    return import_script("chaos_lab")


def files_of(run):
    """Everything that nodes have left in a run's directory."""
    found = [*run.glob("nodes/*/*"), *run.glob("attacks/*")]
    return sorted(path.relative_to(run).as_posix() for path in found)


def checkpoints_of(run):
    """The names of each node's checkpoints."""
    folders = [run / "nodes" / str(node) / "checkpoints" for node in range(NODES)]
    return [{path.name for path in folder.glob("[!.]*")} for folder in folders]


class Killer(Silent):
    """Kills a host once all nodes' checkpoints of some round have come here."""

    def __init__(self, run, engine, host=1):
        self.run, self.engine, self.host, self.said = run, engine, host, []

    def say(self, text):
        self.said.append(text)

    def row(self, row):
        host = self.engine.launched.hosts[self.host].process
        if row.round == 8 and host.poll() is None:
            eventually(lambda: set.intersection(*checkpoints_of(self.run)))
            host.kill()
            host.wait()


def test_nodes_on_two_hosts_end_with_the_bits_and_the_files_of_a_local_run(chaos, tmp_path):
    settings = {"dataset": "digits", "model": "mlp", "batch": 8, "reveal_batches": True}
    assert alone(tmp_path / "alone", attackers=(1, 2), **settings).status == "completed"
    assert placed(tmp_path / "run", attackers=(1, 2), **settings).status == "completed"
    here, there = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert len(here["logs"]) == 2
    assert chaos.differences(here, there) == []
    assert chaos.leftovers(tmp_path / "run") == []
    assert files_of(tmp_path / "run") == files_of(tmp_path / "alone")
    for path in (*tmp_path.glob("run/nodes/*/*"), *tmp_path.glob("run/attacks/*")):
        assert path.stat().st_mode & 0o077 == 0


def test_a_run_whose_host_is_killed_goes_on_from_what_came_back_to_the_same_bits(chaos, tmp_path):
    settings = {"rounds": 30, "latency": 20, "noise_exchange": "tensor", "noise_every": 3}
    assert alone(tmp_path / "alone", attackers=(0, 3), **settings).status == "completed"
    run, engine = tmp_path / "run", Pipes()
    killer = Killer(run, engine)
    summary = placed(run, engine, killer, attackers=(0, 3), **settings)
    assert summary.status == "failed"
    assert "was lost with host h1: sh was killed by SIGKILL" in summary.error
    heard = Killer(run, engine)
    assert go_on(run, heard).status == "completed"
    assert [text for text in heard.said if text.startswith("note: going on from round ")]
    assert "note: going on from round 0" not in heard.said
    here, there = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert chaos.differences(here, there) == []
    assert chaos.leftovers(run) == []


def test_the_others_go_on_without_the_nodes_of_a_host_that_is_killed(tmp_path):
    run, engine = tmp_path / "run", Pipes()
    settings = {"rounds": 30, "latency": 20, "on_failure": "continue", "rule": "dsgt"}
    summary = placed(run, engine, Killer(run, engine), **settings)
    assert summary.status in ("completed", "doubtful"), summary.error
    told = [event for event in read_lines(run / "views.jsonl") if event["kind"] == "view"]
    assert tuple(told[-1]["members"]) == (0, 1)
    assert (run / "nodes/1/state.pt").exists()
    assert not (run / "nodes/2/state.pt").exists()


def test_a_rule_of_ones_own_goes_to_the_hosts(tmp_path):
    file = Path(__file__).parent.parent / "examples" / "push_sum.py"
    told, rule = {**SMALL, "topology": "directed-ring"}, f"{file}:PushSum"
    code = own_code(None, rule)
    with scouted(code) as scout:
        settings = name_settings(told, rule, scout.names())
    blueprint = make_blueprint(settings, NODES, "run")
    runs = [tmp_path / "alone", tmp_path / "run"]
    ended = [
        run_local(blueprint, runs[0], Silent(), scout=Scout(code)),
        run_placed(blueprint, runs[1], Silent(), Pipes(), scout=Scout(code)),
    ]
    assert [summary.status for summary in ended] == ["completed", "completed"]
    here, there = ([f.read_bytes() for f in sorted(r.glob("nodes/*/state.pt"))] for r in runs)
    assert len(here) == NODES
    assert here == there


def test_a_node_that_dies_on_a_host_is_named_with_its_last_words(tmp_path):
    summary = placed(tmp_path / "run", chaos="exception:3@4")
    assert summary.status == "failed"
    assert "node 3" in summary.error
    assert "ValueError: asked for by --chaos" in summary.error
    assert "asked for by --chaos" in (tmp_path / "run/nodes/3/output.log").read_text()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo no way in >&2; exit 255", "sh ended with exit code 255 (no way in)"),
        ("head -c 100000 /dev/zero; exec sleep 600", "it sends what no host does: there is much"),
        ("echo lppa host 1; yes; exec sleep 600", "it sends what no host does: a frame of"),
    ],
)
def test_a_host_that_is_none_is_told_in_a_sentence(tmp_path, command, words):
    summary = placed(tmp_path / "run", Pipes(command))
    assert summary.status == "failed"
    assert summary.error.startswith("node 0 was lost with host h0: " + words)


@pytest.fixture
def begun(started, tmp_path):
    """`lppa run --engine ssh`, just begun, with a shell in the place of ssh."""
    (tmp_path / "hosts").write_text(f"one python={sys.executable}\ntwo python={sys.executable}\n")
    # Calls what ssh would call there: the last of its words.
    ssh = "sh -c 'for last; do :; done; exec sh -c \"$last\"' ssh"
    told = {**SMALL, "rounds": 2000, "latency": 10}
    options = [x for k, v in told.items() for x in (f"--{k.replace('_', '-')}", v)]
    options += ["--engine", "ssh", "--hosts", tmp_path / "hosts", "--ssh", ssh, "-q"]
    options += ["--interface", "127.0.0.1", "--out", tmp_path / "run"]
    return started.command("lppa", "run", "-n", NODES, *options)


@pytest.fixture
def running(begun, tmp_path):
    """The same in the middle of its rounds."""
    history = tmp_path / "run/history.jsonl"
    eventually(lambda: begun.poll() is not None or len(read_lines(history)) > 3)
    assert begun.poll() is None, begun.err
    return begun


def test_a_run_that_is_interrupted_while_hosts_start_leaves_nothing(started, begun, tmp_path):
    # Before it begins, the run itself has such a folder, to look at data and code in.
    eventually(lambda: (tmp_path / "run" / "config.json").exists(), what="the run's beginning")
    eventually(lambda: list(started.temporary.glob("lppa-*")), what="the folder of a host")
    begun.signal(signal.SIGINT)
    assert begun.end().code == 130, begun.err
    started.all_end()
    assert list(started.temporary.glob("lppa-*")) == []
    assert read_summary(tmp_path / "run")["status"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_on_its_hosts(started, running, tmp_path, number):
    running.signal_group(number) if number == signal.SIGINT else running.signal(number)
    ended = running.end()
    assert ended.code == 130, ended.err
    assert read_summary(tmp_path / "run")["status"] == "interrupted"
    started.all_end()
    assert list(started.temporary.glob("lppa-*")) == []
    assert set.intersection(*checkpoints_of(tmp_path / "run"))


def test_hosts_end_with_a_run_that_is_killed(started, running):
    running.signal(signal.SIGKILL)
    running.end()
    eventually(lambda: not marked(started.mark), what="nobody outlives the run")
    assert list(started.temporary.glob("lppa-*")) == []
