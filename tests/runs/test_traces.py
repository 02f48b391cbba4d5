"""The checker of traces lets every legal trace pass, and finds each of the ways to break one."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from traces import check_trace


def event(kind, epoch, **more):
    return {"kind": kind, "epoch": epoch, **more}


@st.composite
def legal_traces(draw):
    """A run of three to five nodes with one to four changes, some of them begun again."""
    members = list(range(draw(st.integers(3, 5))))
    everyone, at, epoch, first = list(members), dict.fromkeys(members, 0), 0, 0
    trace = [event("view", 0, members=tuple(members), first_round=0)]
    trace += [event("entered", 0, node=i, round=0) for i in draw(st.permutations(members))]
    for _ in range(draw(st.integers(1, 4))):
        for i in members:
            at[i] = first + draw(st.integers(0, 3))
            trace += [event("sent", epoch, node=i, round=t) for t in range(first, at[i] + 1)]
        newcomers = []
        away = [i for i in everyone if i not in members]
        if away and draw(st.booleans()):
            newcomers = [draw(st.sampled_from(away))]
            trace.append(event("joined", epoch, node=newcomers[0]))
        again = draw(st.booleans()) and len(members) > 3
        for attempt in range(2 if again else 1):
            if len(members) > 2 and (not newcomers or attempt):
                lost = draw(st.sampled_from(members))
                members = [i for i in members if i != lost]
                trace.append(event("lost", epoch, node=lost))
            epoch += draw(st.integers(1, 2))
            trace.append(event("halt", epoch))
            answered = draw(st.permutations(members))
            if again and not attempt:
                answered = answered[: draw(st.integers(0, len(answered)))]
            for i in answered:
                trace += [event("halted", epoch, node=i, round=at[i])] * draw(st.integers(1, 2))
        first = max(at[i] for i in members)
        members = sorted({*members, *newcomers})
        trace.append(event("view", epoch, members=tuple(members), first_round=first))
        trace += [
            event("entered", epoch, node=i, round=first) for i in draw(st.permutations(members))
        ]
    return trace


@given(legal_traces())
def test_a_legal_trace_passes(trace):
    assert check_trace(trace) == []


def last(trace, kind):
    return max(i for i, what in enumerate(trace) if what["kind"] == kind)


def changed(trace, place, **values):
    return [*trace[:place], {**trace[place], **values}, *trace[place + 1 :]]


def after(trace, place, *events):
    return [*trace[: place + 1], *events, *trace[place + 1 :]]


def never_away(trace):
    """A member of the last view that was in all before it."""
    came = {e["node"] for e in trace if e["kind"] == "joined"}
    stayed = [i for i in trace[last(trace, "view")]["members"] if i not in came]
    assume(stayed)
    return stayed[0]


def epoch_not_raised(trace):
    here = last(trace, "view")
    return after(trace, here, event("halt", trace[here]["epoch"]))


def two_views(trace):
    here = last(trace, "view")
    return after(trace, here, {**trace[here], "first_round": trace[here]["first_round"] + 1})


def begins_too_early(trace):
    here = last(trace, "view")
    return changed(trace, here, first_round=trace[here]["first_round"] - 1)


def a_stranger_enters(trace):
    here = last(trace, "entered")
    return after(trace, here, {**trace[here], "node": 77})


def enters_twice(trace):
    here = last(trace, "entered")
    return after(trace, here, trace[here])


def goes_on_after_halted(trace):
    here = last(trace, "halted")
    node = trace[here]["node"]
    old = max(e["epoch"] for e in trace[:here] if e["kind"] == "entered" and e["node"] == node)
    return after(trace, here, event("sent", old, node=node, round=999))


def a_survivor_was_not_asked(trace):
    view, node = trace[last(trace, "view")], never_away(trace)
    return [
        e
        for e in trace
        if (e["kind"], e["epoch"], e.get("node")) != ("halted", view["epoch"], node)
    ]


def sends_again(trace):
    here = last(trace, "sent")
    return after(trace, here, trace[here])


def the_lost_one_is_a_member(trace):
    here = last(trace, "view")
    before = last(trace[:here], "view")
    lost = [e["node"] for e in trace[before:here] if e["kind"] == "lost"]
    assume(lost and lost[-1] not in trace[here]["members"])
    return changed(trace, here, members=(*trace[here]["members"], lost[-1]))


def somebody_is_left_out(trace):
    here = last(trace, "view")
    survivor = never_away(trace)
    return changed(trace, here, members=tuple(i for i in trace[here]["members"] if i != survivor))


MUTATIONS = {
    epoch_not_raised: "halt for epoch",
    two_views: "two different views",
    begins_too_early: "begins in round",
    a_stranger_enters: "is not in it",
    enters_twice: "entered epoch",
    goes_on_after_halted: "sends in epoch",
    a_survivor_was_not_asked: "has not halted",
    sends_again: "again",
    the_lost_one_is_a_member: "was lost",
    somebody_is_left_out: "was not lost",
}


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@settings(max_examples=25)
@given(trace=legal_traces())
def test_a_trace_that_breaks_one_rule_is_found(mutate, trace):
    wrong = check_trace(mutate(trace))
    assert any(MUTATIONS[mutate] in text for text in wrong), wrong


def test_a_node_without_a_state_does_not_count_for_the_first_round():
    trace = [
        event("view", 0, members=(0, 1, 2), first_round=0),
        event("halt", 1),
        event("halted", 1, node=0, round=4),
        event("halted", 1, node=1, round=None),
        event("halted", 1, node=2, round=3),
        event("view", 1, members=(0, 1, 2), first_round=4),
    ]
    assert check_trace(trace) == []
    assert check_trace(changed(trace, 5, first_round=3))
    nobody = [e if e["kind"] != "halted" else {**e, "round": None} for e in trace]
    assert "nobody" in check_trace(nobody)[0]
