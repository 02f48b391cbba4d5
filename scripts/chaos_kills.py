"""Runs that are broken off at random moments, gone on with, and compared with runs left alone.

A trial is a small run; the number of a trial says all about it but the moments."""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_lab import (
    TIMEOUT,
    Command,
    Lab,
    differences,
    eventually,
    fresh,
    kill,
    leftovers,
    read_summary,
    results,
)

NOT_BEGUN = ("is no run", "does not exist", "no run", "not a run", "is not a folder")
ENDED = ("completed", "doubtful")
STILL_WRITING = "still writes"


# --- trials -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One run, and how it is broken off."""

    number: int
    nodes: int
    options: tuple[str, ...]
    seeded: bool
    kills: int
    attacker: bool

    def told(self, option: str) -> int:
        """The number that an option gives it."""
        return int(self.options[self.options.index(option) + 1])


RULES = ("lppa", "dsgt", "dp", "dsgd")


def draw(number: int) -> Trial:
    """The trial of a number; the same whenever it is drawn."""
    chance = random.Random(f"chaos {number}")
    nodes = chance.choice((3, 4, 5))
    rule = chance.choice(RULES)
    rounds = chance.choice((8, 12, 20))
    options = {
        "rule": rule,
        "rounds": rounds,
        "topology": chance.choice(("ring", "full", "directed-ring")),
        "noise-exchange": chance.choice(("seed", "tensor")),
        "noise-every": chance.choice((0, 1, 1, 3)),
        "local-steps": chance.choice((1, 2, 3)),
        "checkpoint-every": chance.choice((1, 2, 3, 5, 10)),
        "eval-every": chance.choice((1, 3, 5)),
        "finish": chance.choice((0, 0, 2)),
        "dtype": chance.choice(("float32", "float64")),
        "latency": chance.choice((0, 10)),
        "beta": 0.1,
        "timeout": TIMEOUT,
    }
    if chance.random() < 0.25:
        options |= {"dataset": "digits", "model": "mlp", "batch": 16, "eval-samples": 100}
    else:
        options |= {"dataset": "quadratic"}
    told = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    seeded = chance.random() < 0.8
    if seeded:
        told += ["--seed", str(chance.randrange(5))]
    attacker = chance.random() < 0.3
    if attacker:
        told += ["--attacker", "1"]
    if chance.random() < 0.3:
        told += ["--reveal-batches"]
    return Trial(number, nodes, tuple(told), seeded, chance.choice((1, 2, 3, 5)), attacker)


@dataclass
class Story:
    """What happened in a trial."""

    kills: int = 0
    processes: int = 0
    resumed: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.said.append(text)

    def one_node(self, text: str) -> None:
        """One more node was killed."""
        self.kills, self.processes = self.kills + 1, self.processes + 1
        self.note(text)


def reference(lab: Lab, trial: Trial) -> tuple[dict[str, Any], float]:
    """The run left alone: what it ends with, and how long it took."""
    out = fresh(lab.work / "alone")
    began = time.monotonic()
    code, said = lab.start("run", "-n", trial.nodes, "--out", out, "-q", *trial.options).end()
    if code != 0:
        raise RuntimeError(f"the run that was left alone ended with {code}: {said[-300:]}")
    return results(out, trial.nodes), time.monotonic() - began


def break_off(lab: Lab, command: Command, chance: random.Random, span: float, story: Story) -> bool:
    """Kills something of a run at a random moment; False if the run was over before."""
    deadline = time.monotonic() + chance.uniform(0.02, 1.0) * span
    while time.monotonic() < deadline and not command.ended:
        time.sleep(0.005)
    if command.ended:
        return False
    nodes = lab.nodes(command)
    kind = chance.choice(("node", "node", "some", "launcher", "all", "launcher, then all"))
    victims = {
        "node": chance.sample(nodes, min(1, len(nodes))),
        "some": chance.sample(nodes, min(len(nodes), 2)),
        "launcher": [command.pid],
        "all": [command.pid, *nodes],
        "launcher, then all": [command.pid],
    }[kind]
    for pid in victims or [command.pid]:
        kill(pid)
    if kind == "launcher, then all":
        # Nodes go on alone for a moment, each as far as it gets.
        time.sleep(chance.uniform(0.0, 0.5) * span)
        for pid in chance.sample(nodes, len(nodes)):
            kill(pid)
            time.sleep(chance.uniform(0.0, 0.05))
    story.kills += 1
    story.processes += len(victims or [1])
    story.note(f"{kind} of {len(nodes)} nodes")
    command.end()
    return True


def some_round(trial: Trial, chance: random.Random, first: int = 1) -> str:
    """A kill of one node in a round, as `--chaos` is told of it."""
    return f"kill:{chance.randrange(trial.nodes)}@{chance.randrange(first, trial.told('--rounds'))}"


def damage(run: Path, chance: random.Random, story: Story) -> None:
    """Tears or changes the newest checkpoint of one node."""
    folders = [path for path in sorted(run.glob("nodes/*/checkpoints")) if any(path.iterdir())]
    if not folders:
        return
    path = sorted(chance.choice(folders).glob("*.checkpoint"))[-1]
    raw = bytearray(path.read_bytes())
    place = chance.randrange(len(raw))
    if chance.random() < 0.5:
        path.write_bytes(raw[:place])
    else:
        raw[place] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)
    story.note(f"damaged {path.relative_to(run)}")


def survive(lab: Lab, trial: Trial, out: Path, span: float, story: Story) -> str:
    """Runs, breaks off, goes on until the end; empty, or what went wrong."""
    chance = random.Random(f"moments {trial.number}")
    chaos = []
    if chance.random() < 0.3:
        chaos = ["--chaos", some_round(trial, chance)]
    started = ["run", "-n", trial.nodes, "--out", out, "-q", *trial.options]
    command = lab.start(*started, *chaos)
    if chaos:
        code, _ = command.end()
        story.one_node(chaos[1])
        broken = code != 0
    else:
        broken = break_off(lab, command, chance, span, story)
    left = trial.kills - 1
    for _ in range(30):
        if not broken:
            code, said = command.end()
            if code == 0:
                return ""
            if STILL_WRITING in said:
                story.note("others still write")
                eventually(lambda: not lab.processes())
            elif any(words in said for words in NOT_BEGUN):
                story.note("had not begun")
                eventually(lambda: not lab.processes())
                command, broken = lab.start(*started[:4], fresh(out), *started[5:]), False
                continue
            elif "has come to its end" in said:
                return ""
            else:
                return f"ended with {code}: {said.strip()[-400:]}"
        if chance.random() < 0.5:
            eventually(lambda: not lab.processes())
            if chance.random() < 0.4:
                damage(out, chance, story)
        command = lab.start("run", "--resume", out, "-q")
        broken = False
        if left > 0:
            left -= 1
            broken = break_off(lab, command, chance, span, story)
    return "did not come to its end in 30 tries"


def seeded_trial(lab: Lab, trial: Trial, story: Story) -> list[str]:
    """What differs from the run left alone, or went wrong."""
    wanted, span = reference(lab, trial)
    out = fresh(lab.work / "run")
    wrong = survive(lab, trial, out, span, story)
    return [wrong] if wrong else differences(wanted, results(out, trial.nodes)) + leftovers(out)


def wait_for_checkpoints(run: Path, many: int, command: Command) -> None:
    """Returns when there are as many, or the run has ended."""
    eventually(lambda: command.ended or len(list(run.glob("nodes/*/checkpoints/0*"))) >= many)


def unseeded_trial(lab: Lab, trial: Trial, story: Story) -> list[str]:
    """Two resumes from copies of one run that was broken off must end alike."""
    chance = random.Random(f"copies {trial.number}")
    out, copy = fresh(lab.work / "run"), fresh(lab.work / "copy")
    span = 4.0
    # Without a checkpoint, two runs begin with two seeds.
    first = trial.told("--checkpoint-every") + 1
    by_round = first < trial.told("--rounds")
    for tried in range(30):
        # On a fast machine a small run is over before its moment comes: then a round decides.
        chaos = ["--chaos", some_round(trial, chance, first)] if by_round and tried >= 5 else []
        given = [*trial.options, *chaos]
        command = lab.start("run", "-n", trial.nodes, "--out", fresh(out), "-q", *given)
        wait_for_checkpoints(out, trial.nodes, command)
        broken = bool(chaos) or break_off(lab, command, chance, span / 4, story)
        code, said = command.end()
        if not broken and code != 0:
            return [f"ended with {code}: {said.strip()[-400:]}"]
        if chaos:
            story.one_node(chaos[1])
        if broken and not (out / "summary.json").exists():
            break
        if broken and read_summary(out)["status"] not in ENDED:
            break
    else:
        return ["could not be broken off in 30 tries"]
    eventually(lambda: not lab.processes())
    shutil.copytree(out, copy)
    if chance.random() < 0.5:
        damage(copy, chance, story)
    found = []
    for folder in (out, copy):
        command = lab.start("run", "--resume", folder, "-q")
        if folder == copy and break_off(lab, command, chance, span, story):
            eventually(lambda: not lab.processes())
            command = lab.start("run", "--resume", folder, "-q")
        code, said = command.end()
        if code != 0 and "has come to its end" not in said:
            return [f"ended with {code}: {said.strip()[-400:]}"]
        found.append(results(folder, trial.nodes))
    return differences(*found) + leftovers(out) + leftovers(copy)


def try_out(lab: Lab, trial: Trial) -> dict[str, Any]:
    """One trial, from nothing to its result."""
    story, began = Story(), time.monotonic()
    try:
        wrong = (seeded_trial if trial.seeded else unseeded_trial)(lab, trial, story)
        left = len(lab.processes())
        if left:
            wrong.append(f"{left} processes are left")
    except (TimeoutError, RuntimeError, OSError) as error:
        wrong = [repr(error)]
        story.note(f"left: {[Path(f'/proc/{p}/stat').read_text()[:60] for p in lab.processes()]}")
    temporary = [path.name for path in lab.temporary.iterdir()]
    if wrong:
        kept = lab.work / f"wrong-{trial.number}"
        shutil.rmtree(kept, ignore_errors=True)
        if (lab.work / "run").exists():
            shutil.copytree(lab.work / "run", kept / "run")
        if (lab.work / "alone").exists():
            shutil.copytree(lab.work / "alone", kept / "alone")
    lab.end_all()
    return {
        "trial": trial.number,
        "identical": not wrong,
        "wrong": wrong,
        "kills": story.kills,
        "processes": story.processes,
        "seeded": trial.seeded,
        "story": story.said,
        "temporary": temporary,
        "seconds": round(time.monotonic() - began, 1),
        "options": f"-n {trial.nodes} " + " ".join(trial.options),
    }
