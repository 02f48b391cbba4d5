"""What is kept of a run costs no more the longer it is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lppa.coordinator.views import make_view, part_of
from lppa.protocol.settings import make_settings
from lppa.running import records
from lppa.running.display import Silent
from lppa.running.prepare import make_blueprint
from lppa.running.records import Records


@pytest.fixture
def blueprint():
    settings = {"dataset": "quadratic", "seed": 1, "on_failure": "continue", "beta": 0.1}
    return make_blueprint(make_settings(settings), 5, "run")


def test_each_of_many_views_is_judged_once_and_all_are_told(blueprint, tmp_path, monkeypatch):
    judged, judge = [], records.audit_blueprint

    def counted(part, hide):
        judged.append(part.nodes)
        return judge(part, hide)

    monkeypatch.setattr(records, "audit_blueprint", counted)
    kept = Records(tmp_path / "run", blueprint, Silent(), tensorboard=False)
    kept.begin(blueprint, None)
    views = 12
    for epoch in range(1, 1 + views):
        members = range(5) if epoch % 2 == 0 else range(4)
        part = part_of(blueprint, members, epoch)
        view = make_view(blueprint, members, epoch, 10 * epoch)
        kept.enter(view, replace(blueprint, topology=part.topology, W=part.W))
    assert len(judged) == 1 + views
    told = json.loads((tmp_path / "run" / "audit.json").read_text())["views"]
    assert [view["epoch"] for view in told] == list(range(1, 1 + views))
    assert [len(view["members"]) for view in told] == [4, 5] * (views // 2)
