"""A checkpoint is whole or not there, only its owner reads it, and all nodes have a common one."""

from __future__ import annotations

import math
import os
import random
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lppa.node.checkpoint import (
    Checkpoint,
    Damaged,
    Keeping,
    forget_later,
    from_bytes,
    how_many,
    keeping,
    load,
    path_of,
    save,
    to_bytes,
    usable,
)
from lppa.node.examples import Sizes
from lppa.node.state import ClientState, NoiseSecrets
from lppa.protocol.errors import RunFailed

IDS = st.integers(0, 1 << 20)
SEEDS = st.binary(min_size=32, max_size=32)
TOTALS = st.dictionaries(st.sampled_from(["noise", "state"]), st.integers(0, 1 << 60))
VECTORS = st.dictionaries(
    st.sampled_from(["theta", "gamma", "g", "scale"]),
    st.tuples(st.sampled_from([torch.float32, torch.float64]), st.integers(0, 300), IDS),
)
SECRETS = st.builds(
    NoiseSecrets,
    st.dictionaries(st.tuples(st.sampled_from(["edge", "own"]), IDS), SEEDS),
    st.dictionaries(IDS, SEEDS),
)


@st.composite
def checkpoints(draw):
    vectors = {
        name: torch.randn(size, dtype=dtype, generator=torch.Generator().manual_seed(seed))
        for name, (dtype, size, seed) in draw(VECTORS).items()
    }
    state = ClientState(draw(IDS), draw(IDS), draw(IDS), vectors, draw(SECRETS))
    seconds = draw(st.dictionaries(st.text(max_size=9), st.floats(0, 1e9)))
    node = draw(st.none() | IDS)
    size = st.floats(0, math.inf)
    examples = Sizes(draw(st.none() | size), draw(size), draw(size))
    about = {"node": node, "examples": examples}
    return Checkpoint(state, draw(st.text(max_size=70)), seconds, draw(TOTALS), **about)


def small(t: int = 3, epoch: int = 0, node: int | None = 0) -> Checkpoint:
    vectors = {"theta": torch.arange(5.0), "gamma": torch.arange(5.0) / 3}
    secrets = NoiseSecrets({("edge", 1): bytes(32)}, {1: bytes(range(32))})
    state = ClientState(epoch, t, 2 * t, vectors, secrets)
    return Checkpoint(state, "plan", {"total": 1.5}, {}, node=node)


def same(one: Checkpoint, other: Checkpoint) -> bool:
    """Bit by bit, with types and the order of the vectors."""
    a, b = one.state, other.state
    vectors = list(a.vectors) == list(b.vectors) and all(
        a.vectors[name].dtype == b.vectors[name].dtype
        and a.vectors[name].numpy().tobytes() == b.vectors[name].numpy().tobytes()
        for name in a.vectors
    )
    return vectors and replace(one, state=replace(a, vectors={})) == replace(
        other, state=replace(b, vectors={})
    )


@given(checkpoints())
def test_what_is_read_back_is_what_was_written(checkpoint):
    assert same(from_bytes(to_bytes(checkpoint)), checkpoint)


def test_values_that_are_not_finite_are_kept_as_they_are():
    odd = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    whole = small()
    given = replace(whole, state=replace(whole.state, vectors={"theta": odd}))
    assert same(from_bytes(to_bytes(given)), given)


def test_what_was_read_back_can_be_worked_on():
    found = from_bytes(to_bytes(small()))
    found.state.theta.add_(1.0)
    assert found.state.theta.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_every_byte_that_changed_is_found():
    raw = to_bytes(small())
    for place in range(len(raw)):
        for flip in (1, 0x80, 0xFF):
            torn = bytearray(raw)
            torn[place] ^= flip
            with pytest.raises(Damaged):
                from_bytes(bytes(torn))


def test_every_cut_and_everything_added_is_found():
    raw = to_bytes(small())
    for length in range(len(raw)):
        with pytest.raises(Damaged):
            from_bytes(raw[:length])
    for more in (b"\0", raw):
        with pytest.raises(Damaged):
            from_bytes(raw + more)


def test_the_one_before_serves_where_the_newest_is_torn(tmp_path):
    for t in (10, 20, 30):
        save(tmp_path, small(t), keep=Keeping(3))
    newest = path_of(tmp_path, small(30).state)
    newest.write_bytes(newest.read_bytes()[:-1])
    assert list(usable(tmp_path, node=0)) == [(0, 10), (0, 20)]
    newest.unlink()
    newest.mkdir()  # not even a file
    assert list(usable(tmp_path, node=0)) == [(0, 10), (0, 20)]


def test_another_nodes_checkpoint_is_of_no_use_and_the_one_before_serves(tmp_path):
    save(tmp_path, small(10), keep=Keeping(3))
    save(tmp_path, small(20, node=1), keep=Keeping(3))  # whole, and of the same plan
    assert list(usable(tmp_path, node=0)) == [(0, 10)]


def test_a_checkpoint_from_before_they_said_whose_they_are_still_serves(tmp_path):
    save(tmp_path, small(10, node=None), keep=Keeping(3))
    assert list(usable(tmp_path, node=3)) == [(0, 10)]


def test_nobody_else_can_read_what_the_noise_is_made_of(tmp_path):
    was = os.umask(0)
    try:
        save(tmp_path / "checkpoints", small(), keep=Keeping(3))
    finally:
        os.umask(was)
    (file,) = (tmp_path / "checkpoints").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(("where", "when"), [(Path, "replace"), (os, "fsync")])
def test_who_dies_before_the_file_has_its_name_leaves_the_old_ones_as_they_were(
    tmp_path, monkeypatch, where, when
):
    save(tmp_path, small(10), keep=Keeping(3))

    def die(*given: object) -> None:
        os._exit(7)

    # In a process that really ends there: nothing can be cleared up.
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(where, when, die)
        save(tmp_path, small(20), keep=Keeping(1))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert list(usable(tmp_path, node=0)) == [(0, 10)]
    save(tmp_path, small(20), keep=Keeping(3))
    assert list(usable(tmp_path, node=0)) == [(0, 10), (0, 20)]


def test_only_the_newest_are_kept(tmp_path):
    for t in range(0, 100, 10):
        save(tmp_path, small(t), keep=Keeping(4))
    assert list(usable(tmp_path, node=0)) == [(0, 60), (0, 70), (0, 80), (0, 90)]


def test_of_small_models_each_eighth_outlasts_a_power_cut_and_is_kept_beside_the_newest(
    tmp_path, monkeypatch
):
    durable, now = set(), [0]
    monkeypatch.setattr(os, "fsync", lambda descriptor: durable.add(now[0]))
    keep = keeping(nodes=3, every=10, size=1000)
    # The first of a view is written out of turn: it has the seeds of noise that was used.
    for t in (1, *range(10, 340, 10)):
        now[0] = t
        save(tmp_path, small(t), keep)
        there = {found for _, found in usable(tmp_path, node=0)}
        assert there & durable, "something is left after a power cut, whenever it comes"
        assert there >= set(range(max(10, t - 20), t + 1, 10))
    assert durable == {1, 80, 160, 240, 320}
    assert sorted(there) == [160, 240, *range(300 - 10 * (keep.newest - 4), 340, 10)]


def test_of_large_models_each_outlasts_a_power_cut_and_none_is_kept_longer(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    keep = keeping(nodes=3, every=10, size=10_000_000)
    for t in range(10, 340, 10):
        save(tmp_path, small(t), keep)
    assert len(synced) == 33
    assert len(usable(tmp_path, node=0)) == keep.newest == how_many(3, 10) + 1


@pytest.mark.parametrize("nodes", [2, 5, 30])
def test_all_nodes_have_a_common_round_after_a_power_cut(nodes):
    """The same as above, of those alone that outlast one."""
    keep = keeping(nodes, 1, size=10)
    chance = random.Random(nodes)
    rounds, written = [0] * nodes, [[1] for _ in range(nodes)]
    for _ in range(400 * nodes):
        node = chance.randrange(nodes)
        around = [j for j in (node - 1, node + 1) if 0 <= j < nodes]
        if any(rounds[j] < rounds[node] for j in around):
            continue
        rounds[node] += 1
        kept = keep.kept(sorted(named(t) for t in {*written[node], rounds[node]}))
        written[node] = [t for t in {*written[node], rounds[node]} if named(t) in kept]
        if min(rounds) >= 8:
            lasting = [{t for t in own if keep.outlasts(t)} for own in written]
            assert set.intersection(*lasting), (rounds, written)
    assert max(rounds) > 40, "the nodes have gone somewhere"


def named(t: int) -> str:
    return path_of(Path(), small(t).state).name


@given(st.lists(st.tuples(st.integers(0, 999_999), st.integers(0, 999_999_999)), min_size=2))
def test_names_sort_as_epochs_and_rounds_do(places):
    names = [path_of(Path(), ClientState(e, t, 0, {})).name for e, t in sorted(places)]
    assert names == sorted(names)


def test_what_will_be_done_again_is_forgotten(tmp_path):
    for epoch, t in ((0, 10), (0, 20), (1, 12), (1, 20), (2, 15)):
        save(tmp_path, small(t, epoch), keep=Keeping(9))
    forget_later(tmp_path, 1, 12)
    found = usable(tmp_path, node=0)
    assert list(found) == [(0, 10), (0, 20), (1, 12)]
    assert same(load(found[1, 12]), small(12, 1))


def test_a_checkpoint_that_went_bad_after_it_was_found_is_told(tmp_path):
    save(tmp_path, small(10), keep=Keeping(3))
    path = usable(tmp_path, node=0)[0, 10]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RunFailed, match="can no longer be read: it"):
        load(path)


@pytest.mark.parametrize("nodes", [2, 3, 5, 8])
@pytest.mark.parametrize("every", [1, 2, 3, 10])
def test_all_nodes_have_a_common_round_even_if_one_of_them_has_a_torn_file(nodes, every):
    """Neighbours are at most a round apart, so that nodes of a line are up to N − 1 apart."""
    chance = random.Random(nodes * 100 + every)
    keep = how_many(nodes, every)
    rounds = [0] * nodes
    kept: list[list[int]] = [[] for _ in range(nodes)]
    for _ in range(3000):
        node = chance.randrange(nodes)
        around = [j for j in (node - 1, node + 1) if 0 <= j < nodes]
        if any(rounds[j] < rounds[node] for j in around):
            continue
        rounds[node] += 1
        if rounds[node] % every == 0:
            kept[node] = [*kept[node], rounds[node]][-keep:]
        if min(rounds) < 2 * every:
            continue
        # The newest of any node may be torn, or all of them may be whole.
        for torn in range(-1, nodes):
            whole = [set(k[:-1] if i == torn else k) for i, k in enumerate(kept)]
            assert set.intersection(*whole), (rounds, kept, torn)
    assert max(rounds) > 2 * every, "the nodes have gone somewhere"


def test_a_disk_that_cannot_be_written_is_told_in_one_sentence(tmp_path):
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(RunFailed) as raised:
        save(tmp_path / "checkpoints", small(20), keep=Keeping(3))
    assert str(raised.value) == (
        f"the checkpoint of round 20 cannot be written to {tmp_path / 'checkpoints'}: "
        "Not a directory; make room, then go on with --resume"
    )
    assert raised.value.round == 20


def test_a_shorter_checkpoint_in_the_room_of_a_longer_one_is_whole(tmp_path):
    long, short = small(10), small(30)
    long = replace(long, plan="p" * 100_000)
    for checkpoint in (long, small(20), short):
        save(tmp_path, checkpoint, keep=Keeping(2))
    found = usable(tmp_path, 0)
    assert {t for _, t in found} == {20, 30}
    assert load(found[short.state.epoch, 30]).plan == short.plan
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        p.name for p in found.values()
    )
