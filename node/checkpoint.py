"""A client's state on its own disk, whole or not at all: what a broken off run goes on from.

One file for each round that is kept, with a checksum over all of it. A file that is torn or changed
is told from a good one, and the one before it serves. Which round all nodes go back to is decided
by the coordinator, not here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import torch

from lppa.node.state import ClientState, NoiseSecrets
from lppa.protocol.codec import DTYPES
from lppa.protocol.errors import RunFailed
from lppa.protocol.files import writing

MAGIC = b"lppa checkpoint 1\n"
DIGEST = hashlib.sha256().digest_size
SUFFIX = ".checkpoint"
MOST = 1 << 20  # bytes of a header


class Damaged(Exception):
    """A file that is no whole checkpoint; the text says why."""


@dataclass(frozen=True)
class Checkpoint:
    """A client between two rounds of a run, and what it had done by then.

    `plan` is the fingerprint of the plan that it follows: another run's state is of no use.
    `noise_norm` is the length of the noise that entered last, for the reports until the next does.
    """

    state: ClientState
    plan: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)
    noise_norm: float = 0.0


def checkpoints_folder(node_folder: Path) -> Path:
    """Where a node's checkpoints stand in its folder."""
    return node_folder / "checkpoints"


def how_many(nodes: int, every: int) -> int:
    """Checkpoints to keep so that all nodes have one of the same round, even if one is torn.

    A node is ahead of another by less than the number of nodes, and its last checkpoint may be
    almost `every` rounds old.
    """
    return (nodes + every - 2) // every + 2


def save(folder: Path, checkpoint: Checkpoint, keep: int) -> None:
    """Writes a checkpoint down, readable by this user alone, and forgets the oldest."""
    path = path_of(folder, checkpoint.state)
    try:
        with writing(path, private=True, durably=True) as file:
            for part in parts_of(checkpoint):
                file.write(part)
    except OSError as error:
        raise RunFailed(
            f"the checkpoint of round {checkpoint.state.t} cannot be written to {folder}: "
            f"{error.strerror}; make room, then go on with --resume",
            round=checkpoint.state.t,
        ) from None
    for old in _names(folder)[:-keep]:
        (folder / old).unlink(missing_ok=True)


def path_of(folder: Path, state: ClientState) -> Path:
    """The file of a state; names sort as epochs and rounds do."""
    return folder / f"{state.epoch:06d}-{state.t:09d}{SUFFIX}"


def usable(folder: Path) -> dict[tuple[int, int], Checkpoint]:
    """All checkpoints that are whole, by epoch and round, in that order."""
    found = {}
    for path in _files(folder):
        try:
            checkpoint = from_bytes(path.read_bytes())
        except (Damaged, OSError):
            continue
        found[checkpoint.state.epoch, checkpoint.state.t] = checkpoint
    return found


def forget_later(folder: Path, epoch: int, t: int) -> None:
    """Drops the checkpoints of rounds that will be done again."""
    for path in _files(folder):
        if path.name > f"{epoch:06d}-{t:09d}{SUFFIX}":
            path.unlink(missing_ok=True)


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
            "epoch": state.epoch,
            "t": state.t,
            "steps": state.steps,
            "vectors": [[n, a.dtype.newbyteorder("<").str, a.size] for n, a in arrays.items()],
            "drawn": [[label, to, seed] for (label, to), seed in state.secrets.drawn.items()],
            "told": [[sender, seed] for sender, seed in state.secrets.told.items()],
            "seconds": dict(checkpoint.seconds),
            "sent": dict(checkpoint.sent),
            "noise_norm": checkpoint.noise_norm,
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
    body = memoryview(raw)[:-DIGEST]
    if not raw.startswith(MAGIC) or hashlib.sha256(body).digest() != raw[-DIGEST:]:
        raise Damaged("it is not whole")
    try:
        return _read(body)
    except (KeyError, TypeError, ValueError, IndexError, msgpack.UnpackException) as error:
        raise Damaged(f"its header makes no sense: {error!r}") from None


def _read(body: memoryview) -> Checkpoint:
    place = len(MAGIC) + 4
    length = int.from_bytes(body[len(MAGIC) : place], "little")
    if length > MOST:
        raise Damaged(f"a header of {length} bytes")
    header: dict[str, Any] = msgpack.unpackb(body[place : place + length])
    place += length
    vectors = {}
    for name, dtype, size in header["vectors"]:
        last = place + DTYPES[dtype].itemsize * size
        array = np.frombuffer(body[place:last], DTYPES[dtype])
        if len(array) != size:
            raise Damaged(f"{name} is cut off")
        # A copy of its own: the file's bytes cannot be written to, and may lie at any address.
        vectors[str(name)] = torch.from_numpy(array.copy())
        place = last
    secrets = NoiseSecrets(
        {(label, to): seed for label, to, seed in header["drawn"]},
        {sender: seed for sender, seed in header["told"]},
    )
    state = ClientState(header["epoch"], header["t"], header["steps"], vectors, secrets)
    seconds = {k: float(v) for k, v in header["seconds"].items() if math.isfinite(v)}
    return Checkpoint(state, header["plan"], seconds, header["sent"], float(header["noise_norm"]))
