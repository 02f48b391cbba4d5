"""A run in one process: each client is a thread, and its links are queues.

The round loop, the data and the noise are those of any other run, and so is every bit of what
comes out (tests compare). For many small runs one after the other or side by side, as experiments
have them: nothing is started, and nothing is copied between processes. There are no attackers, no
faults and nothing to go on from; whoever wants these has `run`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from lppa.coordinator.figures import FAILED, INTERRUPTED, Outcome, Summary
from lppa.coordinator.metrics import Collection, summarise
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.views import first_view
from lppa.coordinator.watch import find_culprit
from lppa.node.client import around, own_folder, reported_failures
from lppa.node.device import choose_device
from lppa.node.learner import Figures, Learner, make_learner
from lppa.node.memory import keep_for_later
from lppa.node.rules import find_rule
from lppa.node.training import Task, Training
from lppa.protocol.codec import Envelope
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.links import LocalLinks, Neighbourhood, Stopped
from lppa.protocol.lock import FolderLock
from lppa.protocol.messages import Done, Failed, Message, Metrics, Progress
from lppa.running.facts import look
from lppa.running.listener import Listener
from lppa.running.prepare import choose_noise
from lppa.running.records import Records

Queues = Sequence[queue.SimpleQueue[Envelope]]
Words = queue.SimpleQueue[tuple[int, Message | None]]
"""What clients report, and None at the end of each."""


class Inside(LocalLinks):
    """Queues that end when the run is over for everybody."""

    def __init__(self, around: Neighbourhood, queues: Queues, over: threading.Event) -> None:
        super().__init__(around, queues)
        self.over = over

    def check_for_stop(self) -> None:
        """Raises Stopped if another client has failed."""
        if self.over.is_set():
            raise Stopped("the run is over")

    def _gather(self, seconds: float, count: int = 0) -> None:
        self.check_for_stop()
        super()._gather(seconds, count)


def run_inside(blueprint: Blueprint, folder: Path, listener: Listener) -> Summary:
    """A run with all clients in this process, and its summary; its directory is like any other."""
    began = time.monotonic()
    facts = look(blueprint.settings, blueprint.nodes, blueprint.run_seed)
    if facts is not None:
        blueprint = choose_noise(blueprint, facts)
    if blueprint.settings.reveal_batches:
        raise WrongUse("clients inside one process do not reveal their batches")
    # There is nobody to go on from a checkpoint.
    settings = replace(blueprint.settings, checkpoint_every=0)
    blueprint = replace(blueprint, settings=settings)
    torch.set_num_threads(1)
    keep_for_later()
    # One after the other, here: not all that opens files of arrays can be done by several threads.
    made = [
        make_learner(settings, me, blueprint.nodes, blueprint.run_seed, device_of(blueprint, me))
        for me in range(blueprint.nodes)
    ]
    turn = threading.Lock()
    learners = [InTurn(learner, turn) for learner in made]
    records = Records(folder, blueprint, listener, tensorboard=False)
    heard, over = Heard(blueprint, records), threading.Event()
    threads: list[threading.Thread] = []
    outcome, start = Outcome(INTERRUPTED, round=0), 0.0
    try:
        records.begin(blueprint, facts)
        start = time.monotonic() - began
        threads = started(blueprint, learners, folder, heard.words, over)
        heard.follow(over)
        sound = records.end(blueprint, heard.collection)
        outcome = Outcome("completed" if sound else "doubtful")
    except RunFailed as error:
        outcome = Outcome(FAILED, str(error), error.node, error.round)
    except KeyboardInterrupt:
        outcome = Outcome(INTERRUPTED, round=min(heard.rounds.values()))
    finally:
        over.set()
        for thread in threads:
            thread.join()
        if not outcome.ended:
            records.break_off(blueprint, heard.collection, outcome.error or "")
        summary = summarise(
            blueprint,
            heard.collection,
            outcome,
            records.protection,
            records.warnings,
            rounds_done=min(heard.rounds.values()),
            total=time.monotonic() - began,
            start=start,
        )
        records.close(summary)
    return summary


class InTurn:
    """A learner among others in one process, of which one at a time computes.

    Threads that compute at once take Python's lock from each other all the time, and throw what
    the others need out of the caches: tests of a model take a quarter less in turn.
    """

    def __init__(self, learner: Learner, turn: threading.Lock) -> None:
        self.learner = learner
        self.turn = turn
        self.size = learner.size
        self.steps_per_epoch = learner.steps_per_epoch
        self.start = learner.start
        self.weights = learner.weights

    @property
    def longest(self) -> float:
        """Of all gradients so far."""
        return self.learner.longest

    def gradient(self, theta: Tensor, step: int) -> Tensor:
        """∇L(θ) on the batch of that step, when it is this one's turn."""
        with self.turn:
            return self.learner.gradient(theta, step)

    def evaluate(self, theta: Tensor, step: int) -> Figures:
        """How good a model is, the same way."""
        with self.turn:
            return self.learner.evaluate(theta, step)

    def example_rms(self, theta: Tensor, step: int) -> float | None:
        """How large single gradients are, the same way."""
        with self.turn:
            return self.learner.example_rms(theta, step)


class Heard:
    """What a run's clients have said so far."""

    def __init__(self, blueprint: Blueprint, records: Records) -> None:
        self.timeout = blueprint.settings.timeout
        self.listener = records.listener
        self.collection = Collection(blueprint.nodes)
        self.rounds = dict.fromkeys(range(blueprint.nodes), 0)
        self.failures: dict[int, Failed] = {}
        self.words: Words = queue.SimpleQueue()

    def follow(self, over: threading.Event) -> None:
        """Returns when all clients have come to their end; raises RunFailed if one did not."""
        running = set(self.rounds)
        while running:
            node, message = self.words.get()
            if message is None:
                running.discard(node)
                continue
            self._take(node, message)
            if self.failures:
                over.set()
        if self.failures:
            left = set(self.rounds) - set(self.failures)
            raise find_culprit(self.failures, {}, self.rounds, left, self.timeout)

    def _take(self, node: int, message: Message) -> None:
        if isinstance(message, Failed):
            self.failures[node] = message
            return
        if isinstance(message, Progress):
            self.collection.notice(message)
        if isinstance(message, Metrics):
            self.listener.metrics(node, message)
            row = self.collection.add(node, message)
            if row is not None:
                self.listener.row(row)
        elif isinstance(message, Done):
            self.listener.done(node, message)
            self.collection.done[node] = message
        if isinstance(message, Progress | Metrics | Done):
            self.rounds[node] = max(self.rounds[node], message.round)
            self.listener.progress(dict(self.rounds), len(self.rounds))


def device_of(blueprint: Blueprint, me: int) -> torch.device:
    """Where a client computes."""
    return torch.device(choose_device(blueprint.settings.device, me, torch.cuda.device_count()))


def started(
    blueprint: Blueprint,
    learners: Sequence[Learner],
    folder: Path,
    words: Words,
    over: threading.Event,
) -> list[threading.Thread]:
    """A thread for each client, under way."""
    queues: Queues = [queue.SimpleQueue() for _ in learners]

    def client(me: int, learner: Learner) -> None:
        try:
            take_part(blueprint, me, learner, own_folder(folder, me), queues, words, over)
        except Exception:
            over.set()  # it was reported, or another one's was
        finally:
            words.put((me, None))

    threads = [
        threading.Thread(target=client, args=place, daemon=True) for place in enumerate(learners)
    ]
    for thread in threads:
        thread.start()
    return threads


def take_part(
    blueprint: Blueprint,
    me: int,
    learner: Learner,
    folder: Path,
    queues: Queues,
    words: Words,
    over: threading.Event,
) -> None:
    """The life of a client; whatever ends it early is reported."""
    torch.set_num_threads(1)
    settings = blueprint.settings

    def report(message: Message) -> None:
        words.put((me, message))

    with reported_failures(report) as at:
        view, rule = first_view(blueprint).told_to(me), find_rule(settings.rule)
        links = Inside(around(view, me, settings, rule, learner.size), queues, over)
        task = Task(
            settings,
            rule,
            learner,
            device_of(blueprint, me),
            blueprint.run_seed,
            blueprint.nodes,
            blueprint.fingerprint,
            folder,
            report,
            FolderLock(folder),
            at_round=partial(setattr, at, "round"),
        )
        training = Training(task)
        try:
            training.run(links, view)
            training.finish()
        finally:
            training.close()
            task.lock.free()
