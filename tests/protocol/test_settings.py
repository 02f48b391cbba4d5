"""Settings: every value is checked in one place, whichever way it came."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import PRESETS, Settings, make_settings


def test_settings_survive_the_way_through_a_plan():
    settings = make_settings({"rule": "dp", "beta": 0.5, "seed": 3, "local_steps": 4})
    assert make_settings(settings.to_dict()) == settings


def test_later_layers_win_and_nothing_given_changes_nothing():
    assert make_settings({"lr": 0.5}, {"lr": 0.25}, {"lr": None}).lr == 0.25


def test_dashes_and_underscores_are_the_same():
    assert make_settings({"noise-every": 2}) == make_settings({"noise_every": 2})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beta", -1),
        ("beta", float("nan")),
        ("beta", "much"),
        ("lr", 0),
        ("lr", float("inf")),
        ("rounds", 0),
        ("rounds", 2.5),
        ("rounds", True),
        ("rounds", "1e3"),
        ("local_steps", 0),
        ("local_steps", "day"),
        ("timeout", 0),
        ("rule", "sgd"),
        ("topology", ""),
        ("seed", -1),
        ("batch", [1]),
        ("lr_decay", "300:0.1,200:0.01"),
        ("lr_decay", "300:0"),
        ("lr_decay", "300:1e999"),
        ("lr_decay", "300:e"),
        ("lr_decay", -0.1),
        ("init_weights", "normal:-1:0"),
        ("init_weights", "normal:e:0"),
        ("model", "mlp:0-3"),
        ("dataset", "covtype:8"),
    ],
)
def test_a_wrong_value_names_the_option(name, value):
    with pytest.raises(WrongUse, match="--" + name.replace("_", "-")):
        make_settings({name: value})


@pytest.mark.parametrize(
    ("decay", "lengths"),
    [
        (0.5, [2.0, 2 / 1.5, 1.0, 2 / 2.5]),
        ("0.5", [2.0, 2 / 1.5, 1.0, 2 / 2.5]),
        ("sqrt", [2.0, 2 / 2**0.5, 2 / 3**0.5, 1.0]),
        ("1:0.5,3:0.125", [2.0, 1.0, 1.0, 0.25]),
    ],
)
def test_steps_decay_by_a_number_by_a_root_or_by_a_table(decay, lengths):
    settings = make_settings({"lr": 2.0, "lr_decay": decay})
    assert [settings.step(t) for t in range(4)] == pytest.approx(lengths, abs=1e-12)


ANY_TEXT = ("data_dir", "topology", "target")  # what is wrong with them only files tell
NONSENSE = [f.name for f in fields(Settings) if f.name not in ANY_TEXT]


@pytest.mark.parametrize("name", NONSENSE)
def test_a_refusal_says_what_is_allowed_in_one_plain_sentence(name):
    with pytest.raises(WrongUse) as error:
        make_settings({name: "nonsense"})
    said = str(error.value)
    assert said.startswith("--" + name.replace("_", "-") + " must be ")
    assert said.endswith(", not 'nonsense'")
    assert "[" not in said
    words = re.findall(r"[\w.:-]+", said.replace("at most", ""))
    assert len(words) == len(set(words)), "nothing is listed twice"


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("dataset", ["digits", "covtype", "quadratic", "quadratic-shared", "some.npz", "some.csv"]),
        ("partition", ["iid", "quantity:0.5", "dirichlet:0.1", "classes:2"]),
        ("device", ["auto", "cpu", "cuda", "cuda:1"]),
    ],
)
def test_what_a_refusal_says_is_allowed_is(name, allowed):
    with pytest.raises(WrongUse) as error:
        make_settings({name: "nonsense"})
    for value in allowed:
        assert getattr(make_settings({name: value}), name) == value
        assert value.partition(":")[0].removeprefix("some") in str(error.value)


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(WrongUse, match=r"unknown setting 'lrr'.*lr"):
        make_settings({"lrr": 1})


def test_data_set_and_model_follow_from_each_other():
    assert make_settings({}).dataset == "digits"
    assert make_settings({"model": "quadratic"}).dataset == "quadratic"
    assert make_settings({"dataset": "quadratic-shared"}).model == "quadratic"
    with pytest.raises(WrongUse, match="does not go with"):
        make_settings({"dataset": "digits", "model": "quadratic"})


@pytest.mark.parametrize("given", [{"target": "price"}, {"task": "regression"}])
def test_what_is_for_tables_is_refused_for_other_data(given):
    (name,) = given
    assert getattr(make_settings({"dataset": "a.csv", **given}), name) == given[name]
    for other in ("digits", "a.npz", "quadratic"):
        with pytest.raises(WrongUse, match=rf"--{name} .*\.csv file, and --dataset is {other}"):
            make_settings({"dataset": other, **given})


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_made_of_settings(preset):
    assert isinstance(make_settings(PRESETS[preset]), Settings)


@given(st.one_of(st.integers(), st.floats(), st.text(max_size=5), st.booleans()))
def test_a_number_setting_takes_a_number_in_range_or_refuses(value):
    try:
        beta = make_settings({"beta": value}).beta
    except WrongUse:
        return
    assert isinstance(beta, float)
    assert 0 <= beta < float("inf")


def test_what_nobody_sets_is_fresh_noise_from_seeds_in_every_round():
    plain = make_settings({})
    assert (plain.rule, plain.noise_every, plain.noise_exchange) == ("lppa", 1, "seed")
    assert (plain.local_steps, plain.batch, plain.beta) == (10, 64, "auto")


def test_the_paper_is_the_paper_whatever_the_defaults_are():
    paper = make_settings(PRESETS["paper"])
    assert (paper.noise, paper.noise_every, paper.noise_exchange) == ("laplace", 0, "tensor")
    assert (paper.beta, paper.lr, paper.batch, paper.rounds) == (0.025, 0.05, 256, 50)
    assert (paper.local_steps, paper.mixing) == ("epoch", "combine-then-adapt")
    assert (paper.init, paper.weights, paper.normalize) == ("independent", "random", False)
    assert (paper.topology, paper.beta_own, paper.clip) == ("full", 0.0, None)


@pytest.mark.parametrize(
    ("every", "due"), [(0, [0]), (1, [0, 1, 2, 3, 4, 5, 6]), (3, [0, 3, 6]), (9, [0])]
)
def test_noise_is_due_at_the_start_and_every_so_many_rounds(every, due):
    settings = make_settings({"noise_every": every})
    assert [t for t in range(7) if settings.noisy(t)] == due


@given(st.floats(1e-3, 1.0), st.floats(0.0, 5.0), st.integers(0, 1000))
def test_a_step_gets_shorter_as_its_decay_says(lr, decay, t):
    settings = make_settings({"lr": lr, "lr_decay": decay})
    assert settings.step(0) == lr
    assert settings.step(t) * (1 + decay * t) == pytest.approx(lr)
