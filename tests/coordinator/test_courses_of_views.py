"""Whatever is lost, comes back or is late, changes of the graph end, and end truly."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from simulated import TIMEOUT, World


class Changes(RuleBasedStateMachine):
    """Nodes crash, come back, are slow and finish; messages are lost and repeated."""

    world: World | None = None
    harm = 0  # so many nodes may still be hurt: a run without nodes shows little

    @initialize(
        nodes=st.integers(2, 5),
        topology=st.sampled_from(["full", "ring"]),
        rounds=st.integers(1, 12),
        begun=st.integers(0, 5),
        replaced=st.booleans(),
    )
    def begin(self, nodes, topology, rounds, begun, replaced):
        self.world, self.harm = World(nodes, topology, rounds), 4
        for _ in range(begun):
            self.world.everybody_goes_on()
        if replaced and self.world.membership.active and begun:
            # What comes next meets a node that is on its way into the graph.
            self.world.replace(self.world.known[min(self.world.membership.active)])
            self.world.hand_out_view()

    def one_of(self, data, having=lambda process: True):
        found = [p for p in self.world.processes() if having(p)]
        return data.draw(st.sampled_from(found)) if found else None

    @rule(data=st.data())
    def a_node_hears(self, data):
        process = self.one_of(data, lambda p: p.to)
        if process:
            self.world.step(process)

    @rule(data=st.data())
    def the_coordinator_hears(self, data):
        process = self.one_of(data, lambda p: p.back)
        if process:
            self.world.hear(process)

    @rule(data=st.data())
    def a_node_works(self, data):
        process = self.one_of(data)
        if process:
            self.world.work(process)

    @rule()
    def all_goes_well_for_a_moment(self):
        self.world.everybody_goes_on()

    @rule(nodes=st.lists(st.integers(0, 4), min_size=1, max_size=16))
    def nodes_go_on_while_nobody_hears_them(self, nodes):
        self.world.send_due()
        for node in nodes:
            self.world.nodes_go_on(lambda process, node=node: process.me == node)

    @rule(seconds=st.sampled_from([0.5, 1.0, 1.0, 1.0, TIMEOUT + 1]))
    def time_passes(self, seconds):
        self.world.pass_time(seconds)

    @rule(data=st.data(), out=st.booleans())
    def a_message_is_lost(self, data, out):
        process = self.one_of(data, lambda p: p.to if out else p.back)
        if process:
            (process.to if out else process.back).pop(0)

    @rule(data=st.data(), out=st.booleans())
    def a_message_comes_twice(self, data, out):
        process = self.one_of(data, lambda p: p.to if out else p.back)
        if process:
            queue = process.to if out else process.back
            queue.insert(0, queue[0])

    @precondition(lambda self: self.harm)
    @rule(data=st.data())
    def a_node_crashes(self, data):
        self.harm -= 1
        process = self.one_of(data)
        if process:
            self.world.crash(process)

    @precondition(lambda self: self.world and self.world.dead())
    @rule(data=st.data())
    def a_death_is_noticed(self, data):
        self.world.lose(data.draw(st.sampled_from(self.world.dead())))

    @precondition(lambda self: self.harm)
    @rule(data=st.data())
    def a_node_is_dropped_though_it_lives(self, data):
        self.harm -= 1
        world = self.world
        live = [i for i in sorted(world.membership.active) if world.known[i].alive]
        if live and not world.over:
            world.lose(data.draw(st.sampled_from(live)))

    @rule(data=st.data())
    def a_node_comes_back(self, data):
        gone = set(self.world.known) - {p.me for p in self.world.processes()}
        gone -= self.world.membership.done
        if gone:
            self.world.come_back(data.draw(st.sampled_from(sorted(gone))))

    @precondition(lambda self: self.harm)
    @rule(data=st.data())
    def a_node_dies_and_is_back_at_once(self, data):
        self.harm -= 1
        process = self.one_of(data, lambda p: p.me in self.world.membership.active)
        if process and not self.world.over:
            self.world.replace(process)

    @rule(data=st.data())
    def a_node_is_slow(self, data):
        process = self.one_of(data)
        if process:
            process.slow = True

    def teardown(self):
        if self.world is not None:
            ends(self.world)


def ends(world):
    """In a calm world the run ends soon, or it has been said why it does not, and that is so."""
    world.calm_down(seconds=round(3 * TIMEOUT))
    assert world.over, world.why_not()
    about, reason = world.membership, str(world.failed)
    if world.failed is None:
        assert about.members, "somebody has come to the end"
        return
    if "all nodes are lost" in reason:
        assert not about.members
    elif "has a model" in reason:
        assert not about.done & about.members, "those who are done have one"
        settled = (world.known[i] for i in about.members - about.newcomers)
        assert all(process.t < 0 for process in settled if process.alive), reason
    elif "falls apart" in reason:
        assert not about.done & about.members, "all have only to end"
    else:
        assert "did not meet the others" in reason


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=150, stateful_step_count=40)


def wander(world, chance, steps):
    """A course that mostly goes well: what is rare in `Changes` is common here."""
    harm = 3
    for _ in range(steps):
        alive = world.processes()
        if world.over or not alive:
            return
        process, what = chance.choice(alive), chance.random()
        if what < 0.35:
            world.nodes_hear(process)
            world.work(process)
        elif what < 0.55:
            world.work(process)
        elif what < 0.8:
            for _ in range(len(process.back)):
                world.hear(process)
        elif what < 0.9:
            world.pass_time(chance.choice([0.3, 1.0]))
        elif what < 0.94:
            queue = chance.choice([process.to, process.back])
            del queue[: chance.randint(0, 2)]
        elif what < 0.96 and process.to:
            process.to.append(chance.choice(process.to))
        elif harm and process.me in world.membership.active:
            harm -= 1
            if what < 0.98:
                world.replace(process)
            else:
                world.crash(process)
                world.lose(process.me)


@pytest.mark.parametrize("topology", ["full", "ring"])
def test_thousands_of_courses_come_to_an_end_that_is_true(topology):
    for seed in range(1500):
        chance = random.Random(f"{topology} {seed}")
        world = World(chance.randint(2, 5), topology, chance.randint(1, 12))
        try:
            wander(world, chance, 150)
            ends(world)
        except AssertionError as wrong:
            raise AssertionError(f"course {seed}: {wrong}") from wrong
