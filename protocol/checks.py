"""One option: what is known about it, and how a value is checked against that.

Every entrance, be it the command line, a file or a message, checks here, and so gives the same
message; ids of nodes that people name are checked here, too. Which options there are is in
`settings`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, field
from typing import Any

from lppa.protocol.errors import WrongUse

MOST_SHOWN = 80  # characters of a value that is wrong


def option(
    default: Any,
    help: str,
    *,
    kind: type = str,
    choices: tuple[str, ...] = (),
    pattern: str = "",
    allowed: str = "",
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    words: tuple[str, ...] = (),
) -> Any:
    """A field with what the command line and the checks need to know about it.

    `least` and `most` bound a number, `above` without the bound itself; `words` are texts that a
    number setting takes besides numbers; `pattern` is what a text must look like, also one that is
    taken instead of a number, and `allowed` says the same to people.
    """
    about = {
        "help": help,
        "kind": kind,
        "choices": choices,
        "pattern": pattern,
        "allowed": allowed,
        "least": least,
        "above": above,
        "most": most,
        "words": words,
    }
    return field(default=default, metadata=about)


def flag(name: str) -> str:
    """The command line's spelling of a setting."""
    return "--" + name.replace("_", "-")


def checked(about: Field[Any], value: Any) -> Any:
    """The value in its own type, or an error that names the option."""
    rules, name = about.metadata, flag(about.name)
    if rules["kind"] in (int, float):
        return check_number(name, value, rules)
    if rules["kind"] is bool:
        if not isinstance(value, bool):
            raise WrongUse(f"{name} must be true or false, not {shortened(value)}")
        return value
    if not isinstance(value, str) or not value:
        raise WrongUse(f"{name} must be a text, not {shortened(value)}")
    if rules["choices"] and value not in rules["choices"]:
        raise WrongUse(
            f"{name} must be one of {', '.join(rules['choices'])}, not {shortened(value)}"
        )
    if rules["pattern"] and not re.fullmatch(rules["pattern"], value):
        raise WrongUse(f"{name} must be {rules['allowed']}, not {shortened(value)}")
    return value


def check_number(name: str, value: Any, rules: Mapping[str, Any]) -> int | float | str:
    """The value as a number that the rules of an `option` allow, or one of its words."""
    if value in rules["words"]:
        return str(value)
    if rules["pattern"] and isinstance(value, str) and re.fullmatch(rules["pattern"], value):
        return value
    kind, least, above, most = (rules[key] for key in ("kind", "least", "above", "most"))
    what = "a whole number" if kind is int else "a number"
    if least is not None:
        what += f" of at least {least:g}"
    if above is not None:
        what += f" above {above:g}"
    if most is not None:
        what += f" and at most {kind(most)}" if kind is int else f" and at most {most:.10g}"
    if texts := [*rules["words"], *filter(None, [rules["allowed"]])]:
        what = f"{', '.join([what, *texts[:-1]])} or {texts[-1]}"
    refusal = WrongUse(f"{name} must be {what}, not {shortened(value)}")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise refusal
    try:
        number: int | float = kind(value)
        # A whole number of hundreds of digits is finite, but none that can be reckoned with.
        sound = math.isfinite(float(number)) and (kind is not int or float(number) == float(value))
    except (ValueError, OverflowError):
        raise refusal from None
    if not sound:
        raise refusal
    if (least is not None and number < least) or (above is not None and number <= above):
        raise refusal
    if most is not None and number > most:
        raise refusal
    return number


def check_ids(ids: Iterable[int], nodes: int, what: str = "run") -> None:
    """Refuses ids that no node of a run, or of a graph, of so many nodes has."""
    for node in ids:
        if not 0 <= node < nodes:
            raise WrongUse(
                f"there is no node {node} in a {what} of {nodes}: ids are 0 to {nodes - 1}"
            )


def shortened(value: Any) -> str:
    """A value as it was given, as far as it is worth reading."""
    shown = value if isinstance(value, str) else repr(value)
    return repr(value) if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]!r} and so on"


def default_of(about: Field[Any]) -> Any:
    """A field's default, None where there is none."""
    return None if about.default is MISSING else about.default
