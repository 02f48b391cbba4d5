"""A finished run as an object: its figures, models, page and attacks, read from its directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lppa.auditing.findings import AuditDocument
from lppa.coordinator.figures import Kind, Row, Summary
from lppa.own_code import make_problem
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import OWN, QUADRATICS, Settings, make_settings
from lppa.running.naming import find_run
from lppa.running.rundir import ABOUT

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lppa.attack.results import AttackResult
    from lppa.own_code import Brought


@dataclass(frozen=True)
class History:
    """A run's evaluations: one row for each, figures by name.

    `history["loss"]` is a column, and going through it gives rows.
    """

    rows: tuple[dict[str, float | None], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the figures."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, float | None]]:
        return iter(self.rows)

    def __getitem__(self, column: str) -> list[float | None]:
        if column not in self.columns:
            raise KeyError(f"{column}: there are {', '.join(self.columns)}")
        return [row.get(column) for row in self.rows]

    def frame(self) -> Any:
        """The same as a pandas DataFrame, where pandas is installed."""
        try:
            import pandas
        except ImportError:
            raise WrongUse("frame() needs pandas: pip install pandas") from None
        return pandas.DataFrame(list(self.rows), columns=list(self.columns))


@dataclass(frozen=True)
class Run:
    """A run that has ended; `problem` is what it learned, where that was not one of ours."""

    folder: Path
    problem: Brought | str | None = None

    @cached_property
    def summary(self) -> Summary:
        """What came of it: the content of summary.json, as `summary.loss` or `summary["loss"]`."""
        return self._made(Summary, "summary.json")

    @cached_property
    def audit(self) -> AuditDocument:
        """What it protects: the content of audit.json, by attribute or by key."""
        return self._made(AuditDocument, "audit.json")

    @cached_property
    def settings(self) -> Settings:
        """How it was run."""
        content = self._read("config.json")
        content.pop(ABOUT, None)
        return make_settings(content)

    @cached_property
    def history(self) -> History:
        """Its evaluations, averaged over clients."""
        return History(tuple(flat(row) for row in self.summary.history))

    def state(self, node: int) -> dict[str, Tensor]:
        """The vectors that a client ended with, by name: θ, γ and ḡ, or those of its rule."""
        import torch

        vectors: dict[str, Tensor] = torch.load(self._of_node(node, "state.pt"), weights_only=True)
        return vectors

    def model(self, node: int = 0) -> nn.Module:
        """The network of one client with the weights that it ended with."""
        import torch

        weights = torch.load(self._of_node(node, "model.pt"), weights_only=True)
        module = self._network()
        module.load_state_dict(weights)
        return module.eval()

    def _network(self) -> nn.Module:
        import torch

        from lppa.models.networks import build
        from lppa.node.datasets import describe

        settings = self.settings
        if settings.dataset in QUADRATICS:
            raise WrongUse("the quadratic problem has no network; `state(node)` has its vectors")
        if settings.dataset.startswith(OWN):
            if self.problem is None:
                raise WrongUse(
                    "this run learned a problem of its own: lppa.load(RUN, problem=...) knows it"
                )
            return make_problem(self.problem).build(0).to(getattr(torch, settings.dtype))
        about = describe(
            settings.dataset, settings.data_dir, target=settings.target, task=settings.task
        )
        module = build(settings.model, about.shape, about.classes or 1, torch.Generator())
        return module.to(getattr(torch, settings.dtype))

    def report(self) -> Path:
        """Writes the page about this run anew; returns where it is."""
        from lppa.report.write import write_report

        return write_report(self.folder)

    def attack(
        self, attack: str = "difference/dlg", victim: int = 0, round: int = 0, restarts: int = 4
    ) -> list[AttackResult]:
        """Attacks a victim with what attackers recorded: `lppa.run(..., attackers=[1])`.

        `attack` is OBSERVATION/INVERSION as in `lppa attack`. Returns one result for each attacker;
        its `picture`, and all that is kept, is in `attacks/` in the run's directory. Results have a
        `score` where the victim revealed its batches (`reveal_batches=True`).
        """
        from lppa.attack.campaign import Wanted, attack_runs
        from lppa.attack.names import parse_attacks
        from lppa.attack.restarts import Options

        wanted = Wanted(parse_attacks(attack), victims=(victim,), rounds=(round,))
        found = attack_runs([self.folder], wanted, Options(restarts))
        return [result for _, result in found]

    def _of_node(self, node: int, name: str) -> Path:
        path = self.folder / "nodes" / str(node) / name
        if not path.is_file():
            raise WrongUse(f"{self.folder} has no {name} of node {node}")
        return path

    def _made(self, kind: type[Kind], name: str) -> Kind:
        content = self._read(name)
        try:
            return kind.from_dict(content)
        except (KeyError, TypeError, AttributeError) as error:
            raise WrongUse(f"{self.folder / name} is not what a run writes: {error!r}") from None

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return content
        except FileNotFoundError:
            raise WrongUse(f"{self.folder} has no {name}: did the run come to its end?") from None
        except ValueError as error:
            raise WrongUse(f"{path} cannot be read: {error}") from None

    def __repr__(self) -> str:
        said = self.summary
        if said.accuracy is not None:
            figure = f"accuracy {said.accuracy.mean:.2%}"
        else:
            figure = "no loss" if said.loss is None else f"loss {said.loss:.4g}"
        what = f"{said.rule} on {said.dataset}, {said.nodes} clients"
        return f"<Run {self.folder}: {what}, {said.status}, {figure}, {said.grade}>"


def load(folder: str | Path, problem: Brought | str | None = None) -> Run:
    """A run from its directory, its name below runs/, or "latest".

    `problem` is what it learned, where that was not one of ours.
    """
    return Run(find_run(folder), problem)


def flat(row: Row) -> dict[str, float | None]:
    """An evaluation as plain figures: accuracy and other metrics by their mean, least and most."""
    found: dict[str, float | None] = {"round": row.round, **row.plain}
    for name, spread in row.spreads.items():
        if spread is not None:
            found |= {name: spread.mean, f"{name}_min": spread.min, f"{name}_max": spread.max}
    return found
