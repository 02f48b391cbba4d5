"""How our `dlg` compares with the algorithm written plainly, for the bench.

The plain loop is the published one (Zhu et al., 2019) line by line: `torch.optim.LBFGS`, one
image, one start. It is here to be measured against and for nothing else.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, softmax

from lppa.attack.descent import Lbfgs
from lppa.attack.guess import Guess
from lppa.attack.problem import Problem
from lppa.attack.target import Target, Term, Victim
from lppa.models.flat import FlatModel


@dataclass(frozen=True)
class Speed:
    """Processor seconds per evaluation of the attack's loss, and their ratio: below 1 is faster."""

    ours: float
    plain: float
    restarts: int

    @property
    def ratio(self) -> float:
        """Ours per restart ÷ the plain loop."""
        return self.ours / self.plain


def dlg_speed(
    shape: tuple[int, ...] = (1, 28, 28),
    classes: int = 10,
    steps: int = 3,
    restarts: int = 4,
    repeats: int = 3,
) -> Speed:
    """Time both on one random image, the same steps of 20 iterations each; the best of `repeats`.

    Counted per evaluation, since the plain loop stops a step early when it has converged.
    """
    victim = Victim("lenet", shape, classes)
    model = FlatModel(victim.module(), victim.dtype)
    generator = torch.Generator().manual_seed(1)
    x, y = torch.rand(1, *shape, generator=generator), torch.tensor([1])
    theta = model.vector()
    vector, _ = model.gradient(theta, x, y)
    target = Target(vector, (Term(1.0, theta, 0),))
    ours, plain = [], []
    for _ in range(repeats):  # in turn, so that a busy machine slows both
        plain.append(_plain(victim, theta, x, y, steps))
        ours.append(_ours(target, victim, steps, restarts))
    return Speed(min(ours), min(plain), restarts)


def _ours(target: Target, victim: Victim, steps: int, restarts: int) -> float:
    problem = Problem(target, victim)
    guess = Guess(problem, joint=True)

    def distance(rows: Tensor, fixed: Tensor) -> Tensor:
        return (problem.gradient(*guess.read(rows, fixed)) - problem.vector).square().sum(1)

    begin = time.process_time()
    descent = Lbfgs(distance, guess.random(restarts, 0), guess.fixed(restarts, None))
    for _ in range(steps):
        descent.step()
    return (time.process_time() - begin) / (steps * descent.inner + 1) / restarts


def _plain(victim: Victim, theta: Tensor, x: Tensor, y: Tensor, steps: int) -> float:
    network = victim.module()
    torch.nn.utils.vector_to_parameters(theta, network.parameters())
    parameters = list(network.parameters())
    truth = torch.autograd.grad(cross_entropy(network(x), y), parameters)
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(x.shape, generator=generator).requires_grad_()
    label = torch.randn(1, victim.classes, generator=generator).requires_grad_()
    optimizer = torch.optim.LBFGS([image, label])
    evaluations = 0

    def closure() -> Tensor:
        nonlocal evaluations
        evaluations += 1
        optimizer.zero_grad()
        loss = -(softmax(label, -1) * log_softmax(network(image), -1)).sum(-1).mean()
        gradient = torch.autograd.grad(loss, parameters, create_graph=True)
        pairs = zip(gradient, truth, strict=True)
        distance = sum(((found - true).square().sum() for found, true in pairs), torch.zeros(()))
        distance.backward()  # type: ignore[no-untyped-call]
        return distance

    begin = time.process_time()
    for _ in range(steps):
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    return (time.process_time() - begin) / evaluations
