"""What a run shows at its end, and the summary that this is made from."""

from __future__ import annotations

import pytest

from lppa.running.display import result_rows


@pytest.mark.parametrize(("finish", "shown"), [(0, "4 of 4"), (2, "6 of 6")])
def test_a_run_that_came_to_its_end_has_done_all_rounds_and_has_no_error(local_run, finish, shown):
    summary = local_run(nodes=3, dataset="quadratic", rounds=4, finish=finish).summary
    assert (summary["status"], summary["error"]) == ("completed", None)
    assert (summary["rounds"], summary["rounds_done"]) == (4, 4 + finish)
    assert dict(result_rows(summary))["rounds"] == shown


def test_a_run_that_failed_says_why_and_how_far_all_nodes_came(local_run):
    run = local_run(nodes=3, dataset="quadratic", rounds=1000, lr=1e6, eval_every=1, local_steps=1)
    assert run.summary["status"] == "failed"
    assert "diverged" in run.summary["error"]
    assert "reason" not in run.summary
    assert run.summary["rounds_done"] <= run.summary["round"] < 1000
    done = run.summary["rounds_done"]
    assert dict(result_rows(run.summary))["rounds"] == f"{done} of 1000"
