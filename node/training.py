"""One client's training, from view to view: the round loop with all that goes beside it.

Evaluates, reports, keeps what is wanted, and holds the state that the client goes on from when
its links are cut or the graph changes. Links and views are handed in; the mathematics is in
`algorithm`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from lppa.node.algorithm import LocalSteps, aggregate
from lppa.node.checkpoint import (
    Checkpoint,
    checkpoints_folder,
    forget_later,
    keeping,
    save,
)
from lppa.node.evaluation import Evaluation
from lppa.node.examples import NOTHING, Examples
from lppa.node.expansion import Expander
from lppa.node.learner import DataLearner, Learner
from lppa.node.memory import peak_bytes
from lppa.node.neighbours import Neighbours
from lppa.node.noise import Injection, NoiseSource, make_noise, own
from lppa.node.record import Record
from lppa.node.robust import Scrutiny
from lppa.node.rules import Rule
from lppa.node.sketch import Sketch
from lppa.node.state import ClientState, Newcomer, NoiseSecrets
from lppa.node.stopwatch import Stopwatch
from lppa.protocol.links import Links
from lppa.protocol.lock import FolderLock
from lppa.protocol.messages import STAGES, Done, Message, Progress
from lppa.protocol.settings import Settings
from lppa.protocol.view import View

log = logging.getLogger("lppa.node")

Report = Callable[[Message], None]
PROGRESS_EVERY = 0.5  # seconds between two words of one client about its progress
PROGRESS_RATE = 50.0  # words a second of all clients together: nobody reads more
MODEL_EVERY = 10.0  # seconds, at least, between two models that are kept on the way


@dataclass(frozen=True)
class Task:
    """What a client is to do: the same in all views of a run.

    `at_round` is called at every boundary between rounds, before anything else.
    """

    settings: Settings
    rule: Rule
    learner: Learner
    device: torch.device
    run_seed: int
    nodes: int
    plan: str
    folder: Path
    report: Report
    lock: FolderLock
    # The folder may have what is left of an earlier try.
    again: bool = False
    at_round: Callable[[int], None] = field(default=lambda t: None)


class Training:
    """A client on its way. `state` is where it goes on from: None before it has begun."""

    def __init__(self, task: Task, since: Checkpoint | None = None) -> None:
        self.task = task
        self.state: ClientState | None = None if since is None else since.state
        self.clock = Stopwatch(None if since is None else since.seconds)
        self.sent = dict({} if since is None else since.sent)
        self.noise_norm = 0.0 if since is None else since.noise_norm
        self.record: Record | None = None
        self.examples = Examples(task.learner, NOTHING if since is None else since.examples)
        self.model_kept = -math.inf
        self.reported = 0.0

    @property
    def round(self) -> int:
        """How many rounds are behind it."""
        return 0 if self.state is None else self.state.t

    @property
    def done(self) -> int:
        """The last round that it has done, −1 before it has begun."""
        return -1 if self.state is None else self.state.t

    def _open(self) -> Record:
        """The node's folder; not before it has met its neighbours, so that nothing is left of a
        node that never began."""
        if self.record is None:
            folder, state = self.task.folder, self.state
            self.task.lock.take()
            goes_on = (0, 0) if self.task.again else None
            self.record = Record(folder, goes_on if state is None else (state.t, state.steps))
            if state is not None:
                forget_later(checkpoints_folder(folder), state.epoch, state.t)
        return self.record

    def run(self, links: Links, view: View) -> None:
        """Trains in a view of the graph to the end; an exception leaves the last whole round."""
        task, me, record = self.task, links.around.me, self._open()
        settings, learner = task.settings, task.learner
        links.sent.update(self.sent)
        scrutiny = Scrutiny(me, lambda t: settings.evaluated(t + 1), settings.robust == "clip")
        row = view.places[me].row(me)
        neighbours = Neighbours(links, row, task.device, self.clock, scrutiny)
        neighbours.looked_at = lambda t: t == view.first_round and bool(view.newcomers)
        log.info("node %d: %d parameters on %s", me, learner.size, task.device)
        if settings.seed is not None and task.rule.noise != "none":
            log.warning("the noise is predictable: it is drawn from --seed %d", settings.seed)
        if settings.reveal_batches and isinstance(learner, DataLearner):
            log.warning("the batches of this node are written to %s", task.folder)
            learner.on_batch = record.batch
        neighbours.on_stage = self._stage
        begin = self._begin(view, me)
        known = begin.secrets if isinstance(begin, ClientState) else NoiseSecrets()
        if isinstance(begin, ClientState) and begin.epoch != view.epoch:
            # Of another view: its noise was for other neighbours, and is not used again.
            known = NoiseSecrets()
        inject = make_injection(task, neighbours, view, known)
        inject.norm = self.noise_norm
        loop = aggregate(
            task.rule.update(),
            neighbours,
            learner,
            inject,
            self._steps(),
            settings.rounds,
            settings.finishing,
            settings.mixing == "adapt-then-combine",
            begin,
        )
        # Vectors that it holds are as large as the model.
        del begin
        sketch = Sketch(learner.size, task.run_seed)
        watch = Evaluation(settings, learner, inject, neighbours, sketch, self.examples)
        try:
            for now in loop:
                self.state = now
                task.at_round(now.t)
                if now.t == settings.total:
                    # Nobody else looks at what is not sent any more.
                    neighbours.check_finite(now.vectors, now.t)
                if watch.due(now.t):
                    metrics = watch(now)
                    record.metrics({"node": me, "round": now.t, **metrics.values})
                    task.report(metrics)
                else:
                    watch.notice(now)
                    self._progress(now.t)
                self.noise_norm = inject.norm
                self._keep(now, links, record, view)
        finally:
            self.sent = dict(links.sent)

    def _progress(self, t: int, within: tuple[int, ...] = ()) -> None:
        """Says now and then how far it is; at once, where there is more to hide than before."""
        often = max(PROGRESS_EVERY, self.task.nodes / PROGRESS_RATE)
        if self.examples.grown or time.monotonic() - self.reported > often:
            self.reported = time.monotonic()
            self.task.report(Progress(t, within, self.examples.tell()))

    def _stage(self, stage: str, share: float) -> None:
        """With a large model rounds are long: how far it is within one."""
        self._progress(self.round, (STAGES.index(stage), int(100 * share)))

    def finish(self) -> None:
        """Keeps the results and says that it is done."""
        final, record = self.state, self._open()
        assert final is not None, "a run has at least one round"
        record.tensors("model.pt", self.task.learner.weights(final.theta, final.steps))
        record.tensors("state.pt", dict(final.vectors))
        values = {"seconds": self.clock.split(), "bytes": dict(self.sent), "peak": peak_bytes()}
        self.task.report(Done(final.t, values))
        log.info("done after round %d", final.t)

    def close(self) -> None:
        """Lets go of the files."""
        if self.record is not None:
            self.record.close()

    def _begin(self, view: View, me: int) -> ClientState | Newcomer | None:
        """Where the round loop begins in a view."""
        if self.state is not None:
            later = max(self.state.t, view.first_round)
            return replace(self.state, t=later)
        if me not in view.newcomers:
            return None
        count = self._steps().count
        hosts = tuple(j for j in view.places[me].inputs if j not in view.newcomers)
        return Newcomer(view.first_round, view.first_round * count, hosts)

    def _steps(self) -> LocalSteps:
        settings, count = self.task.settings, self.task.settings.local_steps
        number = self.task.learner.steps_per_epoch if count == "epoch" else int(count)
        return LocalSteps(number, settings.step, settings.momentum)

    def _keep(self, now: ClientState, links: Links, record: Record, view: View) -> None:
        """Writes a checkpoint where one is due."""
        settings, task = self.task.settings, self.task
        every, last = settings.checkpoint_every, settings.total
        # After a view's first round too: what noise was drawn must not be forgotten once used.
        if not every or not (now.t % every == 0 or now.t in (view.first_round + 1, last)):
            return
        with self.clock("checkpoint"):
            seconds, sent = self.clock.split(), dict(links.sent)
            me = links.around.me
            about = (self.noise_norm, me, self.examples.sizes)
            checkpoint = Checkpoint(now, task.plan, seconds, sent, *about)
            keep = keeping(task.nodes, every, task.learner.size)
            save(checkpoints_folder(task.folder), checkpoint, keep)
            # The state is what a run goes on from; the model is for people, who look less often.
            if time.monotonic() - self.model_kept >= MODEL_EVERY:
                self.model_kept = time.monotonic()
                record.tensors("model.pt", task.learner.weights(now.theta, now.steps))


def make_injection(
    task: Task, neighbours: Neighbours, view: View, known: NoiseSecrets
) -> Injection:
    """The noise that the settings ask for; seeds that are `known` are not drawn again."""
    settings = task.settings

    def source(beta: float, label: str) -> NoiseSource:
        return NoiseSource(
            Expander(settings.noise, beta, task.learner.size),
            getattr(torch, settings.dtype),
            task.device,
            neighbours.me,
            settings.seed,
            label,
            neighbours.epoch,
            {to: seed for (what, to), seed in known.drawn.items() if what == label},
        )

    shared, alone = source(float(settings.beta), "edge"), source(settings.beta_own, "own")
    draw = make_noise(task.rule.noise, settings.noise_exchange, shared, neighbours, known.told)
    # Independent noise on top is of the kind that dp adds, on a scale of its own.
    on_top = own(alone, neighbours) if settings.beta_own else None
    due = partial(noise_due, settings, view)
    inject = Injection(draw, due, on_top, (shared, alone), neighbours.spans)
    inject.on_stage = neighbours.on_stage
    return inject


def noise_due(settings: Settings, view: View, t: int) -> bool:
    """Whether noise enters in a round; a view begins with its own: what came before is gone."""
    return t == view.first_round or settings.noisy(t)
