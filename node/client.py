"""One client from start to end: joins the run, trains, reports, and keeps its results.

The mathematics is in `algorithm`; this module puts its parts together from a plan.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import torch

from lppa.models.problem import Problem
from lppa.node.algorithm import LocalSteps, aggregate
from lppa.node.blame import blame
from lppa.node.device import choose_device
from lppa.node.evaluation import Evaluation
from lppa.node.expansion import Expander
from lppa.node.join import join
from lppa.node.learner import DataLearner, Learner, make_learner
from lppa.node.log import LogWriter, log_path
from lppa.node.neighbours import Neighbours
from lppa.node.noise import Injection, NoiseSource, make_noise, own
from lppa.node.policy import Policy, run_folder
from lppa.node.record import Record
from lppa.node.robust import Scrutiny
from lppa.node.rules import Rule, find_rule
from lppa.node.sketch import Sketch
from lppa.node.state import ClientState
from lppa.node.stopwatch import Stopwatch
from lppa.node.updates import Update
from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR, encode
from lppa.protocol.errors import LppaError, RunFailed, WrongUse
from lppa.protocol.fingerprint import plan_fingerprint
from lppa.protocol.links import Links, Neighbourhood, Stopped
from lppa.protocol.messages import Done, Failed, Message, Plan, Progress
from lppa.protocol.network import NetworkLinks
from lppa.protocol.settings import OWN, Settings
from lppa.protocol.sockets import FAREWELL, Wire
from lppa.protocol.view import View, read_view

log = logging.getLogger("lppa.node")

Report = Callable[[Message], None]
PROGRESS_EVERY = 0.2


def run_node(
    book: AddressBook,
    me: int,
    secret: str | None,
    out: Path | None,
    timeout: float,
    data_dir: Path | None = None,
    record: bool = False,
    problem: Problem | None = None,
    policy: Policy | None = None,
) -> Path:
    """Takes part in a run as node `me`; returns the run's directory, or raises LppaError.

    With `record` it keeps all that it sends and receives, for attacks. `problem` is what this node
    learns where the run has a problem of its own: code never comes from the coordinator. `policy`
    is what this node insists on.
    """
    torch.set_num_threads(1)
    wire = Wire(book, me, secret)
    linger = FAREWELL
    try:
        inbox = wire.inbox()
        coordinator = wire.outbox(COORDINATOR, timeout)
        endpoint = inbox.endpoint if inbox.endpoint != book.node(me).endpoint else ""
        plan = join(wire, coordinator, timeout, endpoint)

        def report(message: Message) -> None:
            # Never waits: training does not depend on the coordinator.
            coordinator.send(encode(message, book.run, me), wait=False)

        with reported_failures(report) as at:
            own_folder = {"data_dir": None if data_dir is None else str(data_dir)}
            settings = (policy or Policy()).settings(plan, own_folder)
            folder_of_run = run_folder(out, plan.name)
            device = torch.device(choose_device(settings.device, me, torch.cuda.device_count()))
            view = read_view(plan.view)
            rule = find_rule(settings.rule)
            if settings.dataset.startswith(OWN) and problem is None:
                raise WrongUse(
                    f"this run learns {settings.dataset}, a problem of its own, which has to be "
                    "given to every node: lppa-node --problem FILE.py:NAME"
                )
            learner = make_learner(settings, me, plan.nodes, plan.run_seed, device, problem)
            near = around(view, me, settings, rule.update(), learner.size)
            links = NetworkLinks(near, wire, inbox, coordinator, view.endpoints)
            log_file = log_path(folder_of_run, me) if record else None
            # From the first message on: a quick neighbour's noise comes before the handshake ends.
            with recording(links, log_file, book.run, plan):
                links.handshake(plan_fingerprint(plan))
                folder = folder_of_run / "nodes" / str(me)
                row = view.places[me].row(me)
                clock = Stopwatch()
                scrutiny = Scrutiny(
                    me, lambda t: settings.evaluated(t + 1), settings.robust == "clip"
                )
                neighbours = Neighbours(links, row, device, clock, scrutiny)
                train(settings, rule, learner, neighbours, plan.run_seed, folder, report, at)
            linger = settings.timeout
        return folder_of_run
    finally:
        wire.close(linger)


@contextmanager
def recording(links: Links, path: Path | None, run: str, plan: Plan) -> Iterator[None]:
    """An attacker follows the protocol like anyone else; it only keeps what passes."""
    if path is None:
        yield
        return
    log.info("recording what this node sends and receives to %s", path)
    writer = LogWriter(path, run, links.around.me, plan)
    links.tap = writer
    try:
        yield
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
        self.report(Failed(at, reason, waited_for))


def around(view: View, me: int, settings: Settings, update: Update, size: int) -> Neighbourhood:
    """Who a node talks to by a view, and what an honest message looks like there."""
    if me not in view.places:
        raise RunFailed(f"the coordinator's view has no place for node {me}")
    if settings.finish and "theta" not in update.travels:
        raise WrongUse("--finish averages theta, and by this rule it does not travel")
    sizes = {name: 1 if name in update.scalars else size for name in update.travels}

    def vectors(t: int) -> dict[str, int]:
        return sizes if t < settings.rounds else {"theta": size}

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
    )


def train(
    settings: Settings,
    rule: Rule,
    learner: Learner,
    neighbours: Neighbours,
    run_seed: int,
    folder: Path,
    report: Report,
    at: reported_failures,
) -> None:
    """Runs Algorithm 1 over the links, evaluating and reporting on the way."""
    record, links, me = Record(folder), neighbours.links, neighbours.me
    try:
        log.info("node %d: %d parameters on %s", me, learner.size, neighbours.device)
        if settings.seed is not None and rule.noise != "none":
            log.warning("the noise is predictable: it is drawn from --seed %d", settings.seed)
        if settings.reveal_batches and isinstance(learner, DataLearner):
            log.warning("the batches of this node are written to %s", folder)
            learner.on_batch = record.batch
        inject = make_injection(settings, rule.noise, learner.size, neighbours)
        steps = settings.local_steps
        loop = aggregate(
            rule.update(),
            neighbours,
            learner,
            inject,
            LocalSteps(
                learner.steps_per_epoch if steps == "epoch" else int(steps),
                settings.step,
                settings.momentum,
            ),
            settings.rounds,
            settings.finish,
            settings.mixing == "adapt-then-combine",
        )
        watch = Evaluation(settings, learner, inject, neighbours, Sketch(learner.size, run_seed))
        final = follow(loop, watch, record, report, at)
        record.tensors("state.pt", dict(final.vectors))
        seconds = neighbours.clock.split()
        report(Done(final.t, {"seconds": seconds, "bytes": dict(links.sent)}))
        log.info("done after round %d", final.t)
    finally:
        record.close()


def make_injection(settings: Settings, noise: str, size: int, neighbours: Neighbours) -> Injection:
    """The noise that the settings ask for."""

    def source(beta: float, label: str) -> NoiseSource:
        return NoiseSource(
            Expander(settings.noise, beta, size),
            getattr(torch, settings.dtype),
            neighbours.device,
            neighbours.me,
            settings.seed,
            label,
            neighbours.epoch,
        )

    shared, alone = source(float(settings.beta), "edge"), source(settings.beta_own, "own")
    draw = make_noise(noise, settings.noise_exchange, shared, neighbours)
    # Independent noise on top is of the kind that dp adds, on a scale of its own.
    on_top = own(alone, neighbours) if settings.beta_own else None
    return Injection(draw, settings.noisy, on_top, (shared, alone))


def follow(
    loop: Iterator[ClientState],
    watch: Evaluation,
    record: Record,
    report: Report,
    at: reported_failures,
) -> ClientState:
    """Drives the round loop to its end; evaluates each model right after it was combined."""
    reported = 0.0
    for now in loop:
        at.round = now.t
        if watch.due(now.t):
            metrics = watch(now)
            record.metrics({"node": watch.links.around.me, "round": now.t, **metrics.values})
            report(metrics)
        elif time.monotonic() - reported > PROGRESS_EVERY:
            reported = time.monotonic()
            report(Progress(now.t))
    record.tensors("model.pt", watch.learner.weights(now.theta))
    return now
