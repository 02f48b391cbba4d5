"""Reads audit.json and the attacks' results; a part of `reading`, with the same tolerance."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from lppa.coordinator.report.record import Attack, Audit
from lppa.coordinator.report.values import (
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
    cells: dict[str, dict[tuple[tuple[int, ...], int], float | None]] = {t: {} for t in targets}
    for pair in items(known.get("pairs")):
        attackers, victim = ids(mapping(pair).get("attackers")), whole(mapping(pair).get("victim"))
        if not attackers or victim is None:
            continue
        for target in targets:
            value = pair.get(target, "missing")
            if value == "exact" or value is None or positive(value) is not None:
                cells[target][attackers, victim] = 0.0 if value == "exact" else value
    smallest = {
        int(victim): ids(group) or None
        for victim, group in mapping(known.get("smallest")).items()
        if victim.isdecimal() and len(victim) < 10
    }
    verdict = texts(known.get("verdict"))
    if not verdict and not any(cells.values()):
        return None
    return Audit(
        targets=tuple(t for t in targets if cells[t]),
        cells=cells,
        smallest=dict(sorted(smallest.items())),
        verdict=verdict,
        advice=text(known.get("advice")),
        bad=known.get("bad") is True,
        law=texts(known.get("law")),
    )


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
