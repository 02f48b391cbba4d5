"""Floods a run over TCP in one of several ways, and shows what that cost whom.

    python scripts/flood.py headers --amount 1000

Starts a coordinator and three nodes with encrypted links, floods one of them from a process with a
key of the run (or with none) while the run goes on, and prints how the run ended, whether its bits
are those of a run that nobody disturbed, and the most memory that each process ever held. A flood
begins when all processes have warmed up; `above_mb` is by how much more its victim has grown from
then on than one that was not flooded: another node of the same run, or the coordinator of a run
that nobody disturbed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from lppa.protocol.book import read_book, read_key
from lppa.protocol.codec import encode
from lppa.protocol.messages import Metrics, Noise, State
from lppa.protocol.sockets import keys_of
from lppa.protocol.zeromq import zmq

MEGABYTE = 1 << 20
NODES, INSIDER, VICTIM, UNLOADED = 3, 2, 0, 1
WARM = 100  # rounds after which a process has imported and kept whatever it ever will
SETTINGS = ("--dataset", "quadratic", "--rounds", 400, "--eval-every", 10, "--seed", 5)
SETTINGS = (*SETTINGS, "--latency", 20, "--checkpoint-every", 50)
COMMANDS = Path(sys.executable).parent
NULL = subprocess.DEVNULL

Frames = list[Any]


def headers(run: str, amount: int) -> Iterator[Frames]:
    """Headers of a megabyte each."""
    header = msgpack.packb({"version": 3, "run": run, "kind": "x" * MEGABYTE})
    for _ in range(amount):
        yield [header]


def unfinished(run: str, amount: int) -> Iterator[Frames]:
    """One message of so many megabytes in parts: for long it has no end."""
    yield [bytes(MEGABYTE)] * amount


def unasked(run: str, amount: int) -> Iterator[Frames]:
    """Noise and states that nobody asked for: seeds are exchanged, and a node has one voice."""
    vector = np.ones(20, np.float32)
    for k in range(amount * 1000):
        yield encode(Noise(0, k % 60, vector), run, INSIDER, k % 200)
        yield encode(State(0, k % 60, {"theta": vector, "gamma": vector}), run, INSIDER, 200 + k)


def metrics(run: str, amount: int) -> Iterator[Frames]:
    """Reports that nobody asked for, with much to write down."""
    values = {
        **dict.fromkeys(("accuracy", "loss", "gamma_norm", "gradient_norm"), 1.0),
        "seconds": {},
        "bytes": {},
        "more": "x" * 60_000,
    }
    for k in range(amount * 16):
        yield encode(Metrics(k, values, np.ones(256), np.zeros(256)), run, INSIDER, k)


FLOODS: dict[str, Callable[[str, int], Iterator[Frames]]] = {
    "headers": headers,
    "unfinished": unfinished,
    "unasked": unasked,
    "metrics": metrics,
}
CLEAR = "clear-text"
# What a peer says first in clear (ZMTP 3.0): whom it speaks the protocol of, and what it is.
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
SOCKET_TYPE = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
READY = bytes([4, len(SOCKET_TYPE)]) + SOCKET_TYPE
FRAME = b"\x02" + MEGABYTE.to_bytes(8, "big") + bytes(MEGABYTE)


def flood_in_clear(endpoint: str, amount: int, over: threading.Event) -> int:
    """Megabytes in clear from a stranger, who comes again whenever it is shut out."""
    host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
    count = 0
    while count < amount and not over.is_set():
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5.0) as link:
            link.sendall(GREETING + READY)
            while count < amount and not over.is_set():
                count += 1
                link.sendall(FRAME)
    return count


def flood(kind: str, peers: Path, amount: int, over: threading.Event) -> int:
    """Sends until all was sent or it is over; returns how many messages were sent."""
    book = read_book(peers)
    victim = book.coordinator if kind == "metrics" else book.nodes[VICTIM]
    if kind == CLEAR:
        return flood_in_clear(victim.endpoint, amount, over)
    count = 0
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger, dealer.sndhwm = 0, 4
        keys = keys_of(read_key(peers.parent / "keys" / f"node-{INSIDER}.key"))
        dealer.curve_serverkey = victim.public_key.encode()
        dealer.curve_secretkey = keys.secret.encode()
        dealer.curve_publickey = keys.public.encode()
        dealer.connect(victim.endpoint)
        for frames in FLOODS[kind](book.run, amount):
            for k, frame in enumerate(frames):
                # ZeroMQ sends nothing before the last part is there, and then all at once.
                flags = zmq.NOBLOCK | (0 if k == len(frames) - 1 else zmq.SNDMORE)
                while not over.is_set():
                    if dealer.poll(50, zmq.POLLOUT):
                        dealer.send(frame, flags)
                        break
            count += 1
            if over.is_set():
                break
        over.wait(1.0)
    return count


def peak(pid: int) -> int:
    """The most memory that a process has held so far, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def bits(run: Path) -> str:
    """One hash over the final vectors of all nodes."""
    import torch

    digest = hashlib.sha256()
    for node in range(NODES):
        state = torch.load(run / "nodes" / str(node) / "state.pt", weights_only=True)
        for name in ("theta", "gamma"):
            digest.update(state[name].numpy().tobytes())
    return digest.hexdigest()[:16]


def ending(out: Path) -> dict[str, Any]:
    """A run's summary; empty if it has none."""
    path = out / "summary.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def warm(out: Path) -> bool:
    """Whether all nodes have done and reported their first rounds."""
    files = list(out.glob("nodes/*/metrics.jsonl"))
    lasts = [file.read_text().splitlines()[-1:] for file in files]
    rounds = [json.loads(last[0])["round"] if last else 0 for last in lasts]
    return len(rounds) == NODES and min(rounds) >= WARM


def run_once(folder: Path, kind: str | None, amount: int, timeout: float) -> dict[str, Any]:
    """A run by hand, flooded once it is warm or not at all."""
    out, book = folder / "run", folder / "book"
    make = [COMMANDS / "lppa", "peers", NODES, "--fixed-ports", "--out", book]
    subprocess.run([str(a) for a in make], check=True, capture_output=True)
    peers = book / "peers.json"
    common = ("--peers", peers, "--out", out, "--timeout", timeout)
    calls = [("lppa-coordinator", *common, *SETTINGS)]
    calls += [("lppa-node", "--id", i, *common) for i in range(NODES)]
    processes, peaks = [], {}
    over = threading.Event()
    sent: list[int] = []
    try:
        for name, *given in calls:
            argv = [str(COMMANDS / name), *map(str, given)]
            processes.append(subprocess.Popen(argv, stdout=NULL, stderr=NULL))
        while not warm(out) and processes[0].poll() is None:
            time.sleep(0.05)
        if processes[0].poll() is not None:
            raise SystemExit(f"the run ended before anybody disturbed it: {ending(out)}")
        before = [peak(process.pid) for process in processes]
        attacker = threading.Thread(
            target=lambda: sent.append(flood(kind, peers, amount, over)) if kind else None
        )
        attacker.start()
        while any(process.poll() is None for process in processes):
            for k, process in enumerate(processes):
                if process.poll() is None:
                    peaks[k] = max(peaks.get(k, 0), peak(process.pid))
            time.sleep(0.02)
        over.set()
        attacker.join()
    finally:
        over.set()
        for process in processes:
            process.kill()
            process.wait()
    ended = ending(out)
    return {
        "status": ended["status"],
        "error": ended["error"],
        "bits": bits(out) if ended["status"] == "completed" else None,
        "sent": sum(sent),
        "grown_mb": [round((peaks[k] - before[k]) / 1e6, 1) for k in range(len(processes))],
        "peak_mb": [round(peaks[k] / 1e6, 1) for k in range(len(processes))],
        "metrics_kb": round((out / "metrics.jsonl").stat().st_size / 1e3, 1),
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=[*FLOODS, CLEAR, "all"])
    parser.add_argument("--amount", type=int, default=1000, help="megabytes, roughly")
    parser.add_argument("--timeout", type=float, default=240.0)
    given = parser.parse_args()
    kinds = [*FLOODS, CLEAR] if given.kind == "all" else [given.kind]
    undisturbed: dict[str, Any] = {}
    for kind in [None, *kinds]:
        with tempfile.TemporaryDirectory() as folder:
            result = run_once(Path(folder), kind, given.amount, given.timeout)
        undisturbed = undisturbed or result
        # Processes in the order of their start: the coordinator first.
        grown = result["grown_mb"]
        if kind == "metrics":
            above = grown[0] - undisturbed["grown_mb"][0]
        else:
            above = grown[1 + VICTIM] - grown[1 + UNLOADED]
        same = result["bits"] == undisturbed["bits"]
        print(
            json.dumps({"flood": kind, **result, "above_mb": round(above, 1), "same_bits": same}),
            flush=True,
        )


if __name__ == "__main__":
    main()
