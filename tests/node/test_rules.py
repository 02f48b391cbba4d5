"""Rules of ours: what clients do is what the registry of facts says, for each of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from schedules import make_schedule

from lppa.coordinator.sinkhorn import weight_matrix
from lppa.coordinator.topology import build_topology
from lppa.models.rules import FACTS, cancelling_rules
from lppa.models.tracking import messages
from lppa.node.rules import RULES, UPDATES
from lppa.node.updates import Local
from lppa.protocol import settings

NODES, ROUNDS, STEP, DECAY = 5, 4, 0.3, 0.2


def test_every_module_that_lists_rules_lists_the_same():
    assert tuple(FACTS) == settings.RULES == tuple(UPDATES)
    assert tuple(cancelling_rules()) == settings.CANCELLING


@pytest.mark.parametrize("name", FACTS)
def test_clients_send_the_vectors_and_add_the_noise_that_audits_reckon_with(name):
    update, facts = RULES[name].update(), FACTS[name]
    assert update.travels == facts.update.sends
    assert update.noised == facts.update.noised
    assert RULES[name].noise == facts.noise


@pytest.mark.parametrize("adapt_first", [True, False])
@pytest.mark.parametrize("own", [0.0, 0.5])
@pytest.mark.parametrize("every", [0, 1, 2])
@pytest.mark.parametrize("name", FACTS)
def test_clients_messages_are_the_rows_that_audits_are_made_of(name, every, own, adapt_first):
    own = own if FACTS[name].cancels else 0.0
    W = weight_matrix(build_topology("ring", NODES, 1), "random", 2)
    schedule = make_schedule(W, name, every, adapt_first, False, STEP, ROUNDS, own, DECAY)
    rows = messages(schedule)
    values = np.random.default_rng(1).normal(size=len(rows.columns))
    for t, sent in enumerate(run(name, schedule, rows.columns, values)):
        for vector, expected in ((v, getattr(rows, v)[t] @ values) for v in sent):
            np.testing.assert_allclose(sent[vector], expected, atol=1e-12)


def run(name, schedule, columns, values):
    """What the clients' own code sends, its gradients and noise being numbers that were drawn."""

    def local(node):
        def gradient(x, c, t):
            return torch.tensor([values[columns["g", node, t]]])

        return Local(gradient, schedule.step, schedule.adapt_first)

    update, locals_ = RULES[name].update(), [local(i) for i in range(NODES)]
    starts = [torch.tensor([values[columns["theta", i]]]) for i in range(NODES)]
    states = [dict(update.start(*pair)) for pair in zip(starts, locals_, strict=True)]
    for t in range(ROUNDS + 1):
        for (kind, sender, *receiver), place in columns.items():
            if kind == "noise" and receiver[1] == t:
                states[sender][update.noised] = states[sender][update.noised] + values[place]
                if receiver[0] != sender:
                    other = states[receiver[0]]
                    other[update.noised] = other[update.noised] - values[place]
        sent = {v: np.array([float(state[v]) for state in states]) for v in update.travels}
        yield sent
        if t < ROUNDS:
            mixed = {v: torch.from_numpy(schedule.W @ sent[v]) for v in sent}
            states = [
                dict(update.combine(state, {v: mixed[v][i : i + 1] for v in mixed}, t, here))
                for i, (state, here) in enumerate(zip(states, locals_, strict=True))
            ]
