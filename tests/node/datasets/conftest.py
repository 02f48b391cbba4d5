"""Every test here has a cache folder of its own, and nobody's real data folder."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LPPA_DATA", raising=False)


@pytest.fixture(scope="session")
def real_data():
    """The folder of the real data sets; read before a test's own folders are set."""
    if "LPPA_DATA" not in os.environ:
        pytest.skip("LPPA_DATA is not set: no real data here")
    return Path(os.environ["LPPA_DATA"]).resolve()


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def real(real_data, session_cache, own_folders, monkeypatch):
    """The real data folder, with a cache that the tests share."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(session_cache))
    return real_data
