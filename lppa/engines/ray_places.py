"""Where in a Ray cluster a run's actors go: connecting, reserving room, one actor for each place.

What actors are asked is in `ray_cluster`.
"""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lppa.engines.ray_bundles import Bundles
from lppa.engines.ray_host import RayHost
from lppa.protocol.errors import RunFailed

RESERVE = 10.0  # seconds for Ray to find room for all nodes
TOO_SLOW = "it gives itself 30 s: try again when this machine has less to do"
STORE = 100 << 20  # bytes of the object store of a Ray of our own: only news goes through it


@dataclass(frozen=True)
class Place:
    """An actor, how many nodes it is for, and its host: Ray's name of it, and its address."""

    actor: Any
    nodes: int
    host: str
    where: str


def connect(address: str | None, bundles: Bundles, private: Path, opened: ExitStack) -> None:
    """Makes this process a driver of that cluster, or of one of its own with room for all."""
    # Ray lets its workers import from where its driver is: in an empty folder there is nothing.
    os.chdir(private)
    own: dict[str, Any] = {}
    if address is None:
        # It listens on all of this machine's addresses: nobody else may run anything in it. Ray
        # looks at its environment when it is imported.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # Nodes that Ray has started are not to come after all else on this machine.
        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
        own = {
            "num_cpus": bundles.cpus,
            "object_store_memory": STORE,
            "include_dashboard": False,
            "_temp_dir": str(private / "r"),
        }
    import ray

    opened.callback(ray.shutdown)
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **own)
    except Exception as error:  # of no kind in particular, where Ray takes too long to start
        said = first_line(error)
        advice = f"; {TOO_SLOW}" if "timed out during startup" in said else ""
        raise RunFailed(f"cannot connect to Ray: {said}{advice}") from None


def make_places(bundles: Bundles) -> list[Place]:
    """Reserves room for all nodes at once, and starts an actor in each place.

    The room is given back when this process is no longer a driver.
    """
    import ray
    from ray.util.placement_group import placement_group, placement_group_table

    reserved = placement_group(bundles.asked, strategy="SPREAD")
    if not reserved.wait(RESERVE):
        raise RunFailed(_no_room(bundles))
    table = placement_group_table(reserved)["bundles_to_node_id"]
    hosts = [table[index] for index in range(len(bundles.sizes))]
    names = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    # A restart is ours to decide: the nodes of an actor that dies are lost.
    actor = ray.remote(max_restarts=0, max_task_retries=0, num_cpus=0)(RayHost)
    choose = _for_gpus if bundles.gpus else _for_hosts
    return [
        Place(actor.options(**how).remote(bundles.gpus > 0), nodes, host, names[host])
        for host, nodes, how in choose(bundles, hosts, reserved)
    ]


def _for_hosts(
    bundles: Bundles, hosts: list[str], reserved: Any
) -> list[tuple[str, int, dict[str, Any]]]:
    """One actor on each host, beside the room that is reserved for its nodes."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategies = {host: NodeAffinitySchedulingStrategy(host, soft=False) for host in hosts}
    return [
        (host, hosts.count(host), {"scheduling_strategy": strategy})
        for host, strategy in strategies.items()
    ]


def _for_gpus(
    bundles: Bundles, hosts: list[str], reserved: Any
) -> list[tuple[str, int, dict[str, Any]]]:
    """One actor in each bundle: Ray shows it the GPUs that are its, and so its nodes."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    # Those on the same host follow each other.
    order = sorted(range(len(hosts)), key=lambda index: hosts.index(hosts[index]))
    return [
        (
            hosts[index],
            bundles.sizes[index],
            {
                "num_gpus": bundles.gpus,
                "scheduling_strategy": PlacementGroupSchedulingStrategy(reserved, index),
            },
        )
        for index in order
    ]


def _no_room(bundles: Bundles) -> str:
    import ray

    there, free = ray.cluster_resources(), ray.available_resources()
    kinds = ("CPU", "GPU") if bundles.gpus else ("CPU",)
    have = " and ".join(f"{there.get(kind, 0):g} {kind}s" for kind in kinds)
    unused = " and ".join(f"{free.get(kind, 0):g}" for kind in kinds)
    living = len(living_hosts())
    hosts = "one host of the cluster has" if living == 1 else f"{living} hosts of the cluster have"
    return (
        f"Ray found no room for {bundles.words} within {RESERVE:g} s: the {hosts} {have}, "
        f"{unused} of them free; " + bundles.advice(there.get("GPU", 0))
    )


def living_hosts() -> set[str]:
    """Ray's names of the hosts that it believes to be there."""
    import ray

    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def first_line(error: BaseException) -> str:
    """What an error of Ray says first: after that it explains."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
