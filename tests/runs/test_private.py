"""Private things are private, and what asks for too much is refused in one line."""

from __future__ import annotations

import io
import json
import shutil
import stat
import struct
import zipfile

import numpy as np
import pytest
from processes import PATIENCE
from refusals import assert_refused

TINY = ("lppa", "run", "-n", 2, "--dataset", "quadratic", "--rounds", 2, "--timeout", PATIENCE)
DIGITS = "9" * 400


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_run_is_for_its_owner_alone_and_names_no_secret(started, tmp_path):
    out = tmp_path / "run"
    out.mkdir(mode=0o755)
    ended = started.quick(*TINY, "--attacker", 1, "--secure", "--out", out).end()
    assert ended.code == 0, ended
    folders = [out, out / "nodes", out / "nodes" / "0", out / "attacks"]
    assert {mode(folder) for folder in folders} == {0o700}
    private = [*(out / "nodes").rglob("*.*"), out / "attacks" / "node-1.log"]
    assert {path.name for path in private} >= {"state.pt", "model.pt", "node.log", "metrics.jsonl"}
    assert {path.name: mode(path) for path in private} == {path.name: 0o600 for path in private}
    config = json.loads((out / "config.json").read_text())
    assert not [name for name in (*config, *config["about"]) if "key" in name or "secret" in name]


def bomb(path):
    """A file of some 700 kB that holds 720 MB of zeros."""
    arrays = {"x_train": np.zeros((60_000, 3000), np.float32), "y_train": np.arange(60_000) % 2}
    np.savez_compressed(path, **arrays, x_test=arrays["x_train"][:2], y_test=arrays["y_train"][:2])


def claim(path):
    """Arrays of which each says that it is of 931 GiB."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (10**6, 250_000)}
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            said = io.BytesIO()
            np.lib.format.write_array_header_1_0(said, header)
            archive.writestr(f"{name}.npy", said.getvalue() + bytes(100))


@pytest.mark.parametrize(
    ("make", "reason"),
    [(bomb, "would unpack to 721 MB"), (claim, "x_train.npy claims 1e.03 GB and holds 2.28e-07")],
)
def test_an_npz_file_that_claims_too_much_is_refused_before_it_is_unpacked(
    started, tmp_path, make, reason
):
    make(tmp_path / "own.npz")
    ended = started.quick("lppa", "run", "--dataset", tmp_path / "own.npz").end()
    assert_refused(started, ended, reason)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--rounds", DIGITS), "--rounds must be a whole number of at least 1, not '9+' and so on"),
        (("--seed", DIGITS), "--seed must be a whole number"),
        (("-n", DIGITS), "at most 10,000 nodes"),
        (("--topology", "deep.json"), "topology file .* is not JSON"),
        (("--config", "deep.toml"), "nested too deeply"),
        (("--config", "long.toml"), "16,384 bytes"),
    ],
)
def test_numbers_and_files_beyond_measure_are_refused_in_a_line(started, options, reason):
    (started.here / "deep.json").write_text("[" * 100_000)
    (started.here / "deep.toml").write_text("rounds = " + "[" * 3000)
    (started.here / "long.toml").write_text(".".join(["a"] * 100_000) + " = 1")
    ended = started.quick("lppa", "run", "--dataset", "quadratic", *options).end()
    for name in ("deep.json", "deep.toml", "long.toml"):
        (started.here / name).unlink()
    assert_refused(started, ended, reason)


@pytest.mark.slow
def test_too_few_files_and_too_long_a_temporary_folder_are_told_with_what_to_do(started, tmp_path):
    import subprocess
    import sys

    run = "exec " + sys.executable + " -m lppa run --dataset quadratic --rounds 1 --out run"
    long = tmp_path / ("a" * 90)
    long.mkdir()
    for call, what in (
        (f"ulimit -n 64; {run} -n 30", "allow more with `ulimit -n 126`"),
        (f"TMPDIR={long} {run} -n 2", "set TMPDIR to a shorter one, such as TMPDIR=/tmp"),
    ):
        argv = ["/bin/sh", "-c", call]
        ended = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended
        assert what in ended.stderr


@pytest.mark.parametrize(
    "record",
    [
        struct.pack("<I", 0),
        struct.pack("<IQ", 1, 0),
        struct.pack("<IQ", 1, 1) + b"\x80",
        struct.pack("<IQ", 1, 3) + b"abc",
    ],
)
def test_an_empty_record_in_an_attacker_s_log_is_told_in_a_line(
    started, tmp_path_factory, record, recorded
):
    run = tmp_path_factory.mktemp("spoilt") / "run"
    shutil.copytree(recorded, run)
    with (run / "attacks" / "node-1.log").open("ab") as file:
        file.write(record)
    ended = started.quick("lppa", "attack", run, "--attack", "difference/dlg").end()
    assert (ended.code, len(ended.errors)) == (2, 1), ended
    assert "is damaged before byte" in ended.errors[0]
    assert "Traceback" not in ended.err


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run that node 1 recorded."""
    from processes import Started

    folder = tmp_path_factory.mktemp("recorded")
    with Started(folder) as started:
        digits = ("--dataset", "digits", "--model", "mlp", "--rounds", 1, "--local-steps", 1)
        ended = started.quick(*TINY, *digits, "--attacker", 1, "--out", folder / "run").end()
        assert ended.code == 0, ended
    return folder / "run"
