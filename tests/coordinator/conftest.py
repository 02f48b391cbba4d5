"""What tests of a coordinator that follows a run share."""

from __future__ import annotations

import pytest
from watched import World


@pytest.fixture
def world_of():
    worlds = []

    def make(**options):
        worlds.append(World(**options))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()
