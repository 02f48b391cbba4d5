"""What can be asked of engines: every option once, for the command and for Python."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click
import pytest

from lppa.commands.run import run
from lppa.engines.engine import LOCAL, NAMES, OPTIONS, Wanted, make_wanted
from lppa.engines.registry import ENGINES
from lppa.engines.slurm_call import Call, setting_words
from lppa.options import settings_options
from lppa.own_code import OwnCode
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings, make_settings
from lppa.running.scout import Scout


def test_every_engine_can_be_named_and_takes_options_that_there_are():
    (engine,) = [about for about in OPTIONS if about.name == "engine"]
    assert sorted(engine.metadata["choices"]) == sorted([LOCAL, *ENGINES])
    taken = {option for _, options in ENGINES.values() for option in options}
    assert taken == set(NAMES) - {"engine"}


def test_no_option_of_an_engine_has_the_name_of_a_setting():
    assert not set(NAMES) & {about.name for about in fields(Settings)}


def test_the_command_has_every_option_that_python_has():
    assert set(NAMES) <= {option.name for option in run.params}


def test_values_are_checked_and_paths_are_texts():
    wanted = make_wanted(4, {"engine": "ssh", "hosts": Path("h"), "interface": None})
    assert wanted == Wanted(4, "ssh", hosts="h")
    assert make_wanted(4, {"cpus_per_node": "0.5"}).cpus_per_node == 0.5
    with pytest.raises(WrongUse, match="--gpus-per-node must be a number of at least 0, not -1"):
        make_wanted(4, {"gpus_per_node": -1})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"dataset": "cifar10", "model": "mlp", "rounds": 7, "lr": 0.1 + 0.2, "seed": 5},
        {"dataset": "quadratic", "reveal_batches": True, "beta": "auto"},
        {"rule": "dsgd", "on_failure": "continue", "slow": "drop:3"},
    ],
)
def test_settings_come_back_from_the_words_that_a_job_is_given(given):
    @click.command()
    @settings_options
    def read(settings):
        return settings

    settings = make_settings(given)
    assert read.main(setting_words(settings), standalone_mode=False) == settings


def test_a_job_is_told_where_its_code_is_and_not_what_follows_from_it(tmp_path):
    settings = make_settings({"dataset": "own/mine", "model": "own", "rule": "own/stay"})
    wanted = Wanted(4, "slurm", slurm_options="--time=1", slurm_tasks="client")
    words = Call(wanted, settings, tmp_path, (1, 2)).words(Scout(OwnCode("a.py:p", "a.py:R")))
    assert {f"--problem={tmp_path}/slurm_code.py:problem", "--attacker=1,2"} <= set(words)
    assert {"--engine=slurm", "--slurm-tasks=client", "--nodes=4"} <= set(words)
    assert [word for word in words if word.startswith("--rule")] == [
        f"--rule={tmp_path}/slurm_code.py:rule"
    ]
    assert not [word for word in words if word.startswith(("--dataset", "--model", "--slurm-opt"))]
    again = Call(wanted, settings, tmp_path, begun=True).words(None)
    assert again[0] == f"--resume={tmp_path}"
    assert not [word for word in again if word.startswith("--rounds")]
