"""A coordinator that is one of us and lies: nodes refuse its plans, and write nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pretended import pretend
from processes import PATIENCE, read_summary, run_command

from lppa.coordinator.views import first_view
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import State
from lppa.protocol.network import NetworkLinks
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint


def two_plans(**of_second):
    """The plans of two nodes, with the same number of the coordinator's, whatever they say."""
    both = make_settings({"dataset": "quadratic", "beta": 0.1, "timeout": 60})
    settings = (both, make_settings(both.to_dict(), of_second))
    # The graph is the same: full, of two nodes.
    blueprints = [make_blueprint(told, 2, "run") for told in settings]
    plans = [b.plan(i, first_view(b)) for i, b in enumerate(blueprints)]
    number = "f" * 64
    return [replace(p, run_seed=1, fingerprint=number, greeting=number) for p in plans]


@pytest.mark.parametrize("lie", [{"beta": 0.0}, {"reveal_batches": True}, {"noise_every": 0}])
def test_other_settings_for_one_node_are_found_out_by_its_neighbour(started, tmp_path, lie):
    peers = started.peers(2)
    options = ("--out", tmp_path / "run", "--allow-reveal-batches")
    nodes = [started.node(i, peers, *options) for i in range(2)]
    ends = pretend(peers, two_plans(**lie), nodes)
    assert all(ended.code == 1 and "Traceback" not in ended.err for ended in ends), ends
    assert any("follows another plan" in ended.err for ended in ends), ends
    assert not (tmp_path / "run").exists()


def test_weights_that_are_not_what_the_sender_was_told_are_found_out(started, tmp_path):
    peers = started.peers(2)
    nodes = [started.node(i, peers, "--out", tmp_path / "run") for i in range(2)]
    plans = two_plans()
    # Each is a row and a column that sum to 1, but they are not of one matrix.
    other = {**plans[1].view, "places": [[1, [0], [0.1], 0.9, [0], [0.1]]]}
    ends = pretend(peers, [plans[0], replace(plans[1], view=other)], nodes)
    assert all(ended.code == 1 and "Traceback" not in ended.err for ended in ends), ends
    assert any("topology, weights or settings differ" in ended.err for ended in ends), ends
    assert not (tmp_path / "run").exists()


def test_a_node_refuses_what_it_was_told_not_to_take_part_in(started, tmp_path):
    peers = started.peers(2)
    first = started.node(0, peers, "--out", tmp_path / "first", "--least-beta", 1)
    second = started.node(1, peers)
    plans = two_plans()
    plans[1] = replace(plans[1], name="../../outside")
    ends = pretend(peers, plans, [first, second])
    assert [ended.code for ended in ends] == [1, 1], ends
    beta = "error: this node refuses the plan: its --beta is 0.1, and --least-beta is 1 here"
    assert ends[0].errors == [beta]
    assert "'../../outside' is no name of a folder" in ends[1].errors[0]
    assert not (tmp_path / "first").exists()
    assert not list(started.here.iterdir())


def test_the_coordinator_names_the_node_that_refuses(started, tmp_path):
    peers, out = started.peers(2), tmp_path / "run"
    node = started.node(0, peers, "--out", out)
    refuses = started.node(1, peers, "--out", out, "--least-noise-every", 1)
    options = ("--dataset", "quadratic", "--rounds", 3, "--noise-every", 2)
    ended = started.coordinator(peers, out, *options).end()
    assert (ended.code, node.end().code, refuses.end().code) == (1, 1, 1)
    assert "node 1 failed in round 0: this node refuses the plan: noise would come" in ended.err


# --- nodes that lie -----------------------------------------------------------------------------


def run_lying_node(how, *given):
    """The life of `lppa-node` that lies from round 2 on; runs in the child."""
    honest = NetworkLinks.send

    def send(self, message, *receivers):
        for receiver in receivers:
            honest(self, lie(message, receiver), receiver)

    def lie(message, receiver):
        if isinstance(message, State) and message.round >= 2:
            vectors = message.vectors
            if how == "huge":
                vectors = {name: np.full_like(array, 3e38) for name, array in vectors.items()}
            elif how == "far":
                vectors = {name: array * np.float32(1e6) for name, array in vectors.items()}
            elif how == "two faces" and receiver == 0:
                vectors = {**vectors, "theta": vectors["theta"] + np.float32(1e-3)}
            elif how == "framing":
                raise RunFailed("node 2 waited 60 s for node 1", node=1, round=message.round)
            return State(message.epoch, message.round, vectors)
        return message

    NetworkLinks.send = send
    run_command(*given)


@pytest.fixture
def with_liar(started, tmp_path):
    """A run of four by hand in which node 2 lies."""

    def run(how, *options):
        peers, out = started.peers(4), tmp_path / "run"
        nodes = [started.node(i, peers, "--out", out) for i in (0, 1, 3)]
        life = {"life": run_lying_node, "given": (how,)}
        nodes.append(started.node(2, peers, "--out", out, **life))
        settings = ("--dataset", "quadratic", "--rounds", 6, "--eval-every", 1, "--seed", 1)
        settings += ("--local-steps", 1, "--timeout", PATIENCE)
        coordinator = started.coordinator(peers, out, *settings, *options)
        ended = coordinator.end()
        for node in nodes:
            assert "Traceback" not in node.end().err
        return ended, read_summary(out)

    return run


def test_values_that_overflow_at_receivers_are_blamed_on_their_sender(with_liar):
    ended, summary = with_liar("huge")
    assert (ended.code, summary["status"], summary["node"]) == (1, "failed", 2), summary
    assert "is no longer finite, because of what node 2 sent: its" in summary["error"]


def test_a_sender_of_two_states_is_named_with_two_witnesses(with_liar):
    ended, summary = with_liar("two faces")
    assert ended.code == 0, ended
    assert "node 2 sent different states to nodes 0 and 1" in ended.err
    assert any("node 2 sent different states to nodes 0" in line for line in summary["warnings"])
    assert summary["status"] == "doubtful"


def test_one_node_cannot_frame_another(with_liar):
    _, summary = with_liar("framing")
    assert (summary["status"], summary["node"]) == ("failed", 2), summary
    assert "it alone says that this is because of node 1" in summary["error"]


def test_with_clipping_a_sender_far_outside_is_named_and_bounded(with_liar):
    ended, summary = with_liar("far", "--robust", "clip")
    assert ended.code == 0, ended
    assert "node 2 is suspect, as nodes 0, 1, 3 say: its" in ended.err
    assert summary["loss"] < 1e6, "a factor of a million did not get through"
