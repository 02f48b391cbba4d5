"""What all commands share: -q, errors as one line, and how an interruption ends them."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from lppa import shell
from lppa.cli import main
from lppa.commands.coordinator import main as coordinator
from lppa.commands.node import main as node
from lppa.protocol.errors import WrongUse
from lppa.running.rundir import check_free
from lppa.shell import is_quiet, numbers, show_errors, verbosity

log = logging.getLogger("lppa.test")


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True)
@verbosity
@show_errors
@click.pass_context
def talk(context: click.Context, as_json: bool) -> None:
    """Says something in every way there is."""
    if context.invoked_subcommand is None:
        say(as_json)


@talk.command()
@click.option("--json", "as_json", is_flag=True)
@verbosity
@show_errors
def on(as_json: bool) -> None:
    """The same as a subcommand."""
    say(as_json)


def say(as_json: bool) -> None:
    log.info("all is well")
    log.warning("all is not well")
    if as_json or click.get_current_context().meta["json"]:
        click.echo(json.dumps({"quiet": is_quiet()}))
        return
    click.echo("a line")
    print("another line")
    Console().print("a table")


@pytest.mark.parametrize("argv", [[], ["on"]])
def test_without_q_everything_is_said(argv):
    result = CliRunner().invoke(talk, argv)
    assert result.stdout.split("\n") == ["a line", "another line", "a table", ""]
    assert result.stderr == "all is well\nall is not well\n"


@pytest.mark.parametrize("argv", [["-q"], ["on", "-q"], ["-q", "on"]])
def test_with_q_only_what_is_not_well_is_said(argv):
    result = CliRunner().invoke(talk, argv)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "all is not well\n"


@pytest.mark.parametrize("argv", [["-q", "--json"], ["on", "-q", "--json"], ["--json", "on", "-q"]])
def test_json_that_was_asked_for_is_printed_with_q_too(argv):
    result = CliRunner().invoke(talk, argv)
    assert json.loads(result.stdout) == {"quiet": True}
    assert result.stderr == "all is not well\n"


def test_outside_of_a_command_nobody_asked_for_quiet():
    assert not is_quiet()


ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.argument("number", type=int)
@verbosity
@show_errors
def be_ended(number: int) -> None:
    os.kill(os.getpid(), number)
    # A handler runs before anything else does.
    pytest.fail("the signal went unheard")


@pytest.fixture
def own_signals():
    """Commands set handlers, and a shell in the background makes all deaf to Ctrl-C."""
    before = {number: signal.getsignal(number) for number in ENDINGS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDINGS)
def test_a_signal_that_interrupts_ends_a_command_with_130(own_signals, number):
    result = CliRunner().invoke(be_ended, [str(int(number)), "-q"])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_a_command_that_another_one_started_leaves_it_to_that_one_to_say_so(
    own_signals, monkeypatch
):
    monkeypatch.setenv(shell.PARENT, str(os.getppid()))
    result = CliRunner().invoke(be_ended, [str(int(signal.SIGTERM))])
    assert (result.exit_code, result.stderr) == (130, "")


@pytest.mark.parametrize("call", [shell.call_lppa, shell.lppa_output])
def test_whose_command_is_interrupted_is_interrupted_too(monkeypatch, call):
    monkeypatch.setattr(shell, "LPPA", (sys.executable, "-c", "import sys; sys.exit(130)"))
    with pytest.raises(KeyboardInterrupt):
        call("attack")


def test_numbers_are_comma_separated():
    assert numbers("3,1", "--attackers") == [3, 1]
    for text in ("1;3", "1,", "", "one"):
        with pytest.raises(WrongUse, match="--attackers must be comma-separated whole numbers"):
            numbers(text, "--attackers")


@pytest.mark.parametrize("limit", ["nan", "inf", "-inf", "-1"])
def test_a_number_of_a_policy_is_a_number(limit):
    # A comparison with nan is never true: a limit of nan would be none.
    result = CliRunner().invoke(node, ["--id", "0", "--peers", "none", "--least-beta", limit])
    assert result.exit_code == 2
    assert "--least-beta" in result.stderr


@pytest.mark.parametrize("size", ["nan", "inf"])
def test_an_audit_of_what_is_no_number_does_not_pass(size):
    result = CliRunner().invoke(main, ["audit", "--gradient-rms", size, "--fail-on", "open"])
    assert result.exit_code == 2
    assert "is not a finite number" in result.stderr


@pytest.mark.parametrize(
    "command, argv, told",
    [
        (main, ["--foo"], "`lppa --help` tells more"),
        (main, ["nonsense"], "No such command 'nonsense'; `lppa --help` tells more"),
        (main, ["run", "--nodes", "x"], "'x' is not a valid integer; `lppa run --help` tells more"),
        (main, ["runs", "rm"], "Missing argument 'RUN...'; `lppa runs rm --help` tells more"),
        (main, ["reproduce"], "fig-clients, fig-local-epoch, all; `lppa reproduce --help`"),
        (node, ["--id", "x"], "`lppa-node --help` tells more"),
        (coordinator, [], "Missing option '--peers'; `lppa-coordinator --help` tells more"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(command, argv, told):
    names = {main: "lppa", node: "lppa-node", coordinator: "lppa-coordinator"}
    result = CliRunner().invoke(command, argv, prog_name=names[command])
    assert result.exit_code == 2
    assert not result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert told in line


def test_who_asks_for_nothing_is_shown_the_help():
    result = CliRunner().invoke(main, [])
    assert "Commands:" in result.output


@pytest.mark.parametrize(
    "options, told", [([], "then try again"), (["resume"], "then go on with --resume")]
)
def test_a_full_disk_is_told_in_words_with_what_to_do(options, told):
    @verbosity
    @show_errors
    def fills(**given):
        raise OSError(28, "No space left on device", "there")

    command = click.command()(fills)
    command.params += [click.Option([f"--{name}"]) for name in options]
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1
    assert result.stderr == f"error: there: No space left on device; make room, {told}\n"


@pytest.mark.parametrize(
    "said, told", [((), ""), (("Unable to allocate 59 GiB",), ": Unable to allocate 59 GiB")]
)
def test_too_little_memory_is_one_line_and_no_traceback(said, told):
    @verbosity
    @show_errors
    def grows(**given):
        raise MemoryError(*said)

    result = CliRunner().invoke(click.command()(grows), [])
    assert result.exit_code == 1
    advice = "try fewer nodes, a sparser graph or less data"
    assert result.stderr == f"error: not enough memory{told}; {advice}\n"


def test_a_folder_whose_name_is_too_long_is_wrong_use():
    with pytest.raises(WrongUse, match=r"cannot make the run's directory .*: File name too long"):
        check_free(Path("x" * 300))
