"""How wrong use is told: what every test of it asserts."""

from __future__ import annotations

import re


def assert_refused(started, ended, reason, code=2):
    """One line that says why, no traceback, nothing made, nobody left."""
    assert ended.code == code, ended
    assert len(ended.errors) == 1, ended
    assert re.search(reason, ended.errors[0]), ended
    assert ended.err.splitlines()[-1] == ended.errors[0], ended
    assert "Traceback" not in ended.err + ended.out
    assert ended.out == ""
    assert list(started.here.iterdir()) == []
    assert list(started.temporary.glob("lppa-*")) == []
    started.all_end()
