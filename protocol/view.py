"""The graph as it is now: who takes part, whom each hears with which weight, and where it listens.

Handed out by the coordinator. A new view has the next epoch, and says from which round on it holds;
how graphs are made is not decided here.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lppa.protocol.errors import RunFailed


@dataclass(frozen=True)
class Place:
    """One client in the graph.

    `weights` has w_ij for each in-neighbour in `inputs`, and `own` is w_ii: a client is not its own
    neighbour. `given` has w_li for each out-neighbour in `outputs`: what others give its messages.
    """

    inputs: tuple[int, ...]
    weights: tuple[float, ...]
    own: float
    outputs: tuple[int, ...]
    given: tuple[float, ...]

    def edges(self, me: int) -> dict[tuple[int, int], float]:
        """By sender and receiver the weight of every edge that it has an end of."""
        comes = {(j, me): w for j, w in zip(self.inputs, self.weights, strict=True)}
        return comes | {(me, j): w for j, w in zip(self.outputs, self.given, strict=True)}

    def row(self, me: int) -> dict[int, float]:
        """Row i of W over the client and its in-neighbours, in ascending order: sums run in it."""
        return dict(
            sorted({**dict(zip(self.inputs, self.weights, strict=True)), me: self.own}.items())
        )


@dataclass(frozen=True)
class View:
    """The graph from `first_round` on, until a view of a later epoch takes its place.

    The coordinator knows all places; a client is told its own, and where its neighbours listen.
    """

    epoch: int
    first_round: int
    members: tuple[int, ...]
    places: Mapping[int, Place]
    endpoints: Mapping[int, str] = field(default_factory=dict)
    # Members that have no model yet: they begin from their neighbours'.
    newcomers: tuple[int, ...] = ()

    def told_to(self, me: int) -> View:
        """What one client gets to know of it."""
        mine = self.places[me]
        near = {*mine.inputs, *mine.outputs}
        endpoints = {i: where for i, where in self.endpoints.items() if i in near}
        return replace(self, places={me: mine}, endpoints=endpoints)

    def fingerprint(self, plan: str) -> str:
        """One hash over the whole view and the plan that it belongs to; neighbours compare it."""
        if plan not in self._hashes:
            told = {**self.content(), "endpoints": []}
            text = json.dumps([plan, told], sort_keys=True)
            self._hashes[plan] = hashlib.sha256(text.encode()).hexdigest()
        return self._hashes[plan]

    @cached_property
    def _hashes(self) -> dict[str, str]:
        # By plan: every member is sent the same one, and it is over all of them.
        return {}

    def content(self) -> dict[str, Any]:
        """The view as plain values, for a message."""
        return {
            "epoch": self.epoch,
            "first_round": self.first_round,
            "members": list(self.members),
            "places": [
                [i, list(p.inputs), list(p.weights), p.own, list(p.outputs), list(p.given)]
                for i, p in sorted(self.places.items())
            ],
            "endpoints": [[i, where] for i, where in sorted(self.endpoints.items())],
            "newcomers": list(self.newcomers),
        }


def read_view(content: Mapping[str, Any]) -> View:
    """A view from a message; one that makes no sense is refused."""
    try:
        places = {
            _id(i): Place(
                _ids(inputs),
                tuple(map(_weight, weights)),
                _weight(own),
                _ids(outputs),
                tuple(map(_weight, given)),
            )
            for i, inputs, weights, own, outputs, given in content["places"]
        }
        view = View(
            _id(content["epoch"]),
            _id(content["first_round"]),
            _ids(content["members"]),
            places,
            {_id(i): _text(where) for i, where in content["endpoints"]},
            _ids(content["newcomers"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunFailed(f"the coordinator's view of the graph cannot be read: {error}") from None
    for me, place in view.places.items():
        _check(me, place, view.members)
    return view


def _check(me: int, place: Place, members: tuple[int, ...]) -> None:
    around = {me, *place.inputs, *place.outputs}
    if not around <= set(members) or me in place.inputs or me in place.outputs:
        raise RunFailed(f"the view gives node {me} neighbours that are none")
    if len(place.inputs) != len(place.weights):
        raise RunFailed("the view's row of W does not fit its neighbours")
    if len(place.outputs) != len(place.given):
        raise RunFailed("the view's column of W does not fit its neighbours")
    for name, others in (("row", place.weights), ("column", place.given)):
        whole = (*others, place.own)
        if min(whole) < 0 or not math.isclose(sum(whole), 1.0, abs_tol=1e-9):
            raise RunFailed(f"the view's {name} of W sums to {sum(whole)!r}, not to 1")


def _id(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise ValueError(f"{value!r} is no id, round or epoch")
    return value


def _ids(values: Any) -> tuple[int, ...]:
    found = tuple(map(_id, values))
    if list(found) != sorted(set(found)):
        raise ValueError("ids must ascend")
    return found


def _weight(value: Any) -> float:
    if type(value) is not float or not math.isfinite(value):
        raise ValueError(f"{value!r} is no weight")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no endpoint")
    return value
