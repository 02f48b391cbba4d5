"""A setting comes from a preset, a file or the command line; the later wins."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from lppa.options import chosen_nodes, read_config, settings_options
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings, make_settings


@click.command()
@settings_options
def show(settings: Settings) -> None:
    click.echo(json.dumps(settings.to_dict()))


@click.command()
@click.option("-n", "--nodes", type=int)
@settings_options
def count(nodes: int | None, settings: Settings) -> None:
    click.echo(chosen_nodes(nodes))


def nodes_of(*argv):
    result = CliRunner().invoke(count, [str(word) for word in argv], catch_exceptions=False)
    return int(result.stdout)


def settings_of(*argv):
    result = CliRunner().invoke(show, [str(word) for word in argv], catch_exceptions=False)
    return json.loads(result.stdout)


def test_nothing_given_means_the_defaults():
    assert settings_of() == make_settings({}).to_dict()


def test_the_command_line_wins_over_the_file_and_the_file_over_the_preset(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('lr = 0.3\nnoise-every = 2\nrule = "dp"\n')
    found = settings_of("--preset", "paper", "--config", file, "--rule", "dsgt")
    assert (found["rule"], found["lr"], found["noise_every"]) == ("dsgt", 0.3, 2)
    assert found["mixing"] == "combine-then-adapt"


def test_the_config_of_a_run_repeats_its_settings(local_run):
    run = local_run(dataset="quadratic", rounds=3, beta=0.5, local_steps=2, timeout=60)
    again = settings_of("--config", run.folder / "config.json")
    assert again == run.blueprint.settings.to_dict()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.toml", "lr = ", "cannot be understood"),
        ("a.toml", "lrr = 1", "unknown setting 'lrr'"),
        ("a.toml", "lr = -1", "--lr"),
        ("a.toml", "nodes = 1", "--nodes must be a whole number of at least 2, not 1"),
        ("a.toml", "nodes = 2.5", "--nodes must be a whole number of at least 2, not 2.5"),
        ("a.toml", 'nodes = "many"', "--nodes must be a whole number of at least 2, not 'many'"),
        ("a.json", '{"about": {"nodes": 0}}', "--nodes must be a whole number of at least 2"),
        ("a.json", "[1]", "by name"),
        ("a.json", "{", "cannot be understood"),
    ],
)
def test_a_wrong_file_is_named_with_the_reason(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    with pytest.raises(WrongUse, match=reason) as error:
        read_config(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", "nodes = 7"), ("a.json", '{"lr": 0.3, "about": {"nodes": 7}}')]
)
def test_a_file_may_say_how_many_nodes_there_are_and_the_command_line_wins(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert nodes_of("--config", tmp_path / name) == 7
    assert nodes_of("--config", tmp_path / name, "-n", 3) == 3
    assert nodes_of() == 5


def test_a_users_own_file_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("own.npz", "own.csv"):
        assert settings_of("--dataset", name)["dataset"] == str(tmp_path / name)
