"""Results over seeds, who is best, and the picture."""

from __future__ import annotations

import pytest

from lppa.reproduce.results import CellResult
from lppa.sweep.front import draw_front, make_points, name_of
from lppa.sweep.grid import make_sweep
from lppa.sweep.table import columns, front, make_rows, markdown, notes, plain_rows, text_rows


def result(final, ratio, grade="weak", **more):
    known = {"status": "completed", "final": final, "loss": 0.5, "doubtful": False}
    known |= {"grade": grade, "noise_to_example": ratio, "bytes": {"noise": 10, "state": 990}}
    return CellResult(**{**known, **more})


def swept(figures, seeds=(1, 2), **lists):
    """A sweep, and results from the figures of each combination: one (accuracy, ratio) a seed."""
    lists = lists or {"lr": [0.1 * (i + 1) for i in range(len(figures))]}
    sweep = make_sweep({"seeds": list(seeds), "nodes": 3, "grid": lists})
    results = {}
    for combination, of_seeds in zip(sweep.combinations, figures, strict=True):
        for cell, found in zip(combination.cells, of_seeds, strict=False):
            results[cell.key] = found if isinstance(found, CellResult) else result(*found)
    return sweep, make_rows(sweep, results)


def test_a_row_has_mean_and_deviation_of_accuracy_and_the_worst_protection():
    seeds = [result(0.9, 30.0, "hidden"), result(0.8, 10.0, "weak")]
    sweep, (row, _) = swept([seeds, [(0.5, 1.0)] * 2])
    assert row.accuracy.mean == pytest.approx(85)
    assert row.accuracy.deviation == pytest.approx(7.0711, abs=1e-3)
    assert (row.grade, row.ratio, row.sent, row.finished) == ("weak", 10.0, 1000, 2)
    assert columns(sweep, [row]) == [
        *("lr", "accuracy (%)", "grade", "noise ÷ example", "sent", "seeds")
    ]
    assert text_rows(sweep, [row]) == [["0.1", "85.00 ± 7.07", "weak", "10", "1.0 kB", "2"]]


def test_a_seed_without_a_ratio_leaves_none():
    _, (row, _) = swept([[(0.9, 30.0), (0.9, None)], [(0.9, 1.0)] * 2])
    assert row.ratio is None


def test_what_is_not_finished_diverged_or_doubtful_is_said():
    bad = result(0.1, 1.0, status="diverged")
    sweep, rows = swept([[(0.9, 30.0)], [bad, result(0.5, 1.0, doubtful=True)]])
    said = "\n".join(notes(sweep, rows))
    assert "Not complete: 1 of 4" in said
    assert "lr 0.2: 1 diverged" in said
    assert "lr 0.2: 1 doubtful" in said
    assert "| 0.1 | 90.00 | weak | 30 | 1.0 kB | 1 |" in markdown(sweep, rows, "a title")


def test_before_anything_is_finished_the_table_is_empty_but_there():
    sweep, rows = swept([[], []])
    assert text_rows(sweep, rows)[0][1:] == ["–", "–", "–", "–", "0"]
    assert front(rows) == []
    assert plain_rows(rows)[0]["accuracy_mean"] is None


def test_where_there_is_no_accuracy_the_loss_stands_in(tmp_path):
    sweep, rows = swept([[(None, 0.0)] * 2, [(None, 0.0)] * 2])
    assert "loss" in columns(sweep, rows)
    assert not draw_front(tmp_path / "front.png", rows, "nothing")
    assert not (tmp_path / "front.png").exists()


def test_the_front_has_all_that_no_other_beats():
    figures = [(0.90, 0.0), (0.80, 5.0), (0.70, 5.0), (0.95, 3.0), (0.80, 30.0), (0.80, 30.0)]
    _, rows = swept([[one] for one in (*figures, (0.99, None))], seeds=[1])
    # The last two of those with a ratio are equal: neither beats the other.
    assert [rows.index(row) for row in front(rows)] == [3, 4, 5]
    flags = [row["front"] for row in plain_rows(rows)]
    assert flags == [False, False, False, True, True, True, False]


def test_combinations_that_are_the_same_runs_are_one_point():
    lists = {"rule": ["dsgt", "lppa"], "beta": [0.1, 0.2], "topology": ["full"]}
    _, rows = swept([[(0.9, 0.0)], [(0.9, 0.0)], [(0.8, 5.0)], [(0.7, 50.0)]], seeds=[1], **lists)
    points = make_points(rows)
    assert [point.name for point in points] == ["dsgt", "lppa, beta 0.1", "lppa, beta 0.2"]
    assert all(point.best for point in points)
    # Without any noise it stands left of everything, as a logarithm has no place for it.
    assert 0 < points[0].x < points[1].x < points[2].x


def test_names_say_what_varies():
    assert name_of([{"rule": "lppa", "nodes": 5, "normalize": True}]) == (
        "lppa, nodes 5, normalize True"
    )
    assert name_of([{"dataset": "/some/where/mine.npz"}]) == "mine.npz"


@pytest.mark.parametrize(
    "figures",
    [
        [(0.9, 0.0)],
        [(0.9, 30.0), (0.9, 30.0)],
        [(0.9, 0.0), (0.9, 0.0), (0.8, 1e-3), (0.7, 1e5)],
        [(0.9, 10.0), (0.1, None)],
        [(1.0, 7.0), (1.0, 8.0), (0.0, 9.0)],
        [(0.5 + i / 100, 40.0 - i) for i in range(40)],
    ],
)
def test_every_sweep_with_accuracies_has_a_picture(tmp_path, figures):
    from matplotlib.image import imread

    path = tmp_path / "front.png"
    lists = {"lr": [0.1 + i for i in range(len(figures))]}
    _, rows = swept([[one] for one in figures], seeds=[1], **lists)
    assert draw_front(path, rows, "a sweep")
    height, width, _ = imread(path).shape
    assert width == 1500
    assert 700 < height < 1100
