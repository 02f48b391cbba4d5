"""One client from start to end: joins the run, trains, reports, and keeps its results.

Puts the parts together from a plan, and again whenever the graph changes. The mathematics is in
`algorithm`, training with all that goes beside it in `training`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

import torch

from lppa.models.problem import Problem
from lppa.node.blame import blame
from lppa.node.checkpoint import Checkpoint, checkpoints_folder, load, usable
from lppa.node.device import choose_device
from lppa.node.join import await_view, introduce, join
from lppa.node.learner import make_learner
from lppa.node.log import LogWriter, keep_before, log_path
from lppa.node.memory import keep_for_later, keep_nothing
from lppa.node.policy import Policy, run_folder
from lppa.node.rules import Rule, find_rule
from lppa.node.training import Report, Task, Training, noise_due
from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.errors import LppaError, RunFailed, WrongUse
from lppa.protocol.fingerprint import plan_fingerprint
from lppa.protocol.links import (
    WHOLE,
    Neighbourhood,
    Stopped,
    Tap,
    ViewEnds,
    check_recordable,
    part_of,
)
from lppa.protocol.lock import FolderLock
from lppa.protocol.messages import Failed, Late, Noise, Plan, Seed
from lppa.protocol.network import NetworkLinks
from lppa.protocol.outgoing import Reports
from lppa.protocol.patience import Patience
from lppa.protocol.settings import OWN, Settings
from lppa.protocol.transports import open_wire
from lppa.protocol.view import View, read_view
from lppa.protocol.wire import FAREWELL, Inbox, Wire

log = logging.getLogger("lppa.node")

LONGEST_REASON = 2000
LOOK_EVERY = 0.5  # seconds between two looks at a coordinator that has not heard of the end
SILENT = 5.0  # seconds after which people are told that it is waited for
MOST_CHANGES = 8  # of the graph, one after the other, without a round between them


@dataclass(frozen=True)
class Means:
    """What a node is started with, beside its address book.

    With `record` it keeps all that it sends and receives, for attacks; with `resume` it goes on
    from its checkpoints in `out`. `problem` is what it learns where the run has a problem of its
    own: code never comes from the coordinator. `at_round` is called between rounds. A node that
    has not heard of the coordinator for `orphan_timeout` seconds ends; without one it does not.
    `policy` is what it insists on. `place` is its number among the nodes of its machine, which
    share the GPUs there; without one it is its id. One that is `supervised` is ended by whoever
    started it, and need not leave by itself.
    """

    out: Path | None = None
    timeout: float = 30.0
    data_dir: Path | None = None
    record: bool = False
    resume: bool = False
    problem: Problem | None = None
    at_round: Callable[[int], None] | None = None
    policy: Policy = field(default_factory=Policy)
    orphan_timeout: float | None = None
    place: int | None = None
    supervised: bool = False


def run_node(book: AddressBook, me: int, secret: str | None, means: Means) -> Path:
    """Takes part in a run as node `me`; returns the run's directory, or raises LppaError."""
    torch.set_num_threads(1)
    folder = own_folder(means.out, me)
    lock = FolderLock(folder)
    if means.resume:
        # Before a look at what is there: a process that was left over may still be writing.
        lock.take(means.timeout)
    found = usable(checkpoints_folder(folder), me) if means.resume else {}
    wire = open_wire(book, me, secret)
    try:
        inbox = wire.inbox()
        coordinator = wire.outbox(COORDINATOR, means.timeout)
        endpoint = inbox.endpoint if inbox.endpoint != book.node(me).endpoint else ""
        hello = introduce(wire, endpoint, tuple(found))
        plan = join(wire, coordinator, means.timeout, hello)
        report = Reports(coordinator, book.run, me, hello)
        with last_words(report), reported_failures(report) as at:
            folder_of_run = run_folder(means.out, plan.name)
            if lock.held is None:
                lock = FolderLock(own_folder(folder_of_run, me))
            task = make_task(plan, me, lock, means, report, at)
            since = find_checkpoint(found, plan)
            training = Training(task, since)
            try:
                log_file = log_path(folder_of_run, me) if means.record else None
                with recorder(log_file, book.run, me, plan, since, means.resume) as tap:
                    Seat(wire, inbox, report, plan, training, tap, means).stay()
            finally:
                training.close()
        return folder_of_run
    finally:
        wire.close(FAREWELL)
        lock.free()


@contextmanager
def last_words(report: Reports) -> Iterator[None]:
    """A node that fails says so before it goes, to a coordinator that hears it."""
    try:
        yield
    except Stopped:
        raise
    except BaseException:
        report.settle(FAREWELL)
        raise


class Seat:
    """A client's place in the graph, from view to view."""

    def __init__(
        self,
        wire: Wire,
        inbox: Inbox,
        reports: Reports,
        plan: Plan,
        training: Training,
        tap: Tap | None,
        means: Means,
    ) -> None:
        self.wire = wire
        self.inbox = inbox
        self.reports = reports
        self.plan = plan
        self.training = training
        self.tap = tap
        self.orphan_timeout = means.orphan_timeout
        self.supervised = means.supervised
        self.changes, self.done_before = 0, -1

    def stay(self) -> None:
        """Trains to the end, through all changes of the graph, and keeps the results."""
        task = self.training.task
        plan = self.plan
        last = task.settings.total
        while True:
            view = read_view(plan.view)
            links = self._links(view)
            self.reports.running = (view.epoch, self.training.round)
            try:
                # Where a view begins at the end, everybody keeps what it has.
                if view.first_round < last:
                    place = view.places[self.wire.me]
                    links.handshake(plan_fingerprint(plan), place.edges(self.wire.me))
                    self.training.run(links, view)
                    links.settle()
                self.training.finish()
                self._leave(links)
                return
            except ViewEnds as end:
                links.close()
                self._count_change()
                log.info("the graph changes after round %d", self.training.round)
                given = await_view(
                    self.wire, self.reports, end.epoch, self.training.done, task.settings.timeout
                )
                plan = replace(plan, view=given.view, greeting=given.fingerprint)

    def _count_change(self) -> None:
        """Refuses to show the same gradient under ever new noise, whose mean would tell it."""
        if self.training.done > self.done_before:
            self.changes, self.done_before = 0, self.training.done
        self.changes += 1
        if self.changes > MOST_CHANGES:
            raise RunFailed(
                f"the graph has changed {self.changes} times with no round in between: each time "
                "tells more of one gradient, and this node goes no further"
            ) from None

    def _links(self, view: View) -> NetworkLinks:
        task, me = self.training.task, self.wire.me
        near = around(view, me, task.settings, task.rule, task.learner.size)
        links = NetworkLinks(
            near, self.wire, self.inbox, self.reports, view.endpoints, self.orphan_timeout
        )
        # From the first message on: a quick neighbour's noise comes before the handshake ends.
        links.tap = self.tap
        # Nor is it early for one that is in this client's own round, wherever that begins.
        links.round = max(self.training.round, view.first_round)

        def on_wait(t: int, node: int, waited: float) -> None:
            task.report(Late(view.epoch, t, node, (waited,)))

        links.on_wait = on_wait
        return links

    def _leave(self, links: NetworkLinks) -> None:
        """Waits until the coordinator has heard of the end; who is done needs no other view.

        One that is gone is waited for as long as for anybody. One whose process is there and says
        nothing was stopped: without a limit, as it could not know later how this node has ended.
        """
        # Who is done has nothing left to fail in.
        links.orphan_timeout = None
        gone = Patience(self.training.task.settings.timeout)
        silent = Patience(self.orphan_timeout or math.inf)
        told = False
        while not self.reports.settled and gone.look() > 0 and silent.look() > 0:
            with suppress(ViewEnds):
                links.wait_until(lambda: self.reports.settled, LOOK_EVERY)
            if self.supervised or self.reports.outbox.is_held():
                gone.pause()
            if silent.waited > SILENT and not told:
                told = True
                log.info("done; waiting for the coordinator to hear of that")
        if not self.reports.settled:
            log.warning("the coordinator did not say that it has heard of the end")


def own_folder(run: Path | None, me: int) -> Path:
    """Where a node keeps what is its own in a run's directory."""
    return (run or Path()) / "nodes" / str(me)


def make_task(
    plan: Plan, me: int, lock: FolderLock, means: Means, report: Reports, at: reported_failures
) -> Task:
    """What a plan asks of this node; what it cannot do is refused."""
    data_dir = None if means.data_dir is None else str(means.data_dir)
    settings = means.policy.settings(plan, {"data_dir": data_dir})
    place = me if means.place is None else means.place
    device = torch.device(choose_device(settings.device, place, torch.cuda.device_count()))
    rule = find_rule(settings.rule)
    if settings.dataset.startswith(OWN) and means.problem is None:
        raise WrongUse(
            f"this run learns {settings.dataset}, a problem of its own, which has to be "
            "given to every node: lppa-node --problem FILE.py:NAME"
        )
    learner = make_learner(settings, me, plan.nodes, plan.run_seed, device, means.problem)
    (keep_nothing if learner.size > WHOLE else keep_for_later)()
    if means.record:
        check_recordable(learner.size)

    def at_round(t: int) -> None:
        at.round = t
        report.running = (*report.running[:1], t)
        if means.at_round is not None:
            means.at_round(t)

    return Task(
        settings,
        rule,
        learner,
        device,
        plan.run_seed,
        plan.nodes,
        plan.fingerprint,
        lock.folder,
        report,
        lock,
        means.resume,
        at_round,
    )


def find_checkpoint(found: Mapping[tuple[int, int], Path], plan: Plan) -> Checkpoint | None:
    """The checkpoint that the plan names, None where the run begins at its beginning."""
    if not plan.begin:
        return None
    epoch, round = plan.begin
    if (epoch, round) not in found:
        raise RunFailed(f"this node has no checkpoint of round {round} in epoch {epoch}")
    checkpoint = load(found[epoch, round])
    if checkpoint.plan != plan.fingerprint:
        raise RunFailed(
            f"the checkpoint of round {round} belongs to another run, or to other settings"
        )
    return checkpoint


@contextmanager
def recorder(
    path: Path | None, run: str, me: int, plan: Plan, since: Checkpoint | None, again: bool
) -> Iterator[Tap | None]:
    """An attacker follows the protocol like anyone else; it only keeps what passes.

    One that begins `again` has what is left of an earlier try.
    """
    if path is None:
        yield None
        return
    log.info("recording what this node sends and receives to %s", path)
    if since is not None and path.exists():
        keep_before(path, since.state.t)
        writer = LogWriter(path, run, me)
    else:
        if again:
            path.unlink(missing_ok=True)
        writer = LogWriter(path, run, me, plan)
    try:
        yield writer
    finally:
        writer.close()


class reported_failures:
    """Tells the coordinator why a node stops, whatever the reason; `round` is where it is."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.round = 0

    def __enter__(self) -> reported_failures:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, Stopped):
            return
        waited_for, at = -1, self.round
        if isinstance(error, RunFailed):
            waited_for = -1 if error.node is None else error.node
            at = self.round if error.round is None else error.round
        reason = str(error)
        if not isinstance(error, LppaError):
            reason = blame(error) or f"{type(error).__name__}: {error}"
        if isinstance(error, KeyboardInterrupt):
            reason = "it was interrupted"
        log.error("stopping in round %d: %s", at, reason)
        self.report(Failed(at, reason[:LONGEST_REASON], waited_for))


def around(view: View, me: int, settings: Settings, rule: Rule, size: int) -> Neighbourhood:
    """Who a node talks to by a view, and what an honest message looks like there."""
    update = rule.update()
    if me not in view.places:
        raise RunFailed(f"the coordinator's view has no place for node {me}")
    if settings.finishing and "theta" not in update.travels:
        raise WrongUse("--finish averages theta, and by this rule it does not travel")
    sizes = {name: 1 if name in update.scalars else size for name in update.travels}

    def vectors(t: int) -> dict[str, int]:
        return sizes if t < settings.rounds else {"theta": size}

    def noise(t: int) -> type | None:
        if rule.noise != "difference" or not noise_due(settings, view, t):
            return None
        return Seed if settings.noise_exchange == "seed" else Noise

    place = view.places[me]
    return Neighbourhood(
        me=me,
        nodes=len(view.members),
        inputs=place.inputs,
        outputs=place.outputs,
        dtype=settings.dtype,
        size=size,
        timeout=settings.timeout,
        latency=settings.latency,
        epoch=view.epoch,
        vectors=vectors,
        waits_on=settings.on_failure == "continue",
        noise=noise,
        part=part_of(size),
    )
