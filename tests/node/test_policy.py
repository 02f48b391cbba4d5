"""What a node insists on: which plans it refuses, and where its files can go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.coordinator.views import first_view
from lppa.node.policy import Policy, run_folder
from lppa.protocol.errors import RunFailed
from lppa.protocol.fingerprint import plan_fingerprint
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint

QUIET = {"dataset": "quadratic", "beta": 0.1}


def first_plan(settings):
    blueprint = make_blueprint(settings, 3, "run")
    return blueprint.plan(0, first_view(blueprint))


@pytest.mark.parametrize(
    ("policy", "settings", "reason"),
    [
        (Policy(), {"reveal_batches": True}, "--allow-reveal-batches"),
        (Policy(least_beta=0.2), {}, "its --beta is 0.1, and --least-beta is 0.2"),
        (Policy(least_beta=0.1), {"beta": 0.0}, "its --beta is 0,"),
        (Policy(least_beta=0.1), {"rule": "dsgt"}, "dsgt adds no noise"),
        (Policy(least_beta=0.1), {"seed": 1}, "predict the noise"),
        (Policy(least_noise_every=2), {"noise_every": 3}, "every 3 rounds"),
        (Policy(least_noise_every=2), {"noise_every": 0}, "noise would come once"),
        (Policy(least_noise_every=2), {"rule": "dsgt"}, "dsgt adds no noise"),
    ],
)
def test_a_plan_that_breaks_the_policy_is_refused_with_the_reason(policy, settings, reason):
    plan = first_plan(make_settings(QUIET, settings))
    with pytest.raises(RunFailed, match=f"refuses the plan: .*{reason}"):
        policy.settings(plan, {})


@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy(least_beta=0.1), Policy(0.1, 1), Policy(allow_reveal_batches=True)],
)
def test_a_plan_that_keeps_the_policy_is_taken(policy):
    plan = first_plan(make_settings(QUIET, {"data_dir": "/etc"}))
    assert policy.settings(plan, {}).data_dir is None, "a node knows itself where its data is"
    assert policy.settings(plan, {"data_dir": "mine"}).data_dir == "mine"
    assert replace(policy, trusts_folders=True).settings(plan, {}).data_dir == "/etc"


@given(st.text())
def test_no_name_from_the_wire_leads_out_of_the_folder_of_runs(name):
    try:
        folder = run_folder(None, name)
    except RunFailed:
        return
    assert (folder.parent.name, folder.name) == ("runs", name)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/etc", "a/b", "a\0b", "é" * 200])
def test_a_name_that_is_no_folder_s_is_refused(name):
    with pytest.raises(RunFailed, match="no name of a folder"):
        run_folder(None, name)


def test_what_every_node_must_be_told_alike_is_in_the_fingerprint_that_it_computes():
    plans = [first_plan(make_settings(QUIET))] * 2
    honest = plan_fingerprint(plans[0])
    for change in (
        {"name": "other"},
        {"nodes": 4},
        {"run_seed": plans[0].run_seed + 1},
        {"fingerprint": "0" * 64},
        {"greeting": "0" * 64},
        {"view": {**plans[0].view, "members": [0, 1]}},
        *({"settings": {**plans[0].settings, key: "x"}} for key in plans[0].settings),
    ):
        assert plan_fingerprint(replace(plans[0], **change)) != honest
    view = {**plans[0].view, "places": []}
    assert plan_fingerprint(replace(plans[0], view=view)) == honest, "each has its own place"
