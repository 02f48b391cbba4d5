"""A run's directory has at every moment what somebody who goes on with the run needs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from lppa.protocol.messages import Done
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint
from lppa.running.rundir import RunDirectory

ENDED = SimpleNamespace(ended=True, to_dict=lambda: {"status": "completed"})


class Killed(BaseException):
    """The coordinator's end in the middle of something."""


def test_who_was_done_is_known_until_the_summary_stands_there(tmp_path, monkeypatch):
    blueprint = make_blueprint(make_settings({"dataset": "quadratic"}), 3, "run")
    directory = RunDirectory(tmp_path / "run", blueprint)
    directory.done(1, Done(10, {}))
    done, summary = tmp_path / "run" / "done.jsonl", tmp_path / "run" / "summary.json"

    def die(name, content):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(directory, "record", die)
        with pytest.raises(Killed):
            directory.close(ENDED)
    assert json.loads(done.read_text())["node"] == 1
    directory.close(ENDED)
    assert summary.exists() and not done.exists()
