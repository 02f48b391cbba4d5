"""How attacks and victims are written on a command line. Reads text; loads no network and no data.

An attack is OBSERVATION/INVERSION, and `collude:1,3/` before it pools what those attackers know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lppa.protocol.checks import check_ids
from lppa.protocol.errors import WrongUse
from lppa.shell import numbers

# The same names as the registries have; here too, so that a typing error is told without PyTorch.
OBSERVATION_NAMES = ("naive", "neighbour", "difference", "two-hop")
INVERSION_NAMES = ("dlg", "idlg", "cosine", "likelihood", "svd", "labels")
COLLUDE = "collude:"


@dataclass(frozen=True)
class Attack:
    """What is attacked, how, and who pools what they know for it (nobody: each works alone)."""

    observation: str
    inversion: str
    colluders: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """OBSERVATION/INVERSION; who attacks is told beside it, not in it."""
        return f"{self.observation}/{self.inversion}"


def parse_attacks(text: str) -> list[Attack]:
    """Comma-separated attacks; a comma before a digit belongs to the ids of a collusion."""
    return [parse_attack(spec.strip()) for spec in re.split(r",(?!\s*\d)", text)]


def parse_attack(spec: str) -> Attack:
    """One attack; an inversion alone is naive."""
    colluders: tuple[int, ...] = ()
    rest = spec
    if spec.startswith(COLLUDE):
        ids, slash, rest = spec.removeprefix(COLLUDE).partition("/")
        if not slash:
            raise WrongUse(
                f"{spec!r} does not say what to do: {COLLUDE}{ids}/OBSERVATION/INVERSION"
            )
        colluders = tuple(sorted(set(numbers(ids, COLLUDE.rstrip(":")))))
    observation, slash, inversion = rest.partition("/")
    if not slash:
        observation, inversion = "naive", observation
    if observation not in OBSERVATION_NAMES:
        known = ", ".join(OBSERVATION_NAMES)
        raise WrongUse(f"unknown observation {observation!r}; known: {known}")
    if inversion not in INVERSION_NAMES:
        raise WrongUse(f"unknown inversion {inversion!r}; known: {', '.join(INVERSION_NAMES)}")
    return Attack(observation, inversion, colluders)


def parse_victims(text: str) -> tuple[int, ...] | None:
    """Comma-separated ids; None for `all`: every node that is heard and does not attack."""
    if text.strip() == "all":
        return None
    try:
        return tuple(dict.fromkeys(numbers(text, "--victim")))
    except WrongUse:
        raise WrongUse(f"--victim must be comma-separated ids, or all, not {text!r}") from None


def check_call(attacks: str, victim: str, attackers: tuple[int, ...], nodes: int) -> None:
    """Refuses, before anything starts, attacks that a run of so many nodes cannot have."""
    victims = parse_victims(victim) or ()
    check_ids((*attackers, *victims), nodes)
    for node in victims:
        if node in attackers:
            raise WrongUse(f"node {node} cannot be attacker and victim at once")
    for attack in parse_attacks(attacks):
        for node in attack.colluders:
            if node not in attackers:
                raise WrongUse(f"node {node} cannot collude: it is not among --attacker")
