"""Which cells each table and each figure of the paper needs.

The same cell may serve several: the runs of table 1 on MNIST are those of the training curves. How
results become a table or a picture is in `tables` and `figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lppa.reproduce import paper
from lppa.reproduce.cells import Attack, Cell
from lppa.reproduce.costs import cost
from lppa.reproduce.readings import ATTACKED, ATTACKED_TABLES, DATA, READINGS
from lppa.reproduce.sizes import ATTACKER, CLIENTS, Size

BETA = 0.025
FIXED = {
    "topology": "full",
    "lr_decay": 0.0,
    "batches": "next",
    "finish": 0,
    "dtype": "float32",
}
NOISE_SETTINGS = ("beta", "noise", "noise_every", "noise_exchange")
COSTLY = "rcv1"  # 6 million weights, and only a sample at hand: after everything else


@dataclass(frozen=True)
class Variant:
    """A rule as it stands in a table: with noise at the start, as in the paper, or every round."""

    title: str
    rule: str
    noise_every: int = 0


DSGT = Variant("DSGT", "dsgt")
DP = Variant("DP, at the start", "dp")
DP_EVERY_ROUND = Variant("DP, every round", "dp", noise_every=1)
LPPA = Variant("LPPA", "lppa")
LPPA_EVERY_ROUND = Variant("LPPA, every round", "lppa", noise_every=1)
RULES = (DSGT, DP, LPPA)
COLUMNS = (DSGT, DP, DP_EVERY_ROUND, LPPA)
NOISY = (DP, LPPA)

# Who attacks: the paper's; one that subtracts what it knows; one that takes its own noise out and
# knows what such data looks like; and two of these who pool what they know. All look at the same
# logs. The last three are not in the paper, and are tried on the rules whose noise is to protect.
NAIVE, DIFFERENCE = "naive", "difference"
PRIOR = "neighbour/likelihood"
POOL = (ATTACKER - 1, ATTACKER)
POOLED = f"collude:{','.join(map(str, POOL))}/{PRIOR}"
ATTACKERS: dict[Variant, tuple[str, ...]] = {
    DSGT: (NAIVE,),
    DP: (NAIVE, DIFFERENCE, PRIOR),
    LPPA: (NAIVE, DIFFERENCE, PRIOR, POOLED),
    LPPA_EVERY_ROUND: (NAIVE, DIFFERENCE),
}
# What is shown as pictures.
PICTURES = (
    *((DSGT, NAIVE), (DP, NAIVE), (LPPA, NAIVE), (LPPA, DIFFERENCE), (LPPA, PRIOR)),
    *((LPPA, POOLED), (LPPA_EVERY_ROUND, DIFFERENCE)),
)
CURVE_ATTACKS = ((DSGT, NAIVE), (DP, NAIVE), (LPPA, NAIVE), (LPPA, DIFFERENCE))


@dataclass(frozen=True)
class Plan:
    """What is asked for: how large, in which reading, over how many seeds, on which data sets."""

    size: Size
    reading: str
    seeds: int | None
    """None: as many as the size has for each experiment."""
    datasets: tuple[str, ...]
    deviation: str = "sample"
    """What ± is in tables: that of a sample, or of the population."""

    def seeds_of(self, name: str) -> tuple[int, ...]:
        """The seeds of an experiment: table 1 may have more than the others."""
        usual = self.size.first_seeds if name == "table1" else self.size.seeds
        return tuple(range(1, (self.seeds or usual) + 1))

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
        reading = READINGS[self.reading]
        data = reading.data[dataset]
        told: dict[str, Any] = {
            **reading.settings,
            "model": data.model,
            "normalize": data.normalize,
            "partition": partition,
            "eval_samples": 0,
            **data.more,
        }
        told["rounds"] = max(1, told["rounds"] // self.size.shorter)
        if self.size.tests is not None:
            told["eval_every"] = max(1, told["rounds"] // self.size.tests)
        told |= {**self.size.changes, **changes}
        return self._cell(dataset, data.dataset, nodes, told, variant, seed)

    def local(self, variant: Variant, seed: int, steps: int) -> Cell:
        """A training run with so many local updates a round."""
        rounds = self.size.local_rounds
        often = max(1, rounds // 10)
        return self.training(
            self.shown, variant, seed, local_steps=steps, rounds=rounds, eval_every=often
        )

    def attacked(
        self,
        dataset: str,
        variant: Variant,
        seed: int,
        rounds: tuple[int, ...] = (0,),
        beta: float = BETA,
    ) -> Cell:
        """A short run with one sample in each gradient, recorded by neighbours, and its attacks."""
        image, last = dataset not in paper.TABLES, max(rounds) + 2
        told = {
            **ATTACKED,
            "model": "lenet"
            if image and self.size.inversion == "dlg"
            else ATTACKED_TABLES.get(dataset, "mlp"),
            "partition": "iid",
            "rounds": last,  # an attacker that subtracts needs the next message too
            "eval_every": last,
            "beta": beta,
        }
        # The sparse rows of rcv1 have 47,236 columns: a search over them is a matter of minutes.
        large = dataset == COSTLY
        victims, restarts = self.size.victims, self.size.restarts
        how = Attack(
            tuple(self.full_name(who) for who in self._attackers(variant, rounds, beta)),
            (ATTACKER,),
            victims[:1] if large else victims,
            rounds,
            1 if large else restarts,
        )
        return self._cell(dataset, DATA[dataset].dataset, CLIENTS, told, variant, seed, how)

    def full_name(self, attacker: str) -> str:
        """What an attacker does, as `lppa attack` is told."""
        return attacker if "/" in attacker else f"{attacker}/{self.size.inversion}"

    def _attackers(self, variant: Variant, rounds: tuple[int, ...], beta: float) -> tuple[str, ...]:
        """Those that a table or a figure shows, and not at every β and in every round."""
        if beta != BETA:
            return (NAIVE,)
        if rounds == (0,):
            return ATTACKERS[variant]
        return tuple(who for other, who in CURVE_ATTACKS if other is variant)

    def _cell(
        self,
        dataset: str,
        spelled: str,
        nodes: int,
        told: dict[str, Any],
        variant: Variant,
        seed: int,
        attack: Attack | None = None,
    ) -> Cell:
        settings = {**FIXED, **told}
        settings |= {"rule": variant.rule, "noise_every": variant.noise_every, "seed": seed}
        if variant is DSGT:
            # What has no influence is no part of the key: one DSGT run serves every β.
            settings = {k: v for k, v in settings.items() if k not in NOISE_SETTINGS}
        return Cell(spelled, self.size.rows(dataset), nodes, settings, attack)


def rows_of(name: str, datasets: Sequence[str]) -> list[paper.Row]:
    """The rows of an accuracy table: data sets and how they are split."""
    splits: dict[str, Callable[[str], tuple[str, ...]]] = {
        "table1": lambda _: ("iid",),
        "table3": lambda _: (paper.QUANTITY,),
        "table4": lambda dataset: (paper.DIRICHLET, paper.few_labels(dataset)),
    }
    return [(dataset, split) for dataset in datasets for split in splits[name](dataset)]


def variants_of(name: str) -> tuple[Variant, ...]:
    """The rules of an accuracy table; the first has one more, for what the paper says of it."""
    return (*COLUMNS, LPPA_EVERY_ROUND) if name == "table1" else COLUMNS


def accuracy_cells(plan: Plan, name: str) -> list[Cell]:
    return [
        plan.training(dataset, variant, seed, split)
        for seed in plan.seeds_of(name)
        for dataset, split in rows_of(name, plan.datasets)
        for variant in variants_of(name)
    ]


def privacy_cells(plan: Plan) -> list[Cell]:
    return [
        plan.attacked(dataset, variant, seed)
        for seed in plan.seeds_of("table2")
        for dataset in plan.datasets
        for variant in ATTACKERS
    ]


def reading_cells(plan: Plan) -> list[Cell]:
    return [
        replace(plan, reading=reading).training(dataset, variant, seed)
        for seed in plan.seeds_of("readings")
        for reading in READINGS
        for dataset in plan.datasets
        for variant in RULES
    ]


def image_cells(plan: Plan) -> list[Cell]:
    return [plan.attacked(plan.shown, variant, 1) for variant in ATTACKERS]


def training_cells(plan: Plan) -> list[Cell]:
    seeds = plan.seeds_of("fig-training")
    return [plan.training(plan.shown, v, seed) for seed in seeds for v in COLUMNS]


def attack_curve_cells(plan: Plan) -> list[Cell]:
    # One seed: a curve is as many attacks as it has points.
    return [plan.attacked(plan.shown, v, 1, plan.size.curve_rounds) for v in RULES]


def noise_cells(plan: Plan) -> list[Cell]:
    cells = []
    for seed in plan.seeds_of("fig-noise"):
        for make in (plan.training, plan.attacked):
            cells.append(make(plan.shown, DSGT, seed))
            for beta in plan.size.betas:
                cells += [make(plan.shown, v, seed, beta=beta) for v in NOISY]
    return cells


def local_epoch_cells(plan: Plan) -> list[Cell]:
    return [
        plan.local(variant, seed, steps)
        for seed in plan.seeds_of("fig-local-epoch")
        for steps in plan.size.local_steps
        for variant in RULES
    ]


def client_cells(plan: Plan) -> list[Cell]:
    return [
        plan.training(plan.shown, variant, seed, nodes=nodes)
        for seed in plan.seeds_of("fig-clients")
        for nodes in plan.size.clients
        for variant in RULES
    ]


# In the order in which they are run.
EXPERIMENTS: dict[str, Callable[[Plan], list[Cell]]] = {
    "table1": lambda plan: accuracy_cells(plan, "table1"),
    "table2": privacy_cells,
    "fig-training": training_cells,
    "fig-dlg-images": image_cells,
    "readings": reading_cells,
    "table3": lambda plan: accuracy_cells(plan, "table3"),
    "table4": lambda plan: accuracy_cells(plan, "table4"),
    "fig-noise": noise_cells,
    "fig-dlg-curve": attack_curve_cells,
    "fig-clients": client_cells,
    "fig-local-epoch": local_epoch_cells,
}


def all_cells(plan: Plan, names: Sequence[str]) -> list[Cell]:
    """The cells of some experiments, each once, in the order that they should be run in.

    An experiment is finished before the next is begun, in it a seed before the next, and in that
    the cheap ones come first, so that what is there when somebody stops is of use.
    """
    cells: dict[str, tuple[tuple[Any, ...], Cell]] = {}
    for rank, name in enumerate(EXPERIMENTS):
        for cell in EXPERIMENTS[name](plan) if name in names else ():
            order = (cell.dataset == COSTLY, rank, cell.settings["seed"], cost(cell))
            cells.setdefault(cell.key, (order, cell))
    return [cell for _, cell in sorted(cells.values(), key=lambda entry: entry[0])]
