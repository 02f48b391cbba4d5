"""The round loop of Algorithm 1, for one client, and nothing else.

    start   x ← the update's vectors at θ^0, or as they were when the client was last here
    round   x ← x + noise;  send x;  x ← update(x, Σ_j w_ij x_j)

Who the neighbours are, how vectors go on (`updates`), how a gradient is made and what noise enters
(`noise`) is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from torch import Tensor

from lppa.node.learner import Learner
from lppa.node.neighbours import Neighbours, weighted_sum
from lppa.node.state import ClientState, Newcomer
from lppa.node.updates import PIECE, Difference, Drift, Local, Update

if TYPE_CHECKING:
    from lppa.node.noise import Injection


@dataclass(frozen=True)
class LocalSteps:
    """How a client walks by itself: K steps of length λ, with momentum.

    That belongs to the private path alone: what others see is its mean gradient.
    """

    count: int
    lam: Callable[[int], float]
    momentum: float = 0.0


def aggregate(
    update: Update,
    neighbours: Neighbours,
    learner: Learner,
    inject: Injection,
    steps: LocalSteps,
    rounds: int,
    finish: int = 0,
    adapt_first: bool = False,
    begin: ClientState | Newcomer | None = None,
) -> Generator[ClientState, None, None]:
    """Yields the client's state after each round.

    It goes on from the state that it is given; a newcomer begins where its neighbours are. Sums run
    in the order of the senders, so that the same seeds give the same bits whatever the network
    does.
    """
    first, taken = (0, 0) if begin is None else (begin.t, begin.steps)

    def gradient(x: Tensor, c: Drift, t: int) -> Tensor:
        nonlocal taken
        on_step = neighbours.on_stage if large else None
        g = mean_gradient(learner, x, c, steps, steps.lam(max(t, first)), taken, on_step)
        taken += steps.count
        return g

    large = neighbours.in_parts
    local = Local(gradient, lambda t: steps.count * steps.lam(t), adapt_first, large)
    if isinstance(begin, ClientState) and begin.epoch == neighbours.epoch:
        x = dict(begin.vectors) if not large else cast(dict[str, Tensor], begin.vectors)
    else:
        # In a new view of the graph a client keeps its model, and begins anew what it tracks: what
        # a lost client had added to the sums is gone with that.
        x = dict(update.start(starting_point(begin, neighbours, learner, inject), local))
    del begin
    for t in range(first, rounds):
        x = noised(x, update.noised, inject, t, large)
        # The next round's noise is made while others' vectors are on their way.
        meanwhile = partial(inject.ahead, t + 1) if t + 1 < rounds else None
        mixed = neighbours.mix(t, {name: x[name] for name in update.travels}, meanwhile)
        x = dict(update.combine(x, mixed, t, local))
        del mixed
        yield ClientState(neighbours.epoch, t + 1, taken, x, inject.secrets)
    for t in range(max(first, rounds), rounds + finish):
        if update.noised == "theta" and t == rounds:
            # What the last round added to θ has not been sent yet, and not been hidden.
            x = noised(x, "theta", inject, t, large)
        x = {**x, **neighbours.mix(t, {"theta": x["theta"]})}
        yield ClientState(neighbours.epoch, t + 1, taken, x, inject.secrets)


def noised(
    x: dict[str, Tensor], name: str, inject: Injection, t: int, large: bool
) -> dict[str, Tensor]:
    """All vectors, one of them with a round's noise.

    In a large one it is added in place: of a round that is broken off nothing but θ is used again.
    """
    vector = x[name]
    alone = all(other is not vector for key, other in x.items() if key != name)
    found = inject(vector, t, large and alone and name != "theta")
    return x if found is vector else {**x, name: found}


def starting_point(
    begin: ClientState | Newcomer | None,
    neighbours: Neighbours,
    learner: Learner,
    inject: Injection,
) -> Tensor:
    """θ to begin with: one's own, the mean of one's hosts', or the learner's."""
    if isinstance(begin, ClientState):
        return begin.theta
    if begin is None or not begin.hosts:
        return learner.start()
    # Noise first: hosts wait for this client's before they send what it waits for.
    inject.prepare(begin.t)
    models = neighbours.look(begin.t, begin.hosts)
    return weighted_sum((1.0 / len(models), {"theta": model}) for model in models)["theta"]


def mean_gradient(
    learner: Learner,
    theta: Tensor,
    c: Drift,
    steps: LocalSteps,
    lam: float,
    taken: int,
    on_step: Callable[[str, float], None] | None = None,
) -> Tensor:
    """The mean of the gradients on a trial path from θ: x ← x − λ (g + c), K steps.

    `c` is what others' gradients are on average beyond one's own; `taken` is how many steps there
    were before. The path never leaves the client: if θ itself moved along it, neighbours could read
    the gradients off θ before any noise is added. With momentum, g stands for the sum of this
    path's gradients so far, each discounted; a path begins at rest.
    """
    if on_step is not None:
        on_step("gradient", 0.0)
    g = learner.gradient(theta, taken)
    if steps.count == 1:
        return g
    total, x = g.clone(), theta.clone()
    # Made once, or, where memory counts more, anew in every step.
    drift = None if c is None or on_step is not None else lam * c[:]
    for k in range(1, steps.count):
        if on_step is not None:
            on_step("gradient", k / steps.count)
        x.sub_(g, alpha=lam)
        if drift is not None:
            x.sub_(drift)
        elif c is not None:
            subtract(x, lam, c)
        if not steps.momentum:
            # Before the next one is made: each is as large as the model.
            del g
        new = learner.gradient(x, taken + k)
        g = new.add_(g, alpha=steps.momentum) if steps.momentum else new
        del new
        total.add_(g)
    return total.div_(steps.count)


def subtract(x: Tensor, lam: float, c: Tensor | Difference) -> None:
    """x − λ c in the memory of x."""
    for first in range(0, len(x), PIECE):
        piece = slice(first, first + PIECE)
        x[piece].sub_(lam * c[piece])
