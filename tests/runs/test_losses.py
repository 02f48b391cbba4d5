"""Runs that go on without nodes that were lost, in real processes."""

from __future__ import annotations

import json
import signal

import pytest
from processes import PATIENCE, eventually, node_pids, read_lines, read_summary
from traces import check_trace, of_run

from lppa.coordinator.metrics import rounding_bound
from lppa.protocol.settings import make_settings
from lppa.running.chaos import parse_chaos
from lppa.running.display import Silent
from lppa.running.past import read_past
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local

SMALL = {
    "dataset": "quadratic",
    "rounds": 24,
    "eval_every": 2,
    "beta": 0.1,
    "seed": 1,
    "timeout": 300,
    "on_failure": "continue",
}


@pytest.fixture
def lossy_run(tmp_path):
    """A run with trouble in it; returns its summary and its directory."""

    def run(trouble, nodes=5, **settings):
        blueprint = make_blueprint(make_settings({**SMALL, **settings}), nodes, "run")
        chaos = parse_chaos(trouble, nodes)
        return run_local(blueprint, tmp_path / "run", Silent(), chaos=chaos), tmp_path / "run"

    return run


def views(run):
    """First round and members of each view but the first."""
    told = [event for event in read_lines(run / "views.jsonl") if event["kind"] == "view"]
    return [(event["round"], tuple(event["members"])) for event in told]


def assert_conserved(run, first_round, settings=SMALL):
    """In the rounds of the last view nothing but rounding keeps Σγ from Σḡ."""
    rows = [row for row in read_lines(run / "history.jsonl") if row["round"] > first_round]
    assert rows
    for row in rows:
        bound = rounding_bound("float32", settings["rounds"], 6, row["noise_to_gradient"])
        assert row["conservation"] < bound, row


@pytest.mark.parametrize(
    ("rule", "topology"),
    [("lppa", "full"), ("lppa", "random-regular:4"), ("dsgt", "ring"), ("dp", "ring")],
)
def test_the_others_go_on_without_one_that_was_killed(lossy_run, rule, topology):
    summary, run = lossy_run("kill:2@7", 6, rule=rule, topology=topology)
    assert check_trace(of_run(read_lines(run / "views.jsonl"), 6)) == []
    assert summary.status == "completed", summary.error
    ((first, members),) = views(run)
    assert members == (0, 1, 3, 4, 5)
    assert 6 <= first <= 7 + 6
    last = summary.rounds + summary.finish
    assert read_lines(run / "history.jsonl")[-1]["round"] == summary.rounds_done == last
    if rule != "dp":
        assert_conserved(run, first)


def test_clients_with_data_go_on_without_one_that_was_killed(lossy_run):
    # There is something to hide then, and what is left is judged by that.
    summary, run = lossy_run("kill:2@7", dataset="digits", beta="auto", eval_samples=50)
    assert summary.status == "completed", summary.error
    ((_, members),) = views(run)
    assert members == (0, 1, 3, 4)
    (judged,) = json.loads((run / "audit.json").read_text())["views"]
    assert judged["members"] == [0, 1, 3, 4]
    assert judged["ratio"] > 0


def test_two_that_die_at_once_and_one_in_the_change_that_follows_are_done_without(lossy_run):
    summary, run = lossy_run("kill:1@6,kill:4@6,exit:5@7", 7)
    assert summary.status == "completed", summary.error
    first, members = views(run)[-1]
    assert members == (0, 2, 3, 6)
    assert_conserved(run, first)


@pytest.mark.parametrize(("topology", "lost"), [("star", 0), ("directed-ring", 2)])
def test_a_run_that_falls_apart_ends_and_says_who_is_cut_off(lossy_run, topology, lost):
    summary, run = lossy_run(f"kill:{lost}@5", topology=topology)
    assert summary.status == "failed"
    assert "cut off" in summary.error, summary.error
    assert views(run) == []


def test_a_run_in_which_gradients_would_lie_open_without_the_lost_one_ends(lossy_run):
    summary, run = lossy_run("kill:2@5", 6, topology="ring")
    assert summary.status == "failed"
    assert "open to be read" in summary.error, summary.error
    assert views(run) == []


def test_a_run_that_lost_all_of_its_nodes_at_once_ends_with_a_summary(lossy_run):
    summary, run = lossy_run("kill:0@5,kill:1@5,kill:2@5", 3)
    assert (summary.status, read_summary(run)["status"]) == ("failed", "failed")
    assert "--resume" in summary.error, summary.error


def test_a_run_that_goes_on_again_still_tells_of_its_earlier_views_and_losses(lossy_run):
    all_at_once = ",".join(f"kill:{node}@14" for node in (0, 1, 3, 4))
    summary, run = lossy_run(f"kill:2@5,{all_at_once}", checkpoint_every=2)
    assert summary.status == "failed"
    past = read_past(run)
    summary = run_local(past.blueprint, run, Silent(), past=past)
    assert summary.status == "completed", summary.error
    told = [tuple(members) for _, members in views(run)]
    assert told[0] == (0, 1, 3, 4)
    audited = json.loads((run / "audit.json").read_text())["views"]
    assert [tuple(view["members"]) for view in audited] == told
    about = [text for text in summary.warnings if "went on without it" in text]
    assert about[0] == "node 2 was killed by SIGKILL; the others went on without it"
    # On a busy machine one of the four may be seen to end before the others do.
    assert all("was killed by SIGKILL" in text for text in about[1:])


@pytest.mark.parametrize("at", [23, 26])
def test_a_loss_near_the_end_leaves_the_others_with_their_results(lossy_run, at):
    summary, run = lossy_run(f"kill:3@{at}", finish=4)
    assert summary.status == "completed", summary.error
    ((_, members),) = views(run)
    assert members == (0, 1, 2, 4)
    assert all((run / "nodes" / str(node) / "state.pt").exists() for node in members)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["slow:2@8x60", "stop:2@8"])
def test_one_that_keeps_the_others_waiting_is_named_and_dropped(lossy_run, trouble):
    summary, run = lossy_run(trouble, slow="drop:2")
    assert summary.status == "completed", summary.error
    ((_, members),) = views(run)
    assert members == (0, 1, 3, 4)
    assert any(text.startswith("node 2 kept the others waiting") for text in summary.warnings)


@pytest.mark.slow
def test_a_node_that_was_lost_comes_back_and_joins_the_others(started, tmp_path):
    nodes, out = 5, tmp_path / "run"
    peers = started.peers(nodes)
    settings = {**SMALL, "rounds": 400, "latency": 20, "timeout": PATIENCE}
    told = [x for k, v in settings.items() for x in (f"--{k.replace('_', '-')}", v)]
    coordinator = started.coordinator(peers, out, *told)
    running = [started.node(node, peers, "--out", out) for node in range(nodes)]
    eventually(lambda: len(read_lines(out / "history.jsonl")) > 3 and 2 in node_pids(out))
    running[2].signal(signal.SIGKILL)
    eventually(lambda: len(views(out)) == 1, what="the others go on")
    back = started.node(2, peers, "--resume", out)
    eventually(lambda: len(views(out)) == 2, what="it is back")
    ended = coordinator.end()
    assert ended.code == 0, ended.err
    assert back.end().code == 0, back.err
    assert [members for _, members in views(out)] == [(0, 1, 3, 4), (0, 1, 2, 3, 4)]
    assert read_summary(out)["status"] == "completed"
    assert_conserved(out, views(out)[-1][0] + nodes, settings)
    started.all_end()


@pytest.mark.slow
def test_a_node_that_was_never_there_joins_the_others_when_it_comes(started, tmp_path):
    nodes, out = 5, tmp_path / "run"
    peers = started.peers(nodes)
    settings = {**SMALL, "rounds": 400, "latency": 20, "timeout": PATIENCE}
    told = [x for k, v in settings.items() for x in (f"--{k.replace('_', '-')}", v)]
    coordinator = started.coordinator(peers, out, "--later", 4, *told)
    running = [started.node(node, peers, "--out", out) for node in range(4)]
    eventually(lambda: len(read_lines(out / "history.jsonl")) > 3, what="they begin without it")
    new = started.node(4, peers, "--out", tmp_path / "elsewhere")
    eventually(lambda: len(views(out)) == 2, what="it is in the graph")
    ended = coordinator.end()
    assert ended.code == 0, ended.err
    assert "node 4 is here, and joins the others" in ended.err
    assert [node.end().code for node in (*running, new)] == [0] * nodes
    assert [members for _, members in views(out)] == [(0, 1, 2, 3), (0, 1, 2, 3, 4)]
    audited = json.loads((out / "audit.json").read_text())["views"]
    assert [view["epoch"] for view in audited] == [0, 1]
    assert read_summary(out)["status"] == "completed"
    assert_conserved(out, views(out)[-1][0] + nodes, settings)
    assert (tmp_path / "elsewhere/nodes/4/state.pt").exists()
    started.all_end()


@pytest.mark.parametrize(
    ("later", "options", "reason"),
    [
        ("4", ("--on-failure", "stop"), "goes with --on-failure continue"),
        ("7", (), "there is no node 7"),
        ("0", ("--topology", "star"), "--later 0: without node 0 the topology star falls apart"),
    ],
)
def test_a_run_that_cannot_do_without_a_node_is_refused(started, tmp_path, later, options, reason):
    given = ("--peers", started.peers(5), "--out", tmp_path / "run", "--later", later)
    settings = ("--dataset", "quadratic", "--on-failure", "continue", *options)
    ended = started.quick("lppa-coordinator", *given, *settings).end()
    assert ended.code == 2, ended
    assert reason in ended.errors[0]
    assert not (tmp_path / "run").exists()
