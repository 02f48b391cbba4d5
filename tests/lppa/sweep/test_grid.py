"""From a TOML file to cells; whatever is wrong in it is told before anything is run."""

from __future__ import annotations

import dataclasses

import pytest

from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings, make_settings
from lppa.reproduce.cells import from_spec
from lppa.reproduce.progress import cost
from lppa.sweep.grid import hash_of, make_sweep, read_grid

BASE = {"dataset": "quadratic", "rounds": 4}


def grid(nodes=2, seeds=(1, 2), base=None, **lists):
    section = {**BASE, **(base or {})}
    return make_sweep({"nodes": nodes, "seeds": list(seeds), "base": section, "grid": lists})


def test_every_combination_is_run_under_every_seed():
    sweep = grid(rule=["dp", "lppa"], topology=["full", "directed-ring"], nodes=[3, 4])
    assert sweep.axes == ("nodes", "rule", "topology")
    assert len(sweep.combinations) == 8
    assert len(sweep.cells()) == 16
    found = {(c.nodes, c.settings["rule"], c.settings["topology"]) for c in sweep.cells()}
    assert len(found) == 8
    first = sweep.combinations[0]
    assert first.label == "nodes 3, rule dp, topology full"
    assert [cell.name for cell in first.cells] == [f"{first.label}, seed {s}" for s in (1, 2)]


def test_a_seed_is_finished_before_the_next_is_begun():
    seeds = [cell.settings["seed"] for cell in grid(rule=["dp", "lppa"], seeds=[3, 1]).cells()]
    assert seeds == [3, 3, 1, 1]


def test_no_default_has_a_say_in_a_cell_but_for_the_machine():
    (cell, _) = grid().cells()
    names = {field.name for field in dataclasses.fields(Settings)}
    assert names - cell.settings.keys() == {"dataset", "timeout", "data_dir", "device"}
    assert make_settings({**cell.told(), "dataset": cell.dataset}).rounds == 4
    (cell, _) = grid(base={"timeout": 5.0, "device": "cpu"}).cells()
    assert (cell.settings["timeout"], cell.settings["device"]) == (5.0, "cpu")


def test_a_larger_sweep_finds_the_cells_of_a_smaller_one():
    small = {cell.key for cell in grid(rule=["dp", "lppa"]).cells()}
    large = grid(rule=["dp", "lppa"], lr=[0.03, 0.1], seeds=[1, 2, 3])
    assert small < {cell.key for cell in large.cells()}
    named = grid(base={"rule": "lppa"}, lr=[0.03], seeds=[1])
    assert {cell.key for cell in named.cells()} < small


def test_whatever_changes_a_result_changes_the_key():
    cells = [
        *grid(seeds=[1]).cells(),
        *grid(seeds=[1], base={"lr": 0.5}).cells(),
        *grid(seeds=[1], base={"clip": None, "topology": "ring"}, nodes=3).cells(),
        *grid(seeds=[1], nodes=3).cells(),
        *grid(seeds=[2]).cells(),
    ]
    assert len({cell.key for cell in cells}) == len(cells)


def test_the_noise_does_not_make_another_run_of_the_rule_without_noise():
    sweep = grid(rule=["dsgt", "lppa"], beta=[0.1, 0.2], seeds=[1])
    assert len(sweep.combinations) == 4
    assert len(sweep.cells()) == 3
    # But it says which norm samples are clipped to.
    digits = {"dataset": "digits", "clip": 1.0, "rule": "dsgt"}
    assert len(grid(base=digits, noise=["laplace", "gaussian"], seeds=[1]).cells()) == 2


def test_a_cell_survives_the_way_to_its_worker_with_its_name():
    for cell in grid(rule=["dp", "lppa"]).cells():
        again = from_spec(cell.spec())
        assert (again, again.key, again.name) == (cell, cell.key, cell.name)


def test_data_of_ones_own_makes_a_key_that_is_a_file_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (cell,) = grid(seeds=[1], base={"dataset": "mine.npz"}).cells()
    assert cell.dataset == str(tmp_path / "mine.npz")
    assert cell.key.startswith("mine-iid-lppa-")
    assert cost(cell) > 0


@pytest.mark.parametrize(("setting", "name"), [("dataset", "mine.npz"), ("topology", "my.json")])
def test_a_file_with_another_content_makes_another_cell(tmp_path, monkeypatch, setting, name):
    monkeypatch.chdir(tmp_path)
    keys = []
    for text in ("[[0, 1], [1, 0]]", "[[0, 1], [1, 0]] ", "[[0, 1], [1, 0]]"):
        (tmp_path / name).write_text(text)
        hash_of.cache_clear()  # a sweep reads a file once; this is another sweep
        (cell,) = grid(seeds=[1], base={setting: name}).cells()
        assert from_spec(cell.spec()).key == cell.key
        keys.append(cell.key)
    assert keys[0] == keys[2] != keys[1]


def test_settings_may_be_spelled_with_dashes():
    (cell, _) = make_sweep({"seeds": [1, 2], "base": {**BASE, "eval-every": 2}, "nodes": 2}).cells()
    assert cell.settings["eval_every"] == 2
    assert grid(**{"noise-every": [0, 1]}).axes == ("noise_every",)


def test_without_a_grid_there_is_one_combination_over_the_seeds():
    sweep = make_sweep({})
    assert (sweep.axes, sweep.seeds) == ((), (1,))
    (cell,) = sweep.cells()
    assert (cell.dataset, cell.nodes, cell.name) == ("digits", 5, "seed 1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rounds = 3", "unknown 'rounds'; known: nodes, seeds, base, grid"),
        ("nodes = 1", "nodes must be a whole number of at least 2, not 1"),
        ("seeds = 3", "seeds must be a list of values, not 3"),
        ("seeds = []", "seeds must be a list"),
        ("seeds = [1, 1]", "seeds has a value twice"),
        ('seeds = ["one"]', "--seed must be a whole number"),
        ("base = 3", "base must be a section"),
        ("[base]\nseed = 1", "seed stands at the top of the file, as seeds"),
        ("[grid]\nnodes = [3, 4]", "nodes stands at the top of the file"),
        ("[base]\nlrr = 1", "unknown setting 'lrr'"),
        ("[grid]\nlr = 0.1", "lr must be a list of values, not 0.1"),
        ("[grid]\nlr = [0.1, -1]", "lr -1: --lr must be a number above 0"),
        ("[grid]\nlr = [0.1, 0.1]", "lr has a value twice"),
        ("[base]\nlr = 1\n[grid]\nlr = [0.1]", "lr stands below"),
        ('[grid]\ntopology = ["full", "heap"]', "topology heap: unknown topology heap"),
        (
            '[base]\nbeta-own = 0.1\n[grid]\nrule = ["lppa", "dsgt"]',
            "rule dsgt: --beta-own goes with --rule lppa",
        ),
        (f"[grid]\nlr = {list(range(1, 102))}\nrounds = {list(range(1, 102))}", "more than 10,000"),
        ("[grid", "cannot be understood"),
    ],
)
def test_a_wrong_file_is_named_with_the_reason(tmp_path, text, reason):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(WrongUse) as error:
        read_grid(path)
    assert str(error.value).startswith(f"{path}")
    assert reason in str(error.value)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(WrongUse, match="cannot be read: No such file"):
        read_grid(tmp_path / "gone.toml")
