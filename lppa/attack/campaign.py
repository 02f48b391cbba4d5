"""Attacks on recorded runs, one after the other: what every way to ask for attacks comes to.

`lppa attack`, `Run.attack` and the cells of experiments all call `attack_runs`. How one attack is
made is in `run`; printing and drawing over several runs are not done here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch

from lppa.attack.curves import draw_over_rounds
from lppa.attack.names import Attack
from lppa.attack.restarts import Options, Step
from lppa.attack.results import AttackResult, read_results
from lppa.attack.run import attack_case
from lppa.attack.scene import Case, open_scene, plan_cases
from lppa.protocol.errors import WrongUse

log = logging.getLogger("lppa.attack")

Found = tuple[Path, AttackResult]
"""A run's directory, and what an attack on it came to."""


@dataclass(frozen=True)
class Wanted:
    """Which attacks on a run; None means all that recorded, or all that are heard."""

    attacks: Sequence[Attack]
    attackers: Sequence[int] | None = None
    """Each alone; colluders are named by the attack."""
    victims: Sequence[int] | None = None
    rounds: Sequence[int] = (0,)


class Watcher(Protocol):
    """Hears how far attacks are."""

    def start(self, name: str) -> Step:
        """Hears of the next attack; what comes back hears of its steps."""

    def advance(self) -> None:
        """One attack more is done."""


class Watching(Protocol):
    """Makes the watcher of so many attacks."""

    def __call__(self, attacks: int, /) -> AbstractContextManager[Watcher]: ...


class Unwatched:
    """A watcher that nobody sees."""

    def start(self, name: str) -> Step:
        """Hears nothing."""
        return lambda restart, iteration, loss: None

    def advance(self) -> None:
        """Counts nothing."""


@contextmanager
def unwatched(attacks: int) -> Iterator[Watcher]:
    """For attacks that run where nobody looks."""
    yield Unwatched()


def attack_runs(
    folders: Sequence[Path], wanted: Wanted, options: Options, watching: Watching = unwatched
) -> list[Found]:
    """Makes the attacks; leaves out, with a word, those that cannot be made.

    Results are kept in attacks/ of each run, with curves where several rounds were attacked. If
    none can be made, that is wrong use.
    """
    cases = [
        case
        for folder in folders
        for case in plan_cases(
            folder, wanted.attacks, wanted.attackers, wanted.victims, wanted.rounds
        )
    ]
    with one_thread(), watching(len(cases)) as watcher:
        results = _make(cases, options, watcher)
    for folder in dict.fromkeys(folder for folder, _ in results):
        draw_over_rounds(folder / "attacks", read_results(folder))
    return results


def _make(cases: Sequence[Case], options: Options, watcher: Watcher) -> list[Found]:
    results, scene, opened = [], None, None
    first: WrongUse | None = None
    for case in cases:
        what = f"{case.attack.name} on node {case.victim}, round {case.round}"
        try:
            if scene is None or opened != (case.folder, case.attackers):
                scene = open_scene(case.folder, case.attackers)
                opened = (case.folder, case.attackers)
            result = attack_case(scene, case, replace(options, on_step=watcher.start(what)))
            results.append((case.folder, result))
        except WrongUse as error:
            first = first or error
            if len(cases) > 1:
                log.warning("left out: %s: %s", what, error)
        watcher.advance()
    if not results and first is not None:
        raise first
    return results


@contextmanager
def one_thread() -> Iterator[None]:
    """The steps of an attack are small: threads would wait for each other more than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
