"""Runs the restarts of an inversion side by side and picks one, by attack loss alone.

Also here: when a restart is given up, when the search is over, and what is kept of it. Nothing in
this module has ever seen the truth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lppa.attack.descent import Descent

Step = Callable[[int, int, float], None]
Read = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A row of unknowns and what is fixed for it, to images and labels."""


@dataclass(frozen=True)
class Options:
    """What a person may ask of any inversion; None leaves it to the inversion."""

    restarts: int = 4
    steps: int | None = None
    seconds: float | None = None
    seed: int = 0
    dtype: torch.dtype | None = None
    on_step: Step | None = None
    """Called with (restart, iteration, loss) after every step of every restart."""


@dataclass(frozen=True)
class Patience:
    """When to stop, losses being relative to the squared length of the attacked vector."""

    done: float = 1e-9
    """Below this the vector is explained up to rounding: no other restart can do better."""
    window: int = 40
    """Steps without progress after which a restart is given up."""
    close: float = 1e-5
    """Below this a restart has found the image and only polishes: it gets `close_window` steps."""
    close_window: int = 4
    progress: float = 0.05
    """The part by which the loss must have fallen to count as progress."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What an inversion found; `images` is (batches, batch size, *shape), as it came, unclamped.

    An inversion that finds only labels leaves `images` None; `histogram` (batches, classes) holds
    estimated shares of the labels where an inversion makes them.
    """

    images: Tensor | None
    labels: Tensor
    loss: float
    iterations: int
    seconds: float
    restart: int = 0
    snapshots: tuple[tuple[int, Tensor], ...] = ()
    history: list[dict[str, Any]] = field(default_factory=list)
    histogram: Tensor | None = None


def search(
    descent: Descent,
    read: Read,
    steps: int,
    options: Options,
    norm2: float,
    patience: Patience | None = None,
) -> Reconstruction:
    """Step all restarts until one has explained the vector or none gets anywhere any more."""
    patience = patience or Patience()
    begin = time.monotonic()
    alive = list(range(len(descent.point)))
    watches = {restart: _Watch(patience, norm2) for restart in alive}
    found: dict[int, tuple[float, Tensor, Tensor]] = {}
    snapshots: dict[int, list[tuple[int, Tensor]]] = {restart: [] for restart in alive}
    history: list[dict[str, Any]] = []
    iteration = 0

    def take_stock() -> None:
        for row, restart in enumerate(alive):
            loss = float(descent.best_loss[row])
            found[restart] = (
                loss if math.isfinite(loss) else math.inf,
                descent.best[row],
                descent.fixed[row],
            )
            if _worth_a_picture(iteration):
                images, _ = read(descent.point[row], descent.fixed[row])
                snapshots[restart].append((iteration, images))

    take_stock()
    while alive and iteration < steps:
        descent.step()
        iteration += 1
        take_stock()
        for row, restart in enumerate(alive):
            loss = float(descent.loss[row])
            history.append({"iteration": iteration, "loss": loss, "restart": restart})
            if options.on_step:
                options.on_step(restart, iteration, loss)
        if min(loss for loss, _, _ in found.values()) <= patience.done * norm2:
            break
        if options.seconds is not None and time.monotonic() - begin > options.seconds:
            break
        hopeful = [
            row
            for row, restart in enumerate(alive)
            if not watches[restart].gives_up(found[restart][0], float(descent.loss[row]))
        ]
        if len(hopeful) < len(alive):
            descent.keep(torch.tensor(hopeful, dtype=torch.long))
            alive = [alive[row] for row in hopeful]

    winner = min(found, key=lambda restart: found[restart][0])
    loss, point, fixed = found[winner]
    images, labels = read(point, fixed)
    return Reconstruction(
        images=images,
        labels=labels,
        loss=loss,
        iterations=iteration,
        seconds=time.monotonic() - begin,
        restart=winner,
        snapshots=tuple(snapshots[winner]),
        history=history,
    )


class _Watch:
    """Watches the losses of one restart for progress."""

    def __init__(self, patience: Patience, norm2: float) -> None:
        self.patience, self.norm2 = patience, norm2
        self.mark, self.waited = math.inf, 0

    def gives_up(self, best: float, now: float) -> bool:
        """Whether there is nothing more to hope for, after a step that ended at `now`."""
        if not math.isfinite(now):
            return True
        self.waited += 1
        if best < self.mark * (1 - self.patience.progress):
            self.mark, self.waited = best, 0
        close = best < self.patience.close * self.norm2
        return self.waited >= (self.patience.close_window if close else self.patience.window)


def _worth_a_picture(iteration: int) -> bool:
    """Every iteration at first, then ever fewer: a search does most of its way at the start."""
    return iteration % (1 << max(0, iteration.bit_length() - 4)) == 0
