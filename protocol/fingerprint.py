"""A plan's fingerprint as the node that was given it computes it, for comparing with neighbours.

The coordinator's own number is in it, since only that covers the whole graph; but nobody has to
believe it: who is given other settings than a neighbour has another fingerprint.
"""

from __future__ import annotations

import hashlib
import json

from lppa.protocol.messages import Plan

OF_ALL = ("epoch", "first_round", "members")  # what of a view is the same for all of its members


def plan_fingerprint(plan: Plan) -> str:
    """One hash over all that every node of a run must have been told alike."""
    view = {name: plan.view.get(name) for name in OF_ALL}
    told = [plan.name, plan.nodes, plan.settings, plan.run_seed, view]
    return hashlib.sha256(
        json.dumps([*told, plan.fingerprint, plan.greeting], sort_keys=True).encode()
    ).hexdigest()


def edge_fingerprint(plan: str, sender: int, receiver: int, weight: float | None) -> str:
    """What the two ends of an edge compare: the plan, and the weight that either was told of it."""
    if weight is None:
        return plan
    text = json.dumps([plan, sender, receiver, weight])
    return hashlib.sha256(text.encode()).hexdigest()
