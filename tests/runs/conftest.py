"""What tests with processes of their own share."""

from __future__ import annotations

import pytest
from processes import Started


@pytest.fixture
def started(tmp_path):
    """Starts commands, and leaves none behind."""
    with Started(tmp_path) as started:
        yield started


@pytest.fixture
def peers(started):
    """An address book of two nodes."""
    return started.peers(2)
