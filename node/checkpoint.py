"""A client's state on its own disk, whole or not at all: what a broken off run goes on from.

One file for each round that is kept, with a checksum over all of it. A file that is torn, changed
or another node's is told from a good one, and the one before it serves. Which round all nodes go
back to is decided by the coordinator, not here.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgpack
import numpy as np
import torch

from lppa.node.examples import NOTHING, Sizes
from lppa.node.state import ClientState, NoiseSecrets
from lppa.protocol.codec import DTYPES
from lppa.protocol.errors import RunFailed
from lppa.protocol.files import writing

MAGIC = b"lppa checkpoint 1\n"
DIGEST = hashlib.sha256().digest_size
SUFFIX = ".checkpoint"
MOST = 1 << 20  # bytes of a header
PIECE = 1 << 20  # bytes of a vector that are read at once
# Of small models, rounds between checkpoints that outlast a power cut too, in checkpoints: to wait
# for the disk takes as long as all else. Without one nothing is lost but what the kernel held back.
SELDOM, SMALL = 8, 1 << 20


class Damaged(Exception):
    """A file that is no whole checkpoint; the text says why."""


@dataclass(frozen=True)
class Checkpoint:
    """A client between two rounds of a run, and what it had done by then.

    `plan` is the fingerprint of the plan that it follows: another run's state is of no use, nor is
    that of another `node`, whose fingerprint is the same; None in files that do not say.
    `noise_norm` is the length of the noise that entered last, for the reports until the next does,
    and `examples` what is known of the size of examples by then.
    """

    state: ClientState
    plan: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)
    noise_norm: float = 0.0
    node: int | None = None
    examples: Sizes = NOTHING


def checkpoints_folder(node_folder: Path) -> Path:
    """Where a node's checkpoints stand in its folder."""
    return node_folder / "checkpoints"


def how_many(nodes: int, every: int) -> int:
    """Checkpoints to keep so that all nodes have one of the same round, even if one is torn.

    A node is ahead of another by less than the number of nodes, and its last checkpoint may be
    almost `every` rounds old.
    """
    return (nodes + every - 2) // every + 2


@dataclass(frozen=True)
class Keeping:
    """How many checkpoints a node keeps, and which of them outlast a power cut.

    Those do whose round is a multiple of `lasting`, and those that are written out of turn, not
    `every` so many rounds; `lasts` of them are kept besides the newest. What is written in between
    is safe from all that may happen to a process, and as long as the machine has power.
    """

    newest: int
    every: int = 1
    lasting: int = 1
    lasts: int = 0

    def outlasts(self, t: int) -> bool:
        """Whether the state of that round is to be there after a power cut."""
        return t % self.lasting == 0 or t % self.every != 0

    def kept(self, names: list[str]) -> set[str]:
        """Those of some files, in their order, that are not forgotten."""
        lasting = [name for name in names if self.outlasts(_round_of(name))]
        return {*names[-self.newest :], *lasting[max(0, len(lasting) - self.lasts) :]}


def keeping(nodes: int, every: int, size: int) -> Keeping:
    """What nodes keep that write every so many rounds and have vectors of that size."""
    newest = how_many(nodes, every) + 1
    if size > SMALL:
        return Keeping(newest)
    lasting = SELDOM * every
    return Keeping(newest, every, lasting, how_many(nodes, lasting))


def save(folder: Path, checkpoint: Checkpoint, keep: Keeping) -> None:
    """Writes a checkpoint down, readable by this user alone, and forgets the oldest."""
    path = path_of(folder, checkpoint.state)
    there = _names(folder) if folder.is_dir() else []
    names = sorted({*there, path.name})
    kept = keep.kept(names)
    gone = [name for name in names if name not in kept and name != path.name]
    # The room of one that is forgotten, but never that of the only one.
    spare = folder / gone.pop() if gone and len(there) > 1 and path.name not in there else None
    durably = keep.outlasts(checkpoint.state.t)
    try:
        with writing(path, private=True, durably=durably, spare=spare) as file:
            for part in parts_of(checkpoint):
                file.write(part)
    except OSError as error:
        raise RunFailed(
            f"the checkpoint of round {checkpoint.state.t} cannot be written to {folder}: "
            f"{error.strerror}; make room, then go on with --resume",
            round=checkpoint.state.t,
        ) from None
    for name in gone:
        (folder / name).unlink(missing_ok=True)


def path_of(folder: Path, state: ClientState) -> Path:
    """The file of a state; names sort as epochs and rounds do."""
    return folder / f"{state.epoch:06d}-{state.t:09d}{SUFFIX}"


def usable(folder: Path, node: int) -> dict[tuple[int, int], Path]:
    """All checkpoints of a node that are whole, by epoch and round; none is kept in memory."""
    found = {}
    for path in _files(folder):
        try:
            with path.open("rb") as file:
                checkpoint = read(file, vectors=False)
        except (Damaged, OSError):
            continue
        if checkpoint.node in (node, None):
            found[checkpoint.state.epoch, checkpoint.state.t] = path
    return found


def load(path: Path) -> Checkpoint:
    """A checkpoint that was found to be whole."""
    try:
        with path.open("rb") as file:
            return read(file)
    except (Damaged, OSError) as error:
        raise RunFailed(f"the checkpoint {path} can no longer be read: {error}") from None


def forget_later(folder: Path, epoch: int, t: int) -> None:
    """Drops the checkpoints of rounds that will be done again."""
    for path in _files(folder):
        if path.name > f"{epoch:06d}-{t:09d}{SUFFIX}":
            path.unlink(missing_ok=True)


def _round_of(name: str) -> int:
    return int(name.removesuffix(SUFFIX).rpartition("-")[2])


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in _names(folder)] if folder.exists() else []


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(SUFFIX))


def to_bytes(checkpoint: Checkpoint) -> bytes:
    """What stands in the file."""
    return b"".join(parts_of(checkpoint))


def parts_of(checkpoint: Checkpoint) -> Iterator[bytes | memoryview]:
    """A header, the vectors as they are in memory, uncopied, and a hash over both."""
    state = checkpoint.state
    arrays = {name: vector.cpu().numpy() for name, vector in state.vectors.items()}
    header = msgpack.packb(
        {
            "plan": checkpoint.plan,
            "node": checkpoint.node,
            "epoch": state.epoch,
            "t": state.t,
            "steps": state.steps,
            "vectors": [[n, a.dtype.newbyteorder("<").str, a.size] for n, a in arrays.items()],
            "drawn": [[label, to, seed] for (label, to), seed in state.secrets.drawn.items()],
            "told": [[sender, seed] for sender, seed in state.secrets.told.items()],
            "seconds": dict(checkpoint.seconds),
            "sent": dict(checkpoint.sent),
            "noise_norm": checkpoint.noise_norm,
            "examples": list(astuple(checkpoint.examples)),
        }
    )
    whole = hashlib.sha256()
    parts: list[bytes | memoryview] = [MAGIC, len(header).to_bytes(4, "little"), header]
    parts += [
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays.values()
    ]
    for part in parts:
        whole.update(part)
        yield part
    yield whole.digest()


def from_bytes(raw: bytes) -> Checkpoint:
    """What `to_bytes` made; raises Damaged for anything else."""
    return read(io.BytesIO(raw))


def read(file: BinaryIO, vectors: bool = True) -> Checkpoint:
    """What stands in a file, straight into its vectors' memory; raises Damaged if it is not whole.

    All of it is gone through; where its vectors are not wanted, none of them is in memory at once.
    """
    try:
        return _read(file, vectors)
    except (KeyError, TypeError, ValueError, IndexError, msgpack.UnpackException) as error:
        raise Damaged(f"its header makes no sense: {error!r}") from None


def _read(file: BinaryIO, wanted: bool) -> Checkpoint:
    left = file.seek(0, io.SEEK_END) - DIGEST
    file.seek(0)
    whole = hashlib.sha256()

    def take(count: int) -> bytes:
        nonlocal left
        left -= count
        found = file.read(count) if left >= 0 else b""
        if len(found) < count:
            raise Damaged("it is not whole")
        whole.update(found)
        return found

    if take(len(MAGIC)) != MAGIC:
        raise Damaged("it is not whole")
    length = int.from_bytes(take(4), "little")
    if length > MOST:
        raise Damaged(f"a header of {length} bytes")
    header: dict[str, Any] = msgpack.unpackb(take(length))
    about = [(str(name), DTYPES[dtype], int(size)) for name, dtype, size in header["vectors"]]
    if any(size < 0 for _, _, size in about) or left != sum(d.itemsize * n for _, d, n in about):
        raise Damaged("its vectors are not whole")
    vectors = {}
    for name, dtype, size in about:
        array: np.ndarray = np.empty(size if wanted else 0, dtype)
        room: np.ndarray = array.view(np.uint8)
        for first in range(0, size * dtype.itemsize, PIECE):
            piece = take(min(PIECE, size * dtype.itemsize - first))
            if wanted:
                room[first : first + len(piece)] = np.frombuffer(piece, np.uint8)
        vectors[name] = torch.from_numpy(array)
    if file.read() != whole.digest():
        raise Damaged("it is not whole")
    secrets = NoiseSecrets(
        {(label, to): seed for label, to, seed in header["drawn"]},
        {sender: seed for sender, seed in header["told"]},
    )
    state = ClientState(header["epoch"], header["t"], header["steps"], vectors, secrets)
    seconds = {k: float(v) for k, v in header["seconds"].items() if math.isfinite(v)}
    noise_norm, node = float(header["noise_norm"]), header.get("node")
    largest, *others = header.get("examples", astuple(NOTHING))
    examples = Sizes(None if largest is None else float(largest), *map(float, others))
    return Checkpoint(state, header["plan"], seconds, header["sent"], noise_norm, node, examples)
