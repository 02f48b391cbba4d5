"""A disk that is full ends a run with a sentence, and the run goes on when there is room again."""

from __future__ import annotations

import contextlib
import subprocess

import pytest
from processes import PATIENCE, eventually, read_lines, read_summary

ROUNDS = 200
RUN = ("-n", 3, "--dataset", "quadratic", "--rounds", ROUNDS, "--checkpoint-every", 2, "--seed", 5)
QUICK = ("--eval-every", 20, "--timeout", PATIENCE)


@pytest.fixture
def disk(tmp_path):
    """A disk of its own with four megabytes."""
    where = tmp_path / "disk"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", where]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("only root may mount a small disk, and not everywhere")
    yield where
    subprocess.run(["umount", "--lazy", where], check=True)


def fill(disk):
    """Leaves not a byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


@pytest.mark.slow
def test_a_full_disk_ends_a_run_with_a_sentence_and_with_room_it_goes_on_to_the_same_end(
    started, disk, tmp_path
):
    out = disk / "run"
    slowly = started.command("lppa", "run", *RUN, *QUICK, "--latency", 50, "--out", out)
    kept = [out / "nodes" / str(node) / "checkpoints" for node in range(3)]

    def working():
        assert slowly.poll() is None, slowly.err
        return all(len(list(folder.glob("*.checkpoint"))) >= 3 for folder in kept)

    eventually(working, what="all nodes keep checkpoints")
    filler = fill(disk)
    ended = slowly.end()
    assert ended.code == 1
    assert "Traceback" not in ended.err
    (error,) = ended.errors
    assert "No space left on device; make room" in error
    started.all_end()
    filler.unlink()
    again = started.command("lppa", "run", "--resume", out).end()
    assert again.code == 0, again
    whole = tmp_path / "whole"
    assert started.command("lppa", "run", *RUN, *QUICK, "--out", whole).end().code == 0
    assert read_summary(out)["status"] == "completed"
    for node in range(3):
        ours, theirs = (folder / "nodes" / str(node) for folder in (out, whole))
        assert (ours / "state.pt").read_bytes() == (theirs / "state.pt").read_bytes()
        rounds = [line["round"] for line in read_lines(ours / "metrics.jsonl")]
        assert rounds == [line["round"] for line in read_lines(theirs / "metrics.jsonl")]
    assert [file for file in out.rglob(".*")] == []
