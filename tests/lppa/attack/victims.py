"""Targets made from real digits, as an attacker would have them."""

from __future__ import annotations

from functools import cache

import torch

from lppa.attack.target import Target, Term, Victim
from lppa.models.flat import FlatModel
from lppa.models.networks import build
from lppa.node.datasets import load_dataset

DIGITS = load_dataset("digits")


@cache
def victim(network="lenet"):
    mean = DIGITS.test.take(range(len(DIGITS.test)), torch.float32)[0].mean(0)
    return Victim(network, tuple(DIGITS.shape), DIGITS.classes, prior_mean=mean)


def batch(*rows):
    x, y = DIGITS.train.take(list(rows), torch.float32)
    return x, y.long()


@cache
def model(network="lenet", seed=0):
    module = build(network, DIGITS.shape, DIGITS.classes, torch.Generator().manual_seed(seed))
    return FlatModel(module, torch.float32)


def gradient(rows, network="lenet", seed=0, sigma=0.0):
    """What a node without protection sends: its gradient, with noise or without."""
    flat = model(network, seed)
    theta = flat.vector()
    vector, _ = flat.gradient(theta, *batch(*rows))
    noise = torch.randn(vector.shape, generator=torch.Generator().manual_seed(7))
    return Target(vector + sigma * noise, (Term(1.0, theta, 0),), sigma, len(rows))


def difference(before, after, network="lenet", seed=0, rate=0.05):
    """What is left of two messages when all noise has cancelled."""
    flat = model(network, seed)
    theta = flat.vector()
    old, _ = flat.gradient(theta, *batch(*before))
    stepped = theta - rate * old
    new, _ = flat.gradient(stepped, *batch(*after))
    terms = (Term(1.0, stepped, 0 if before == after else 1), Term(-1.0, theta, 0))
    return Target(new - old, terms, 0.0, len(before))
