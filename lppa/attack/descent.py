"""Ways downhill for many restarts at once: L-BFGS and Adam on signed gradients.

Every row of a point is a restart of its own; rows share the arithmetic and nothing else, so that
one that runs away takes no other with it. Which row is good, and when to stop, is decided
elsewhere.

`torch.optim` is not used: its L-BFGS handles one point at a time, and spends as long on the
recursion over its history as the network does on a small image.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], Tensor]
"""Unknowns, a row for each restart, and what is fixed for each, to the loss of each."""


class Descent:
    """Restarts on their way down: `point` and `loss` now, `best` and `best_loss` so far."""

    def __init__(self, objective: Objective, start: Tensor, fixed: Tensor) -> None:
        self.objective = objective
        self.fixed = fixed
        self.point = start
        self.slope, self.loss = self.evaluate(start)
        self.best, self.best_loss = self.point, self.loss

    def evaluate(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient and loss of each row."""
        point = point.detach().requires_grad_()
        with torch.enable_grad():
            loss = self.objective(point, self.fixed)
            (slope,) = torch.autograd.grad(loss.sum(), point)
        return slope, loss.detach()

    def move(self, point: Tensor, slope: Tensor, loss: Tensor) -> None:
        """Stand at a point, and remember it where it is the lowest so far (NaN never is)."""
        self.point, self.slope, self.loss = point, slope, loss
        lower = ~(loss >= self.best_loss) & loss.isfinite()
        self.best = torch.where(lower[:, None], point, self.best)
        self.best_loss = torch.where(lower, loss, self.best_loss)

    def step(self) -> None:
        """One outer step of all rows."""
        raise NotImplementedError

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows only."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value[rows])


class Lbfgs(Descent):
    """L-BFGS as in `torch.optim.LBFGS`: `inner` iterations a step, no line search by default.

    The inverse Hessian is applied in its compact form (Byrd, Nocedal and Schnabel, 1994): a
    handful of matrix products in place of a loop over the history. With `search`, a step is
    halved until the loss falls enough, which a loss with kinks or a wall needs.
    """

    def __init__(
        self,
        objective: Objective,
        start: Tensor,
        fixed: Tensor,
        rate: float = 1.0,
        inner: int = 20,
        history: int = 100,
        search: bool = False,
    ) -> None:
        super().__init__(objective, start, fixed)
        rows, size = start.shape
        self.rate, self.inner, self.history, self.search = rate, inner, history, search
        self.count = 0
        self.s = start.new_zeros(rows, history, size)
        self.y = start.new_zeros(rows, history, size)
        # Products of the pairs: few and of very different sizes, so in double precision.
        self.sy = start.new_zeros(rows, history, history, dtype=torch.float64)
        self.yy = start.new_zeros(rows, history, history, dtype=torch.float64)
        self.scale = start.new_ones(rows, dtype=torch.float64)

    def step(self) -> None:
        for _ in range(self.inner):
            direction = self._direction()
            length = torch.full_like(self.loss, self.rate)
            if self.count == 0:  # nothing is known of the curvature yet
                length = length * (1 / self.slope.abs().sum(1)).clamp(max=1)
            move = length[:, None] * direction
            slope, loss = self.evaluate(self.point + move)
            if self.search:
                move, slope, loss = self._shorten(move, slope, loss)
            self._remember(move, slope - self.slope)
            self.move(self.point + move, slope, loss)

    def _direction(self) -> Tensor:
        """−H · slope, H being the inverse Hessian that the remembered pairs stand for."""
        if self.count == 0:
            return -self.slope
        used = min(self.count, self.history)
        s, y = self.s[:, :used], self.y[:, :used]
        sy, yy = self.sy[:, :used, :used], self.yy[:, :used, :used]
        p, q = _products(s, self.slope).double(), _products(y, self.slope).double()
        # Slots are overwritten in turn, and the triangle below needs them oldest first.
        turn = self.count % used
        if turn:
            sy, yy = (m.roll((-turn, -turn), (1, 2)) for m in (sy, yy))
            p, q = p.roll(-turn, 1), q.roll(-turn, 1)
        triangle, diagonal = sy.triu(), sy.diagonal(dim1=1, dim2=2)
        scale = self.scale[:, None]
        w = torch.linalg.solve_triangular(triangle, p[..., None], upper=True)[..., 0]
        v = diagonal * w + scale * (_sum(yy, w) - q)
        v = torch.linalg.solve_triangular(triangle.mT, v[..., None], upper=False)[..., 0]
        v, w = v.to(s), (scale * w).to(s)
        if turn:
            v, w = v.roll(turn, 1), w.roll(turn, 1)
        return -(scale.to(s) * self.slope + _sum(s, v) - _sum(y, w))

    def _remember(self, s: Tensor, y: Tensor) -> None:
        """Add a pair; where it shows no curvature upwards, a pair of zeros, which does nothing."""
        curvature = (s * y).sum(1)
        curved = curvature > 1e-10 * s.norm(dim=1) * y.norm(dim=1)
        s, y = s * curved[:, None], y * curved[:, None]
        slot = self.count % self.history
        self.s[:, slot], self.y[:, slot] = s, y
        self.count += 1
        used = min(self.count, self.history)
        yy = _products(self.y[:, :used], y).double()
        self.yy[:, :used, slot] = self.yy[:, slot, :used] = yy
        self.sy[:, :used, slot] = _products(self.s[:, :used], y).double()
        self.sy[:, slot, :used] = _products(self.y[:, :used], s).double()
        # With a one here, a pair of zeros can stay in the triangle: all that it is for is zero.
        self.sy[:, slot, slot] = torch.where(curved, curvature, 1).double()
        self.scale = torch.where(curved, curvature / yy[:, slot], self.scale)

    def _shorten(
        self, move: Tensor, slope: Tensor, loss: Tensor, halvings: int = 12
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Halve the moves of the rows that do not fall (Armijo); one that never does stays."""
        expected = (self.slope * move).sum(1)
        factor = torch.ones_like(loss)
        for _ in range(halvings):
            short = ~(loss <= self.loss + 1e-4 * factor * expected)
            if not short.any():
                return factor[:, None] * move, slope, loss
            factor = torch.where(short, factor / 2, factor)
            slope_now, loss_now = self.evaluate(self.point + factor[:, None] * move)
            slope = torch.where(short[:, None], slope_now, slope)
            loss = torch.where(short, loss_now, loss)
        stuck = ~(loss <= self.loss)
        self.forget(stuck)
        move = torch.where(stuck[:, None], 0, factor[:, None] * move)
        slope = torch.where(stuck[:, None], self.slope, slope)
        return move, slope, torch.where(stuck, self.loss, loss)

    def forget(self, rows: Tensor) -> None:
        """Start the curvature of these rows afresh: what was remembered leads nowhere."""
        for pairs in (self.s, self.y, self.yy):
            pairs[rows] = 0
        self.sy[rows] = torch.eye(self.history, dtype=torch.float64)
        self.scale = torch.where(rows, 1 / self.slope.abs().sum(1).double(), self.scale)


class SignedAdam(Descent):
    """Adam on the signs of the gradients, in a box, the rate cut at 3/8, 5/8 and 7/8 of the way.

    Signs make a step's length independent of the gradient's, which differs by orders of magnitude
    between a random start and a finished image.
    """

    def __init__(
        self,
        objective: Objective,
        start: Tensor,
        fixed: Tensor,
        steps: int,
        rate: float = 0.1,
        box: Callable[[Tensor], Tensor] = lambda point: point,
    ) -> None:
        super().__init__(objective, start, fixed)
        self.steps, self.rate, self.box, self.count = steps, rate, box, 0
        self.first = torch.zeros_like(start)
        self.second = torch.zeros_like(start)

    def step(self) -> None:
        self.count += 1
        sign = self.slope.sign()
        self.first = 0.9 * self.first + 0.1 * sign
        self.second = 0.999 * self.second + 0.001 * sign * sign
        rate = self.rate * 0.1 ** sum(self.count > self.steps * k / 8 for k in (3, 5, 7))
        mean = self.first / (1 - 0.9**self.count)
        spread = (self.second / (1 - 0.999**self.count)).sqrt()
        point = self.box(self.point - rate * mean / (spread + 1e-8))
        self.move(point, *self.evaluate(point))


# Rows times matrices: for many matrices at once, several times as fast as matrices times columns.
def _products(vectors: Tensor, other: Tensor) -> Tensor:
    """The product of each of a restart's vectors with another one."""
    return (other[:, None] @ vectors.mT)[:, 0]


def _sum(vectors: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of a restart's vectors."""
    return (weights[:, None] @ vectors)[:, 0]
