"""The search over restarts: who wins, who is given up, when it ends."""

from __future__ import annotations

import math
import time

import pytest
import torch
from victims import gradient, victim

from lppa.attack.descent import Descent, Lbfgs, SignedAdam
from lppa.attack.inversion import invert
from lppa.attack.restarts import Options, Patience, search
from lppa.bench.inversion import dlg_speed


def nothing_fixed(rows):
    return torch.zeros(rows, 0)


def answer(row, fixed):
    return row.clone(), torch.zeros(1, dtype=torch.long)


class Scripted(Descent):
    """Restarts whose losses are written down beforehand; the point tells row and step."""

    def __init__(self, losses):
        self.losses, self.at = losses, 0
        super().__init__(lambda point, fixed: point[:, 0], *self._start())

    def _start(self):
        return torch.tensor([[row, 0.0] for row in range(len(self.losses))]), torch.zeros(
            len(self.losses), 0
        )

    def evaluate(self, point):
        return torch.zeros_like(point), self.losses[point[:, 0].long(), self.at]

    def step(self):
        self.at += 1
        point = self.point.clone()
        point[:, 1] = self.at
        self.move(point, *self.evaluate(point))

    def keep(self, rows):
        script = self.losses
        super().keep(rows)
        self.losses = script


def scripted(*losses, **patience):
    steps = len(losses[0]) - 1
    descent = Scripted(torch.tensor(losses))
    return search(descent, answer, steps, Options(), 1.0, Patience(**patience))


def test_the_lowest_loss_wins_whenever_it_was_reached():
    found = scripted([9.0, 5.0, 4.0, 4.0], [9.0, 1.0, 7.0, 8.0], [9.0, 3.0, 2.0, 2.0])
    assert found.restart == 1
    assert found.loss == 1.0
    assert found.images.tolist() == [1.0, 1.0]  # row 1 as it was after step 1


def test_a_restart_that_becomes_nan_is_dropped_and_the_others_go_on():
    found = scripted([9.0, 0.5, math.nan, math.nan], [9.0, 8.0, 7.0, 6.0])
    assert found.loss == 0.5
    assert found.restart == 0
    steps = [line["restart"] for line in found.history]
    assert steps == [0, 1, 0, 1, 1]


def test_when_all_restarts_are_nan_the_start_is_returned_with_infinite_loss():
    found = scripted([math.nan, math.nan, 1.0], [math.nan, math.nan, 1.0])
    assert found.loss == math.inf
    assert found.iterations == 1


def test_a_restart_without_progress_is_given_up_after_its_window():
    found = scripted([9.0] * 10, [2.0**-k for k in range(10)], window=3, done=0, close=0)
    steps = [line["restart"] for line in found.history]
    assert steps.count(0) == 4
    assert steps.count(1) == 9


def test_the_search_ends_when_one_restart_has_explained_the_vector():
    assert scripted([9.0] * 6, [9.0, 1.0, 1e-12, 1.0, 1.0, 1.0]).iterations == 2


def test_a_budget_of_seconds_ends_the_search_early():
    begin = time.monotonic()
    found = invert("dlg", gradient([0], sigma=0.1), victim(), restarts=2, seconds=0.5)
    assert 1 <= found.iterations < 30
    assert time.monotonic() - begin < 30


def test_every_step_is_reported_and_the_same_seed_gives_the_same_losses():
    calls = []

    def on_step(*call):
        calls.append(call)

    first = invert("dlg", gradient([0]), victim(), restarts=2, steps=2, seed=3, on_step=on_step)
    again = invert("dlg", gradient([0]), victim(), restarts=2, steps=2, seed=3)
    other = invert("dlg", gradient([0]), victim(), restarts=2, steps=2, seed=4)
    assert [(c[0], c[1]) for c in calls] == [(0, 1), (1, 1), (0, 2), (1, 2)]
    assert first.history == again.history != other.history
    assert [line["loss"] for line in first.history] == [c[2] for c in calls]
    assert [step for step, _ in first.snapshots] == [0, 1, 2]


def rosenbrock(rows, fixed):
    x, y = rows[:, 0], rows[:, 1]
    return (1 - x).square() + 100 * (y - x.square()).square()


@pytest.mark.parametrize("search_line", [False, True])
def test_lbfgs_takes_the_steps_that_torch_takes(search_line):
    start = torch.tensor([[-1.2, 1.0], [0.5, 0.4]], dtype=torch.float64)
    ours = Lbfgs(rosenbrock, start, nothing_fixed(2), inner=60, search=search_line)
    ours.step()
    if search_line:  # other steps than torch's, but to the same place
        torch.testing.assert_close(ours.best, torch.ones_like(start), atol=1e-4, rtol=0)
        return
    for row in range(2):
        point = start[row].clone().requires_grad_()
        optimizer = torch.optim.LBFGS([point], max_iter=60)

        def closure(point=point, optimizer=optimizer):
            optimizer.zero_grad()
            loss = rosenbrock(point[None], None).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        torch.testing.assert_close(ours.best[row], point.detach(), atol=1e-4, rtol=0)


def test_lbfgs_forgets_the_oldest_pairs_and_still_converges():
    generator = torch.Generator().manual_seed(0)
    scales = torch.linspace(1, 50, 30, dtype=torch.float64)
    start = torch.randn(3, 30, generator=generator, dtype=torch.float64)
    descent = Lbfgs(
        lambda rows, _: (scales * rows.square()).sum(1) / 2, start, nothing_fixed(3), history=5
    )
    for _ in range(10):
        descent.step()
    assert descent.best_loss.max() < 1e-12


def test_signed_adam_stays_in_its_box_and_reaches_the_wall_that_is_nearest():
    goal = torch.tensor([2.0, -1.0, 0.25])
    descent = SignedAdam(
        lambda rows, _: (rows - goal).square().sum(1),
        torch.full((1, 3), 0.5),
        nothing_fixed(1),
        steps=100,
        box=lambda point: point.clamp(0, 1),
    )
    for _ in range(100):
        descent.step()
    torch.testing.assert_close(descent.best[0], torch.tensor([1.0, 0.0, 0.25]), atol=1e-2, rtol=0)


def test_the_speed_is_measured_against_the_plain_loop():
    speed = dlg_speed(shape=(1, 8, 8), steps=1, repeats=1)
    assert speed.ours > 0 and speed.plain > 0
    assert speed.ratio == speed.ours / speed.plain
