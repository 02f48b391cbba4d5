"""Noise by seed in real processes: what it has of noise by tensor, and no seed is wrong unseen."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from processes import PATIENCE, Started, read_summary, run_command, run_talkative_node

from lppa.node import join
from lppa.node.neighbours import Neighbours
from lppa.protocol.links import Links
from lppa.protocol.messages import Seed

SEEDED = {"rule": "lppa", "noise_exchange": "seed", "noise_every": 1, "beta": 0.025}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("every", [0, 1, 3])
def test_in_a_directed_ring_by_seed_or_by_tensor_the_bits_are_the_same(local_run, every, dtype):
    """Where an edge goes one way, there is nothing to be drawn at once."""
    settings = {
        "topology": "directed-ring",
        "model": "mlp",
        "local_steps": 1,
        "rounds": 7,
        "seed": 4,
        "dtype": dtype,
        "beta": 0.025,
    }
    runs = [
        local_run(rule="lppa", noise_every=every, noise_exchange=exchange, **settings)
        for exchange in ("tensor", "seed")
    ]
    for name in ("theta", "gamma", "g"):
        assert torch.equal(*(run.final(name) for run in runs))
    tensor, seed = (run.summary["bytes"]["noise"] for run in runs)
    times = {0: 1, 1: 7, 3: 3}[every]
    parameters = runs[0].final("theta").shape[1]
    assert tensor == 5 * times * parameters * (4 if dtype == "float32" else 8)
    assert seed == 5 * 64  # a seed and its commitment for each of 5 edges, once


def test_without_a_seed_of_its_own_a_run_draws_secret_seeds_and_still_conserves(local_run):
    runs = [local_run(model="mlp", rounds=5, local_steps=1, **SEEDED) for _ in range(2)]
    assert not torch.equal(*(run.final("theta") for run in runs))
    for run in runs:
        assert run.summary["conservation"] < 1e-5
        assert run.summary["history"][-1]["noise_to_gradient"] > 0


def test_own_noise_breaks_the_conservation_and_is_the_only_thing_that_does(local_run):
    settings = {"model": "mlp", "rounds": 3, "local_steps": 1, "seed": 2}
    plain = local_run(**SEEDED, **settings)
    own = local_run(**SEEDED, beta_own=0.01, **settings)
    assert plain.summary["conservation"] < 1e-5
    assert own.summary["conservation"] > 1e-3


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_run_with_clipped_gradients_keeps_their_norm(local_run, noise):
    run = local_run(nodes=2, model="mlp", rounds=2, local_steps=1, clip=0.01, noise=noise, **SEEDED)
    g = run.final("g")
    norms = g.norm(1 if noise == "laplace" else 2, dim=1)
    assert float(norms.max()) <= 0.01 * 1.001
    assert float(norms.min()) > 0


# --- nodes that do it wrong ---------------------------------------------------------------------


def send_another_seed(self, t, sent, honest=Neighbours.exchange_seeds):
    """What is sent is not what the commitment was made for."""
    return honest(self, t, {to: (bytes(32), commitment) for to, (_, commitment) in sent.items()})


def send_no_seed(self, message, *receivers, honest=Links.send):
    """All but the seeds is sent."""
    # The others will wait in vain and it will too: it has more patience, so that they complain.
    self.around = replace(self.around, timeout=PATIENCE)
    if not isinstance(message, Seed):
        honest(self, message, *receivers)


def strange_node(what, *given):
    """The life of `lppa-node` with a fault; runs in the child."""
    run = run_command
    if what == "another seed":
        Neighbours.exchange_seeds = send_another_seed
    elif what == "no seed":
        Links.send, run = send_no_seed, run_talkative_node
    elif what == "no seeds at all":
        join.NOISE_EXCHANGES = ("tensor",)
    run(*given)


@pytest.mark.parametrize(
    ("what", "timeout", "reason"),
    [
        ("another seed", 60, "node 1 sent to node"),
        ("no seed", 10, "for the seed of round 0 from node 1"),
        ("no seeds at all", 60, "node 1 on"),
    ],
)
def test_a_wrong_or_missing_seed_ends_the_run_before_it_is_used(tmp_path, what, timeout, reason):
    with Started(tmp_path) as started:
        peers = started.peers(3)
        out = tmp_path / "run"
        options = ["--noise-exchange", "seed", "--timeout", timeout, "--dataset", "quadratic"]
        # Before the coordinator, whose --timeout may be too short for them to start in.
        given = [("--timeout", PATIENCE, "--out", tmp_path / f"out-{i}") for i in range(3)]
        nodes = [started.node(i, peers, *given[i]) for i in (0, 2)]
        nodes.append(started.node(1, peers, *given[1], life=strange_node, given=(what,)))
        coordinator = started.coordinator(peers, out, *options, "--local-steps", "1")
        assert coordinator.end().code == 1
        for node in nodes:
            node.end()
        summary = read_summary(out)
    assert summary["status"] == "failed"
    assert reason in summary["error"]
    assert summary["round"] == 0
    assert not summary["history"]
    if what == "no seeds at all":
        assert "does not know --noise-exchange seed (it knows tensor)" in summary["error"]
    else:
        assert summary["node"] is not None
