"""Which cells a sweep has: from a TOML file to combinations of settings, each under all seeds.

Everything that can be wrong is told here, before anything is run; running is `reproduce.pool`'s.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lppa.models.rules import facts_of
from lppa.options import NODES, absolute_paths, read_settings_file
from lppa.protocol.checks import check_number
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings, make_settings
from lppa.reproduce.cells import Attack, Cell
from lppa.reproduce.experiments import NOISE_SETTINGS
from lppa.running.prepare import make_blueprint

if sys.version_info >= (3, 11):
    pass
else:
    pass

KNOWN = ("nodes", "seeds", "base", "grid")
ELSEWHERE = {"nodes": "nodes", "seed": "seeds"}  # what is no setting of a sweep, and stands where
# The machine's matters: part of a cell only if somebody asks for them.
MACHINE = ("timeout", "data_dir", "device")
MOST = 10_000  # combinations; more are a mistake


@dataclass(frozen=True)
class Combination:
    """Settings that are run under every seed; `varied` is what tells it from the others."""

    varied: Mapping[str, Any]
    cells: tuple[Cell, ...]

    @property
    def label(self) -> str:
        """What varies, in a few words."""
        return ", ".join(f"{name} {in_short(value)}" for name, value in self.varied.items())


@dataclass(frozen=True)
class Sweep:
    """All combinations of a grid; `axes` are the settings that have several values."""

    axes: tuple[str, ...]
    seeds: tuple[int, ...]
    combinations: tuple[Combination, ...]

    def cells(self) -> list[Cell]:
        """Each cell once, a seed finished before the next is begun.

        What is there when somebody stops is then of use.
        """
        by_seed = zip(*(combination.cells for combination in self.combinations), strict=True)
        found: dict[str, Cell] = {}
        for cell in itertools.chain.from_iterable(by_seed):
            found.setdefault(cell.key, cell)
        return list(found.values())


def read_grid(path: Path) -> Sweep:
    """The sweep that a file describes; raises WrongUse with what is wrong in it."""
    try:
        content = read_settings_file(path)
    except OSError as error:
        raise WrongUse(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise WrongUse(f"{path} cannot be understood: {error}") from None
    try:
        return make_sweep(content)
    except WrongUse as error:
        raise WrongUse(f"{path}: {error}") from None


def make_sweep(content: Mapping[str, Any]) -> Sweep:
    """The sweep that a file's content describes."""
    for name in content.keys() - set(KNOWN):
        raise WrongUse(f"unknown {name!r}; known: {', '.join(KNOWN)} (settings go below [base])")
    base, grid = (_section(content, name) for name in ("base", "grid"))
    for name in base.keys() & grid.keys():
        raise WrongUse(f"{name} stands below [base] and below [grid]: leave one")
    nodes = content.get("nodes", NODES.default)
    lists = {"nodes": nodes if isinstance(nodes, list) else [nodes], **grid}
    seeds = content.get("seeds", [1])
    for name, values in {"seeds": seeds, **lists}.items():
        if not isinstance(values, list) or not values:
            raise WrongUse(f"{name} must be a list of values, not {values!r}")
        if any(value in values[:place] for place, value in enumerate(values)):
            raise WrongUse(f"{name} has a value twice: {values}")
    count = len(list(itertools.islice(itertools.product(*lists.values()), MOST + 1)))
    if count > MOST:
        raise WrongUse(f"more than {MOST:,} combinations: leave some values out")
    axes = tuple(name for name, values in lists.items() if len(values) > 1)
    combinations = [
        _combination(base, dict(zip(lists, values, strict=True)), axes, seeds)
        for values in itertools.product(*lists.values())
    ]
    return Sweep(axes, tuple(seeds), tuple(combinations))


def _section(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """[base] or [grid], with names as they are in the settings."""
    section = content.get(name, {})
    if not isinstance(section, dict):
        raise WrongUse(f"{name} must be a section [{name}], not {section!r}")
    for setting, place in ELSEWHERE.items():
        if setting in section:
            raise WrongUse(f"{setting} stands at the top of the file, as {place}, not in [{name}]")
    return {key.replace("-", "_"): value for key, value in section.items()}


def _combination(
    base: Mapping[str, Any], chosen: dict[str, Any], axes: tuple[str, ...], seeds: list[Any]
) -> Combination:
    varied = {name: chosen[name] for name in axes}
    given = {**base, **chosen}
    nodes = given.pop("nodes")
    try:
        nodes = int(check_number("nodes", nodes, NODES.metadata))
        # One of a kind is drawn: a graph that there cannot be is told now.
        settings = [absolute_paths(make_settings({**given, "seed": seed})) for seed in seeds]
        make_blueprint(settings[0], nodes, "sweep")
    except WrongUse as error:
        where = Combination(varied, ()).label
        raise WrongUse(f"{where}: {error}" if where else str(error)) from None
    label = Combination(varied, ()).label
    cells = [make_cell(one, nodes, label, given.keys()) for one in settings]
    return Combination(varied, tuple(cells))


def make_cell(
    settings: Settings, nodes: int, label: str, given: Any = (), attack: Attack | None = None
) -> Cell:
    """A cell with all settings spelled out, so that it stays what it is when defaults change."""
    told = settings.to_dict()
    dataset, seed = told.pop("dataset"), told["seed"]
    left_out = {name for name in MACHINE if name not in given}
    if facts_of(settings.rule).noiseless and settings.clip is None:
        # What has no influence makes no other cell. With --clip, noise says which norm.
        left_out |= set(NOISE_SETTINGS)
    told = {name: value for name, value in told.items() if name not in left_out}
    words = [label, f"seed {seed}"] if label else [f"seed {seed}"]
    files = [Path(name) for name in (dataset, settings.topology) if Path(name).is_file()]
    content = "-".join(map(hash_of, files))
    return Cell(dataset, None, nodes, told, attack, content, ", ".join(words))


@functools.cache
def hash_of(path: Path) -> str:
    """What tells a file's content from any other; each file is read once for all cells."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()[:16]


def in_short(value: Any) -> str:
    """A value in front of people: of a file its name."""
    if isinstance(value, str) and value.endswith((".npz", ".json")):
        return Path(value).name
    return str(value)
