"""Algorithm 1 in plain matrix form: what every run is compared with.

Rows are clients. Written from the paper and the design alone; shares with the product only the
gradients of the clients, and the noise that each client drew for each receiver.
"""

from __future__ import annotations

import torch

from lppa.node.expansion import Expander, derive_seed
from lppa.node.learner import make_learner
from lppa.node.noise import NoiseSource
from lppa.node.pairs import PairExpander, pair_key


def reference(blueprint):
    s, n, seed = blueprint.settings, blueprint.nodes, blueprint.run_seed
    W, edges = torch.from_numpy(blueprint.W).double(), blueprint.topology.edges
    learners = [make_learner(s, i, n, seed, torch.device("cpu")) for i in range(n)]
    size, k = learners[0].size, s.local_steps
    steps = learners[0].steps_per_epoch if k == "epoch" else k

    def gradients(theta, c, lam, t):
        """The mean gradient of each client along a path of its own that starts at its θ."""
        x, total = theta, torch.zeros_like(theta)
        for k in range(t * steps, (t + 1) * steps):
            g = torch.stack([learners[i].gradient(x[i], k) for i in range(n)])
            total, x = total + g, x - lam * (g + c)
        return total / steps

    def delta(i, target, t, beta=s.beta, label="edge"):
        expander = Expander(s.noise, beta, size)
        source = NoiseSource(expander, torch.float64, torch.device("cpu"), i, s.seed, label)
        return source.draw(target, t)

    def pair(lower, higher, t):
        both = ((lower, higher), (higher, lower))
        key = pair_key(*(derive_seed(s.seed, ("edge", *edge)) for edge in both))
        expander = PairExpander(s.noise, s.beta, size)
        return torch.from_numpy(expander.total([(1, key)], t) * expander.step)

    def noise(t):
        total = torch.zeros(n, size, dtype=torch.float64)
        if s.rule == "dsgt" or (t and (s.noise_every == 0 or t % s.noise_every)):
            return total
        if s.rule == "dp":
            return torch.stack([delta(i, i, t) for i in range(n)])
        for i in range(n):
            total[i] += delta(i, i, t, s.beta_own, "own")
        for sender, receiver in edges:
            if s.noise_exchange == "seed" and (receiver, sender) in edges:
                # One draw for both directions, of the law of their difference.
                drawn = pair(sender, receiver, t) if sender < receiver else 0.0
            else:
                drawn = delta(sender, receiver, t)
            total[sender] += drawn
            total[receiver] -= drawn
        return total

    def d_sgd(theta):
        for t in range(s.rounds):
            noised = theta + noise(t)
            at = W @ noised if s.mixing == "adapt-then-combine" else noised
            theta = W @ noised - steps * lams[t] * gradients(at, 0.0, lams[t], t)
        for t in range(s.rounds, s.rounds + s.finish):
            theta = W @ (theta + noise(t) if t == s.rounds else theta)
        return theta

    theta = torch.stack([learner.start() for learner in learners])
    lams = [s.lr / (1 + s.lr_decay * t) for t in range(s.rounds + 1)]
    if s.rule == "dsgd":
        return d_sgd(theta), None
    g = gradients(theta, 0.0, lams[0], 0)
    gamma = g.clone()
    for t in range(s.rounds):
        lam = steps * lams[t]
        gamma = gamma + noise(t)
        if s.mixing == "combine-then-adapt":
            theta = W @ theta - lam * gamma
        else:
            theta = W @ (theta - lam * gamma)
        g_new = gradients(theta, W @ gamma - g, lams[t + 1], t + 1)
        gamma, g = W @ gamma + g_new - g, g_new
    for _ in range(s.finish):
        theta = W @ theta
    return theta, gamma
