"""What all commands share: errors as one line, -v, -q and --version, signals as interruptions."""

from __future__ import annotations

import errno
import functools
import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn, ParamSpec, TypeVar

import click

from lppa.protocol.errors import LppaError, WrongUse

Command = Callable[..., Any]
"""What becomes a command: a function that options are given to."""

FC = TypeVar("FC", bound="Command | click.Command")
"""The same, or one that is a command already: what options can be added to."""

Given = ParamSpec("Given")
Result = TypeVar("Result")

LPPA = (sys.executable, "-c", "from lppa.cli import main; main(prog_name='lppa')")
PARENT = "LPPA_PARENT"  # the process that a command must not outlive
PARENT_EVERY = 0.5  # seconds between looks at whether it still lives
# What newer versions of click raise where nothing was asked for: the help is shown.
HELP_INSTEAD: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
INTERRUPTED = 130  # the exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it


def version_option(command: FC) -> FC:
    """Adds --version."""
    # A new one for each command: it remembers the name of the first that was asked.
    about = "Print the version of lppa and leave."
    return click.version_option(package_name="lppa", help=about)(command)


def verbosity(command: Command) -> Command:
    """Adds -v, -q and --version, and sends the log to standard error.

    With -q standard output is for data alone: for --json, and for CSV.
    """

    @click.option("-v", "--verbose", is_flag=True, help="Say more; show tracebacks of errors.")
    @click.option("-q", "--quiet", is_flag=True, help="Say only what went wrong.")
    @version_option
    @functools.wraps(command)
    def wrapped(*args: Any, verbose: bool, quiet: bool, **options: Any) -> Any:
        meta = click.get_current_context().meta
        # Options may stand before a subcommand as well as after it: what a group was told holds.
        meta["verbose"] = verbose or meta.get("verbose", False)
        meta["quiet"] = quiet or meta.get("quiet", False)
        data = options.get("csv_file") == "-"
        meta["json"] = options.get("as_json", False) or meta.get("json", False)
        level = logging.WARNING if meta["quiet"] else logging.INFO
        start_logging(logging.DEBUG if meta["verbose"] else level)
        with ExitStack() as stack:
            if meta["quiet"] and not (meta["json"] or data):
                nowhere = stack.enter_context(Path(os.devnull).open("w"))
                stack.enter_context(redirect_stdout(nowhere))
            return command(*args, **options)

    return wrapped


def is_quiet() -> bool:
    """Whether the command that is running was told -q."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get("quiet", False)


def start_logging(level: int) -> None:
    """Our own messages to standard error; other libraries keep to their warnings."""
    logger = logging.getLogger("lppa")
    logger.setLevel(min(level, logging.INFO))
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.handlers = [handler]
    # Whoever fetches data shows how far it is, unless told otherwise.
    logging.getLogger("lppa.node.datasets.fetch").setLevel(level)
    logger.propagate = False


class Finite(click.FloatRange):
    """A number in a range, and a number: nan lies outside of none, and a limit of nan limits none.

    A node with `--least-beta nan` would take part without any noise.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class UsageLine(click.ClickException):
    """A wrong call, told like every other error: in one line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.message}", err=file is None, file=file)


@contextmanager
def usage_in_one_line() -> Iterator[None]:
    """Turns what click says in several lines into one, with where to read more."""
    try:
        yield
    except HELP_INSTEAD:
        raise
    except click.UsageError as error:
        told = " ".join(error.format_message().split()).rstrip(".")
        where = "lppa" if error.ctx is None else error.ctx.command_path
        raise UsageLine(f"{told}; `{where} --help` tells more") from None


class OneLine(click.Command):
    """A command that is called by itself, with one line for a wrong call."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with usage_in_one_line():
            return super().make_context(*args, **kwargs)


def show_errors(command: Callable[Given, Result]) -> Callable[Given, Result]:
    """Shows an LppaError as one line and leaves with its exit code; -v shows the traceback.

    What the system refuses, room on a disk or in memory, is one line too.
    """

    @functools.wraps(command)
    def wrapped(*args: Given.args, **options: Given.kwargs) -> Result:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        has_parent = False
        try:
            has_parent = end_with_parent()
            return command(*args, **options)
        except LppaError as error:
            if click.get_current_context().meta.get("verbose"):
                traceback.print_exc()
            click.echo(f"error: {error}", err=True)
            sys.exit(error.exit_code)
        except OSError as error:
            if click.get_current_context().meta.get("verbose"):
                traceback.print_exc()
            click.echo(f"error: {_in_words(error)}", err=True)
            sys.exit(1)
        except MemoryError as error:
            if click.get_current_context().meta.get("verbose"):
                traceback.print_exc()
            told = ": ".join(filter(None, ("not enough memory", str(error))))
            click.echo(f"error: {told}; try fewer nodes, a sparser graph or less data", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            if has_parent:  # which says so
                sys.exit(INTERRUPTED)
            leave_interrupted()

    return wrapped


def _in_words(error: OSError) -> str:
    """What the system said, without its numbers, and what to do where the disk is full."""
    where = "" if error.filename is None else f"{error.filename}: "
    told = f"{where}{error.strerror or error}"
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return told
    command = click.get_current_context().command
    resumes = any(param.name == "resume" for param in command.params)
    return f"{told}; make room, then {'go on with --resume' if resumes else 'try again'}"


def leave_interrupted() -> NoReturn:
    """Ends a command that Ctrl-C, or a signal like it, has interrupted."""
    click.echo("interrupted", err=True)
    sys.exit(INTERRUPTED)


def numbers(text: str, option: str) -> list[int]:
    """Comma-separated whole numbers, as in `--attackers 1,3`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise WrongUse(f"{option} must be comma-separated whole numbers, not {text!r}") from None


def call_lppa(*arguments: str) -> int:
    """Runs another `lppa` command in a process of its own and returns its exit code.

    The process does not outlive this one, not even if this one is killed. If it is interrupted, so
    is this one.
    """
    code = subprocess.call([*LPPA, *arguments], env=_environment())
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code


def lppa_output(*arguments: str) -> str:
    """What another `lppa` command prints; leaves with its exit code if it fails."""
    command = [*LPPA, *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=_environment())
    if ended.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if ended.returncode:
        sys.exit(ended.returncode)
    return ended.stdout


def end_with_parent() -> bool:
    """Lets a command that `call_lppa` started end like on Ctrl-C when its parent is gone.

    Looks now and then who the parent is: a parent that was killed cannot tell anybody. Returns
    whether there is one.
    """
    parent = os.environ.pop(PARENT, None)
    if parent is None:
        return False

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(PARENT_EVERY)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="parent").start()
    return True


def _environment() -> dict[str, str]:
    return {**os.environ, PARENT: str(os.getpid())}


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """A polite kill, or a terminal that is closed, ends a command like Ctrl-C does."""
    raise KeyboardInterrupt
