"""Runs that lose nodes for good and go on without them, and whether what they end with is sound."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos_lab import (
    TIMEOUT,
    Lab,
    eventually,
    fresh,
    kill,
    leftovers,
    read_lines,
    read_summary,
    since,
)

# --- nodes that are lost for good -----------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """A run that goes on without some of its nodes."""

    nodes: int
    options: str
    chaos: str = ""
    ends: str = "completed"
    says: str = ""
    members: tuple[int, ...] = ()


SMALL = "--dataset quadratic --rounds 40 --eval-every 2 --beta 0.1 --seed 1"
DIGITS = "--dataset digits --seed 1"
LOSSES = {
    "digits, 5": Loss(5, DIGITS),
    "digits, 1 of 5 lost": Loss(5, DIGITS, "kill:2@20", members=(0, 1, 3, 4)),
    "digits, 8": Loss(8, DIGITS),
    "digits, 2 of 8 lost": Loss(8, DIGITS, "kill:2@20,kill:5@40", members=(0, 1, 3, 4, 6, 7)),
    **{
        f"{rule} on {graph}, 1 of 6 lost": Loss(
            6, f"{SMALL} --rule {rule} --topology {graph}", "kill:2@11", members=(0, 1, 3, 4, 5)
        )
        for rule in ("lppa", "dsgt", "dp", "dsgd")
        for graph in ("ring", "full", "random-regular:4")
        if graph != "ring" or rule in ("dsgt", "dp")
    },
    # At the ends of what is left of the ring are nodes with one neighbour, who would know it all.
    **{
        f"{rule} on ring, 1 of 6 lost": Loss(
            6, f"{SMALL} --rule {rule} --topology ring", "kill:2@11", "failed", "open to be read"
        )
        for rule in ("lppa", "dsgd")
    },
    "2 at once": Loss(6, SMALL, "kill:1@10,kill:4@10", members=(0, 2, 3, 5)),
    "2 in a row": Loss(6, SMALL, "kill:1@10,kill:4@11", members=(0, 2, 3, 5)),
    "in the first round": Loss(5, SMALL, "kill:3@1", members=(0, 1, 2, 4)),
    "before the last round": Loss(5, SMALL, "kill:3@39", members=(0, 1, 2, 4)),
    "after the last round": Loss(5, SMALL, "kill:3@40", members=(0, 1, 2, 4)),
    "in the finish": Loss(5, f"{SMALL} --finish 4", "kill:3@42", members=(0, 1, 2, 4)),
    "at the end of the finish": Loss(5, f"{SMALL} --finish 4", "kill:3@44", members=(0, 1, 2, 4)),
    "by an exception": Loss(5, SMALL, "exception:3@10", members=(0, 1, 2, 4)),
    "by an exit": Loss(5, SMALL, "exit:3@10", members=(0, 1, 2, 4)),
    "a star's hub": Loss(5, f"{SMALL} --topology star", "kill:0@10", "failed", "cut off"),
    "of a one-way ring": Loss(
        5, f"{SMALL} --topology directed-ring", "kill:2@10", "failed", "cut off"
    ),
    "a slow node is dropped": Loss(
        5, f"{SMALL} --slow drop:3", "slow:2@10x6", members=(0, 1, 3, 4), says="kept the others"
    ),
    "a stopped node is dropped": Loss(
        5, f"{SMALL} --slow drop:3", "stop:2@10", members=(0, 1, 3, 4), says="kept the others"
    ),
    "a slow node that is waited for": Loss(
        5, f"{SMALL} --slow drop:5", "slow:2@30x0.3", members=(0, 1, 2, 3, 4)
    ),
}


def lose(lab: Lab, name: str) -> dict[str, Any]:
    """One loss: what came of it, and what is wrong with that."""
    loss, out, began = LOSSES[name], fresh(lab.work / "run"), time.monotonic()
    chaos = ["--chaos", loss.chaos] if loss.chaos else []
    common = ["--out", out, "-q", "--on-failure", "continue", "--timeout", TIMEOUT]
    command = lab.start("run", "-n", loss.nodes, *loss.options.split(), *common, *chaos)
    code, said = command.end()
    return {"name": name, **judge(lab, loss, out, code, said), "seconds": since(began)}


def judge(lab: Lab, loss: Loss, out: Path, code: int, said: str) -> dict[str, Any]:
    """What is wrong with a run that has lost nodes, and its figures."""
    summary = read_summary(out)
    views = [event for event in read_lines(out / "views.jsonl") if event["kind"] == "view"]
    rows = read_lines(out / "history.jsonl")
    config = json.loads((out / "config.json").read_text())
    wrong = []
    if summary["status"] != loss.ends or (code == 0) != (loss.ends == "completed"):
        wrong.append(f"{summary['status']} ({code}): {summary['error']}")
    if loss.says and loss.says not in said:
        wrong.append(f"said {said[-300:]}")
    members = tuple(views[-1]["members"]) if views else tuple(range(loss.nodes))
    if loss.members and members != loss.members:
        wrong.append(f"members {members}")
    if loss.ends == "completed":
        last = config["rounds"] + config["finish"]
        due = [
            t
            for t in range(1, last + 1)
            if t % config["eval_every"] == 0 or t in (config["rounds"], last)
        ]
        skipped = skipped_rounds(read_lines(out / "views.jsonl"))
        told = [row["round"] for row in rows]
        gaps = [t for t in due if t not in told and t not in skipped]
        if gaps or told != sorted(set(told) & set(due)):
            wrong.append(f"history has a gap or a double: {gaps}, {told}")
    excess = conserved(rows, config, loss.nodes)
    if excess > 1:
        wrong.append(f"conservation {excess:.1f} times what rounding explains")
    left = [path.name for path in lab.temporary.iterdir()]
    left += ["a process" for _ in lab.processes()]
    # Who has failed can go on, and so keeps its checkpoints.
    kept = ".checkpoint" if loss.ends == "failed" else "\0"
    left += [Path(path).name for path in leftovers(out) if not path.endswith(kept)]
    if left:
        wrong.append(f"left: {left}")
    accuracy = rows[-1]["accuracy"] if rows else None
    return {
        "wrong": wrong,
        "status": summary["status"],
        "error": summary["error"],
        "views": len(views),
        "accuracy": accuracy and accuracy["mean"],
        "loss": rows[-1]["loss"] if rows else None,
        "conservation": excess,
    }


def skipped_rounds(events: list[Any]) -> set[int]:
    """Rounds that some node never did: when a view begins, it goes to where the first ones are."""
    skipped: set[int] = set()
    halted: dict[int, int] = {}
    for event in events:
        if event["kind"] == "halt":
            halted = {}
        if event["kind"] == "halted":
            halted[event["node"]] = event.get("round", 0)
        if event["kind"] == "view":
            skipped |= {t for done in halted.values() for t in range(done + 1, event["round"] + 1)}
    return skipped


def conserved(rows: list[Any], config: dict[str, Any], nodes: int) -> float:
    """The largest conservation residual, over the largest that rounding explains."""
    from lppa.coordinator.metrics import rounding_bound

    steps = config["local_steps"] if isinstance(config["local_steps"], int) else 1
    worst = 0.0
    for row in rows:
        if row["conservation"] is not None and config["rule"] in ("lppa", "dsgt"):
            bound = rounding_bound(
                config["dtype"], row["round"], nodes, row["noise_to_gradient"], steps
            )
            worst = max(worst, row["conservation"] / bound)
    return worst


def notice(lab: Lab, chance: random.Random, during_change: bool = False) -> dict[str, Any]:
    """Kills a node from outside, and one more in the change of view that follows if asked for."""
    out, nodes = fresh(lab.work / "run"), 6
    options = SMALL.replace("--rounds 40", "--rounds 300").split()
    common = ["--out", out, "-q", "--on-failure", "continue", "--timeout", TIMEOUT]
    command = lab.start("run", "-n", nodes, *options, *common)
    eventually(lambda: len(read_lines(out / "history.jsonl")) > chance.randrange(2, 20))

    def lost() -> int:
        return sum(event["kind"] == "lost" for event in read_lines(out / "views.jsonl"))

    victims = chance.sample(lab.nodes(command), 2 if during_change else 1)
    began = time.monotonic()
    kill(victims[0])
    eventually(lambda: lost() == 1)
    seconds = time.monotonic() - began
    if during_change:
        time.sleep(chance.uniform(0.0, 0.3))
        kill(victims[1])
    code, said = command.end()
    told = judge(lab, Loss(nodes, " ".join(options)), out, code, said)
    return {**told, "noticed": round(seconds, 3)}
