"""A cell is one piece of work with a key: a training run, or a run and an attack on its log.

Also here: the file that keeps finished cells, so that none is ever run twice. How a cell is run is
`work`'s matter; which cells there are is that of `experiments`, or of a sweep's grid.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from lppa.protocol.errors import WrongUse
from lppa.reproduce.results import CellResult
from lppa.reproduce.sizes import Rows

# Counts up when the same cell would come out differently, as after a change of the algorithm.
FORMAT = 3

# What cells leave out: no cell has it, or the rule has no use for it.
SAME: dict[str, Any] = {
    "reveal_batches": False,
    "init_weights": "default",
    "beta": 0.025,
    "noise": "laplace",
    "noise_every": 0,
    "noise_exchange": "tensor",
    "beta_own": 0.0,
    "latency": 0.0,
}

Results = Mapping[str, CellResult]
"""What finished cells gave, by key."""


@dataclass(frozen=True)
class Attack:
    """What attackers do with the logs of a run; several attacks may use the same.

    Each of `attackers` works alone; those who pool what they know stand in the name of the attack.
    `victims` None: all that are heard.
    """

    names: tuple[str, ...]
    attackers: tuple[int, ...]
    victims: tuple[int, ...] | None
    rounds: tuple[int, ...]
    restarts: int

    def spec(self) -> dict[str, Any]:
        """As plain values; a single attacker stands alone, as in the keys of finished cells."""
        plain = asdict(self)
        who = plain.pop("attackers")
        return {**plain, "attacker": who[0] if len(who) == 1 else who}


@dataclass(frozen=True)
class Cell:
    """Everything that determines a result, spelled out: defaults may change, a cell may not.

    `settings` has all that `lppa run` is told, but for the data set, which may be a small copy, and
    for what is the same in all cells. `content` is a hash of what stands in files that these name.
    `label` is for people, and no part of the key: the same cell may be called otherwise in a larger
    sweep.
    """

    dataset: str
    rows: Rows
    nodes: int
    settings: Mapping[str, Any]
    attack: Attack | None = None
    content: str = ""
    label: str = field(default="", compare=False)

    def told(self) -> dict[str, Any]:
        """All settings that a result can depend on, so that no default has a say."""
        return {**SAME, **self.settings}

    def spec(self) -> dict[str, Any]:
        """The cell as plain values."""
        attack = None if self.attack is None else self.attack.spec()
        plain = asdict(self) | {"settings": dict(self.settings), "attack": attack}
        for name in ("content", "label"):  # the paper's cells have neither
            if not plain[name]:
                del plain[name]
        spec: dict[str, Any] = json.loads(json.dumps(plain))
        return spec

    @cached_property
    def key(self) -> str:
        """A name for people, and a hash of everything."""
        spec = {name: value for name, value in self.spec().items() if name != "label"}
        text = json.dumps([FORMAT, spec], sort_keys=True, separators=(",", ":"))
        return f"{self.stem}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    @property
    def name(self) -> str:
        """What it is called in front of people; not unique."""
        return self.label or self.stem

    @property
    def stem(self) -> str:
        """Data, split, rule and seed in a few words, as the name of a file; not unique."""
        told = self.settings
        words = [Path(self.dataset).stem, told["partition"], told["rule"]]
        if told.get("noise_every"):
            words.append("every" if told["noise_every"] == 1 else f"every{told['noise_every']}")
        if self.attack is not None:
            words.append("attacked")
        return "-".join([*words, f"seed{told['seed']}"]).replace(":", "")


def from_spec(spec: Mapping[str, Any]) -> Cell:
    """The cell that `spec` was made from."""
    attack = None if spec["attack"] is None else attack_from_spec(spec["attack"])
    rows = None if spec["rows"] is None else tuple(spec["rows"])
    words = {name: spec.get(name, "") for name in ("content", "label")}
    return Cell(spec["dataset"], rows, spec["nodes"], dict(spec["settings"]), attack, **words)


def attack_from_spec(spec: Mapping[str, Any]) -> Attack:
    """The attack that `spec` was made from."""
    who, victims = spec["attacker"], spec["victims"]
    return Attack(
        tuple(spec["names"]),
        (who,) if isinstance(who, int) else tuple(who),
        None if victims is None else tuple(victims),
        tuple(spec["rounds"]),
        spec["restarts"],
    )


def read_results(path: Path) -> dict[str, CellResult]:
    """What is finished, by key; a last line that was cut off does not count."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return {}
    results = {}
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            results[entry["key"]] = CellResult.from_dict(entry["result"])
        except (ValueError, KeyError, TypeError):
            raise WrongUse(f"{path}, line {number} is not a finished cell: remove it") from None
    return results


class Store:
    """`cells.jsonl` while cells are being added to it, by one process at a time."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("ab+")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.file.close()
            raise WrongUse(f"another lppa is at work in {path.parent}") from None
        self._cut_torn_line()
        self.results = read_results(path)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def add(self, cell: Cell, result: CellResult) -> None:
        """Keeps a result; on return it is on the disk."""
        entry = {"key": cell.key, "cell": cell.spec(), "result": result.to_dict()}
        self.file.write(json.dumps(entry).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.results[cell.key] = result

    def _cut_torn_line(self) -> None:
        """A process that was killed while it wrote leaves half a line: nothing may follow it."""
        self.file.seek(0)
        content = self.file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self.file.truncate(whole)
