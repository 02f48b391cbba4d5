"""Nodes' files come back as they are, whatever happens to them meanwhile, and nothing else does."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lppa.engines import mirror
from lppa.engines.mirror import (
    BadPiece,
    Gone,
    Mirror,
    Piece,
    drop_old_checkpoints,
    files_to_begin_with,
    owner,
    write_change,
)
from lppa.protocol.files import write_atomically

GROWING = ("nodes/0/metrics.jsonl", "nodes/1/node.log", "attacks/node-1.log")
WHOLE = ("nodes/0/model.pt", "nodes/1/checkpoints/000000-000000003.checkpoint")
NODES = (0, 1)


def append(folder, path, data):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    with (folder / path).open("ab") as file:
        file.write(data)


def replace(folder, path, data):
    write_atomically(folder / path, data)


def begin_anew(folder, path, data):
    (folder / path).unlink(missing_ok=True)
    append(folder, path, data)


STEPS = st.one_of(
    st.tuples(st.just(begin_anew), st.sampled_from(GROWING), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just(append), st.sampled_from(GROWING), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just(replace), st.sampled_from(GROWING), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just(replace), st.sampled_from(WHOLE), st.binary(max_size=40)),
    st.none(),  # a look at what has changed
)


def copy(source, target):
    """Takes over what has changed; what came in which piece."""
    changes = list(source.changes())
    for change in changes:
        write_change(target, change, NODES)
    return changes


def contents(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


@settings(max_examples=40)
@given(st.lists(STEPS, max_size=12))
def test_the_copy_is_what_was_written_after_any_course_of_events(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("mirror")
    there, here = folder / "there", folder / "here"
    source = Mirror(there, NODES)
    before, mirror.MOST = mirror.MOST, 16  # files of many pieces
    try:
        for step in (*steps, None):
            if step is None:
                copy(source, here)
                assert contents(here) == (contents(there) if there.exists() else {})
            else:
                step[0](there, *step[1:])
    finally:
        mirror.MOST = before
    assert copy(source, here) == []
    source.close()
    shutil.rmtree(folder)


def test_what_grows_is_sent_by_its_tails(tmp_path):
    source = Mirror(tmp_path, NODES)
    append(tmp_path, GROWING[0], b"one\n")
    assert list(source.changes()) == [Piece(GROWING[0], 0, b"one\n")]
    append(tmp_path, GROWING[0], b"two\n")
    assert list(source.changes()) == [Piece(GROWING[0], 4, b"two\n")]
    begin_anew(tmp_path, GROWING[0], b"three\nfour\n")
    assert list(source.changes()) == [Piece(GROWING[0], 0, b"three\nfour\n")]


def test_a_checkpoint_comes_after_all_lines_that_were_written_before_it(tmp_path):
    source = Mirror(tmp_path, NODES)
    append(tmp_path, "nodes/1/metrics.jsonl", b"a line\n")
    replace(tmp_path, WHOLE[1], b"state")
    assert [change.path for change in source.changes()] == ["nodes/1/metrics.jsonl", WHOLE[1]]


def test_unfinished_and_foreign_files_are_left_out(tmp_path):
    for path in ("nodes/0/.model.pt.abcdefgh", "nodes/7/model.pt", "attacks/node-7.log", "other"):
        append(tmp_path, path, b"x")
    append(tmp_path, "secret", b"x")
    (tmp_path / "nodes/0").mkdir(exist_ok=True)
    (tmp_path / "nodes/0/model.pt").symlink_to(tmp_path / "secret")
    assert list(Mirror(tmp_path, NODES).changes()) == []


def test_what_is_known_there_is_not_sent(tmp_path):
    append(tmp_path, GROWING[0], b"one\n")
    replace(tmp_path, WHOLE[0], b"weights")
    source = Mirror(tmp_path, NODES)
    source.know()
    append(tmp_path, GROWING[0], b"two\n")
    assert list(source.changes()) == [Piece(GROWING[0], 4, b"two\n")]


def test_checkpoints_of_rounds_that_will_be_done_again_go_and_old_ones_stay(tmp_path):
    names = [f"nodes/0/checkpoints/000000-{t:09d}.checkpoint" for t in (3, 6, 9)]
    there, here = tmp_path / "there", tmp_path / "here"
    for name in names:
        replace(there, name, b"state")
    source = Mirror(there, NODES)
    copy(source, here)
    (there / names[0]).unlink()  # too old
    (there / names[2]).unlink()  # will be done again
    assert copy(source, here) == [Gone(names[2])]
    assert set(contents(here)) == {names[0], names[1]}


@pytest.mark.parametrize(
    "path",
    [
        "nodes/2/model.pt",
        "nodes/0/../1/model.pt",
        "nodes/0/../../config.json",
        "/etc/passwd",
        "nodes/0/.hidden",
        "nodes/0/deep/er/model.pt",
        "nodes/0/checkpoints/..",
        "attacks/node-2.log",
        "attacks/node-0.log/x",
        "summary.json",
        "nodes/0/a\nb",
        "nodes/0/",
        "",
    ],
)
def test_a_host_writes_nothing_but_its_nodes_files(tmp_path, path):
    assert owner(path) not in NODES
    for change in (Piece(path, 0, b"x"), Piece(path, 0, b"x", 1), Gone(path)):
        with pytest.raises(BadPiece, match="no file of its nodes"):
            write_change(tmp_path, change, NODES)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    "piece",
    [
        Piece("nodes/0/node.log", 5, b"x"),
        Piece("nodes/0/model.pt", 5, b"x", 6),
        Piece("nodes/0/model.pt", 0, b"xy", 1),
        Piece("nodes/0/model.pt", -1, b"x", 6),
        Piece("nodes/0/model.pt", 0, bytes(mirror.MOST + 1), 1 << 30),
        Piece("nodes/0/model.pt", 1 << 62, b"x", None),
        Gone("nodes/0/model.pt"),
    ],
)
def test_pieces_that_no_host_sends_are_refused(tmp_path, piece):
    with pytest.raises(BadPiece):
        write_change(tmp_path, piece, NODES)
    assert not (tmp_path / "nodes/0/model.pt").exists()


@pytest.mark.parametrize("link", ["nodes", "nodes/0", "nodes/0/model.pt"])
def test_nothing_is_written_through_a_link(tmp_path, link):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "0").mkdir(parents=True)
    (tmp_path / "run" / link).parent.mkdir(parents=True)
    (tmp_path / "run" / link).symlink_to(elsewhere)
    with pytest.raises(BadPiece, match="is a link"):
        write_change(tmp_path / "run", Piece("nodes/0/model.pt", 0, b"x", 1), NODES)
    assert contents(elsewhere) == {}


def test_what_comes_back_is_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        write_change(tmp_path / "run", Piece(WHOLE[1], 0, b"x", 1), NODES)
        write_change(tmp_path / "run", Piece(GROWING[2], 0, b"x"), NODES)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "run").rglob("*")} == {0}


def test_checkpoints_older_than_what_all_nodes_have_are_forgotten(tmp_path):
    for node, rounds in ((0, range(1, 9)), (1, range(3, 11)), (2, range(1, 3))):
        for t in rounds:
            replace(tmp_path, f"nodes/{node}/checkpoints/000000-{t:09d}.checkpoint", b"state")
    drop_old_checkpoints(tmp_path, [0, 1, 2])
    assert len(contents(tmp_path)) == 18  # node 2 is far behind: nothing is common to all
    drop_old_checkpoints(tmp_path, [0, 1])
    left = [sorted(int(p.name[7:16]) for p in tmp_path.glob(f"nodes/{i}/*/*")) for i in (0, 1, 2)]
    assert left == [[6, 7, 8], [6, 7, 8, 9, 10], [1, 2]]


def test_what_a_lost_node_has_left_is_kept_by_all_until_they_go_on_in_a_later_view(tmp_path):
    def rounds_of(node):
        return sorted(int(path.name[7:16]) for path in tmp_path.glob(f"nodes/{node}/*/*"))

    for node, rounds in ((0, range(1, 9)), (1, range(1, 9)), (2, range(1, 3))):
        for t in rounds:
            replace(tmp_path, f"nodes/{node}/checkpoints/000000-{t:09d}.checkpoint", b"state")
    drop_old_checkpoints(tmp_path, [0, 1], lost=[2])
    assert [rounds_of(node) for node in (0, 1)] == [list(range(1, 9))] * 2
    for node in (0, 1):
        for t in range(9, 13):
            replace(tmp_path, f"nodes/{node}/checkpoints/000001-{t:09d}.checkpoint", b"state")
    drop_old_checkpoints(tmp_path, [0, 1], lost=[2])
    assert [rounds_of(node) for node in (0, 1, 2)] == [[10, 11, 12], [10, 11, 12], [1, 2]]


def test_a_run_goes_on_elsewhere_from_its_lines_logs_and_checkpoints_alone(tmp_path):
    sent = (*GROWING, WHOLE[1])
    for path in (*sent, WHOLE[0], "nodes/1/state.pt", "nodes/1/output.log", "nodes/2/node.log"):
        append(tmp_path, path, path.encode())
    append(tmp_path, "nodes/1/checkpoints/.000000-000000006.checkpoint.mirrored", b"half")
    assert files_to_begin_with(tmp_path, NODES) == {path: path.encode() for path in sent}
    assert not list(tmp_path.rglob(".*"))
