"""Runs cells, one after the other, in a process of its own that ends when its parent does.

The parent writes requests as lines of JSON to standard input and reads answers from standard
output; when standard input ends, whatever is being done is stopped and nothing is left behind. That
is the only way to end a worker, and it works when the parent was killed, too. A worker is the
leader of its group of processes: what does not end in time is killed with it.

A worker keeps one fork server for all its cells, so that PyTorch is loaded once.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import util
from pathlib import Path
from typing import Any

from lppa.attack.names import COLLUDE, parse_attacks
from lppa.attack.results import AttackResult
from lppa.coordinator.figures import Summary
from lppa.coordinator.plan import Blueprint
from lppa.protocol.errors import BLEW_UP, LppaError, RunFailed, WrongUse
from lppa.protocol.files import write_atomically
from lppa.protocol.settings import make_settings
from lppa.reproduce.cells import Attack, Cell, from_spec
from lppa.reproduce.data import dataset_path, hidden_folder, load
from lppa.reproduce.distances import distances
from lppa.reproduce.results import COMPLETED, DIVERGED, SCORES, Attacked, CellResult
from lppa.running.display import Silent
from lppa.running.launch import fork_context
from lppa.running.listener import Listener
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local

# Long, as it is no part of the result: on a busy machine a peer may be slow.
TIMEOUT = 900.0
GRACE = 20.0  # seconds for clearing up
GUESSES = ("zeros", "mean", "start")
GUESS_SCORES = ("distance", "mse_raw", "mse_clamped", "psnr")
# What of a run's directory is not kept: weights and recorded messages take most of the room.
BULKY = (".pt", ".log")

Tell = Callable[[float], None]


def run_cell(cell: Cell, out: Path, tell: Tell) -> CellResult:
    """The result of a cell; its run's directory ends up in `out`/runs/<key>.

    A run that diverges has a result, with what it reached until then; any other failure raises.
    """
    runs = hidden_folder(out / "runs")
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"{cell.key}.part-", dir=runs))
    try:
        dataset = dataset_path(out / "data", cell.dataset, cell.rows)
        settings = make_settings({"timeout": TIMEOUT, **cell.told(), "dataset": dataset})
        blueprint = make_blueprint(settings, cell.nodes, cell.key)
        summary = run(blueprint, folder, Telling(settings.rounds, tell), recorders(cell.attack))
        data = load(dataset, settings.data_dir)
        result = training_result(summary, data)
        if cell.attack is not None:
            found = [] if result.diverged else attack(folder, cell.attack)
            attacks = tuple(map(attack_result, found))
            pictures = keep_pictures(cell, folder, found, out)
            result = replace(result, attacks=attacks, pictures=pictures)
            if first_seed(cell):
                away = distances(data, cell.dataset, settings.data_dir)
                result = replace(result, distances=away)
        keep(folder, runs / cell.key)
        return replace(result, seconds=round(time.monotonic() - began, 2))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(
    blueprint: Blueprint, folder: Path, listener: Listener, attackers: tuple[int, ...]
) -> Summary:
    """In this process, which takes less of a processor; who records has to be a node."""
    if attackers:
        return run_local(blueprint, folder, listener, attackers=attackers)
    # Imported late: it brings PyTorch, which a worker that only attacks has in its fork server.
    from lppa.running.inside import run_inside

    return run_inside(blueprint, folder, listener)


def recorders(how: Attack | None) -> tuple[int, ...]:
    """Who records a run: those who attack alone, and those who pool what they know."""
    if how is None:
        return ()
    pooling = {node for one in parse_attacks(",".join(how.names)) for node in one.colluders}
    return tuple(sorted({*how.attackers, *pooling}))


def first_seed(cell: Cell) -> bool:
    """Whether pictures and distances are kept: one seed is enough for what takes room or time."""
    return bool(cell.settings["seed"] == 1)


class Telling(Silent):
    """Tells how far a run is, as a part of 1."""

    def __init__(self, rounds: int, tell: Tell) -> None:
        super().__init__(rounds)
        self.tell, self.told = tell, 0.0

    def progress(self, rounds: dict[int, int], alive: int) -> None:
        part = min(rounds.values()) / self.rounds
        if part >= self.told + 0.05:
            self.told = part
            self.tell(part)


def training_result(summary: Summary, data: Any) -> CellResult:
    """What is kept of a run. Without `data`, as for a quadratic, there is no accuracy."""
    diverged = summary.status == "failed" and BLEW_UP in (summary.error or "")
    if summary.status == "interrupted":
        raise KeyboardInterrupt
    if not summary.ended and not diverged:
        raise RunFailed(f"a run failed: {summary.error}")
    curve = [(row.round, row.accuracy.mean) for row in summary.history if row.accuracy is not None]
    return CellResult(
        DIVERGED if diverged else COMPLETED,
        diverged_in=summary.round if diverged else None,
        best=max((accuracy for _, accuracy in curve), default=None),
        final=curve[-1][1] if curve else None,
        curve=tuple(curve),
        rows=None if data is None else (len(data.train), len(data.test)),
        doubtful=summary.status == "doubtful",
        loss=summary.loss,
        grade=summary.grade,
        noise_to_example=summary.noise_to_example,
        bytes=summary.bytes.to_dict(),
    )


def attack(folder: Path, how: Attack) -> list[AttackResult]:
    """What an attack gives, made in a process of its own that has PyTorch in memory already."""
    said = folder / "attack"
    process = fork_context().Process(target=forked_attack, args=(folder, how, said))
    process.start()
    try:
        process.join()
    finally:
        if process.exitcode is None:
            process.kill()
            process.join()
    if process.exitcode != 0:
        words = said.with_suffix(".err").read_text().strip().splitlines() or ["no reason given"]
        raise RunFailed(f"an attack failed: {words[-1]}")
    told = json.loads(said.with_suffix(".out").read_text())
    return [AttackResult.from_dict(one) for one in told]


def forked_attack(folder: Path, how: Attack, said: Path) -> None:
    """The life of an attack's process; runs in the child."""
    with said.with_suffix(".err").open("wb") as file:
        os.dup2(file.fileno(), 2)
    from lppa.attack.campaign import Wanted, attack_runs
    from lppa.attack.restarts import Options

    wanted = Wanted(parse_attacks(",".join(how.names)), how.attackers, how.victims, how.rounds)
    try:
        found = attack_runs([folder], wanted, Options(how.restarts))
    except LppaError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    results = [result.to_dict() for _, result in found]
    write_atomically(said.with_suffix(".out"), json.dumps(results))


def full_name(found: AttackResult) -> str:
    """The attack as it was asked for."""
    who = ",".join(map(str, found.attackers))
    return f"{COLLUDE}{who}/{found.attack}" if len(found.attackers) > 1 else found.attack


def attack_result(found: AttackResult) -> Attacked:
    """What is kept of an attack."""
    score, guesses = found.score or {}, found.baselines or {}
    return Attacked(
        full_name(found),
        found.victim,
        found.round,
        {name: score[name] for name in SCORES if name in score},
        {
            name: {kind: guesses[name][kind] for kind in GUESS_SCORES if kind in guesses[name]}
            for name in GUESSES
            if name in guesses
        },
    )


def keep_pictures(cell: Cell, folder: Path, found: list[AttackResult], out: Path) -> dict[str, str]:
    """Each attack's picture of its first victim, for the first seed only: they take room."""
    kept: dict[str, str] = {}
    for one in found if first_seed(cell) else ():
        name = full_name(one)
        if one.picture and name not in kept:
            stem = f"{cell.key}-{name}".translate({ord("/"): "-", ord(":"): None, ord(","): "+"})
            picture = folder / "attacks" / Path(one.picture).name
            kept[name] = f"pictures/{stem}.png"
            write_atomically(out / kept[name], picture.read_bytes())
    return kept


def keep(folder: Path, place: Path) -> None:
    """Moves a finished run's directory to its place, without what takes most of the room."""
    for path in folder.rglob("*"):
        if path.suffix in BULKY and path.is_file():
            path.unlink()
    shutil.rmtree(place, ignore_errors=True)
    folder.rename(place)


def answer(request: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Does what was asked for: a cell, or to see that the data for cells is there."""
    out = Path(request["out"])
    try:
        if "data" in request:
            for dataset, rows, data_dir in request["data"]:
                small = None if rows is None else tuple(rows)
                load(dataset_path(out / "data", dataset, small), data_dir)
            return {"ready": True}
        return {"result": run_cell(from_spec(request["cell"]), out, tell).to_dict()}
    except LppaError as error:
        return {"error": str(error), "wrong_use": isinstance(error, WrongUse)}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}", "wrong_use": False}


def serve() -> None:
    """The life of a worker."""
    signal.signal(signal.SIGTERM, _interrupt)
    # Clients in this process have no file of their own to tell their troubles to.
    logging.getLogger("lppa.node").setLevel(logging.CRITICAL)
    # Answers go where standard output went; what anybody else prints goes to standard error.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(**said: Any) -> None:
        channel.write(json.dumps(said) + "\n")
        channel.flush()

    requests: queue.Queue[dict[str, Any] | None] = queue.Queue()
    try:
        threading.Thread(target=_listen, args=(requests,), daemon=True).start()
        while (request := requests.get()) is not None:
            tell(**answer(request, lambda part: tell(part=part)))
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_group()


def end_group() -> None:
    """Ends this process and all that it started: a node that was just being forked, too."""
    # Where the fork server listens: this is too sudden an end for Python to clear that up.
    shutil.rmtree(util.get_temp_dir(), ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)


def _listen(requests: queue.Queue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    requests.put(None)
    # The main thread may be in the middle of a run, or deaf for this while it clears one up.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    end_group()


def _interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt
