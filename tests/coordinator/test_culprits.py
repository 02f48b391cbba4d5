"""Who is at fault, from what nodes say, who has died, and who is silent."""

from __future__ import annotations

from lppa.coordinator.watch import find_culprit
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import Failed


def culprit(failures=(), dead=(), rounds=(7, 8, 9, 7, 7), outstanding=(), mute=()):
    error = find_culprit(
        {node: Failed(*rest) for node, *rest in failures},
        dict(dead),
        dict(enumerate(rounds)),
        set(outstanding),
        30.0,
        set(mute),
    )
    assert isinstance(error, RunFailed)
    return error.node, error.round, str(error)


def waited(node, round, for_whom):
    return node, round, f"node {node} waited for node {for_whom}", for_whom


def test_a_nodes_own_word_counts_most():
    node, round, reason = culprit(
        failures=[waited(0, 5, 2), (2, 4, "training diverged", -1), waited(1, 5, 2)],
        dead=[(1, "was killed by SIGKILL")],
    )
    assert (node, round) == (2, 4)
    assert reason == "node 2 failed in round 4: training diverged"


def test_of_two_that_failed_by_themselves_the_earlier_is_named():
    failures = [(0, 6, "theta is no longer finite", -1), (1, 5, "gamma is no longer finite", -1)]
    assert culprit(failures)[:2] == (1, 5)


def test_a_process_that_was_killed_is_named_with_the_round_it_had_reached():
    node, round, reason = culprit(
        failures=[waited(0, 9, 2), waited(1, 9, 2)],
        dead=[(0, "ended with exit code 1"), (2, "was killed by SIGKILL")],
    )
    assert (node, round) == (2, 9)
    assert reason == "node 2 was killed by SIGKILL in round 9"


def test_a_node_that_only_followed_is_not_taken_for_the_cause():
    """Nodes end with an error of their own when one is lost; the one without a word is it."""
    failures = [waited(0, 5, 4), waited(1, 6, 0), waited(2, 7, 1), waited(3, 8, 2)]
    node, round, reason = culprit(failures, mute=[4])
    assert (node, round) == (4, 5)
    assert "node 4 was lost in round 5" in reason


def test_the_one_that_most_waited_for_is_named():
    failures = [waited(0, 5, 3), waited(1, 5, 4), waited(2, 5, 4)]
    assert culprit(failures)[:2] == (4, 5)


def test_one_node_s_word_alone_frames_nobody():
    node, round, reason = culprit([waited(0, 5, 3)], outstanding=[1, 2, 3, 4])
    assert (node, round) == (0, 5)
    assert reason.startswith("node 0 stopped in round 5, and it alone says that this is because of")
    assert culprit([waited(0, 5, 3), waited(1, 6, 3)], outstanding=[2, 3, 4])[:2] == (3, 5)
    assert culprit([waited(0, 5, 3)], outstanding=[1, 2, 3, 4], mute=[3])[:2] == (3, 5)


def test_a_word_about_a_node_that_is_none_is_a_word_about_oneself():
    assert culprit([waited(0, 5, 77)], outstanding=[1, 2, 3, 4])[:2] == (0, 5)


def test_two_that_blame_each_other_are_both_in_the_reason():
    node, round, reason = culprit([waited(0, 0, 1), waited(1, 0, 0)])
    assert node in (0, 1)
    assert round == 0
    assert "node 0" in reason
    assert "node 1" in reason


def test_when_nobody_says_anything_all_who_are_missing_are_named():
    node, round, reason = culprit(outstanding=[1, 2])
    assert (node, round) == (1, 8)
    assert reason == "nodes 1, 2 said nothing for 30 s"
