"""Five real processes end with exactly what Algorithm 1 says."""

from __future__ import annotations

import queue
import threading
from dataclasses import replace

import pytest
import torch
from reference import reference

from lppa.coordinator.views import first_view
from lppa.node.client import around
from lppa.node.learner import make_learner
from lppa.node.rules import RULES
from lppa.node.training import Task, Training
from lppa.protocol.links import PART, LocalLinks
from lppa.protocol.lock import FolderLock
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint


def assert_equals_reference(run):
    assert run.summary["status"] == "completed", run.summary
    for name, expected in zip(("theta", "gamma"), reference(run.blueprint), strict=True):
        if expected is None:
            continue
        error = (run.final(name) - expected).norm() / expected.norm()
        assert error < 1e-9, (name, float(error))


@pytest.mark.parametrize("local_steps", [1, 3])
@pytest.mark.parametrize("topology", ["full", "directed-ring", "irregular"])
@pytest.mark.parametrize("rule", ["dsgt", "dp", "lppa", "dsgd"])
def test_five_processes_end_where_the_reference_ends(
    local_run, irregular, rule, topology, local_steps
):
    run = local_run(
        dataset="quadratic",
        rule=rule,
        topology=irregular if topology == "irregular" else topology,
        local_steps=local_steps,
        rounds=12,
        lr=0.05,
        beta=0.5,
        dtype="float64",
        init="independent",
        mixing="combine-then-adapt",
        noise_every=0,
        noise_exchange="tensor",
        seed=7,
    )
    assert_equals_reference(run)


@pytest.mark.parametrize(
    "settings",
    [
        {"mixing": "adapt-then-combine", "rule": "lppa", "noise_every": 1},
        {"mixing": "adapt-then-combine", "rule": "dp", "noise_every": 3, "noise": "gaussian"},
        {"mixing": "combine-then-adapt", "rule": "lppa", "finish": 4, "lr_decay": 0.1},
        {"rule": "lppa", "noise_every": 1, "local_steps": 10, "lr_decay": 0.1, "finish": 2},
        {"init": "common", "rule": "lppa", "weights": "uniform", "noise_every": 2},
        {"rule": "lppa", "noise_exchange": "seed", "noise_every": 1},
        {"rule": "lppa", "noise_exchange": "seed", "noise_every": 3, "noise": "gaussian"},
        {"rule": "lppa", "beta_own": 0.2, "noise_every": 1},
    ],
)
def test_every_variant_ends_where_the_reference_ends(local_run, irregular, settings):
    common = {"dataset": "quadratic", "rounds": 10, "lr": 0.05, "beta": 0.5, "local_steps": 2}
    common |= {"noise_every": 0, "noise_exchange": "tensor"}
    run = local_run(dtype="float64", seed=3, topology=irregular, **{**common, **settings})
    assert_equals_reference(run)


@pytest.mark.parametrize("model", ["mlp", "cnn", "lenet"])
def test_a_network_on_real_data_ends_where_the_reference_ends(local_run, irregular, model):
    steps = {"local_steps": 3, "rounds": 4, "batch": 32}
    noise = {"beta": 0.025, "noise_every": 0, "noise_exchange": "tensor"}
    run = local_run(model=model, topology=irregular, dtype="float64", seed=5, **steps, **noise)
    assert_equals_reference(run)


def test_what_nobody_set_ends_where_the_reference_ends(local_run):
    """Fresh noise from seeds in every round, as large as hides, and ten local steps."""
    run = local_run(rounds=4, dtype="float64", seed=5)
    settings = run.blueprint.settings
    assert (settings.noise_every, settings.noise_exchange) == (1, "seed")
    assert settings.local_steps == 10
    assert settings.beta > 0
    assert_equals_reference(run)


def bits(run):
    return [run.final(name).numpy().tobytes() for name in ("theta", "gamma", "g")]


@pytest.mark.parametrize("exchange", ["tensor", "seed"])
def test_same_seeds_give_the_same_bits_whatever_the_arrival_order(local_run, irregular, exchange):
    settings = {"topology": irregular, "rounds": 8, "local_steps": 2, "seed": 11, "beta": 0.025}
    settings |= {"noise_every": 2, "noise_exchange": exchange}
    first = local_run(**settings)
    assert bits(local_run(**settings)) == bits(first)
    assert bits(local_run(**settings, latency=30)) == bits(first)
    assert bits(local_run(**{**settings, "seed": 12})) != bits(first)


def test_the_network_gives_the_same_bits_as_no_network(local_run, irregular, tmp_path):
    settings = {"topology": irregular, "rounds": 6, "local_steps": 2, "seed": 2, "beta": 0.025}
    settings |= {"noise_every": 2, "noise_exchange": "tensor"}
    ended = run_in_threads(settings, tmp_path / "threads")
    run = local_run(**settings)
    for name in ("theta", "gamma"):
        expected = torch.stack([final[name] for final in ended])
        assert torch.equal(run.final(name), expected)


@pytest.mark.parametrize("part", [1, 7, 19, 20])
@pytest.mark.parametrize(
    "told",
    [
        {"rule": "lppa"},
        {"rule": "lppa", "noise_exchange": "tensor", "noise_every": 2, "momentum": 0.5},
        {"rule": "lppa", "mixing": "combine-then-adapt", "local_steps": 1, "beta_own": 0.1},
        {"rule": "dp"},
        {"rule": "dsgd"},
    ],
    ids=lambda told: " ".join(map(str, told.values())),
)
def test_vectors_that_travel_in_parts_give_the_same_bits(irregular, tmp_path, told, part):
    settings = {"dataset": "quadratic", "topology": irregular, "rounds": 6, "seed": 2}
    settings |= {"beta": 0.025, "finish": 2, "local_steps": 2, **told}
    whole = run_in_threads(settings, tmp_path / "whole")
    parts = run_in_threads(settings, tmp_path / "parts", part=part)
    for one, other in zip(whole, parts, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def run_in_threads(settings, folder, nodes=5, part=PART):
    """The same training code over in-process links, one thread per client."""
    blueprint = make_blueprint(make_settings({"timeout": 300, **settings}), nodes, "threads")
    queues = [queue.SimpleQueue() for _ in range(nodes)]
    settings, ended = blueprint.settings, [None] * nodes
    cpu, rule = torch.device("cpu"), RULES[settings.rule]
    # One after the other: what opens files of arrays cannot be done by several threads at once.
    learners = [make_learner(settings, i, nodes, blueprint.run_seed, cpu) for i in range(nodes)]

    def client(i):
        view = first_view(blueprint).told_to(i)
        learner = learners[i]
        near = replace(around(view, i, settings, rule, learner.size), part=part)
        links = LocalLinks(near, queues)
        own, silent = folder / str(i), lambda message: None
        training = Training(
            Task(
                settings,
                rule,
                learner,
                cpu,
                blueprint.run_seed,
                nodes,
                "",
                own,
                silent,
                FolderLock(own),
            )
        )
        training.run(links, view)
        training.finish()
        training.close()
        ended[i] = torch.load(own / "state.pt", weights_only=True)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(nodes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def test_encryption_changes_no_bit(local_run):
    settings = {"dataset": "quadratic", "rounds": 5, "seed": 4, "local_steps": 1}
    settings |= {"beta": 0.025, "noise_every": 1, "noise_exchange": "tensor"}
    plain, secret = local_run(**settings), local_run(secure=True, **settings)
    assert secret.summary["status"] == "completed", secret.summary
    assert bits(plain) == bits(secret)


def test_without_a_seed_every_run_draws_its_own_noise(local_run):
    first, second = (local_run(dataset="quadratic", rounds=2) for _ in range(2))
    assert bits(first) != bits(second)
