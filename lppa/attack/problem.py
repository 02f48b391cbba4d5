"""The victim's arithmetic, run on guesses: which vector would these images have given?

Knows networks and gradients; not how a guess is improved, and not which distance is least.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn.functional import log_softmax

from lppa.attack.target import Target, Victim
from lppa.models.flat import FlatModel
from lppa.protocol.errors import WrongUse


class Problem:
    """A target with everything made ready for it to be evaluated many times.

    Guesses come many at a time, one per restart: images (restarts, batches, batch size, *shape)
    and label probabilities (restarts, batches, batch size, classes).
    """

    def __init__(self, target: Target, victim: Victim, dtype: torch.dtype | None = None) -> None:
        self.target, self.victim = target, victim
        self.dtype = dtype or victim.dtype
        self.device = target.vector.device
        model = FlatModel(victim.module(), self.dtype, self.device)
        for vector in (target.vector, *(term.theta for term in target.terms)):
            if vector.shape != (model.size,):
                raise WrongUse(
                    f"{victim.network} on inputs of shape {victim.shape} has {model.size} "
                    f"parameters, the attacked vector has shape {tuple(vector.shape)}: give the "
                    "attack the model and the data set of the run"
                )
        self.module, self.layout = model.module, model.layout
        self.vector = target.vector.to(self.dtype)
        self.norm2 = float(self.vector.double().square().sum())
        self.shape = (len(target.batches), target.batch_size, *victim.shape)
        self.label_shape = (len(target.batches), target.batch_size, victim.classes)
        self._terms = [
            (term.coefficient, self.unflatten(term.theta), target.batches.index(term.batch))
            for term in target.terms
        ]
        self._ready: dict[tuple[int, int], dict[str, Tensor]] = {}

    def unflatten(self, flat: Tensor) -> dict[str, Tensor]:
        """A flat vector as named parameters: views, nothing is copied but the dtype."""
        flat = flat.detach().to(self.dtype)
        return {slot.name: flat[slot.start : slot.stop].view(slot.shape) for slot in self.layout}

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Σ_k coefficient_k · ∇L(theta_k; guess), flat: what the vector would be, noise apart.

        Can be differentiated by the images and the labels.
        """
        parts = (
            coefficient * self._clipped(k, images[:, batch], labels[:, batch])
            for k, (coefficient, _, batch) in enumerate(self._terms)
        )
        return sum(parts, torch.zeros(()))

    def _clipped(self, term: int, x: Tensor, y: Tensor) -> Tensor:
        """∇L at a term's theta, a row for each restart; clipped where the victim clips."""
        clip = self.victim.clip
        if clip is None:
            return self._one(term, x, y)
        each = self._one(term, x.flatten(0, 1)[:, None], y.flatten(0, 1)[:, None])
        return (each * _factors(each, clip)[:, None]).view(*y.shape[:2], -1).mean(1)

    def mean_factor(self, term: int, x: Tensor, seed: int) -> float:
        """How much clipping leaves of the gradient of such examples, their labels being random."""
        clip = self.victim.clip
        if clip is None:
            return 1.0
        generator = torch.Generator().manual_seed(seed)
        y = self.one_hot(torch.randint(self.victim.classes, (len(x), 1), generator=generator))
        return float(_factors(self._one(term, x[:, None], y).detach(), clip).mean())

    def _one(self, term: int, x: Tensor, y: Tensor) -> Tensor:
        """∇L at a term's theta, a row for each restart."""
        rows = len(x)
        theta = self._copies(term, rows)
        if rows == 1:
            logits = functional_call(self.module, theta, (x[0],))
        else:
            # Each restart has a copy of theta, so that one backward pass gives all gradients: as
            # grouped convolutions, at half the cost of one after the other on small images.
            logits = vmap(lambda p, images: functional_call(self.module, p, (images,)))(theta, x)
        # The mean cross-entropy with soft labels; with hard ones it is the victim's own loss.
        loss = -(y * log_softmax(logits.view(y.shape), -1)).sum(-1).mean(-1).sum()
        parts = torch.autograd.grad(loss, list(theta.values()), create_graph=True)
        return torch.cat([part.reshape(rows, -1) for part in parts], 1)

    def _copies(self, term: int, rows: int) -> dict[str, Tensor]:
        """A term's theta to differentiate by: as it is for one row, else a copy for each."""
        if (term, rows) not in self._ready:
            _, theta, _ = self._terms[term]
            self._ready[term, rows] = {
                name: (part if rows == 1 else part.expand(rows, *part.shape))
                .clone(memory_format=torch.contiguous_format)
                .requires_grad_()
                for name, part in theta.items()
            }
        return self._ready[term, rows]

    def one_hot(self, labels: Tensor) -> Tensor:
        """Class numbers as probabilities."""
        return torch.nn.functional.one_hot(labels.long(), self.victim.classes).to(self.vector)

    def features(self, term: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the last layer is fed at this term's theta, and the class probabilities."""
        _, theta, _ = self._terms[term]
        seen: list[Tensor] = []
        *_, last = self.module.children()
        hook = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            logits = functional_call(self.module, theta, (x,))
        finally:
            hook.remove()
        return seen[0], logits.softmax(-1)

    def last_layer(self) -> tuple[Tensor, Tensor]:
        """The part of the vector that belongs to the last layer: weight (classes, features), bias.

        All our networks end in a linear layer.
        """
        weight, bias = self.layout[-2], self.layout[-1]
        parts = self.unflatten(self.vector)
        return parts[weight.name], parts[bias.name]


def _factors(each: Tensor, clip: tuple[float, int]) -> Tensor:
    """What each example's gradient is multiplied with, to keep it within the bound."""
    bound, order = clip
    size: Tensor = each.norm(order, dim=1)
    return bound / size.clamp(min=bound)
