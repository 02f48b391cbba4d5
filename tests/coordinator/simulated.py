"""A run in one process, for tests of `membership`: nodes as in `node/client.py`, links that lose.

Of a node there is only what matters to who takes part: the epoch it is in, the rounds it has done,
and whether it has a model. Connections keep the order; each may lose or repeat any message. A
process that comes back has a connection of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import count

from lppa.coordinator.membership import Membership
from lppa.coordinator.plan import Blueprint, draw_blueprint
from lppa.coordinator.views import first_view, make_view
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import Done, Entered, Halt, Halted, NextView, Stop
from lppa.protocol.settings import make_settings
from lppa.protocol.view import View, read_view

TIMEOUT = 20.0


@cache
def blueprint_of(nodes: int, topology: str) -> Blueprint:
    settings = make_settings({"topology": topology, "weights": "random", "seed": 1})
    return draw_blueprint(settings, nodes, "simulated")


@dataclass
class Process:
    """One process of a node. Phases: joining, entering, running, halted, leaving, gone."""

    me: int
    number: int
    phase: str = "joining"
    view: View | None = None
    epoch: int = -1
    t: int = -1  # rounds done, −1 without a model
    next: int = 0  # the round that it works on
    slow: bool = False
    told: bool = False  # the coordinator has heard that it is done
    to: list = field(default_factory=list)
    back: list = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.phase != "gone"


class World:
    """A coordinator, and what has become of its nodes."""

    def __init__(self, nodes: int, topology: str, rounds: int) -> None:
        self.blueprint = blueprint_of(nodes, topology)
        self.rounds, self.now = rounds, 100.0
        self.failed: RunFailed | None = None
        self.views: dict[int, View] = {}
        self.epochs: list[int] = [0]
        self.entries: dict[tuple[int, int], int] = {}
        self.said: dict[tuple[int, int], set[int]] = defaultdict(set)  # rounds by (epoch, node)
        self.numbers = count()
        view = first_view(self.blueprint)
        self.membership = Membership(
            view, self.make_view, "plan", TIMEOUT, self.note, 0, end_round=rounds
        )
        self.views[0] = view
        self.known = {i: Process(i, next(self.numbers)) for i in range(nodes)}
        self.waiting: dict[int, Process] = {}
        for process in self.known.values():
            self.enter(process, view)

    # --- what must always hold ------------------------------------------------------------------

    def note(self, event) -> None:
        if event.kind == "halt":
            assert event.epoch > self.epochs[-1], "an epoch is used twice"
            self.epochs.append(event.epoch)
        elif event.kind == "view":
            self.check(self.membership.view)

    def check(self, view: View) -> None:
        """A view is made when all have stopped, and those with a model say where it begins."""
        assert view.epoch == self.epochs[-1], "a view of an epoch that is over"
        assert view.epoch not in self.views, "two views in one epoch"
        self.views[view.epoch] = view
        rounds = []
        for i in view.members:
            process = self.known[i]
            if i in view.newcomers:
                assert process.t < 0, f"node {i} has a model, and begins from its neighbours'"
            elif process.alive:
                stands = (process.phase, process.epoch) == ("halted", view.epoch)
                assert stands or process.phase == "joining", f"node {i} goes on"
                # Where nobody has done a round, all begin once more from their common start.
                again = view.first_round == 0
                assert process.t >= 0 or again, f"node {i} has no model, and counts as with one"
                rounds.append(max(process.t, 0))
        if self.membership.done & self.membership.members:
            assert view.first_round == self.rounds
            return
        assert all(t <= view.first_round for t in rounds), "a round would be done again"
        if len(rounds) == len(view.members) - len(view.newcomers):
            assert view.first_round == max(rounds), "a round is left out"

    def make_view(self, members, epoch, first_round, newcomers) -> View:
        return make_view(self.blueprint, members, epoch, first_round, newcomers)

    # --- the coordinator ------------------------------------------------------------------------

    def lead(self, action) -> None:
        """What the coordinator does may end the run."""
        if self.failed is None:
            try:
                action()
            except RunFailed as reason:
                self.failed = reason

    def send_due(self) -> None:
        def send() -> None:
            for node, message in self.membership.due(self.now):
                self.known[node].to.append(message)

        self.lead(send)

    def lose(self, node: int) -> None:
        self.known[node].to.append(Stop("the others go on without it"))
        self.lead(lambda: self.membership.lose(node, "is lost", self.now))

    def hear(self, process: Process) -> None:
        """The coordinator takes the next message of a process."""
        message = process.back.pop(0)
        if message == "hello":
            self.greeted(process)
            return
        if self.known[process.me] is not process or self.failed:
            return
        membership, node = self.membership, process.me
        if node not in membership.members:
            process.to.append(Stop("the others went on without it"))
        elif isinstance(message, Halted):
            self.lead(lambda: membership.halted(node, message.epoch, message.done, self.now))
        elif isinstance(message, Entered):
            self.lead(lambda: membership.has_entered(node, message.epoch))
        elif isinstance(message, Done):
            self.lead(lambda: membership.finished(node, self.now))
            process.to.append("taken")

    def greeted(self, process: Process) -> None:
        node, membership = process.me, self.membership
        if self.failed or not membership.active:
            return
        if self.known[node] is not process:
            if node in membership.members:
                return  # the one before it may be dead, and that not known yet
            self.known[node] = process
        if node in membership.dismissed:
            process.to.append(Stop("too late"))
            return
        if node not in membership.members:
            self.lead(lambda: membership.come(node, self.now))
        if self.failed is not None or node not in membership.members:
            return
        if membership.phase != "halting" or node not in membership.newcomers:
            process.to.append(("plan", membership.view))

    # --- the nodes ------------------------------------------------------------------------------

    def step(self, process: Process) -> None:
        """A node takes the next message of the coordinator."""
        message = process.to.pop(0)
        if not process.alive:
            return
        if isinstance(message, Stop):
            process.phase = "gone"
        elif message == "taken":
            process.told = True
        elif isinstance(message, tuple):
            view = message[1]
            joining = process.phase == "joining" and view.epoch >= process.epoch
            if joining and process.me in view.members:
                self.enter(process, view)
        elif isinstance(message, Halt) and process.phase == "joining":
            process.epoch = max(process.epoch, message.epoch)
            process.back.append(Halted(process.epoch, -1))
        elif isinstance(message, Halt | NextView) and process.phase in ("entering", "running"):
            if message.epoch > process.epoch:
                process.phase, process.epoch = "halted", message.epoch
                process.back.append(Halted(process.epoch, process.t))
            elif isinstance(message, NextView) and process.phase == "running":
                process.back.append(Entered(process.epoch))
        elif isinstance(message, Halt | NextView) and process.phase == "halted":
            if message.epoch > process.epoch:
                process.epoch = message.epoch
                process.back.append(Halted(process.epoch, process.t))
            if isinstance(message, NextView) and message.epoch == process.epoch:
                told = read_view(message.view)
                assert told == self.views[message.epoch].told_to(process.me)
                self.enter(process, told)

    def enter(self, process: Process, view: View) -> None:
        owner = self.entries.setdefault((process.me, view.epoch), process.number)
        assert owner == process.number, "two processes of a node in one view: a pad twice"
        process.view, process.epoch, process.phase = view, view.epoch, "entering"
        if view.first_round >= self.rounds:
            assert process.t >= 0, "a node without a model comes after the last round"
            self.finish(process)
            return
        if process.t < 0:
            first = 0 if process.me not in view.newcomers else view.first_round
            process.next = first
        else:
            process.next = max(process.t, view.first_round)

    def finish(self, process: Process) -> None:
        process.phase = "leaving"
        process.back.append(Done(self.rounds))

    def work(self, process: Process) -> None:
        """A node goes on, if its neighbours let it: meets them, or does a round."""
        view = process.view
        if process.phase not in ("entering", "running") or process.slow or view is None:
            return
        place = self.views[view.epoch].places[process.me]
        if process.phase == "entering":
            around = {*place.inputs, *place.outputs}
            if all((j, view.epoch) in self.entries for j in around):
                process.phase = "running"
                process.back.append(Entered(view.epoch))
                self.said[view.epoch, process.me].add(process.next)
        elif all(process.next in self.said[view.epoch, j] for j in place.inputs):
            process.t = process.next = process.next + 1
            if process.next < self.rounds:
                self.said[view.epoch, process.me].add(process.next)
            else:
                self.finish(process)

    def pass_time(self, seconds: float = 1.0) -> None:
        """Everybody says again what was not answered."""
        self.now += seconds
        self.send_due()
        for process in self.processes():
            if process.phase == "joining":
                process.back.append("hello")
            elif process.phase == "halted":
                process.back.append(Halted(process.epoch, process.t))
            elif process.phase == "leaving":
                if process.told:
                    process.phase = "gone"
                else:
                    process.back.append(Done(self.rounds))

    # --- what goes wrong ------------------------------------------------------------------------

    def processes(self) -> list[Process]:
        newer = [p for p in self.waiting.values() if p is not self.known[p.me]]
        return [p for p in (*self.known.values(), *newer) if p.alive]

    def crash(self, process: Process) -> None:
        process.phase = "gone"

    def come_back(self, node: int) -> None:
        self.waiting[node] = Process(node, next(self.numbers))

    def replace(self, process: Process) -> None:
        """It dies, which is noticed, and a new process takes its place."""
        self.crash(process)
        self.lose(process.me)
        self.come_back(process.me)
        self.greeted(self.waiting[process.me])

    def hand_out_view(self) -> None:
        """Everybody halts, and the next view is on its way to all; nobody has answered yet."""
        for _ in range(2):
            self.pass_time()
            self.nodes_hear()
            for process in self.processes():
                while process.back:
                    self.hear(process)

    def dead(self) -> list[int]:
        """Members whose process is gone before it was done."""
        members = self.membership.members - self.membership.done
        return [i for i in sorted(members) if not self.known[i].alive]

    # --- the end --------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        return self.failed is not None or not self.membership.active

    def calm_down(self, seconds: int) -> None:
        """From here on nothing is lost, nobody dies, and the dead are noticed."""
        for _ in range(seconds):
            if self.over:
                return
            for node in self.dead():
                self.lose(node)
            for _ in range(2 * self.rounds):
                self.everybody_goes_on()
            self.pass_time()

    def everybody_goes_on(self) -> None:
        self.nodes_go_on()
        for process in self.processes():
            while process.back:
                self.hear(process)

    def nodes_go_on(self, which=lambda process: True) -> None:
        for process in filter(which, self.processes()):
            process.slow = False
            self.nodes_hear(process)
            self.work(process)

    def nodes_hear(self, *whom: Process) -> None:
        for process in whom or self.processes():
            while process.to and process.alive:
                self.step(process)

    def why_not(self) -> str:
        states = [(p.me, p.phase, p.epoch, p.t, p.next) for p in self.processes()]
        about = self.membership
        return f"{about.phase} {about.last_epoch}, members {about.members}, {states}"
