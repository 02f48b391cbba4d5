"""Rules by name: an update and the noise that enters it.

A rule of one's own is a class like those in `updates`, registered with `@rule`; it runs without
noise unless it names one of ours. What a rule hides is for the audit to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from lppa.models.rules import FACTS
from lppa.node.updates import DSGD, GradientTracking, Update
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import OWN

Class = TypeVar("Class", bound=type)

NOISES = ("none", "own", "difference")


@dataclass(frozen=True)
class Rule:
    """How models are combined, and which noise hides what travels."""

    update: Callable[[], Update]
    noise: str


UPDATES: dict[str, Callable[[], Update]] = {
    "dsgt": GradientTracking,
    "dp": GradientTracking,
    "lppa": GradientTracking,
    "dsgd": DSGD,
}
# Their noise is that which audits reckon with.
RULES = {name: Rule(update, FACTS[name].noise) for name, update in UPDATES.items()}


def rule(name: str, noise: str = "none") -> Callable[[Class], Class]:
    """Registers a class as a rule of one's own: `@lppa.rule("push-sum")`.

    Then `lppa.run(rule="push-sum")`, or `lppa run --rule FILE.py:NAME` with the class's name; runs
    call it own/push-sum. The class has what `lppa.node.updates.Update` says.

    `noise` is what enters the vector that the class names in `noised`: none, own (each client its
    own, which nobody takes away), or difference (lppa's, which cancels over all clients).
    """
    if not re.fullmatch(r"[\w.-]+", name):
        raise WrongUse(f"a rule's name has letters, digits, . _ and - in it, not {name!r}")
    if noise not in NOISES:
        raise WrongUse(f"the noise of a rule is one of {', '.join(NOISES)}, not {noise!r}")

    def register(update: Class) -> Class:
        lacking = [a for a in ("travels", "start", "combine") if not hasattr(update, a)]
        if noise != "none" and not hasattr(update, "noised"):
            lacking.append("noised")
        if lacking:
            raise WrongUse(f"the rule {name} has no {' and no '.join(lacking)}")
        # Somebody's class, of which no type says what it has.
        filled: Any = update
        filled.noised = getattr(update, "noised", filled.travels[0])
        filled.scalars = getattr(update, "scalars", ())
        RULES[OWN + name] = Rule(filled, noise)
        filled.rule_name, filled.rule_noise = OWN + name, noise
        return update

    return register


def find_rule(name: str) -> Rule:
    """A rule by its name; one of one's own must have been registered in this process."""
    if name not in RULES:
        raise WrongUse(
            f"this node does not know the rule {name}; it knows {', '.join(RULES)}. A rule of your "
            "own has to be given to every node: lppa-node --rule FILE.py:NAME"
        )
    return RULES[name]
