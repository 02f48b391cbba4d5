"""Nodes started by hand: a coordinator that is killed and comes back; nodes that do, for hours."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

from chaos_lab import (
    PATIENCE,
    TIMEOUT,
    Command,
    Lab,
    differences,
    eventually,
    fresh,
    kill,
    read_lines,
    read_summary,
    results,
    since,
)
from chaos_losses import DIGITS, Loss, judge

# --- a coordinator that comes back ----------------------------------------------------------------

LED = "--dataset quadratic --rounds 150 --eval-every 2 --beta 0.1 --seed 1 --latency 10"
PHASES = (
    "before anybody came",
    "while one is missing",
    "in training",
    "in training, twice",
    "in training, back after the nodes are done",
    "at the end",
    "in training, with a node",
    "stopped for a while",
)


def lead(lab: Lab, phase: str, nodes: int = 4) -> dict[str, Any]:
    """Kills the coordinator of nodes that were started by hand, and starts another."""
    chance, out, began = random.Random(phase), fresh(lab.work / "run"), time.monotonic()
    book = fresh(lab.work / "book") / "peers.json"
    code, said = lab.start("peers", nodes, "--out", book.parent).end()
    if code != 0:
        raise RuntimeError(said)
    options = [*LED.split(), "--timeout", TIMEOUT]

    def led(*more: Any) -> Command:
        return lab.start("--peers", book, "-q", *more, program="lppa-coordinator")

    def node(number: int, how: str = "--out") -> Command:
        return lab.start(
            "--id", number, "--peers", book, how, out, "--timeout", PATIENCE, program="lppa-node"
        )

    coordinator = led("--out", out, *options)
    eventually(lambda: (out / "audit.json").exists())
    early = {"before anybody came": 0, "while one is missing": nodes - 1}.get(phase, nodes)
    started = {number: node(number) for number in range(early)}
    rows = chance.randrange(3, 30)

    def all_done() -> bool:
        return all(
            "done after round" in (out / "nodes" / str(n) / "node.log").read_text()
            for n in range(nodes)
        )

    if early == nodes:
        eventually(lambda: len(read_lines(out / "history.jsonl")) > rows)
    else:
        time.sleep(2.0)
    if phase == "at the end":
        own = out / "nodes" / "0" / "metrics.jsonl"
        # The last line may be in the middle of being written.
        eventually(lambda: any(x["round"] == 150 for x in read_lines(own) if isinstance(x, dict)))
    if phase == "stopped for a while":
        os.kill(coordinator.pid, signal.SIGSTOP)
        eventually(all_done)
        # Longer than anybody waits for anybody, and than connections live without an answer.
        time.sleep(3 * TIMEOUT)
        os.kill(coordinator.pid, signal.SIGCONT)
    else:
        kill(coordinator.pid)
        coordinator.end()
        if phase.endswith("with a node"):
            for command in started.values():
                kill(command.pid)
                command.end()
            started = {number: node(number, "--resume") for number in range(nodes)}
        if phase.endswith("are done"):
            eventually(all_done)
        for number in range(early, nodes):
            started[number] = node(number)
        time.sleep(chance.uniform(0.0, 2.0))
        coordinator = led("--resume", out)
        if phase.endswith("twice"):
            rows = len(read_lines(out / "history.jsonl"))
            eventually(lambda: len(read_lines(out / "history.jsonl")) > rows + 3)
            kill(coordinator.pid)
            coordinator.end()
            coordinator = led("--resume", out)
    wrong = []
    code, said = coordinator.end()
    if code != 0 and "has come to its end" not in said:
        wrong.append(f"the coordinator ended with {code}: {said.strip()[-300:]}")
    for number, command in started.items():
        code, said = command.end()
        if code != 0:
            wrong.append(f"node {number} ended with {code}: {said.strip()[-200:]}")
    status = read_summary(out)["status"] if (out / "summary.json").exists() else "no summary"
    alone = fresh(lab.work / "alone")
    lab.start("run", "-n", nodes, "--out", alone, "-q", *options).end()
    if not wrong:
        wrong += differences(results(alone, nodes), results(out, nodes))
    if status != "completed":
        wrong.append(f"summary: {status}")
    return {"name": phase, "wrong": wrong, "seconds": since(began)}


# --- a node that comes back -----------------------------------------------------------------------


def give_back(lab: Lab, lost_at: int = 20, back_at: int = 40, nodes: int = 5) -> dict[str, Any]:
    """Digits with the defaults; a node is killed after a round, and is back after a later one."""
    out, began = fresh(lab.work / "run"), time.monotonic()
    book = fresh(lab.work / "book") / "peers.json"
    lab.start("peers", nodes, "--out", book.parent).end()
    options = [*DIGITS.split(), "--on-failure", "continue", "--timeout", PATIENCE]
    coordinator = lab.start(
        "--peers", book, "--out", out, "-q", *options, program="lppa-coordinator"
    )
    eventually(lambda: (out / "audit.json").exists())

    def node(number: int, how: str) -> Command:
        return lab.start("--id", number, "--peers", book, how, out, "-q", program="lppa-node")

    def reached(round: int) -> bool:
        rows = read_lines(out / "history.jsonl")
        return bool(rows) and rows[-1]["round"] >= round

    commands = [node(number, "--out") for number in range(nodes)]
    eventually(lambda: reached(lost_at))
    kill(commands[2].pid)
    commands[2].end()
    eventually(lambda: reached(back_at))
    commands[2] = node(2, "--resume")
    code, said = coordinator.end()
    for command in commands:
        command.end()
    loss = Loss(nodes, DIGITS, members=tuple(range(nodes)))
    told = judge(lab, loss, out, code, said)
    # Who was started by hand keeps its checkpoints.
    wrong = [text for text in told["wrong"] if not text.startswith("left: ")]
    name = f"digits, 1 of {nodes} lost and back"
    return {"name": name, **told, "wrong": wrong, "seconds": since(began)}


# --- for hours ------------------------------------------------------------------------------------


def soak_run(lab: Lab, seconds: float, every: float, nodes: int = 6) -> dict[str, Any]:
    """A long run of nodes started by hand; now and then one is killed, and comes back."""
    chance, out = random.Random("soak"), fresh(lab.work / "run")
    book = fresh(lab.work / "book") / "peers.json"
    lab.start("peers", nodes, "--out", book.parent).end()
    # Slow rounds: what is asked is whether it goes on for hours, beside whatever else is done here.
    options = "--dataset quadratic --rounds 100000000 --eval-every 50 --beta 0.1 --latency 200"
    more = ["--on-failure", "continue", "--timeout", 180, "--checkpoint-every", 100]
    coordinator = lab.start(
        "--peers", book, "--out", out, "-q", *options.split(), *more, program="lppa-coordinator"
    )
    eventually(lambda: (out / "audit.json").exists())

    def node(number: int, how: str) -> Command:
        return lab.start("--id", number, "--peers", book, how, out, "-q", program="lppa-node")

    def count(kind: str) -> int:
        return sum(event["kind"] == kind for event in read_lines(out / "views.jsonl"))

    living = {number: node(number, "--out") for number in range(nodes)}
    eventually(lambda: len(read_lines(out / "history.jsonl")) > 1)
    noticed, wrong, kills = [], [], 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not wrong:
        time.sleep(every * chance.uniform(0.5, 1.0))
        number, known, began = chance.randrange(nodes), count("lost"), time.monotonic()
        kill(living[number].pid)
        kills += 1
        living[number].end()
        try:
            eventually(lambda known=known: count("lost") > known)
            noticed.append(time.monotonic() - began)
            time.sleep(every * chance.uniform(0.0, 0.2))
            joined = count("view")
            living[number] = node(number, "--resume")
            eventually(lambda joined=joined: count("view") > joined)
            rows = len(read_lines(out / "history.jsonl"))
            eventually(lambda rows=rows: len(read_lines(out / "history.jsonl")) > rows)
        except TimeoutError:
            wrong.append(f"after kill {kills}, of node {number}: nothing went on")
    memory = {n: resident(command.pid) for n, command in living.items()}
    rows = read_lines(out / "history.jsonl")
    # One that has ended by itself says why.
    with contextlib.suppress(ProcessLookupError):
        os.kill(coordinator.pid, signal.SIGINT)
    code, said = coordinator.end()
    if not said or code != 130:
        wrong.append(f"the coordinator ended with {code}: {said[-300:]}")
    if wrong:
        # What is looked for afterwards: how the graph changed, and what each process said last.
        wrong += [json.dumps(event) for event in read_lines(out / "views.jsonl")[-20:]]
        for path in sorted(out.glob("nodes/*/node.log")):
            wrong.append(f"{path.parent.name}: {path.read_text(errors='replace')[-600:]}")
    return {
        "name": f"{seconds:g} s",
        "wrong": wrong,
        "kills": kills,
        "noticed": [round(min(noticed), 2), round(max(noticed), 2)] if noticed else None,
        "views": count("view"),
        "rounds": rows[-1]["round"] if rows else 0,
        "memory": memory,
        "coordinator": said[-300:],
    }


def resident(pid: int) -> int:
    """Megabytes of memory that a process has; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 >> 20
    except OSError:
        return 0
