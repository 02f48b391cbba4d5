"""What a cell is expected to cost: for the order of work, and for saying how long is left.

Only the proportions matter while cells are run: what is left follows from how long those took that
are done.
"""

from __future__ import annotations

from lppa.reproduce.cells import Cell

# Microseconds of one core for the gradient of one sample, and seconds for an attack.
SAMPLE = {"digits": 25, "adult": 10, "covtype": 10, "rcv1": 400, "cifar10": 500}
USUAL_SAMPLE = 300
ATTACK = {"digits": 3.0, "adult": 3.0, "covtype": 3.0, "rcv1": 200.0, "cifar10": 10.0}
USUAL_ATTACK = 6.0
USUAL_ROWS = (1000, 200)  # of somebody's own data: only proportions matter
START = 1.0


def cost(cell: Cell) -> float:
    """What a cell is expected to cost, in seconds of one core of some machine."""
    told, (train, test) = cell.settings, cell.rows or known_rows(cell.dataset)
    name, steps = cell.dataset.partition(":")[0], told["local_steps"]
    gradients = train if steps == "epoch" else steps * told["batch"] * cell.nodes
    tested = min(test, told["eval_samples"] or test) * cell.nodes / told["eval_every"]
    samples = told["rounds"] * (gradients + tested / 3)
    seconds: float = START + samples * SAMPLE.get(name, USUAL_SAMPLE) / 1e6
    if cell.attack is not None:
        names, rounds = len(cell.attack.names), len(cell.attack.rounds)
        searches = names * rounds * len(cell.attack.victims or range(cell.nodes - 1))
        # Restarts go down side by side: several cost less than as many times one.
        seconds += searches * (1 + cell.attack.restarts) / 2 * ATTACK.get(name, USUAL_ATTACK)
    return seconds


def known_rows(dataset: str) -> tuple[int, int]:
    """Rows for training and testing of a whole data set."""
    # Imported late: it brings the parsers of all data sets with it.
    from lppa.node.datasets.catalogue import CATALOGUE

    name = dataset.partition(":")[0]
    return CATALOGUE[name].rows if name in CATALOGUE else USUAL_ROWS
