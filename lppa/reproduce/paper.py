"""The paper's own figures (section 6), as its tables print them, and what does not add up in them.

Accuracies are in per cent, `Value(mean, deviation)` over five runs. What the paper shows as a
picture has no values here: there is nothing to compare with but its words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

RULES = ("dsgt", "dp", "lppa")
DATASETS = ("mnist", "fmnist", "cifar10", "adult", "rcv1", "covtype")
TABLES = ("adult", "rcv1", "covtype")  # the data sets that are rows of features, with two classes


@dataclass(frozen=True)
class Value:
    """A mean and its standard deviation; None where the paper gives no deviation."""

    mean: float
    deviation: float | None = None


Row = tuple[str, str]  # data set, partition
Accuracies = dict[Row, dict[str, Value]]


def _rules(*pairs: tuple[float, float]) -> dict[str, Value]:
    return {rule: Value(*pair) for rule, pair in zip(RULES, pairs, strict=True)}


QUANTITY = "quantity:0.5"
DIRICHLET = "benchmark:0.1"  # as the benchmark draws it that the paper cites


def few_labels(dataset: str) -> str:
    """The paper's #C: one of two labels for the tables, two of ten for the images."""
    return "classes:1" if dataset in TABLES else "classes:2"


TABLE1: Accuracies = {
    ("mnist", "iid"): _rules((92.17, 0.556), (90.87, 0.801), (92.31, 0.718)),
    ("fmnist", "iid"): _rules((74.25, 0.666), (67.01, 6.309), (74.63, 0.888)),
    ("cifar10", "iid"): _rules((39.24, 0.755), (25.29, 1.721), (39.33, 0.764)),
    ("adult", "iid"): _rules((84.42, 0.069), (75.70, 0.013), (84.33, 0.084)),
    ("rcv1", "iid"): _rules((91.03, 0.229), (56.07, 0.010), (91.03, 0.263)),
    ("covtype", "iid"): _rules((76.62, 0.168), (64.10, 0.005), (76.62, 0.132)),
}

TABLE2: dict[str, dict[str, float]] = {  # mean squared error under DLG
    "mnist": {"dsgt": 0.372, "dp": 9.828, "lppa": 12.039},
    "fmnist": {"dsgt": 1.651, "dp": 10.790, "lppa": 15.095},
    "cifar10": {"dsgt": 30.255, "dp": 61.311, "lppa": 63.620},
    "adult": {"dsgt": 0.057, "dp": 2.606, "lppa": 3.355},
    "rcv1": {"dsgt": 216.365, "dp": 215.443, "lppa": 216.829},
    "covtype": {"dsgt": 7897.451, "dp": 7897.445, "lppa": 7897.598},
}

TABLE3: Accuracies = {
    ("mnist", QUANTITY): _rules((91.34, 0.889), (90.62, 1.006), (91.60, 0.710)),
    ("fmnist", QUANTITY): _rules((73.94, 0.791), (65.49, 7.730), (73.73, 0.847)),
    ("cifar10", QUANTITY): _rules((39.12, 0.757), (26.63, 0.377), (39.60, 1.175)),
    ("adult", QUANTITY): _rules((83.62, 0.685), (75.70, 0.016), (83.48, 0.650)),
    ("rcv1", QUANTITY): _rules((90.65, 0.257), (53.68, 4.872), (90.61, 0.347)),
    ("covtype", QUANTITY): _rules((76.19, 0.648), (64.10, 0.013), (75.94, 0.885)),
}

TABLE4: Accuracies = {
    ("mnist", DIRICHLET): _rules((91.32, 0.803), (88.25, 4.121), (91.15, 0.628)),
    ("mnist", "classes:2"): _rules((90.98, 0.552), (88.67, 1.990), (91.27, 0.647)),
    ("fmnist", DIRICHLET): _rules((72.02, 0.143), (44.88, 6.801), (72.04, 0.566)),
    ("fmnist", "classes:2"): _rules((72.23, 0.559), (49.97, 6.510), (72.58, 0.186)),
    ("cifar10", DIRICHLET): _rules((33.11, 0.330), (11.97, 2.236), (32.34, 0.360)),
    ("cifar10", "classes:2"): _rules((33.54, 1.049), (17.10, 2.769), (32.94, 0.095)),
    ("adult", DIRICHLET): _rules((81.00, 2.908), (75.66, 0.082), (79.54, 2.850)),
    ("adult", "classes:1"): _rules((82.23, 0.210), (75.70, 0.004), (82.08, 0.359)),
    ("rcv1", DIRICHLET): _rules((90.98, 0.186), (50.86, 4.955), (90.73, 0.300)),
    ("rcv1", "classes:1"): _rules((91.08, 0.216), (56.07, 0.006), (91.18, 0.249)),
    ("covtype", DIRICHLET): _rules((72.32, 2.405), (64.10, 0.001), (73.02, 4.605)),
    ("covtype", "classes:1"): _rules((76.35, 0.130), (64.10, 0.004), (76.30, 0.140)),
}

# The last row of each table as it is printed: DSGT minus the rule, over all rows.
PRINTED_LOSS: dict[str, dict[str, float]] = {
    "table1": {"dp": 13.12, "lppa": -0.09},
    "table3": {"dp": 13.27, "lppa": -0.02},
    "table4": {"dp": 16.82, "lppa": 0.19},
}

ACCURACIES: dict[str, Accuracies] = {"table1": TABLE1, "table3": TABLE3, "table4": TABLE4}


def loss_of_rows(table: str, rule: str, rows: Iterable[Row] | None = None) -> float | None:
    """The mean of DSGT minus the rule over those rows that the paper has; None if it has none."""
    values = ACCURACIES[table]
    known = [row for row in (values if rows is None else rows) if row in values]
    losses = [values[row]["dsgt"].mean - values[row][rule].mean for row in known]
    return sum(losses) / len(losses) if losses else None


def doubts(table: str) -> list[str]:
    """Where a printed Loss is not the mean of the table's own rows: in tables 3 and 4."""
    found = []
    for rule, printed in PRINTED_LOSS[table].items():
        computed = loss_of_rows(table, rule)
        if (
            computed is not None and abs(computed - printed) > 0.00501
        ):  # more than the rounding of two decimals
            found.append(
                f"The paper prints a Loss of {printed:+.2f} for {rule.upper()}; the mean over its "
                f"own rows is {computed:+.2f}."
            )
    return found
