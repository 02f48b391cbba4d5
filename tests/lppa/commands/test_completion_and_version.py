"""What Tab offers, and --version everywhere."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from lppa.cli import COMMANDS, Lazy, main
from lppa.commands import coordinator, node


def offered(command, *words):
    """The values that a shell would show after these words, the last of which is not complete."""
    complete = ShellComplete(command, {}, "lppa", "_LPPA_COMPLETE")
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "--rule", ""), ["dsgt", "dp", "lppa", "dsgd"]),
        (("run", "--rule", "d"), ["dsgt", "dp", "dsgd"]),
        (("run", "--mixing", "comb"), ["combine-then-adapt"]),
        (("run", "--beta", ""), ["auto"]),
        (("run", "--local-steps", "e"), ["epoch"]),
        (("run", "--partition", "d"), ["dirichlet:"]),
        (("run", "--topology", "r"), ["ring", "random-regular", "r"]),
        (("audit", "--topology", "s"), ["star", "small-world", "s"]),
        (("run", "--preset", ""), ["paper"]),
        (("reproduce", "table"), ["table1", "table2", "table3", "table4"]),
        (("datasets", "fetch", "adu"), ["adult", "adult:binary"]),
        (("partition", "adu"), ["adult", "adult:binary", "adu"]),
        (("run", "--model", "c"), ["cnn", "cnn-6-16"]),
        (("partition", "mnist", "cl"), ["classes:"]),
        (("run",), ["run", "runs"]),
    ],
)
def test_values_are_offered(words, expected):
    known = offered(main, *words)
    assert [value for value in known if value in expected] == expected
    assert len(known) <= len(expected) + 1


def test_data_sets_are_offered_with_the_quadratic_problems():
    known = offered(main, "run", "--dataset", "")
    assert {"digits", "mnist", "covtype", "quadratic", "quadratic-shared"} <= set(known)
    assert offered(coordinator.main, "--dataset", "mn") == ["mnist", "mn"]


def test_runs_are_offered_by_name_the_newest_first(put_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put_run("first", ago=500)
    put_run("second", ago=100)
    put_run("elsewhere", base=tmp_path / "other")
    for command in (("report",), ("watch",), ("attack",), ("export",), ("runs", "rm")):
        assert offered(main, *command, "") == ["latest", "second", "first"]
    assert offered(main, "report", "f") == ["first"]
    # What is no name of a run is a path, which is the shell's matter.
    assert offered(main, "report", "oth") == ["oth"]
    assert offered(main, "runs", "rm", "--dir", "other", "") == ["latest", "elsewhere"]


def test_commands_are_offered_without_loading_them(monkeypatch):
    monkeypatch.setattr(Lazy, "get_command", lambda *_: pytest.fail("a command was loaded"))
    assert offered(main, "re") == ["report", "reproduce"]


def all_commands():
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        yield (name,), command
        if isinstance(command, click.Group):
            yield from (((name, below), one) for below, one in command.commands.items())


@pytest.mark.parametrize("words", [(), *(words for words, _ in all_commands())])
def test_every_command_tells_its_version(words):
    result = CliRunner().invoke(main, [*words, "--version"], prog_name="lppa")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("lppa, version ")


@pytest.mark.parametrize("command", [node.main, coordinator.main])
def test_the_commands_of_their_own_tell_it_too(command):
    result = CliRunner().invoke(command, ["--version"], prog_name="lppa-any")
    assert result.stdout.startswith("lppa-any, version ")


def test_it_can_be_called_as_a_module(tmp_path):
    called = subprocess.run(
        [sys.executable, "-m", "lppa", "--version"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (called.returncode, called.stderr) == (0, "")
    assert called.stdout.startswith("lppa, version ")
