"""What a cell is expected to cost: for the order of work, and for saying how long is left.

Only the proportions matter while cells are run: what is left follows from how long those took that
are done.
"""

from __future__ import annotations

from lppa.reproduce.cells import Cell
from lppa.reproduce.sizes import Rows

# Microseconds of one core for a sample in a gradient and for one in a test, and seconds for an
# attack; on a server of 2024.
GRADIENT = {"digits": 25, "adult": 14, "covtype": 14, "rcv1": 700, "cifar10": 250}
USUAL_GRADIENT = 115
TEST = {"digits": 8, "adult": 1, "covtype": 1, "rcv1": 50, "cifar10": 70}
USUAL_TEST = 30
ATTACK = {"digits": 3.0, "adult": 3.0, "covtype": 3.0, "rcv1": 200.0, "cifar10": 20.0}
USUAL_ATTACK = 12.0
USUAL_ROWS = (1000, 200)  # of somebody's own data: only proportions matter
START = 1.0


def cost(cell: Cell, seen: Rows = None) -> float:
    """What a cell is expected to cost, in seconds of one core of some machine.

    `seen` are the rows that its data set has here, where that is known.
    """
    told, (train, test) = cell.settings, cell.rows or seen or known_rows(cell.dataset)
    name, steps = cell.dataset.partition(":")[0], told["local_steps"]
    gradients = train if steps == "epoch" else steps * told["batch"] * cell.nodes
    tested = min(test, told["eval_samples"] or test) * cell.nodes / told["eval_every"]
    of_gradients = gradients * GRADIENT.get(name, USUAL_GRADIENT)
    of_tests = tested * TEST.get(name, USUAL_TEST)
    seconds: float = START + told["rounds"] * (of_gradients + of_tests) / 1e6
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


def in_time(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds < 90:
        return f"{max(seconds, 0.0):.0f} s"  # sums of floats may end a little below zero
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
