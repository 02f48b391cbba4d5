"""Which cells each table and each figure of the paper needs.

The same cell may serve several: the runs of table 1 on MNIST are those of the training curves. How
results become a table or a picture is in `tables` and `figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lppa.reproduce import paper
from lppa.reproduce.cells import Attack, Cell
from lppa.reproduce.sizes import ATTACKER, CLIENTS, READINGS, Size

BETA = 0.025
NAIVE, DIFFERENCE = "naive", "difference"  # what the attacker looks at
FIXED = {
    "topology": "full",
    "lr_decay": 0.0,
    "batches": "next",
    "finish": 0,
    "dtype": "float32",
}
NOISE_SETTINGS = ("beta", "noise", "noise_every", "noise_exchange")


@dataclass(frozen=True)
class Variant:
    """A rule as it stands in a table; `noise_every` 1 is beyond the paper's theorem."""

    title: str
    rule: str
    noise_every: int = 0


DSGT = Variant("DSGT", "dsgt")
DP = Variant("DP", "dp")
LPPA = Variant("LPPA", "lppa")
DP_EVERY_ROUND = Variant("DP, every round", "dp", noise_every=1)
RULES = (DSGT, DP, LPPA)
NOISY = (DP, LPPA)

# Table 2: the paper's attacker on every rule; then one that subtracts what it knows (not in the
# paper), on the rules whose noise is meant to protect. Both look at the same log.
ATTACKS = ((DSGT, NAIVE), (DP, NAIVE), (LPPA, NAIVE), (DP, DIFFERENCE), (LPPA, DIFFERENCE))
CURVE_ATTACKS = ((DSGT, NAIVE), (DP, NAIVE), (LPPA, NAIVE), (LPPA, DIFFERENCE))


@dataclass(frozen=True)
class Plan:
    """What is asked for: how large, in which reading, over which seeds and data sets."""

    size: Size
    reading: str
    seeds: tuple[int, ...]
    datasets: tuple[str, ...]

    @property
    def attack_seeds(self) -> tuple[int, ...]:
        """Attacks take more time than they vary."""
        return self.seeds[: self.size.attack_seeds]

    @property
    def shown(self) -> str:
        """The data set of the figures: MNIST, as in the paper, where it was asked for."""
        return "mnist" if "mnist" in self.datasets else self.datasets[0]

    def training(
        self,
        dataset: str,
        variant: Variant,
        seed: int,
        partition: str = "iid",
        nodes: int = CLIENTS,
        **changes: Any,
    ) -> Cell:
        """A training run."""
        image = dataset not in paper.TABLES
        told: dict[str, Any] = {
            "model": "cnn" if image else "mlp",
            "partition": partition,
            "rounds": self.size.rounds,
            "batch": self.size.batch,
            "eval_every": self.size.eval_every,
            "eval_samples": self.size.image_tests if image else 0,
        }
        if dataset in dict(self.size.steps):
            told["lr"] = dict(self.size.steps)[dataset]
        return self._cell(dataset, nodes, {**told, **changes}, variant, seed)

    def attacked(
        self,
        dataset: str,
        variant: Variant,
        seed: int,
        rounds: tuple[int, ...] = (0,),
        beta: float = BETA,
    ) -> Cell:
        """A short run with one sample in each gradient, recorded by a neighbour, and its attacks.

        The paper does not say what its attacker saw. One sample, one step a round and the network
        that the attack is known for give it its best chance.
        """
        image = dataset not in paper.TABLES
        told = {
            "model": "lenet" if image and self.size.inversion == "dlg" else "mlp",
            "partition": "iid",
            "rounds": max(rounds) + 2,  # an attacker that subtracts needs the next message too
            "batch": 1,
            "local_steps": 1,
            "eval_every": max(rounds) + 2,
            "eval_samples": 100,
            "reveal_batches": True,
            "beta": beta,
        }
        # The other one where a table or a figure shows it, and not at every β and in every round.
        shows = beta == BETA and (variant is LPPA or (variant is DP and rounds == (0,)))
        looked_at = (NAIVE, DIFFERENCE) if shows else (NAIVE,)
        # The sparse rows of rcv1 have 47,236 columns: a search over them is a matter of minutes.
        large = dataset == "rcv1"
        victims, restarts = self.size.victims, self.size.restarts
        how = Attack(
            tuple(f"{what}/{self.size.inversion}" for what in looked_at),
            (ATTACKER,),
            victims[:1] if large else victims,
            rounds,
            1 if large else restarts,
        )
        return self._cell(dataset, CLIENTS, told, variant, seed, how)

    def _cell(
        self,
        dataset: str,
        nodes: int,
        told: dict[str, Any],
        variant: Variant,
        seed: int,
        attack: Attack | None = None,
    ) -> Cell:
        # Attacks are on the paper's setting in every reading: they are not about stability.
        reading = self.reading if attack is None else "paper"
        settings = {**READINGS[reading], **FIXED, **told}
        settings |= {"rule": variant.rule, "noise_every": variant.noise_every, "seed": seed}
        if variant is DSGT:
            # What has no influence is no part of the key: one DSGT run serves every β.
            settings = {k: v for k, v in settings.items() if k not in NOISE_SETTINGS}
        return Cell(dataset, self.size.rows(dataset), nodes, settings, attack)


def rows_of(name: str, datasets: Sequence[str]) -> list[paper.Row]:
    """The rows of an accuracy table: data sets and how they are split."""
    splits: dict[str, Callable[[str], tuple[str, ...]]] = {
        "table1": lambda _: ("iid",),
        "table3": lambda _: (paper.QUANTITY,),
        "table4": lambda dataset: (paper.DIRICHLET, paper.few_labels(dataset)),
    }
    return [(dataset, split) for dataset in datasets for split in splits[name](dataset)]


def variants_of(name: str) -> tuple[Variant, ...]:
    """The rules of an accuracy table; the first table has one row beyond the paper's."""
    return (*RULES, DP_EVERY_ROUND) if name == "table1" else RULES


def accuracy_cells(plan: Plan, name: str) -> list[Cell]:
    return [
        plan.training(dataset, variant, seed, split)
        for seed in plan.seeds
        for dataset, split in rows_of(name, plan.datasets)
        for variant in variants_of(name)
    ]


def privacy_cells(plan: Plan) -> list[Cell]:
    return [
        plan.attacked(dataset, variant, seed)
        for seed in plan.attack_seeds
        for dataset in plan.datasets
        for variant in RULES
    ]


def image_cells(plan: Plan) -> list[Cell]:
    return [plan.attacked(plan.shown, variant, plan.seeds[0]) for variant in RULES]


def training_cells(plan: Plan) -> list[Cell]:
    variants = (*RULES, DP_EVERY_ROUND)
    return [plan.training(plan.shown, v, seed) for seed in plan.seeds for v in variants]


def attack_curve_cells(plan: Plan) -> list[Cell]:
    # One seed: a curve is as many attacks as it has points.
    rounds, seeds = plan.size.curve_rounds, plan.attack_seeds[:1]
    return [plan.attacked(plan.shown, v, seed, rounds) for seed in seeds for v in RULES]


def noise_cells(plan: Plan) -> list[Cell]:
    cells = []
    for seed in plan.seeds:
        cells.append(plan.training(plan.shown, DSGT, seed))
        for beta in plan.size.betas:
            cells += [plan.training(plan.shown, v, seed, beta=beta) for v in NOISY]
    for seed in plan.attack_seeds:
        cells.append(plan.attacked(plan.shown, DSGT, seed))
        for beta in plan.size.betas:
            cells += [plan.attacked(plan.shown, v, seed, beta=beta) for v in NOISY]
    return cells


def local_epoch_cells(plan: Plan) -> list[Cell]:
    return [
        plan.training(plan.shown, variant, seed, local_steps=steps)
        for seed in plan.seeds
        for steps in plan.size.local_steps
        for variant in RULES
    ]


def client_cells(plan: Plan) -> list[Cell]:
    return [
        plan.training(plan.shown, variant, seed, nodes=nodes)
        for seed in plan.seeds
        for nodes in plan.size.clients
        for variant in RULES
    ]


EXPERIMENTS: dict[str, Callable[[Plan], list[Cell]]] = {
    "table1": lambda plan: accuracy_cells(plan, "table1"),
    "table2": privacy_cells,
    "table3": lambda plan: accuracy_cells(plan, "table3"),
    "table4": lambda plan: accuracy_cells(plan, "table4"),
    "fig-training": training_cells,
    "fig-dlg-curve": attack_curve_cells,
    "fig-dlg-images": image_cells,
    "fig-noise": noise_cells,
    "fig-local-epoch": local_epoch_cells,
    "fig-clients": client_cells,
}


def all_cells(plan: Plan, names: Sequence[str]) -> list[Cell]:
    """The cells of some experiments, each once, in the order that they should be run in.

    A seed is finished before the next is begun, so that what is there when somebody stops is of
    use; what goes beyond the paper comes last.
    """
    cells = {cell.key: cell for name in names for cell in EXPERIMENTS[name](plan)}
    return sorted(
        cells.values(),
        key=lambda cell: (cell.settings.get("noise_every", 0), cell.settings["seed"]),
    )
