"""The tutorial does what it says: every cell runs, in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parent.parent.parent / "docs" / "tutorial.ipynb"


@pytest.mark.slow
def test_every_cell_of_the_tutorial_runs(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    # Settings of whoever runs the tests are not the tutorial's.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(TUTORIAL, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear its outputs"
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()  # raises where a cell does
    assert len(list((tmp_path / "runs").iterdir())) == 3
    assert len(list((tmp_path / "runs").glob("*/attacks/*.png"))) == 1
