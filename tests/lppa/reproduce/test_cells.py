"""Cells, their keys, and the file that keeps what is finished."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import pytest

from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings, make_settings
from lppa.reproduce.cells import Attack, Store, from_spec, read_results
from lppa.reproduce.experiments import (
    COLUMNS,
    DP,
    DP_EVERY_ROUND,
    DSGT,
    EXPERIMENTS,
    LPPA,
    RULES,
    Plan,
    all_cells,
)
from lppa.reproduce.readings import DEFAULT, READINGS
from lppa.reproduce.results import Attacked, CellResult
from lppa.reproduce.sizes import FULL, QUICK, TINY
from lppa.reproduce.work import recorders

PLAN = Plan(FULL, "letter", 3, ("mnist", "adult"))


def plans():
    return [Plan(size, reading, 2, ("mnist",)) for size in (FULL, QUICK) for reading in READINGS]


def test_the_key_of_a_cell_stays_the_same_from_version_to_version():
    # Changes only with the work itself: finished results are found by it.
    default = Plan(FULL, "updates-600", None, ("adult",)).training("adult", LPPA, 1)
    assert default.key == "adult-iid-lppa-seed1-3f4917bbe3"
    assert PLAN.attacked("mnist", LPPA, 1).key == "mnist-iid-lppa-attacked-seed1-0ac1463848"


def test_a_form_of_a_data_set_is_a_name_that_a_folder_can_have():
    cell = PLAN.training("covtype", LPPA, 1)
    assert cell.dataset == "covtype:1"
    assert cell.key.startswith("covtype1-iid-lppa")


def test_a_cell_survives_the_way_to_its_worker():
    for cell in all_cells(PLAN, list(EXPERIMENTS)):
        assert from_spec(cell.spec()) == cell
        assert from_spec(cell.spec()).key == cell.key


def keys_of(plan, attacked, names=tuple(EXPERIMENTS)):
    cells = all_cells(plan, names)
    return {cell.key for cell in cells if (cell.attack is not None) == attacked}


def test_sizes_and_readings_never_share_a_training_run():
    # But for the experiment that compares readings, and for the figure that sets the local updates
    # and the rounds itself.
    names = [name for name in EXPERIMENTS if name not in ("fig-local-epoch", "readings")]
    keys = [keys_of(plan, attacked=False, names=names) for plan in plans()]
    assert len(set.union(*keys)) == sum(map(len, keys))


def test_the_comparison_of_readings_has_each_reading_s_first_table():
    plan = Plan(FULL, DEFAULT, None, ("mnist", "adult"))
    compared = keys_of(plan, attacked=False, names=["readings"])
    for reading in READINGS:
        own = replace(plan, reading=reading, seeds=3)
        assert {own.training("adult", v, s).key for v in RULES for s in (1, 2, 3)} <= compared
    assert len(compared) == len(READINGS) * 2 * len(RULES) * 3


def test_readings_share_all_attacks_and_sizes_share_none():
    one, other = (
        [keys_of(Plan(size, reading, 2, ("mnist",)), attacked=True) for reading in READINGS]
        for size in (FULL, QUICK)
    )
    assert all(keys == one[0] for keys in one)
    assert all(keys == other[0] for keys in other)
    assert not one[0] & other[0]


@pytest.mark.parametrize(
    "other",
    [
        PLAN.training("mnist", LPPA, 2),
        PLAN.training("mnist", LPPA, 1, "quantity:0.5"),
        PLAN.training("mnist", LPPA, 1, nodes=10),
        PLAN.training("mnist", LPPA, 1, beta=0.5),
        PLAN.training("mnist", DP, 1),
        PLAN.training("fmnist", LPPA, 1),
        dataclasses.replace(PLAN.training("mnist", LPPA, 1), rows=(1500, 500)),
    ],
)
def test_whatever_changes_a_result_changes_the_key(other):
    assert other.key != PLAN.training("mnist", LPPA, 1).key


def test_the_noise_s_scale_does_not_make_another_run_of_the_rule_without_noise():
    assert PLAN.training("mnist", DSGT, 1, beta=0.5).key == PLAN.training("mnist", DSGT, 1).key


def test_experiments_share_what_they_have_in_common():
    table = {cell.key for cell in EXPERIMENTS["table1"](PLAN)}
    assert {cell.key for cell in EXPERIMENTS["fig-training"](PLAN)} <= table
    attacks = {cell.key for cell in EXPERIMENTS["table2"](PLAN)}
    assert {cell.key for cell in EXPERIMENTS["fig-dlg-images"](PLAN)} <= attacks


@pytest.mark.parametrize("plan", [*plans(), Plan(TINY, DEFAULT, 1, ("digits",))])
def test_every_cell_can_be_run(plan):
    for cell in all_cells(plan, list(EXPERIMENTS)):
        settings = make_settings({**cell.told(), "dataset": cell.dataset})
        if cell.attack is not None:
            assert settings.batch == 1
            assert settings.reveal_batches
            assert settings.rounds > max(cell.attack.rounds) + 1
            assert max(recorders(cell.attack)) < cell.nodes
            assert not set(recorders(cell.attack)) & set(cell.attack.victims)


@pytest.mark.parametrize("plan", [*plans(), Plan(TINY, DEFAULT, 1, ("digits", "adult"))])
def test_no_default_has_a_say_in_a_cell(plan):
    # Where data lies and on what it is computed is the machine's; the others are off unless asked
    # for, and a cell that does not ask keeps its key.
    elsewhere = {"dataset", "timeout", "data_dir", "device", "clip"}
    elsewhere |= {"momentum", "weight_decay", "target", "task"}
    # What is done when something goes wrong has no say in a run in which nothing does.
    elsewhere |= {"on_failure", "slow", "checkpoint_every", "robust"}
    names = {field.name for field in dataclasses.fields(Settings)} - elsewhere
    for cell in all_cells(plan, list(EXPERIMENTS)):
        assert set(cell.told()) == names
        assert cell.told().items() >= cell.settings.items()
        assert make_settings(cell.told()).beta != "auto"


@pytest.mark.parametrize("variant", [DSGT, DP, LPPA])
def test_cells_to_the_letter_are_algorithm_1(variant):
    """Word for word, and not by way of the reading."""
    expected = {
        **{"normalize": False, "init": "independent", "mixing": "combine-then-adapt"},
        **{"weights": "random", "lr": 0.05, "lr_decay": 0.0, "batch": 256, "rounds": 50},
        **{"local_steps": 1, "topology": "full", "finish": 0, "noise_every": 0, "beta": 0.025},
        **{"noise_exchange": "tensor", "noise": "laplace", "beta_own": 0.0},
        **{"batches": "next", "dtype": "float32", "partition": "iid", "init_weights": "default"},
    }
    told = PLAN.training("mnist", variant, 1).told()
    assert told.items() >= (expected | {"model": "cnn-6-16"}).items()
    told = PLAN.attacked("mnist", variant, 1).told()
    assert told.items() >= (expected | {"model": "lenet", "batch": 1, "rounds": 2}).items()
    told = PLAN.training("mnist", DP_EVERY_ROUND, 1).told()
    assert (told["noise_every"], told["beta"]) == (1, 0.025)


def test_the_default_reading_is_600_updates_on_the_benchmark_s_networks():
    plan = Plan(FULL, "updates-600", None, ("mnist",))
    expected = {"rounds": 600, "local_steps": 1, "init": "common", "mixing": "adapt-then-combine"}
    for dataset, model in (("cifar10", "cnn-6-16"), ("adult", "mlp:128"), ("covtype", "mlp:128")):
        told = plan.training(dataset, LPPA, 1).told()
        assert told.items() >= {**expected, "model": model}.items()
        assert told["normalize"] == (dataset == "cifar10")


def test_local_updates_are_varied_over_the_paper_s_rounds_in_every_reading():
    for plan in plans()[: len(READINGS)]:
        told = plan.local(LPPA, 1, 80).told()
        assert (told["local_steps"], told["rounds"]) == (80, 50)


def test_the_first_table_has_five_seeds_and_the_others_three_unless_somebody_says():
    plan = Plan(FULL, DEFAULT, None, ("mnist",))
    assert plan.seeds_of("table1") == (1, 2, 3, 4, 5)
    assert plan.seeds_of("table3") == plan.seeds_of("fig-noise") == (1, 2, 3)
    assert replace(plan, seeds=2).seeds_of("table1") == (1, 2)


def test_tables_have_dp_at_the_start_and_in_every_round():
    for name in ("table1", "table3", "table4"):
        cells = EXPERIMENTS[name](PLAN)
        often = [c for c in cells if c.settings["rule"] == "dp" and c.settings["noise_every"] == 1]
        once = [c for c in cells if c.settings["rule"] == "dp" and c.settings["noise_every"] == 0]
        assert len(often) == len(once) > 0


def test_within_a_seed_the_rules_differ_in_the_rule_and_its_noise_only():
    told = [dict(PLAN.training("mnist", variant, 1).settings) for variant in COLUMNS]
    for settings in told:
        for name in ("rule", "beta", "noise", "noise_every", "noise_exchange"):
            settings.pop(name, None)
    assert told[0] == told[1] == told[2] == told[3]


def test_an_experiment_and_in_it_a_seed_is_finished_before_the_next_is_begun():
    plan = Plan(FULL, DEFAULT, None, ("mnist", "adult", "rcv1"))
    cells = all_cells(plan, ["table3", "table1"])
    usual = [cell for cell in cells if cell.dataset != "rcv1"]
    assert cells[: len(usual)] == usual
    order = [(c.settings["partition"] != "iid", c.settings["seed"]) for c in usual]
    assert order == sorted(order)
    of_first_seed = [cell.dataset for cell in usual[:10]]
    assert of_first_seed == ["adult"] * 5 + ["mnist"] * 5


def result(best):
    found = Attacked("naive/dlg", 0, 3, {"psnr": 20.0, "ssim": None}, {"mean": {"psnr": 11.0}})
    about = {"bytes": {"noise": 1, "state": 2}, "pictures": {"naive/dlg": "a.png"}}
    curve = ((1, 0.5), (2, best))
    return CellResult("completed", best=best, curve=curve, rows=(9, 1), attacks=(found,), **about)


def test_what_is_kept_is_there_for_the_next_process(tmp_path):
    cell = PLAN.training("mnist", LPPA, 1)
    with Store(tmp_path / "cells.jsonl") as store:
        store.add(cell, result(0.5))
    assert read_results(tmp_path / "cells.jsonl") == {cell.key: result(0.5)}


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_line_that_was_cut_off_is_forgotten(tmp_path, cut):
    path = tmp_path / "cells.jsonl"
    first, second = (PLAN.training("mnist", LPPA, seed) for seed in (1, 2))
    with Store(path) as store:
        store.add(first, result(0.5))
        store.add(second, result(0.6))
    path.write_bytes(path.read_bytes()[:-cut])
    assert read_results(path) == {first.key: result(0.5)}
    with Store(path) as store:
        assert store.results == {first.key: result(0.5)}
        store.add(second, result(0.7))
    assert read_results(path) == {first.key: result(0.5), second.key: result(0.7)}


def test_a_line_in_the_middle_that_is_no_cell_is_told(tmp_path):
    path = tmp_path / "cells.jsonl"
    good = json.dumps({"key": "a", "result": {"status": "completed"}})
    path.write_text(f"{good}\nnonsense\n{good}\n")
    with pytest.raises(WrongUse, match="line 2"):
        read_results(path)


def test_two_processes_do_not_work_in_the_same_place(tmp_path):
    with Store(tmp_path / "cells.jsonl"), pytest.raises(WrongUse, match="another"):
        Store(tmp_path / "cells.jsonl")


def test_published_results_are_read_as_they_stand():
    path = Path(__file__).parents[3] / "docs" / "results" / "cells.jsonl"
    found = read_results(path)
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        told = json.loads(json.dumps(found[entry["key"]].to_dict()))
        assert told == entry["result"]
        assert from_spec(entry["cell"]).key == entry["key"]


def test_who_pools_what_it_knows_records_too():
    attack = PLAN.attacked("mnist", LPPA, 1).attack
    assert attack.attackers == (4,)
    assert recorders(attack) == (3, 4)
    assert recorders(PLAN.attacked("mnist", DSGT, 1).attack) == (4,)
    assert recorders(None) == ()


def test_several_attackers_and_all_victims_survive_the_way_to_a_worker():
    attack = Attack(("naive/dlg",), (1, 3), None, (0, 2), 4)
    cell = replace(PLAN.attacked("mnist", LPPA, 1), attack=attack)
    assert from_spec(json.loads(json.dumps(cell.spec()))) == cell
    assert cell.key != replace(cell, attack=replace(attack, attackers=(1,))).key
