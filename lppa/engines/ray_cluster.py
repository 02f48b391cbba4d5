"""A whole Ray cluster as one host at the end of a pipe: Ray's driver, in a process of its own.

Ray takes over signals, prints to standard output, and ends its process when it has lost the
cluster: none of that should happen to `lppa run`. What is asked for is decided in `ray`, where it
goes in `ray_places`, and what an actor does in `ray_host`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import msgpack

from lppa.engines.frames import BadFrame, Refused, Word
from lppa.engines.host import Death
from lppa.engines.mirror import files_to_begin_with
from lppa.engines.parcel import Parcel
from lppa.engines.placing import place
from lppa.engines.ray_bundles import Cluster, bundles_for
from lppa.engines.ray_host import read_answer
from lppa.engines.ray_places import Place, connect, first_line, living_hosts, make_places
from lppa.engines.sealed import Half, Sealing
from lppa.engines.serving import own_pipes, serve
from lppa.protocol.errors import LppaError, RunFailed
from lppa.running.launcher import GRACE
from lppa.running.private import private_folder

START = 50.0  # seconds for an actor to start its nodes: it loads PyTorch
ANSWER = 20.0  # seconds for what takes no time


@dataclass
class Group:
    """The nodes of one actor, and the question that it has not answered yet."""

    place: Place
    nodes: tuple[int, ...]
    half: Half = field(default_factory=Half, repr=False)
    sealing: Sealing | None = field(default=None, repr=False)
    asked: Any = None
    over: bool = False  # nothing more will come of it

    @property
    def actor(self) -> Any:
        """Whom to ask."""
        return self.place.actor

    def meet(self, public: bytes, version: str) -> None:
        """From now on what is said is sealed."""
        own = metadata.version("lppa")
        if version != own:
            raise RunFailed(
                f"Ray's host {self.place.where} has lppa {version}, and this is {own}: install "
                "the same there"
            )
        self.sealing = self.half.asking(public)

    def read(self, question: Any) -> list[Word]:
        """The words of an answer that is there."""
        assert self.sealing is not None, "they have met"
        try:
            return read_answer(self.sealing, self.get(question))
        except (BadFrame, ValueError, TypeError, msgpack.UnpackException):
            raise RunFailed(f"Ray's host {self.place.where} sends what no host does") from None

    def get(self, question: Any) -> Any:
        """An answer that is there; RunFailed if it is that the actor has died."""
        import ray
        from ray.exceptions import ActorDiedError, RayError, RayTaskError

        where = f"Ray's host {self.place.where}"
        try:
            return ray.get(question, timeout=ANSWER)
        except RayTaskError as error:
            name, said = type(error.cause).__name__, first_line(error.cause)
            why = f"the actor on {where} failed ({name}: {said})"
        except RayError as error:
            if isinstance(error, ActorDiedError) and "import" in str(error):
                why = f"the actor on {where} cannot be started: install this lppa there"
            elif self.place.host in living_hosts():
                why = f"the actor on {where} died"
            else:
                why = f"{where} is no longer there"
        raise RunFailed(why)


class RayHosts:
    """The nodes of a parcel on a Ray cluster, to be served like a `Host` of all of them."""

    def __init__(self, cluster: Cluster, parcel: Parcel) -> None:
        self.cluster = cluster
        self.parcel = parcel
        self.opened = ExitStack()
        self.groups: list[Group] = []
        self.ended = False

    def start(self) -> None:
        """Connects, reserves, and returns when all nodes have been forked."""
        bundles = bundles_for(len(self.parcel.nodes), self.cluster.cpus, self.cluster.gpus)
        private = self.opened.enter_context(private_folder())
        connect(self.cluster.address, bundles, private, self.opened)
        places = make_places(bundles)
        blocks = place(len(self.parcel.nodes), [one.nodes for one in places])
        for one, block in zip(places, blocks, strict=True):
            self.groups.append(Group(one, tuple(self.parcel.nodes[index] for index in block)))
        # Not sooner: Ray looks at its environment when it is imported.
        import ray

        asked = [group.actor.meet.remote(group.half.public) for group in self.groups]
        self._wait(asked)
        for group, question in zip(self.groups, asked, strict=True):
            group.meet(*group.get(question))
        asked = [group.actor.start.remote(ray.put(self._sealed(group))) for group in self.groups]
        self._wait(asked)
        for group, question in zip(self.groups, asked, strict=True):
            for word in group.read(question):
                if isinstance(word, Refused):
                    raise RunFailed(f"Ray's host {group.place.where}: {word.why}")

    def _sealed(self, group: Group) -> bytes:
        """The part of the parcel that is the group's, for it alone to read."""
        whole, nodes = self.parcel, group.nodes
        part = replace(
            whole,
            keys={node: whole.keys[node] for node in nodes},
            attackers=tuple(node for node in whole.attackers if node in nodes),
            chaos=tuple(trouble for trouble in whole.chaos if trouble.node in nodes),
            files=files_to_begin_with(Path(self.cluster.folder), nodes) if whole.resume else {},
        )
        assert group.sealing is not None, "they have met"
        return group.sealing.seal(part.pack())

    def _wait(self, asked: list[Any]) -> None:
        """Returns when all actors have answered; one that has died has."""
        import ray

        _, missing = ray.wait(asked, num_returns=len(asked), timeout=START)
        if missing:
            where = self.groups[asked.index(missing[0])].place.where
            raise RunFailed(f"Ray's host {where} did not answer within {START:g} s")

    def news(self) -> Iterator[Word]:
        """What hosts have told by now; after `end` all that there is."""
        import ray

        while asked := self._asked():
            count, seconds = (1, ANSWER) if self.ended else (len(asked), 0)
            ready, _ = ray.wait(list(asked), num_returns=count, timeout=seconds)
            for question in ready:
                yield from self._hear(asked[question])
            if not self.ended:
                return
            if not ready:
                break
        if self.ended:
            # Before it is told that all is over: whoever waits for that waits no longer.
            self.close()

    def _asked(self) -> dict[Any, Group]:
        """Who is being asked for news; who had answered is asked again."""
        groups = [group for group in self.groups if group.sealing is not None and not group.over]
        for group in groups:
            if group.asked is None:
                group.asked = group.actor.news.remote()
        return {group.asked: group for group in groups}

    def _hear(self, group: Group) -> Iterator[Word]:
        """The answer of one, or that it can answer no more."""
        question, group.asked = group.asked, None
        try:
            words = group.read(question)
        except RunFailed as error:
            group.over = True
            yield from (Death(node, f"was lost: {error}") for node in group.nodes)
        else:
            group.over = self.ended and not words
            yield from words

    def end(self, patience: float = GRACE) -> None:
        """Waits for all nodes to end, then makes them. What they left is still news."""
        living = [group for group in self.groups if not group.over]
        _wait_if_any([group.actor.end.remote(patience) for group in living], patience + 3 * GRACE)
        self.ended = True

    def close(self) -> None:
        """Leaves nothing on any host, and no actor in Ray."""
        import ray

        actors, self.groups = [group.actor for group in self.groups], []
        _wait_if_any([actor.close.remote() for actor in actors], ANSWER)
        for actor in actors:
            # It may have died by itself.
            with suppress(Exception):
                ray.kill(actor)
        self.opened.close()


def _wait_if_any(asked: Iterable[Any], seconds: float) -> None:
    """Whatever the answers are, and if there are none."""
    import ray

    if questions := list(asked):
        ray.wait(questions, num_returns=len(questions), timeout=seconds)


def main() -> None:
    """The life of the driver; what it is told is its only argument."""
    cluster = Cluster.from_json(sys.argv[1])
    # As Ray has it once it is there: what has been started until then is ended.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        serve(*own_pipes(), lambda parcel: RayHosts(cluster, parcel))
    except LppaError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
