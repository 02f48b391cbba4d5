"""Runs whose connections are cut, through forwarders: they must end as if nothing had happened."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

from chaos_lab import Lab, differences, eventually, fresh, read_lines, read_summary, results

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from proxy import Forwarders

NODES = 3
SETTINGS = "--dataset quadratic --rounds 60 --eval-every 5 --beta 0.1 --seed 5 --latency 8"
EXCHANGES = ("seed", "tensor")


def undisturbed(lab: Lab, exchange: str) -> dict[str, Any]:
    """What a run ends with over links that hold."""
    out = fresh(lab.work / "whole")
    options = [*SETTINGS.split(), "--noise-exchange", exchange]
    code, said = lab.start("run", "-n", NODES, "-q", "--out", out, *options).end()
    if code != 0:
        raise RuntimeError(said)
    return results(out, NODES)


def cut(lab: Lab, number: int, whole: dict[str, Any]) -> dict[str, Any]:
    """One run by hand, encrypted, with one to three cuts at random moments."""
    chance, began = random.Random(number), time.monotonic()
    book = fresh(lab.work / "book") / "peers.json"
    code, said = lab.start("peers", NODES, "--fixed-ports", "--out", book.parent).end()
    if code != 0:
        raise RuntimeError(said)
    out, cuts = fresh(lab.work / "cut"), 0
    options = [*SETTINGS.split(), "--noise-exchange", EXCHANGES[number % 2]]
    with Forwarders(book) as network:
        led = network.book_of("coordinator")
        coordinator = lab.start(
            "--peers", led, "-q", "--out", out, *options, program="lppa-coordinator"
        )
        nodes = [
            lab.start("--id", i, "--peers", network.book_of(i), "--out", out, program="lppa-node")
            for i in range(NODES)
        ]
        rows = chance.randrange(1, 9)
        eventually(
            lambda: (
                len(read_lines(out / "history.jsonl")) >= rows or any(one.ended for one in nodes)
            )
        )
        if not read_lines(out / "history.jsonl"):
            # A forwarder got the port that a node was to have: nothing has begun.
            lab.end_all()
            return cut(lab, number, whole)
        for _ in range(chance.randint(1, 3)):
            time.sleep(chance.uniform(0.0, 0.2))
            if chance.random() < 0.5:
                cuts += network.cut()
            else:
                cuts += chance.choice(list(network.between.values())).cut()
        codes = [process.end()[0] for process in (coordinator, *nodes)]
    wrong = [] if codes == [0] * (NODES + 1) else [f"exit codes {codes}"]
    if not wrong:
        wrong = differences(whole, results(out, NODES))
    if read_summary(out).get("status") != "completed":
        wrong.append(f"summary: {read_summary(out).get('status')}")
    return {"name": number, "cuts": cuts, "wrong": wrong, "seconds": time.monotonic() - began}
