"""Replays what a run wrote about its changes of view against the rules of docs/model/views.pml.

A trace is a list of events in the order of their time, each a mapping with `kind`, `epoch`, and
where it has them `node`, `round`, `members`, `first_round`:

    halt     the coordinator asks for a change to this epoch
    halted   node answers; `round` is its last boundary, None if it has no state yet
    view     the coordinator has made the view: `members`, `first_round`
    entered  node is in the view, from `round` on
    sent     node sends the state of `round`; a trace need not have these
    lost     the coordinator counts node as lost, or has dropped it
    joined   a process has come as node, for the first time or again

The first view may be written as a `view` without a halt. Nothing of the runs is imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Event = Mapping[str, Any]


@dataclass
class Replay:
    """What is known of a run at one point of its trace."""

    epoch: int = -1  # largest that was asked for
    views: dict[int, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    halted: dict[int, dict[int, int | None]] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)  # by node: largest epoch that it answered
    inside: dict[int, int] = field(default_factory=dict)  # by node: epoch that it has entered
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)  # by node: the last pad used
    wrong: list[str] = field(default_factory=list)

    @property
    def members(self) -> tuple[int, ...]:
        """Of the latest view."""
        return self.views[max(self.views)][0] if self.views else ()


def check_trace(events: Iterable[Event]) -> list[str]:
    """What in a trace is against the rules, in words; nothing if it is as it should be."""
    replay, gone, came = Replay(), set[int](), set[int]()
    for place, event in enumerate(events):
        before = len(replay.wrong)
        if event["kind"] == "lost":
            gone.add(event["node"])
            came.discard(event["node"])
        elif event["kind"] == "joined":
            came.add(event["node"])
            # Another process: what the one before it answered or sent is not its own.
            replay.seen.pop(event["node"], None)
            replay.inside.pop(event["node"], None)
        elif event["kind"] in STEPS:
            STEPS[event["kind"]](replay, event, gone, came)
        else:
            replay.wrong.append(f"an event of an unknown kind {event['kind']!r}")
        replay.wrong[before:] = [f"event {place}: {text}" for text in replay.wrong[before:]]
    return replay.wrong


def _halt(replay: Replay, event: Event, gone: set[int], came: set[int]) -> None:
    # Said again to one that has not answered, it has the epoch of the change that is under way.
    under_way = event["epoch"] == replay.epoch and event["epoch"] not in replay.views
    if event["epoch"] <= replay.epoch and not under_way:
        replay.wrong.append(f"halt for epoch {event['epoch']} after epoch {replay.epoch}")
    replay.epoch = max(replay.epoch, event["epoch"])


def _halted(replay: Replay, event: Event, gone: set[int], came: set[int]) -> None:
    node, epoch, round = event["node"], event["epoch"], event["round"]
    if epoch > replay.epoch:
        replay.wrong.append(f"node {node} halted for epoch {epoch}, which nobody asked for")
    if epoch < replay.seen.get(node, -1):
        replay.wrong.append(f"node {node} halted for epoch {epoch} after {replay.seen[node]}")
    answers = replay.halted.setdefault(epoch, {})
    if answers.get(node, round) != round:
        replay.wrong.append(f"node {node} halted for epoch {epoch} in two different rounds")
    answers[node] = round
    replay.seen[node] = max(epoch, replay.seen.get(node, -1))


def _view(replay: Replay, event: Event, gone: set[int], came: set[int]) -> None:
    epoch, members, first = event["epoch"], tuple(event["members"]), event["first_round"]
    if replay.views.get(epoch, (members, first)) != (members, first):
        replay.wrong.append(f"two different views in epoch {epoch}")
    elif epoch in replay.views:
        return
    if replay.views and epoch < replay.epoch:
        replay.wrong.append(f"a view of epoch {epoch} while epoch {replay.epoch} is asked for")
    if replay.views and epoch > replay.epoch:
        replay.wrong.append(f"a view of epoch {epoch} without a halt for it")
    if replay.views:
        _check_members(replay, epoch, members, first, gone, came)
    replay.epoch = max(replay.epoch, epoch)
    replay.views[epoch] = (members, first)
    gone.clear()
    came.clear()


def _check_members(
    replay: Replay,
    epoch: int,
    members: tuple[int, ...],
    first: int,
    gone: set[int],
    came: set[int],
) -> None:
    """Survivors that have halted and those that came; begins where the furthest of them was."""
    answers = replay.halted.get(epoch, {})
    for node in members:
        if node not in answers and node not in came:
            replay.wrong.append(f"node {node} is in the view of epoch {epoch} and has not halted")
        if node in gone and node not in came:
            replay.wrong.append(f"node {node} is in the view of epoch {epoch} and was lost")
    for node in replay.members:
        if node not in members and node not in gone:
            replay.wrong.append(f"node {node} is left out of epoch {epoch} and was not lost")
    rounds = [answers[i] for i in members if answers.get(i) is not None and i not in came]
    if not rounds:
        replay.wrong.append(f"nobody in the view of epoch {epoch} has a state")
    elif first != max(rounds):
        replay.wrong.append(f"epoch {epoch} begins in round {first}, not in {max(rounds)}")


def _entered(replay: Replay, event: Event, gone: set[int], came: set[int]) -> None:
    node, epoch = event["node"], event["epoch"]
    if epoch not in replay.views:
        replay.wrong.append(f"node {node} entered epoch {epoch}, which has no view")
        return
    members, first = replay.views[epoch]
    if node not in members:
        replay.wrong.append(f"node {node} entered epoch {epoch} and is not in it")
    if event["round"] != first:
        replay.wrong.append(f"node {node} entered epoch {epoch} in round {event['round']}")
    if epoch < replay.seen.get(node, -1):
        replay.wrong.append(f"node {node} entered epoch {epoch} after {replay.seen[node]}")
    if epoch <= replay.inside.get(node, -1):
        replay.wrong.append(f"node {node} entered epoch {epoch} from {replay.inside[node]}")
    replay.inside[node] = epoch
    replay.seen[node] = max(epoch, replay.seen.get(node, -1))


def _sent(replay: Replay, event: Event, gone: set[int], came: set[int]) -> None:
    node, pad = event["node"], (event["epoch"], event["round"])
    if replay.inside.get(node) != event["epoch"]:
        replay.wrong.append(f"node {node} sends in epoch {event['epoch']} and has not entered it")
    if event["epoch"] < replay.seen.get(node, -1):
        replay.wrong.append(f"node {node} sends in epoch {pad[0]} after {replay.seen[node]}")
    # Not forgotten when a process comes back: pads belong to the edge.
    if pad <= replay.sent.get(node, (-1, -1)):
        replay.wrong.append(f"node {node} sends round {pad[1]} of epoch {pad[0]} again")
    replay.sent[node] = max(pad, replay.sent.get(node, (-1, -1)))


STEPS = {"halt": _halt, "halted": _halted, "view": _view, "entered": _entered, "sent": _sent}


def of_run(events: Iterable[Event], nodes: int) -> list[Event]:
    """The trace of a real run, from its views.jsonl, in the words of the model."""
    firsts = {0: 0}
    trace: list[Event] = [
        {"kind": "view", "epoch": 0, "members": list(range(nodes)), "first_round": 0}
    ]
    for event in events:
        told = dict(event)
        if event["kind"] == "view":
            firsts[event["epoch"]] = told["first_round"] = event["round"]
        elif event["kind"] == "entered":
            told["round"] = firsts[event["epoch"]]
        elif event["kind"] == "halted" and event["round"] < 0:
            told["round"] = None
        trace.append(told)
    return trace
