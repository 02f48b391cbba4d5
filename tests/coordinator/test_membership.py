"""Views follow each other by the rules whatever is lost, and everybody ends or it is said why."""

from __future__ import annotations

import pytest
from simulated import TIMEOUT

from lppa.coordinator.membership import REPEAT, Membership
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import Halt, NextView
from lppa.protocol.view import Place, View

END = 10


def complete(members, epoch, first_round, newcomers=()):
    """A view in which everybody hears everybody."""
    places = {}
    for i in members:
        others = tuple(j for j in members if j != i)
        share = (1 / len(members),) * len(others)
        places[i] = Place(others, share, 1 / len(members), others, share)
    return View(epoch, first_round, tuple(members), places, {}, tuple(newcomers))


class Heard(list):
    """The kinds of events, in their order."""

    def __call__(self, event):
        self.append(event.kind)


@pytest.fixture
def run():
    return Membership(complete((0, 1, 2), 0, 0), complete, "plan", TIMEOUT, Heard(), 0, END)


def sent(run, now):
    return {node: type(message) for node, message in run.due(now)}


def test_a_loss_halts_the_others_and_the_furthest_says_where_they_go_on(run):
    run.lose(1, "was killed", 100.0)
    assert sent(run, 100.0) == {0: Halt, 2: Halt}
    run.halted(0, 1, 4, 100.0)
    assert run.phase == "halting"
    run.halted(2, 1, 6, 100.0)
    assert (run.view.epoch, run.view.first_round, run.view.members) == (1, 6, (0, 2))
    assert sent(run, 100.0) == {0: NextView, 2: NextView}
    run.has_entered(0, 1)
    assert run.phase == "entering"
    run.has_entered(2, 1)
    assert (run.phase, run.due(200.0)) == ("settled", [])
    assert run.note == ["lost", "halt", "halted", "halted", "view", "entered", "entered"]


@pytest.mark.parametrize("says_done", [True, False])
def test_who_says_it_is_further_than_anybody_can_be_is_lost_and_leads_nobody_to_an_end(says_done):
    run = Membership(complete(range(5), 0, 0), complete, "plan", TIMEOUT, Heard(), 0, END)
    if says_done:
        run.finished(3, 99.0)
    run.lose(4, "was killed", 100.0)
    if not says_done:
        run.halted(3, 1, END, 100.0)
    for node, done in {0: 2, 1: 3, 2: 4}.items():
        run.halted(node, 1, done, 100.0)
    # That it is lost too is another change, in which the others say once more where they are.
    assert (run.phase, run.last_epoch, run.members) == ("halting", 2, {0, 1, 2})
    for node, done in {0: 2, 1: 3, 2: 4}.items():
        run.halted(node, 2, done, 100.0)
    assert (run.view.first_round, run.view.members) == (4, (0, 1, 2))


def test_one_that_is_ahead_by_less_than_there_are_members_is_believed():
    run = Membership(complete(range(5), 0, 0), complete, "plan", TIMEOUT, Heard(), 0, END)
    run.lose(4, "was killed", 100.0)
    for node, done in {0: 2, 1: 2, 2: 2, 3: 6}.items():
        run.halted(node, 1, done, 100.0)
    assert (run.view.first_round, run.view.members) == (6, (0, 1, 2, 3))


def test_what_was_not_answered_is_said_again_after_a_while_and_only_to_those(run):
    run.lose(1, "", 100.0)
    assert sent(run, 100.0) == {0: Halt, 2: Halt}
    assert sent(run, 100.0 + REPEAT / 2) == {}
    run.halted(0, 1, 4, 100.5)
    assert sent(run, 100.0 + REPEAT) == {2: Halt}
    run.halted(2, 1, 4, 101.0)
    run.has_entered(0, 1)
    assert sent(run, 102.0) == {2: NextView}
    assert sent(run, 103.0) == {2: NextView}


def test_answers_of_another_epoch_and_of_strangers_count_for_nothing(run):
    run.lose(1, "", 100.0)
    for node, epoch in ((0, 0), (0, 2), (1, 1), (7, 1)):
        run.halted(node, epoch, 9, 100.0)
    assert (run.phase, run.answered) == ("halting", {})
    for node, epoch in ((0, 0), (0, 1)):
        run.has_entered(node, epoch)
    assert (run.phase, run.entered) == ("halting", set())


def test_a_loss_on_the_way_begins_the_change_anew_with_another_epoch():
    run = Membership(complete(range(4), 0, 0), complete, "plan", TIMEOUT)
    run.lose(3, "", 100.0)
    for node in (0, 1, 2):
        run.halted(node, 1, 5, 100.0)
    run.has_entered(0, 1)
    run.lose(2, "", 101.0)
    assert (run.phase, run.last_epoch, run.entered) == ("halting", 2, set())
    run.has_entered(1, 1)
    run.halted(0, 1, 5, 101.0)
    assert run.answered == {}
    run.halted(0, 2, 6, 101.0)
    run.halted(1, 2, 5, 101.0)
    assert (run.view.epoch, run.view.first_round, run.view.members) == (2, 6, (0, 1))


def test_a_run_whose_last_member_is_lost_has_failed(run):
    run.lose(1, "was killed", 100.0)
    run.lose(0, "was killed", 100.0)
    with pytest.raises(RunFailed, match="all nodes are lost, node 2 as the last: it was killed"):
        run.lose(2, "was killed", 100.0)


def test_who_is_lost_twice_is_lost_once(run):
    run.lose(1, "", 100.0)
    run.lose(1, "", 100.0)
    assert (run.last_epoch, run.members) == (1, {0, 2})


def test_a_node_that_comes_has_no_say_in_where_the_others_go_on(run):
    run.lose(1, "", 100.0)
    for node in (0, 2):
        run.halted(node, 1, 4, 100.0)
        run.has_entered(node, 1)
    run.come(1, 110.0)
    assert run.last_epoch == 2
    for node, done in ((1, -1), (0, 6), (2, 5)):
        run.halted(node, 2, done, 110.0)
    assert (run.view.first_round, run.view.members) == (6, (0, 1, 2))
    assert run.view.newcomers == (1,)


def test_a_new_process_with_a_members_id_begins_as_a_newcomer_in_an_epoch_of_its_own(run):
    run.come(1, 100.0)
    for node, done in ((1, -1), (0, 6), (2, 5)):
        run.halted(node, 1, done, 100.0)
    assert (run.view.epoch, run.view.newcomers) == (1, (1,))


def test_a_member_that_has_no_model_yet_is_taken_for_a_newcomer(run):
    run.lose(1, "", 100.0)
    run.halted(0, 1, -1, 100.0)
    run.halted(2, 1, 1, 100.0)
    assert (run.view.first_round, run.view.newcomers) == (1, (0,))


def test_where_nobody_has_done_a_round_all_begin_once_more(run):
    run.lose(1, "", 100.0)
    run.halted(0, 1, -1, 100.0)
    run.halted(2, 1, -1, 100.0)
    assert (run.view.first_round, run.view.newcomers) == (0, ())


def test_where_nobody_who_is_left_has_a_model_the_run_cannot_go_on(run):
    run.come(2, 100.0)
    for node, done in ((0, 3), (1, 3), (2, -1)):
        run.halted(node, 1, done, 100.0)
    run.lose(0, "", 101.0)
    run.lose(1, "", 101.0)
    with pytest.raises(RunFailed, match="no node is left that has a model"):
        run.halted(2, 3, -1, 101.0)


def test_who_does_not_answer_is_lost_too(run):
    run.lose(1, "", 100.0)
    run.halted(0, 1, 4, 100.0)
    sends = sent(run, 100.0 + TIMEOUT + 1)
    assert (run.members, run.last_epoch, sends) == ({0}, 2, {0: Halt})


def test_who_cannot_meet_its_neighbours_ends_the_run_by_name(run):
    run.lose(1, "", 100.0)
    for node in (0, 2):
        run.halted(node, 1, 4, 100.0)
    run.has_entered(0, 1)
    with pytest.raises(RunFailed, match="node 2 did not meet the others for 20 s") as raised:
        run.due(100.0 + TIMEOUT + 1)
    assert (raised.value.node, raised.value.round) == (2, 4)


def test_a_node_that_is_done_has_brought_the_others_to_their_end(run):
    run.finished(0, 100.0)
    run.lose(1, "", 100.0)
    run.halted(2, 1, 9, 100.0)
    assert (run.view.first_round, run.view.members) == (END, (2,))
    run.finished(2, 100.0)
    assert (run.phase, run.active) == ("settled", set())


def test_who_finishes_while_it_should_halt_is_waited_for_no_more(run):
    run.lose(1, "", 100.0)
    run.halted(0, 1, 9, 100.0)
    run.finished(2, 100.0)
    assert (run.phase, run.view.first_round, run.view.members) == ("entering", END, (0,))


def test_a_loss_when_all_others_are_done_is_no_failure(run):
    run.finished(0, 100.0)
    run.finished(1, 100.0)
    run.lose(2, "", 100.0)
    assert (run.phase, run.active) == ("settled", set())


def test_the_last_one_to_finish_during_a_halt_needs_no_view_of_its_own():
    run = Membership(complete((0, 1), 0, 0), complete, "plan", TIMEOUT, end_round=END)
    run.lose(1, "", 100.0)
    run.finished(0, 100.0)
    assert (run.phase, run.active) == ("settled", set())


def test_a_newcomer_that_has_done_rounds_says_where_to_go_on_though_nobody_heard_it_enter(run):
    run.come(2, 100.0)
    for node, done in ((0, 3), (1, 3), (2, -1)):
        run.halted(node, 1, done, 100.0)
    run.lose(1, "", 101.0)
    run.halted(0, 2, 5, 101.0)
    assert run.phase == "halting", "node 2 may be ahead"
    run.halted(2, 2, 6, 101.0)
    assert (run.view.first_round, run.view.newcomers) == (6, ())


def test_who_comes_after_the_end_is_not_let_in_and_does_no_harm(run):
    run.finished(0, 100.0)
    run.finished(1, 100.0)
    run.lose(2, "", 100.0)
    run.come(2, 100.0)
    assert (run.phase, run.active, run.dismissed) == ("settled", set(), {2})


def test_an_epoch_of_an_earlier_coordinator_is_not_used_again():
    run = Membership(complete((0, 1, 2), 3, 5), complete, "plan", TIMEOUT, last_epoch=7)
    run.lose(1, "", 100.0)
    assert run.last_epoch == 8
