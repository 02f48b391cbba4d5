"""How much each node listens to each neighbour: doubly stochastic weights on a graph's edges.

Row i of W is what receiver i gives its senders and itself. Which graph it is, and whether it is
connected, is decided in `topology`; nothing here knows about rounds or models.
"""

from __future__ import annotations

import numpy as np

from lppa.coordinator.topology import Topology
from lppa.protocol.errors import WrongUse

PLAIN_STEPS = 100
NEWTON_STEPS = 200


def weight_matrix(topology: Topology, weights: str, seed: int) -> np.ndarray:
    """W of a topology: W[i, j] > 0 only if j sends to i, or i is j."""
    support = np.eye(topology.nodes, dtype=bool)
    for sender, receiver in topology.edges:
        support[receiver, sender] = True
    return sinkhorn(support, weights, seed)


def sinkhorn(support: np.ndarray, weights: str, seed: int, tolerance: float = 1e-12) -> np.ndarray:
    """Scale a positive matrix on `support` and the diagonal until rows and columns sum to 1.

    `weights` says what is scaled: "uniform" all ones, "random" numbers drawn with the seed.
    Sinkhorn and Knopp's alternation comes first. On long thin graphs it would take tens of
    thousands of steps, so Newton steps on the same convex problem finish what it began.
    """
    support = np.asarray(support, dtype=bool) | np.eye(len(support), dtype=bool)
    together = _components(support)
    w = np.where(support, _start(weights, support.shape, seed), 0.0)
    for step in range(PLAIN_STEPS + NEWTON_STEPS):
        w /= w.sum(axis=0)
        rows = w.sum(axis=1)
        # Half of it, so that whoever sums in another order still finds the tolerance kept.
        if np.abs(rows - 1).max() <= tolerance / 2:
            return w
        change = -np.log(rows) if step < PLAIN_STEPS else _newton(w, rows, together)
        w *= np.exp(change)[:, None]
    raise WrongUse(
        f"the weights of this graph of {len(w)} nodes still miss 1 by {np.abs(rows - 1).max():.1e} "
        f"after {step + 1} steps, the tolerance is {tolerance:g}: add edges, or use uniform weights"
    )


def spectral_gap(w: np.ndarray) -> float:
    """1 minus the second largest |eigenvalue| of W: 1 mixes at once, near 0 hardly ever."""
    # Taking away the average takes away the eigenvalue 1 that every such W has, once.
    rest = w - 1 / len(w)
    alike = np.allclose(w, w.T, rtol=0.0, atol=1e-12)
    values = np.linalg.eigvalsh(rest) if alike else np.linalg.eigvals(rest)
    return max(0.0, 1.0 - float(np.abs(values).max()))


def _start(weights: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    if weights == "uniform":
        return np.ones(shape)
    if weights == "random":
        # Away from 0: an edge that weighs next to nothing would be an edge in name only.
        return np.random.default_rng(seed).uniform(0.1, 1.0, shape)
    raise WrongUse(f"unknown weights {weights}: use uniform or random")


def _components(support: np.ndarray) -> np.ndarray:
    """Which nodes reach each other; refuses a support that no doubly stochastic matrix fills."""
    reach = support
    for _ in range(len(support).bit_length()):
        reach = reach.astype(np.float32) @ reach.astype(np.float32) > 0
    one_way = np.argwhere(support & ~reach.T)
    if len(one_way):
        receiver, sender = one_way[0]
        raise WrongUse(
            f"no doubly stochastic weights exist for this graph: the edge {sender} -> {receiver} "
            f"lies on no cycle: add a way back from {receiver} to {sender}"
        )
    return reach


def _newton(w: np.ndarray, rows: np.ndarray, together: np.ndarray) -> np.ndarray:
    """The change of the rows' log-scales u that minimises Σ_j log Σ_i w_ij e^(u_i) − Σ_i u_i.

    Its gradient is rows − 1, its Hessian the Laplacian of w wᵀ. Along a step of range s the third
    derivative is at most s times the second, hence log(1 + s) / s of a step always descends.
    """
    shared = w @ w.T
    np.fill_diagonal(shared, 0.0)
    # Diagonal from the off-diagonal sums: subtracting from `rows` would cancel on weak edges.
    hessian = np.diag(shared.sum(axis=1)) - shared
    # A component's common shift changes nothing; the added block makes that shift zero.
    change = np.linalg.solve(hessian + together / len(w), 1.0 - rows)
    spread = max(float(np.ptp(change)), 1e-300)
    shorter: np.ndarray = change * (np.log1p(spread) / spread)
    return shorter
