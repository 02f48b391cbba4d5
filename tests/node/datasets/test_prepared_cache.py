import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lppa.node.datasets import load_dataset
from lppa.node.datasets.cache import Prepared, entry_for, load_or_prepare, open_prepared

# Waits at the start line, so that all processes find the cache cold together.
PREPARE = """
import os, sys
from pathlib import Path
import numpy as np
from lppa.node.datasets.cache import Prepared, entry_for, load_or_prepare

source, log = Path(sys.argv[1]), sys.argv[2]

def prepare():
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\\n")
    return Prepared({"x": np.arange(1_000_000)}, {"answer": 42})

print("ready", flush=True)
sys.stdin.readline()
prepared = load_or_prepare(entry_for("test", source, [source]), prepare)
print(int(prepared.arrays["x"].sum()), prepared.facts["answer"], prepared.arrays["x"].flags.owndata)
"""

# Stops for ever between the first array and the second, as if the machine were slow.
GET_STUCK = """
import sys
from pathlib import Path
import numpy as np
from lppa.node.datasets.cache import Prepared, entry_for, load_or_prepare

class Stuck(dict):
    def items(self):
        yield "x", self["x"]
        print("half-way", flush=True)
        sys.stdin.readline()
        yield "y", self["y"]

source = Path(sys.argv[1])
arrays = Stuck(x=np.zeros(1000), y=np.zeros(1000))
load_or_prepare(entry_for("test", source, [source]), lambda: Prepared(arrays))
"""


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.txt"
    path.write_text("raw")
    return path


def test_of_five_processes_that_start_together_one_prepares(source, tmp_path):
    log = tmp_path / "log"
    children = [start(PREPARE, source, log) for _ in range(5)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    answers = {child.communicate()[0] for child in children}
    assert answers == {"499999500000 42 False\n"}, "all have the arrays, none a copy of its own"
    assert len(log.read_text().splitlines()) == 1


def test_a_process_killed_while_it_writes_leaves_nothing_that_is_taken_for_a_cache(source):
    entry = entry_for("test", source, [source])
    child = start(GET_STUCK, source)
    assert child.stdout.readline() == "half-way\n"
    child.kill()
    child.communicate()
    assert open_prepared(entry) is None
    assert len(list(entry.folder.parent.iterdir())) == 1, "its unfinished folder is there"
    prepared = load_or_prepare(entry, lambda: Prepared({"x": np.ones(3)}))
    assert prepared.arrays["x"].tolist() == [1, 1, 1]
    assert list(entry.folder.parent.iterdir()) == [entry.folder], "and is cleared away"


def test_a_warm_cache_prepares_nothing(source):
    entry = entry_for("test", source, [source])
    load_or_prepare(entry, lambda: Prepared({"x": np.arange(5)}, {"a": [1, "b"]}))
    again = load_or_prepare(entry, lambda: pytest.fail("prepared twice"))
    assert again.arrays["x"].tolist() == [0, 1, 2, 3, 4]
    assert again.facts == {"a": [1, "b"]}


def test_prepared_arrays_cannot_be_changed_by_accident(source):
    prepared = load_or_prepare(
        entry_for("test", source, [source]), lambda: Prepared({"x": np.arange(5)})
    )
    with pytest.raises(ValueError, match="read-only"):
        prepared.arrays["x"][0] = 7


def test_other_sources_have_other_entries(source, tmp_path, monkeypatch):
    before = entry_for("test", source, [source])
    assert entry_for("test", source, [source]) == before
    monkeypatch.chdir(tmp_path)
    relative = Path(source.name)
    assert entry_for("test", relative, [relative]) == before, "however its path is written"
    assert entry_for("other", source, [source]).folder != before.folder
    source.write_text("longer than before")
    changed = entry_for("test", source, [source])
    assert changed.folder != before.folder
    assert changed.lock == before.lock, "states of the same sources wait for each other"
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_text("raw")
    assert entry_for("test", elsewhere, [elsewhere]).lock != before.lock


@pytest.mark.parametrize("damage", ["x.npy", "facts.json"])
def test_a_damaged_entry_is_prepared_again(source, damage):
    entry = entry_for("test", source, [source])
    load_or_prepare(entry, lambda: Prepared({"x": np.arange(500)}))
    file = entry.folder / damage
    file.write_bytes(file.read_bytes()[:9])
    assert open_prepared(entry) is None
    again = load_or_prepare(entry, lambda: Prepared({"x": np.arange(6)}))
    assert len(again.arrays["x"]) == 6
    assert open_prepared(entry) is not None


def test_without_a_writable_cache_everything_still_works(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        dataset = load_dataset("digits")
    assert len(dataset.train) == 1438
    assert "cannot be kept" in caplog.text


def test_a_failed_preparation_leaves_no_entry(source):
    entry = entry_for("test", source, [source])

    def fail():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        load_or_prepare(entry, fail)
    assert open_prepared(entry) is None


def test_only_the_owner_can_read_prepared_arrays(source):
    entry = entry_for("test", source, [source])
    load_or_prepare(entry, lambda: Prepared({"x": np.arange(5)}))
    assert entry.folder.stat().st_mode & 0o077 == 0


def test_a_warm_start_imports_nothing_heavy():
    load_dataset("digits")
    script = """
import sys
from lppa.node.datasets import load_dataset
load_dataset("digits")
heavy = {"sklearn", "scipy", "torchvision", "matplotlib", "rich", "click", "torch"}
print(sorted(heavy & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
