"""What `import lppa` gives: a run as one call, and a finished run as one object.

Thin over `running`, `audit`, `attack` and `report`; the commands go the same way. PyTorch is loaded
where it is needed and not before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lppa.auditing.assemble import case_of
from lppa.auditing.document import audit as audited
from lppa.auditing.looking import looked_at
from lppa.coordinator.figures import Summary
from lppa.engines.engine import LOCAL, NAMES, Engine, Wanted, make_wanted
from lppa.engines.registry import make_engine
from lppa.engines.slurm import begun_before
from lppa.engines.slurm_call import Call, run_called
from lppa.engines.slurm_job import SlurmJob
from lppa.finished import Run, load
from lppa.options import absolute_paths
from lppa.own_code import OwnCode, found, is_spec, names_of
from lppa.protocol.checks import check_ids
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.settings import OWN, Settings, make_settings
from lppa.running.display import Silent, choose_display
from lppa.running.facts import look
from lppa.running.launch import stop_fork_server
from lppa.running.listener import Listener, Listeners
from lppa.running.naming import find_run, new_folder
from lppa.running.past import read_past
from lppa.running.prepare import choose_noise, make_blueprint
from lppa.running.run import run_by
from lppa.running.scout import Scout

if TYPE_CHECKING:
    from lppa.auditing.findings import AuditDocument
    from lppa.own_code import Brought

__all__ = ["audit", "load", "resume", "run"]


def run(
    problem: Brought | str | None = None,
    *,
    nodes: int = 5,
    rule: str | type = "lppa",
    out: str | Path | None = None,
    name: str | None = None,
    attackers: Sequence[int] = (),
    secure: bool = False,
    tensorboard: bool = False,
    listener: Listener | None = None,
    quiet: bool = True,
    engine: str = LOCAL,
    **settings: Any,
) -> Run:
    """Runs an experiment, every client a process of its own, and waits for it.

    `problem` is an `lppa.Problem`, a function that makes one, or where to find either
    (`FILE.py:NAME`); without it `dataset=` and `model=` name one of ours. `rule` is dsgt, dp, lppa,
    dsgd, or a class registered by `@lppa.rule`. `settings` are those of `lppa run`, with
    underscores: `topology="ring", rounds=50, seed=1`. The run goes to `out`, or to runs/`name`.
    Raises RunFailed if it does not come to its end; what it left is in its directory then, too.

    `attackers` are clients that record what they send and receive, for `Run.attack`; `secure`
    encrypts links on this machine too; `tensorboard` writes event files (with the extra of that
    name installed); `listener` hears the run's events; `quiet=False` shows progress as the command
    does. Settings that cannot work raise WrongUse before anything starts.

    `engine` is what starts the clients: "local" on this machine, or on other hosts "ssh", "slurm"
    or "ray". Its options are keywords too, the same as those of the command: `hosts`, `ssh`
    (ssh); `slurm_options`, `slurm_tasks` (slurm); `address`, `gpus_per_node` (ray);
    `cpus_per_node` (slurm, ray); `interface` (all). A problem and a rule go to the hosts with the
    run; modules that they import have to be installed there. Outside a job, "slurm" submits one and
    waits for it: a `listener` would hear nothing of that, and is refused.
    """
    options = {one: settings.pop(one) for one in NAMES if one in settings}
    wanted = make_wanted(nodes, {"engine": engine, **options})
    code = own_code(problem, rule)
    begun = begun_before(wanted.engine, None if out is None else Path(out))
    if begun is not None:
        return _go_on(begun, code, wanted, listener, quiet)
    with scouted(code) as scout:
        told = name_settings(settings, rule, None if scout is None else scout.names())
        folder = new_folder(None if out is None else Path(out), name, told)
        blueprint = make_blueprint(told, nodes, folder.name)
        check_ids(attackers, nodes)
        call = Call(wanted, told, folder, attackers, tensorboard, quiet)
        placed, heard = _placed(call, blueprint.settings, listener)
        if isinstance(placed, SlurmJob):
            summary = run_called(placed, call, heard, scout)
        else:
            summary = run_by(
                placed, blueprint, folder, heard, secure, attackers, tensorboard, scout
            )
    return _ended(summary, folder, code)


def resume(
    run: str | Path,
    problem: Brought | str | None = None,
    *,
    rule: type | None = None,
    listener: Listener | None = None,
    quiet: bool = True,
    engine: str = LOCAL,
    **options: Any,
) -> Run:
    """Goes on with a run that was broken off, and waits for it.

    `run` is its directory or its name below runs/, as for `load`. It ends as it would have ended,
    to the bit. A problem or a rule of its own has to be given again. `engine` and its `options` are
    those of `lppa.run`: a run may go on elsewhere than where it began.
    """
    code = None if problem is None and rule is None else OwnCode(problem, rule)
    wanted = make_wanted(0, {"engine": engine, **options})
    return _go_on(find_run(run), code, wanted, listener, quiet)


def _go_on(
    folder: Path,
    code: OwnCode | None,
    wanted: Wanted,
    listener: Listener | None,
    quiet: bool,
) -> Run:
    """Goes on with the run in a folder."""
    past = read_past(folder)
    blueprint = past.blueprint
    wanted = replace(wanted, nodes=blueprint.nodes)
    call = Call(wanted, blueprint.settings, folder, past.attackers, quiet=quiet, begun=True)
    with scouted(code) as scout:
        placed, heard = _placed(call, blueprint.settings, listener)
        if isinstance(placed, SlurmJob):
            summary = run_called(placed, call, heard, scout)
        else:
            summary = run_by(
                placed, blueprint, folder, heard, attackers=past.attackers, scout=scout, past=past
            )
    return _ended(summary, folder, code)


def _placed(
    call: Call, settings: Settings, listener: Listener | None
) -> tuple[Engine | SlurmJob | None, Listener]:
    """What starts the nodes, and what hears of them."""
    placed = make_engine(call.wanted)
    if isinstance(placed, SlurmJob) and listener is not None:
        raise WrongUse(
            "a listener hears nothing of a job of Slurm, which is another process: leave it out, "
            "or call this inside a job"
        )
    return placed, _heard(settings, listener, call.quiet)


def _heard(settings: Settings, listener: Listener | None, quiet: bool) -> Listener:
    """What hears of a run."""
    shown = Silent() if quiet else choose_display(settings.total, quiet=False)
    return shown if listener is None else Listeners(shown, listener)


@contextmanager
def scouted(code: OwnCode | None) -> Iterator[Scout | None]:
    """Who looks at the code of a run, where it brings any; no process is left afterwards."""
    scout = None if code is None else Scout(code)
    try:
        yield scout
    finally:
        if scout is not None:
            scout.close()
        stop_fork_server()


def _ended(summary: Summary, folder: Path, code: OwnCode | None) -> Run:
    """A run that has come to its end."""
    if not summary.ended:
        reason = summary.error or f"the run was {summary.status}"
        raise RunFailed(reason, node=summary.node, round=summary.round)
    return Run(folder, None if code is None else code.problem)


def audit(
    problem: Brought | str | None = None,
    *,
    nodes: int = 5,
    rule: str = "lppa",
    overheard: int | None = None,
    **settings: Any,
) -> AuditDocument:
    """Says before any training what a run with these settings hides from whom, as `lppa audit`.

    The content of a run's `audit.json`: `grade` is open, weak or hidden, `verdict` says why in
    sentences, `advice` what to change, and `pairs` has the noise that is left for each attacker and
    victim. `overheard` is the last round whose messages are overheard, the first being 0.
    Data and problems of one's own are measured first, as at the start of a run.
    """
    code = own_code(problem, rule)
    # Here: whoever has a problem in a program of theirs has PyTorch in it too.
    brought = None if code is None else found(code)
    told = name_settings(settings, rule, None if brought is None else names_of(brought))
    blueprint = make_blueprint(told, nodes, "audit")
    if brought is not None and brought.made is not None:
        blueprint = choose_noise(blueprint, look(told, nodes, blueprint.run_seed, brought.made))
    else:
        blueprint = looked_at(blueprint)
    return audited(case_of(blueprint, overheard))


def own_code(problem: Brought | str | None, rule: str | type) -> OwnCode | None:
    """What a run brings itself; None where all is ours."""
    brought = rule if isinstance(rule, type) or is_spec(rule) else registered(rule)
    return None if problem is None and brought is None else OwnCode(problem, brought)


def name_settings(
    settings: Mapping[str, Any], rule: str | type, names: Mapping[str, str] | None
) -> Settings:
    """The settings of a run with the names of what it brings itself in them."""
    if "dataset" in (names or {}) and ("dataset" in settings or "model" in settings):
        raise WrongUse("a problem brings its own data and network: leave dataset and model out")
    named = {} if isinstance(rule, type) else {"rule": rule}
    return absolute_paths(make_settings({**settings, **named, **(names or {})}))


def registered(name: str) -> type | None:
    """A rule that `@lppa.rule` made known in this process, by its short name."""
    # Not imported: a process that has not done so has registered nothing.
    rules = sys.modules.get("lppa.node.rules")
    known = {} if rules is None else rules.RULES
    update = known[OWN + name].update if OWN + name in known else None
    return update if isinstance(update, type) else None
