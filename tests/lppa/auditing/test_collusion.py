"""The search for the smallest colluding sets: right where it ends, honest where it is cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import make_schedule

from lppa.auditing import collusion
from lppa.auditing.collusion import BUDGET, neighbours, smallest_sets
from lppa.auditing.exposure import Exposure, exposures
from lppa.coordinator.sinkhorn import sinkhorn


def schedule_of(support, **options):
    """A schedule over a graph; `support[i, j]` says whether i hears j."""
    given = {"rule": "dp", "noise_every": 0, "adapt_first": False, "common_start": False}
    W = sinkhorn(np.asarray(support, dtype=bool), "random", 3)
    return make_schedule(W=W, lam=0.05, **{**given, "rounds": 3, **options})


@dataclass
class World:
    """Stands in for the linear algebra: by victim the sets that suffice, and who was asked for.

    A victim that is missing is never learned.
    """

    nodes: int
    enough: dict[int, list[set[int]]]
    asked: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)

    def learns(self, attackers, victim):
        return any(least <= set(attackers) for least in self.enough.get(victim, []))

    def expose(self, schedule, attackers, victims):
        self.asked.append((tuple(attackers), tuple(victims)))
        return [self.exposure(attackers, v) for v in victims]

    def exposure(self, attackers, victim):
        assert victim not in attackers
        value = 0.0 if self.learns(attackers, victim) else 1.0
        return Exposure(tuple(attackers), victim, {"change": value})

    def singles(self):
        pairs = [(a, v) for a in range(self.nodes) for v in range(self.nodes) if a != v]
        return [self.exposure((a,), v) for a, v in pairs]

    def least(self, victim):
        """The size of the smallest set that suffices."""
        return min(map(len, self.enough.get(victim, [])), default=None)

    def search(self, singles=None, budget=BUDGET, linked=None, **options):
        """What the search finds, and how many sets it looked at beyond the bounds."""
        support = np.ones((self.nodes, self.nodes)) if linked is None else linked
        known = self.singles() if singles is None else singles
        self.asked.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(collusion, "exposures", self.expose)
            schedule = make_schedule(np.asarray(support, float), "dp", 0, False, False, 0.1, 1)
            found = smallest_sets(schedule, known, budget=budget, **options)
        alone = {e.victim for e in known if e.exact}
        bounds = sum(1 if s is None else 2 for v, s in found.sets.items() if v not in alone)
        return found, len(self.asked) - bounds


def size(attackers):
    return None if attackers is None else len(attackers)


@st.composite
def searches(draw):
    """A world of a few nodes, some of the table of singles, and any graph."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    nodes = draw(st.integers(3, 6))
    world = World(nodes, {})
    for victim in range(nodes):
        others = [i for i in range(nodes) if i != victim]
        world.enough[victim] = [
            set(map(int, rng.choice(others, rng.integers(1, nodes), replace=False)))
            for _ in range(rng.integers(0, 4))
        ]
    known = draw(st.sampled_from([0.0, 0.5, 1.0]))
    singles = [e for e in world.singles() if rng.random() < known]
    return world, singles, rng.random((nodes, nodes)) < draw(st.sampled_from([0.2, 0.6]))


# --- where the search ends ----------------------------------------------------------------------


@settings(max_examples=100)
@given(searches())
def test_whatever_is_known_before_the_smallest_set_is_found(case):
    world, singles, linked = case
    found, _ = world.search(singles, linked=linked)
    assert not found.unsure
    assert {v: size(s) for v, s in found.sets.items()} == {
        v: world.least(v) for v in range(world.nodes)
    }
    assert all(world.learns(s, v) for v, s in found.sets.items() if s is not None)
    assert all(s == tuple(sorted(s)) for s in found.sets.values() if s is not None)


def graphs():
    """All connected graphs of up to four nodes, and all strongly connected digraphs of three."""
    found = [g for g in networkx.graph_atlas_g()[:19] if len(g) > 1 and networkx.is_connected(g)]
    ends = [(i, j) for i in range(3) for j in range(3) if i != j]
    for count in range(3, 6):
        for edges in combinations(ends, count):
            graph = networkx.DiGraph(edges)
            new = not any(networkx.is_isomorphic(graph, g) for g in found if g.is_directed())
            if new and len(graph) == 3 and networkx.is_strongly_connected(graph):
                found.append(graph)
    return [networkx.to_numpy_array(g, range(len(g))) + np.eye(len(g)) for g in found]


GRAPHS = graphs()
SCHEDULES = [
    {"rule": "lppa"},
    {"rule": "lppa", "noise_every": 1},
    {"rule": "lppa", "noise_every": 2, "common_start": True},
    {"rule": "lppa", "noise_every": 1, "beta_own": 0.5},
    {"rule": "dp", "adapt_first": True},
    {"rule": "dsgt", "common_start": True},
]


@pytest.mark.parametrize("options", SCHEDULES, ids=str)
def test_on_all_small_graphs_it_is_what_looking_at_all_subsets_finds(options):
    for support in GRAPHS:
        schedule = schedule_of(support, **options)
        nodes, least = range(schedule.nodes), {}
        for count in range(1, schedule.nodes):
            for attackers in combinations(nodes, count):
                for e in exposures(schedule, attackers):
                    if e.exact:
                        least.setdefault(e.victim, count)
        found = smallest_sets(schedule, [])
        assert {v: size(s) for v, s in found.sets.items()} == {v: least.get(v) for v in nodes}
        for victim, attackers in found.sets.items():
            assert attackers is None or exposures(schedule, attackers, [victim])[0].exact
        assert not found.unsure


def test_of_several_nodes_that_learn_it_alone_the_first_is_named():
    world = World(4, {0: [{3}, {2}], 1: [{0}]})
    # An entry for another victim, or one that is not exact, is no reason.
    found, looked_at = world.search()
    assert found.sets == {0: (2,), 1: (0,), 2: None, 3: None}
    assert looked_at == 0


def test_only_the_victims_that_are_asked_for_are_looked_at():
    world = World(4, {0: [{1, 2}], 3: [{1, 2}]})
    found, _ = world.search(victims=[3])
    assert found.sets == {3: (1, 2)}
    assert {v for _, victims in world.asked for v in victims} == {3}


def test_neighbours_are_those_that_send_and_those_that_hear():
    path = np.eye(4)
    path[1, 0] = path[2, 1] = 0.5
    schedule = make_schedule(path, "dp", 0, False, False, 0.1, 1)
    assert [neighbours(schedule, v) for v in range(4)] == [{1}, {0, 2}, {1}, set()]


# --- bounds: what needs no search ---------------------------------------------------------------


def test_with_noise_in_every_round_the_neighbours_are_the_answer_without_any_search():
    support = networkx.to_numpy_array(networkx.random_regular_graph(4, 12, 1)) + np.eye(12)
    found = smallest_sets(schedule_of(support, rule="lppa", noise_every=1), [], budget=0)
    assert {len(s) for s in found.sets.values()} == {4}
    assert not found.unsure
    # The last overheard round counts too: without its noise there is something to search for.
    late = schedule_of(support, rule="lppa", noise_every=1, rounds=0)
    assert not smallest_sets(late, [], budget=0).unsure
    gap = schedule_of(support, rule="lppa", noise_every=2, rounds=1)
    assert smallest_sets(gap, [], budget=0).unsure == set(range(12))


def test_the_first_bound_is_all_neighbours_or_else_all_others():
    linked = np.eye(6)
    linked[0, 1] = linked[2, 0] = linked[0, 3] = 0.3
    for least, bound in (({1, 2}, (1, 2, 3)), ({1, 4}, (1, 2, 3, 4, 5))):
        found, _ = World(6, {0: [least]}).search(budget=0, linked=linked, victims=[0])
        assert found.sets == {0: bound}
        assert found.unsure == {0}


# --- where the search is cut --------------------------------------------------------------------


@settings(max_examples=30)
@given(searches())
def test_a_cut_search_looks_at_no_more_than_it_may_and_is_sure_of_nothing_wrong(case):
    world, singles, linked = case
    _, needed = world.search(singles, linked=linked)
    before = None
    for budget in range(needed + 2):
        found, looked_at = world.search(singles, budget, linked)
        assert looked_at == min(budget, needed)
        assert budget < needed or not found.unsure
        for v, s in found.sets.items():
            assert (s is None) == (world.least(v) is None)
            if s is not None:
                assert world.learns(s, v)
                assert v in found.unsure or len(s) == world.least(v)
        # More looking never gives a larger set, nor a new doubt.
        if before is not None:
            assert found.unsure <= before.unsure
            assert all(s is None or len(s) <= len(before.sets[v]) for v, s in found.sets.items())
        before = found


CROWD = {0, 1, 2, 3, 4, 5}
MIXED = {0: [{4}], 1: [{2, 3}], 2: [{3, 4, 5}], 3: [CROWD - {3}]}


def mixed(budget, **options):
    """Six nodes that need one, two, three or all five others, and two that nobody learns."""
    return World(6, MIXED).search(budget=budget, **options)


def test_doubt_begins_above_one_more_than_the_sizes_that_were_looked_at():
    # With nothing known, a node alone was not looked at: all bounds above one are in doubt.
    nothing, _ = mixed(0, singles=[])
    assert {v: size(s) for v, s in nothing.sets.items()} == {
        **{v: 5 for v in range(4)},
        **{4: None, 5: None},
    }
    assert nothing.unsure == {0, 1, 2, 3}
    # Six nodes alone are looked at first; then sets of one are sure.
    alone, _ = mixed(6, singles=[])
    assert alone.sets[0] == (4,)
    assert alone.unsure == {1, 2, 3}
    # Five more leave out who can be spared for node 1, and two are sure without another look.
    two, _ = mixed(11, singles=[])
    assert two.sets[1] == (2, 3)
    assert two.unsure == {2, 3}
    # The same for nodes 2 and 3: three may still be two, until all pairs were looked at.
    three, _ = mixed(21, singles=[])
    assert three.sets[2] == (3, 4, 5)
    assert three.sets[3] == (0, 1, 2, 4, 5)
    assert three.unsure == {2, 3}
    assert mixed(21 + 13, singles=[])[0].unsure == {2, 3}
    assert mixed(21 + 14, singles=[])[0].unsure == {3}


def test_nothing_is_looked_at_that_cannot_change_the_answer():
    # Of nodes 1, 2 and 3 five others each are left out in turn; then come the pairs, without the
    # one of nodes 2 and 3 themselves, and the triples and fours of the five others of node 3.
    _, needed = mixed(BUDGET)
    assert needed == 3 * 5 + 14 + 10 + 5
    _, from_nothing = mixed(BUDGET, singles=[])
    assert from_nothing == needed + 6
    # Where all nodes alone are known, a set of two is the least.
    linked = np.eye(6)
    linked[0, 1] = linked[2, 0] = 0.5
    found, looked_at = World(6, {0: [{1, 2}]}).search(linked=linked)
    assert (found.sets[0], found.unsure, looked_at) == ((1, 2), set(), 0)
    # Of a set of three, each is left out once: quicker than all pairs up to the right one.
    linked[0, 3] = 0.5
    found, looked_at = World(6, {0: [{2, 3}]}).search(linked=linked)
    assert (found.sets[0], looked_at) == ((2, 3), 3)


def test_the_search_keeps_the_first_set_of_a_size_and_then_looks_no_further():
    # Leaving out the last nodes first ends at three; then (0, 4) is the fourth pair.
    found, looked_at = World(6, {5: [{0, 1, 2}, {0, 4}, {1, 4}]}).search()
    assert (found.sets[5], looked_at) == ((0, 4), 5 + 4)
