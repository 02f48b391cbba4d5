"""All tables by name: what makes each from finished cells."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lppa.reproduce.accuracy import accuracy_table, readings_table
from lppa.reproduce.cells import Results
from lppa.reproduce.experiments import Plan
from lppa.reproduce.privacy import privacy_table
from lppa.reproduce.table import Table

MAKERS: dict[str, Callable[[Plan, Results], Table]] = {
    "table1": partial(accuracy_table, name="table1"),
    "table2": privacy_table,
    "table3": partial(accuracy_table, name="table3"),
    "table4": partial(accuracy_table, name="table4"),
    "readings": readings_table,
}
