"""Reads audit.json and the attacks' results; a part of `reading`, with the same tolerance."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from lppa.auditing.grade import GRADES, worst
from lppa.models.rules import facts_of
from lppa.report.record import (
    EXACT,
    MIXED,
    Attack,
    Audit,
    Dropout,
    Epsilon,
    Hidden,
    Pair,
    Who,
)
from lppa.report.values import (
    Files,
    ids,
    items,
    mapping,
    number,
    numbers,
    positive,
    text,
    texts,
    whole,
)

LARGEST_PICTURE = 8_000_000  # bytes
PNG = b"\x89PNG\r\n\x1a\n"
FIGURES = (
    "sigma",
    "loss",
    "iterations",
    "seconds",
    "histogram_error",
    "histogram_error_uniform",
)


def read_audit(content: Any) -> Audit | None:
    """audit.json; None if there is nothing in it."""
    known = mapping(content)
    targets = texts(known.get("targets"))
    cells: dict[str, dict[Who, float | str]] = {t: {} for t in targets}
    pairs: dict[Who, Pair] = {}
    for pair in map(mapping, items(known.get("pairs"))):
        attackers, victim = ids(pair.get("attackers")), whole(pair.get("victim"))
        if not attackers or victim is None:
            continue
        who, values = (tuple(sorted(attackers)), victim), read_values(pair, targets)
        for target, value in values.items():
            cells[target][who] = value
        found = read_pair(pair, EXACT in values.values())
        if found:
            pairs[who] = found
    verdict = texts(known.get("verdict"))
    if not verdict and not any(cells.values()):
        return None
    exact = known.get("bad") is True or any(EXACT in of.values() for of in cells.values())
    unit, scale = unit_of(known)
    return Audit(
        targets=tuple(t for t in targets if cells[t]),
        cells=cells,
        smallest=read_smallest(known),
        verdict=verdict,
        advice=text(known.get("advice")),
        exact=exact,
        law=texts(known.get("law")),
        grade="open" if exact else overall(grade_in(known), pairs.values()),
        pairs=pairs,
        hide=read_hidden(mapping(known.get("hide"))),
        thresholds=read_thresholds(mapping(known.get("thresholds"))),
        dropout=read_dropout(mapping(known.get("dropout"))),
        epsilon=read_epsilon(mapping(known.get("epsilon"))),
        unit=unit,
        scale=scale,
    )


def read_values(pair: dict[str, Any], targets: Iterable[str]) -> dict[str, float | str]:
    """By target what a pair's attackers learn; nonsense is left out, and never taken for safe."""
    values: dict[str, float | str] = {}
    for target in targets:
        value = pair.get(target, "missing")
        if value is None or value == MIXED:  # null in older files
            values[target] = MIXED
        elif value == EXACT:
            values[target] = EXACT
        elif positive(value) is not None:
            values[target] = positive(value) or EXACT
    return values


def read_pair(pair: dict[str, Any], exact: bool) -> Pair | None:
    """A pair's grade; what is learned exactly is open, whatever else stands there.

    None where there is no grade, as in older files.
    """
    if exact and "grade" in pair:
        return Pair("open", 0.0, exact=True)
    grade = grade_in(pair)
    return None if grade is None else Pair(grade, positive(pair.get("ratio")))


def grade_in(content: dict[str, Any]) -> str | None:
    """One of the three words."""
    grade = content.get("grade")
    return grade if grade in GRADES else None


def overall(grade: str | None, pairs: Iterable[Pair]) -> str | None:
    """The lowest of all grades; nothing is hidden that the audit as a whole does not call so."""
    found = worst([*([grade] if grade else []), *(pair.grade for pair in pairs)])
    return None if found == "hidden" and grade != "hidden" else found


def read_smallest(content: dict[str, Any]) -> dict[int, tuple[int, ...] | None]:
    """By client the smallest group that learns something exactly; None where there is none."""
    smallest = {
        int(victim): ids(group) or None
        for victim, group in mapping(content.get("smallest")).items()
        if victim.isdecimal() and len(victim) < 10
    }
    return dict(sorted(smallest.items()))


def unit_of(content: dict[str, Any]) -> tuple[str, float | None]:
    """What deviations are counted in: β, or β_own where there is no other noise."""
    beta, own = positive(content.get("beta")), positive(content.get("beta_own"))
    if facts_of(str(content.get("rule"))).cancels and beta == 0 and own:
        return "β_own", own
    return "β", beta or None


def read_hidden(content: dict[str, Any]) -> Hidden | None:
    """What is to be hidden; None where there is nothing."""
    rms = positive(content.get("rms"))
    if rms is None:
        return None
    spread = positive(content.get("spread")) or 1.0
    return Hidden(rms, text(content.get("source")), whole(content.get("examples"), 1), spread)


def read_thresholds(content: dict[str, Any]) -> tuple[float, float] | None:
    """Between which ratios a pair is weak."""
    low, high = (positive(content.get(name)) for name in ("open_below", "hidden_from"))
    return None if low is None or high is None else (low, high)


def read_dropout(content: dict[str, Any]) -> Dropout | None:
    """What a departure leaves; None unless the file tells all of it."""
    victim, gone = whole(content.get("victim")), whole(content.get("gone"))
    attackers, grade = ids(content.get("attackers")), grade_in(content)
    left = positive(content.get("noise"))
    noise = EXACT if left == 0 or content.get("noise") == EXACT else left
    if victim is None or gone is None or grade is None or noise is None or not attackers:
        return None
    return Dropout(victim, gone, attackers, noise, positive(content.get("ratio")), grade)


def read_epsilon(content: dict[str, Any]) -> Epsilon | None:
    """A guarantee; None where none is stated."""
    release, delta = positive(content.get("release")), positive(content.get("delta"))
    if release is None or delta is None:
        return None
    run, releases = positive(content.get("run")), whole(content.get("releases"), 1)
    return Epsilon(release, run, delta, releases)


def read_attacks(files: Files) -> tuple[tuple[Attack, ...], tuple[tuple[str, bytes], ...]]:
    """All results with their pictures, and the pictures that belong to no single result."""
    folder = files.folder / "attacks"
    if not folder.is_dir():
        return (), ()
    results = items(files.json("attacks/summary.json")) or single_results(files)
    known = {path.name for path in folder.glob("*.png")}
    attacks, used = [], set()
    for result in map(mapping, results):
        if not text(result.get("attack")):
            continue
        # A name only: a result cannot ask for a file from somewhere else.
        name = PurePath(text(result.get("picture")) or "").name
        used.add(name)
        attacks.append(one_attack(result, picture(files, name) if name in known else None))
    rest = [(name, picture(files, name)) for name in sorted(known - used)]
    return tuple(attacks), tuple((name, image) for name, image in rest if image)


def single_results(files: Files) -> list[dict[str, Any]]:
    """One file per attack, each with its picture beside it."""
    found = []
    for path in sorted((files.folder / "attacks").glob("*.json")):
        if path.name != "summary.json":
            result = mapping(files.json(f"attacks/{path.name}"))
            found.append({"picture": f"{path.stem}.png", **result})
    return found


def one_attack(result: dict[str, Any], image: bytes | None) -> Attack:
    """A result, and the scores of trivial guesses beside its own."""
    scores = {"this attack": numbers(result.get("score"))}
    scores |= {name: numbers(of) for name, of in mapping(result.get("baselines")).items()}
    figures = {name: number(result.get(name)) for name in FIGURES}
    return Attack(
        name=result["attack"],
        attackers=ids(result.get("attackers")),
        victim=whole(result.get("victim")),
        round=whole(result.get("round")),
        scores={name: of for name, of in scores.items() if of},
        figures={name: value for name, value in figures.items() if value is not None},
        picture=image,
        labels=sum(len(items(batch)) for batch in items(result.get("labels"))),
    )


def picture(files: Files, name: str) -> bytes | None:
    """A PNG file of the attacks; None if it is something else."""
    raw = files.bytes(f"attacks/{name}", LARGEST_PICTURE)
    return raw if raw is not None and raw.startswith(PNG) else None
