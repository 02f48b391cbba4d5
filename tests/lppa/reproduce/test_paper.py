"""The paper's values as they were copied, checked against what the paper itself says of them."""

from __future__ import annotations

import pytest

from lppa.reproduce import paper
from lppa.reproduce.experiments import rows_of


@pytest.mark.parametrize("name", paper.ACCURACIES)
def test_every_row_of_the_paper_is_one_of_ours(name):
    assert set(paper.ACCURACIES[name]) == set(rows_of(name, paper.DATASETS))


def test_the_first_table_adds_up_and_the_others_do_not():
    assert paper.doubts("table1") == []
    assert len(paper.doubts("table3")) == 1
    assert len(paper.doubts("table4")) == 2


def test_the_margins_that_the_text_gives_follow_from_the_rows():
    lead = {
        row: values["lppa"].mean - values["dp"].mean
        for table in (paper.TABLE1, paper.TABLE3, paper.TABLE4)
        for row, values in table.items()
    }
    assert lead["rcv1", "iid"] == pytest.approx(34.96)
    assert lead["cifar10", "iid"] == pytest.approx(14.04)
    assert lead["cifar10", paper.QUANTITY] == pytest.approx(12.97)
    assert lead["cifar10", paper.DIRICHLET] == pytest.approx(20.37)


def test_the_loss_of_some_rows_is_the_mean_of_those():
    assert paper.loss_of_rows("table1", "dp", [("adult", "iid")]) == pytest.approx(8.72)
    assert paper.loss_of_rows("table1", "dp", [("digits", "iid")]) is None
