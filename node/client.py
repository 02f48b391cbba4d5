"""One client from start to end: joins the run, trains, reports, and keeps its results.

The mathematics is in `algorithm`; this module puts its parts together from a plan.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lppa.node.algorithm import Round, aggregate
from lppa.node.device import choose_device
from lppa.node.expansion import Expander
from lppa.node.join import join
from lppa.node.learner import DataLearner, Learner, make_learner
from lppa.node.log import LogWriter, log_path
from lppa.node.memory import proportional_bytes
from lppa.node.neighbours import Neighbours
from lppa.node.noise import Injection, NoiseSource, dp, make_rule
from lppa.node.record import Record
from lppa.node.sketch import Sketch
from lppa.node.stopwatch import Stopwatch
from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR, encode
from lppa.protocol.errors import LppaError, RunFailed
from lppa.protocol.links import Links, Neighbourhood, Stopped
from lppa.protocol.messages import Done, Failed, Message, Metrics, Plan, Progress
from lppa.protocol.network import NetworkLinks
from lppa.protocol.settings import Settings, make_settings
from lppa.protocol.sockets import FAREWELL, Wire

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
) -> Path:
    """Takes part in a run as node `me`; returns the run's directory, or raises LppaError.

    With `record` it keeps all that it sends and receives, for attacks.
    """
    torch.set_num_threads(1)
    wire = Wire(book, me, secret)
    linger = FAREWELL
    try:
        inbox = wire.inbox()
        coordinator = wire.outbox(COORDINATOR, timeout)
        plan = join(wire, coordinator, timeout)

        def report(message: Message) -> None:
            # Never waits: training does not depend on the coordinator.
            coordinator.send(encode(message, book.run, me), wait=False)

        with reported_failures(report) as at:
            settings = make_settings(
                plan.settings, {"data_dir": None if data_dir is None else str(data_dir)}
            )
            device = torch.device(choose_device(settings.device, me, torch.cuda.device_count()))
            learner = make_learner(settings, me, plan.nodes, plan.seed, device)
            links = NetworkLinks(around(plan, me, settings, learner), wire, inbox, coordinator)
            run_folder = out or Path("runs") / plan.name
            log_file = log_path(run_folder, me) if record else None
            # From the first message on: a quick neighbour's noise comes before the handshake ends.
            with recording(links, log_file, book.run, plan):
                links.handshake(plan.fingerprint)
                folder = run_folder / "nodes" / str(me)
                train(plan, settings, learner, links, device, folder, report, at)
            linger = settings.timeout
        return run_folder
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

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, Stopped):
            return
        waited_for, at = -1, self.round
        if isinstance(error, RunFailed):
            waited_for = -1 if error.node is None else error.node
            at = self.round if error.round is None else error.round
        reason = str(error) if isinstance(error, LppaError) else f"{kind.__name__}: {error}"
        if isinstance(error, KeyboardInterrupt):
            reason = "it was interrupted"
        log.error("stopping in round %d: %s", at, reason)
        self.report(Failed(at, reason, waited_for))


def around(plan: Plan, me: int, settings: Settings, learner: Learner) -> Neighbourhood:
    """The neighbourhood that a plan describes, after checking that its row of W is one."""
    if len(plan.inputs) != len(plan.weights) or me not in plan.inputs:
        raise RunFailed("the plan's row of W does not fit its neighbours")
    if min(plan.weights) < 0 or not math.isclose(sum(plan.weights), 1.0, abs_tol=1e-9):
        raise RunFailed(f"the plan's row of W sums to {sum(plan.weights)!r}, not to 1")
    return Neighbourhood(
        me=me,
        nodes=plan.nodes,
        inputs=tuple(j for j in plan.inputs if j != me),
        outputs=plan.outputs,
        dtype=settings.dtype,
        size=learner.size,
        timeout=settings.timeout,
        latency=settings.latency,
    )


def train(
    plan: Plan,
    settings: Settings,
    learner: Learner,
    links: Links,
    device: torch.device,
    folder: Path,
    report: Report,
    at: reported_failures,
) -> Round:
    """Runs Algorithm 1 over the links, evaluating and reporting on the way."""
    record, clock, me = Record(folder), Stopwatch(), links.around.me
    try:
        log.info("node %d: %d parameters on %s", me, learner.size, device)
        if settings.seed is not None and settings.rule != "dsgt":
            log.warning("the noise is predictable: it is drawn from --seed %d", settings.seed)
        if settings.reveal_batches and isinstance(learner, DataLearner):
            log.warning("the batches of this node are written to %s", folder)
            learner.on_batch = record.batch
        neighbours = Neighbours(links, plan.inputs, device, clock)
        inject = make_injection(settings, learner.size, neighbours)
        steps = settings.local_steps
        loop = aggregate(
            neighbours,
            learner,
            inject,
            plan.weights,
            settings.step,
            settings.rounds,
            learner.steps_per_epoch if steps == "epoch" else steps,
            settings.finish,
            settings.mixing == "adapt-then-combine",
        )
        watch = Evaluation(settings, learner, inject, links, clock, Sketch(learner.size, plan.seed))
        final = follow(loop, watch, record, report, at)
        record.tensors("state.pt", {"theta": final.theta, "gamma": final.gamma, "g": final.g})
        report(Done(final.t, {"seconds": clock.split(), "bytes": dict(links.sent)}))
        log.info("done after round %d", final.t)
        return final
    finally:
        record.close()


def make_injection(settings: Settings, size: int, neighbours: Neighbours) -> Injection:
    """The noise that the settings ask for."""

    def source(beta: float, label: str) -> NoiseSource:
        return NoiseSource(
            Expander(settings.noise, beta, size),
            getattr(torch, settings.dtype),
            neighbours.device,
            neighbours.me,
            settings.seed,
            label,
        )

    shared = source(settings.beta, "edge")
    rule = make_rule(settings.rule, settings.noise_exchange, shared, neighbours)
    # Independent noise on top is what dp adds, on a scale of its own.
    own = dp(source(settings.beta_own, "own"), neighbours) if settings.beta_own else None
    return Injection(rule, settings.noisy, own)


class Evaluation:
    """Decides when a model is tested, and gathers the figures of that moment."""

    def __init__(
        self,
        settings: Settings,
        learner: Learner,
        inject: Injection,
        links: Links,
        clock: Stopwatch,
        sketch: Sketch,
    ) -> None:
        self.every = settings.eval_every
        self.ends = (settings.rounds, settings.rounds + settings.finish)
        self.learner = learner
        self.inject = inject
        self.links = links
        self.clock = clock
        self.sketch = sketch

    def due(self, t: int) -> bool:
        """Every so many rounds, and always at the end."""
        return t % self.every == 0 or t in self.ends

    def is_last(self, t: int) -> bool:
        """Whether θ after this round is the model that the client ends with."""
        return t == self.ends[-1]

    def __call__(self, now: Round) -> Metrics:
        with self.clock("eval"):
            g_norm = float(now.g.double().norm())
            tested = self.learner.evaluate(now.theta)
            values = {
                # JSON has no NaN: a loss that overflowed is not a number to report.
                **{k: v if v is None or math.isfinite(v) else None for k, v in tested.items()},
                "theta_norm": float(now.theta.double().norm()),
                "gradient_norm": g_norm,
                "gamma_norm": float(now.gamma.double().norm()),
                "noise_norm": self.inject.norm,
                "noise_to_gradient": self.inject.norm / g_norm if g_norm else None,
            }
            theta, excess = self.sketch(now.theta), self.sketch(now.gamma - now.g)
        values["seconds"] = self.clock.split()
        values["bytes"] = {"noise": 0, "state": 0, **self.links.sent}
        values["dropped"] = dict(self.links.dropped)
        values["memory"] = proportional_bytes()
        return Metrics(now.t, values, theta, excess)


def follow(
    loop: Any, watch: Evaluation, record: Record, report: Report, at: reported_failures
) -> Round:
    """Drives the round loop to its end; evaluates each model right after it was combined."""
    reported = 0.0
    while True:
        try:
            now = next(loop)
        except StopIteration as end:
            return end.value
        at.round = now.t
        if watch.due(now.t):
            metrics = watch(now)
            record.metrics({"node": watch.links.around.me, "round": now.t, **metrics.values})
            report(metrics)
        elif time.monotonic() - reported > PROGRESS_EVERY:
            reported = time.monotonic()
            report(Progress(now.t))
        if watch.is_last(now.t):
            record.tensors("model.pt", watch.learner.weights(now.theta))
