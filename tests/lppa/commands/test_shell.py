"""What all commands share: -q, errors as one line, and how an interruption ends them."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from lppa import shell
from lppa.protocol.errors import WrongUse
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
