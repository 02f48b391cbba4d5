"""What regression is judged by."""

import math

import pytest
import torch

from lppa.models.problem import r2, rmse, squared_error


def test_the_mean_explains_nothing_and_the_truth_all():
    y = torch.tensor([1.0, 2.0, 6.0])
    assert r2(y[:, None], y) == 1.0
    assert r2(torch.full((3, 1), 3.0), y) == pytest.approx(0.0)
    assert r2(-y[:, None], y) < 0
    assert math.isnan(r2(torch.zeros(2, 1), torch.ones(2)))


def test_errors_are_in_the_units_of_the_target():
    out, y = torch.tensor([[1.0], [5.0]]), torch.tensor([0.0, 2.0])
    assert float(squared_error(out, y)) == 5.0
    assert rmse(out, y) == pytest.approx(math.sqrt(5))
    assert rmse(out, y, unit=10.0) == pytest.approx(10 * math.sqrt(5))
