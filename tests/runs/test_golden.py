"""Runs end with the very bits that are written down, on processors that these were made on."""

from __future__ import annotations

import json

import pytest
from golden import FILE, cases, final_hash, machine

WRITTEN = json.loads(FILE.read_text())
# Every rule, exchange, network, number type and graph; one local step and several.
CHOSEN = (
    "dsgt ring 1",
    "dp directed-ring 3",
    "lppa full 3",
    "tensor 1 quadratic",
    "seed 1 cnn",
    "seed 4 lenet",
)


@pytest.mark.skipif(machine() not in WRITTEN, reason=f"there are bits of {', '.join(WRITTEN)} only")
@pytest.mark.parametrize("name", CHOSEN)
def test_a_run_ends_with_the_bits_that_are_written_down(name, tmp_path):
    assert final_hash(cases()[name], tmp_path / "run") == WRITTEN[machine()][name]


@pytest.mark.parametrize("processor", WRITTEN)
def test_every_case_is_written_down_and_no_other(processor):
    assert list(WRITTEN[processor]) == list(cases())


@pytest.mark.parametrize("processor", WRITTEN)
def test_all_else_makes_another_end(processor):
    """Whatever a case differs in from all others has an influence."""
    found = list(WRITTEN[processor].values())
    assert len(set(found)) == len(found)
