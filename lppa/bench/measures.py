"""The measures of speed, each a ratio of two things that are timed within one run.

A benchmark, not a test: nothing here fails because a machine is slow. What is timed inside the
processes stands in modules beside; this module starts them and compares.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from lppa.bench.growth import GROWTH, MANY, growth, growth_degree, growth_parameters
from lppa.bench.launcher import launcher
from lppa.coordinator.bootstrap import Roster
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.errors import RunFailed
from lppa.protocol.settings import make_settings
from lppa.protocol.sockets import Wire
from lppa.protocol.wire import wait_for_any
from lppa.running.launch import Given, LocalNodes, fork, fork_context, stop_fork_server, warm_up
from lppa.running.prepare import make_blueprint
from lppa.running.private import private_folder
from lppa.running.run import local_book

PARAMETERS = 1_000_000
TIMEOUT = 600.0


def exchange(
    sizes: tuple[int, ...] = (PARAMETERS, 10 * PARAMETERS), repeats: int = 5
) -> dict[str, Any]:
    """(θ, γ) over our links ÷ the same over bare ZeroMQ sockets; higher is better.

    In clear and encrypted, for each number of parameters; `ratio` is the worst of them.
    """
    rows = [exchange_once(size, secure, repeats) for secure in (False, True) for size in sizes]
    return {"goal": "at least 0.9", "ratio": min(row["ratio"] for row in rows), "sizes": rows}


def exchange_once(parameters: int, secure: bool, repeats: int) -> dict[str, Any]:
    """One size, in clear, or with both encrypted."""
    from lppa.bench.sockets import exchange_receiver, exchange_sender, exchanged

    messages = max(5, 50 * PARAMETERS // parameters // (4 if secure else 1))
    with private_folder() as folder:
        book, keys = local_book(2, folder, secure)
        credit = fork_context().Pipe()
        given = [
            (book, keys[me], f"ipc://{folder}/raw", credit[me], parameters, messages, repeats)
            for me in (0, 1)
        ]
        results = in_processes([(exchange_sender, given[0]), (exchange_receiver, given[1])])
    figures = exchanged(results[0], results[1], parameters, messages)
    return {"parameters": parameters, "curve": int(secure), **figures}


def overhead() -> dict[str, Any]:
    """A round of five nodes ÷ the same gradients and updates with no communication."""
    return {"goal": "at most 1.15", **compare_rounds("ours", "alone")}


def seeded() -> dict[str, Any]:
    """A round with fresh noise from seeds ÷ a round of dsgt."""
    return {"goal": "at most 1.25", **compare_rounds("seeded", "dsgt")}


def seeded_mlp(ring: bool) -> dict[str, Any]:
    """The same for a small network on small batches, where noise weighs more."""
    scene = ("mlp", 32, ring)
    return {"goal": "at most 1.25", **compare_rounds("seeded", "dsgt", scene, 5, 80, 5)}


def compare_rounds(
    one: str,
    other: str,
    scene: tuple[Any, ...] = (),
    nodes: int = 5,
    rounds: int = 6,
    repeats: int = 5,
) -> dict[str, Any]:
    """The time of a round done in one way ÷ that of another, in turns in the same processes.

    `…_cpu_ms` is the CPU time of a node and round, and `cpu_ratio` that of one ÷ the other.
    """
    from lppa.bench.rounds import Scene, round_partner

    with private_folder() as folder:
        book, keys = local_book(nodes, folder, secure=False)
        barrier = fork_context().Barrier(nodes)
        results = in_processes(
            [
                (
                    round_partner,
                    (book, me, keys[me], barrier, (one, other), Scene(*scene), rounds, repeats),
                )
                for me in range(nodes)
            ],
        )
    spent = {
        name: [span(turns, name) / rounds for turns in zip(*results, strict=True)]
        for name in (one, other)
    }
    medians = {name: statistics.median(times) for name, times in spent.items()}
    cpu = {
        name: statistics.median(
            sum(turn[name][2] for turn in turns) / rounds / nodes
            for turns in zip(*results, strict=True)
        )
        for name in (one, other)
    }
    return {
        "ratio": medians[one] / medians[other],
        "cpu_ratio": cpu[one] / cpu[other],
        **{f"{name}_ms": seconds * 1000 for name, seconds in medians.items()},
        **{f"{name}_cpu_ms": seconds * 1000 for name, seconds in cpu.items()},
        "nodes": nodes,
    }


def lossless(nodes: int = 5, rounds: int = 10, repeats: int = 3) -> dict[str, Any]:
    """A round in which nothing can be lost ÷ the same without that.

    `…_percent` is what each care takes of a round by its own clock, `…_ratio` the time of a round
    with it alone ÷ without, in turns.
    """
    from lppa.bench.lossless import CARES, careful_partner, pulse

    with private_folder() as folder:
        book, keys = local_book(nodes, folder, secure=False)
        context = fork_context()
        barrier, signal = context.Barrier(nodes), context.Value("i", 0)
        given = [
            (book, me, keys[me], barrier, signal, folder / "nodes" / str(me), rounds, repeats)
            for me in range(nodes)
        ]
        calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
            (careful_partner, one) for one in given
        ]
        *results, _ = in_processes([*calls, (pulse, (book, keys[-1], signal))])
    spent = {name: [span(turns, name) for turns in zip(*results, strict=True)] for name in CARES}
    ratios = {
        name: statistics.median(a / b for a, b in zip(spent[name], spent["none"], strict=True))
        for name in CARES
    }
    shares = {
        name: statistics.median(
            turn[name][2].get(name, 0.0) / (turn[name][1] - turn[name][0])
            for turns in results
            for turn in turns
        )
        for name in ("acknowledgements", "checkpoints", "heartbeats")
    }
    return {
        "goal": "under 1.03",
        "ratio": ratios["all"],
        **{f"{name}_percent": 100 * share for name, share in shares.items()},
        **{f"{name}_ratio": ratios[name] for name in shares},
        "round_ms": statistics.median(spent["none"]) / rounds * 1000,
        "nodes": nodes,
    }


def small(sizes: tuple[int, ...] = (8, 32, 128), repeats: int = 3) -> dict[str, Any]:
    """A round of small models on a degree-4 graph ÷ a bare loop over raw frames."""
    # What a client does once, after its first rounds, is spread over enough of them.
    rows = [small_round(nodes, max(40, 480 // nodes), repeats) for nodes in sizes]
    return {"goal": "at most 1.15", "ratio": max(row["ratio"] for row in rows), "sizes": rows}


def small_round(nodes: int, rounds: int, repeats: int) -> dict[str, Any]:
    """Seconds and processor time of a round, ours and bare, in turns in the same processes."""
    from lppa.bench.small import WARM, small_partner

    settings = make_settings({**GROWTH, "rounds": rounds + WARM, "eval_every": rounds + WARM})
    blueprint = make_blueprint(settings, nodes, "small")
    with private_folder() as folder:
        book, keys = local_book(nodes, folder, secure=False)
        barrier = fork_context().Barrier(nodes)
        given = [(book, me, keys[me], barrier, blueprint, folder, repeats) for me in range(nodes)]
        results = in_processes([(small_partner, one) for one in given])
    spent = {
        name: [span(turns, name) / rounds for turns in zip(*results, strict=True)]
        for name in ("ours", "bare")
    }
    used = {
        name: [
            sum(turn[name][2] for turn in turns) / rounds / nodes
            for turns in zip(*results, strict=True)
        ]
        for name in ("ours", "bare")
    }
    ratios = {
        key: statistics.median(a / b for a, b in zip(times["ours"], times["bare"], strict=True))
        for key, times in (("ratio", spent), ("cpu_ratio", used))
    }
    return {
        "nodes": nodes,
        **ratios,
        **{f"{name}_ms": 1000 * statistics.median(times) for name, times in spent.items()},
        **{f"{name}_cpu_ms": 1000 * statistics.median(times) for name, times in used.items()},
    }


def span(turns: tuple[dict[str, tuple[float, ...]], ...], name: str) -> float:
    """From the first client's beginning to the last one's end."""
    return max(turn[name][1] for turn in turns) - min(turn[name][0] for turn in turns)


def start(nodes: int, repeats: int = 3) -> dict[str, Any]:
    """Launching all nodes until each has said hello ÷ importing PyTorch once."""
    imports, launches = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
        imports.append(time.perf_counter() - began)
        launches.append(launch_once(nodes))
    launched, imported = statistics.median(launches), statistics.median(imports)
    return {
        "goal": f"at most {1.5 if nodes <= 5 else 5}",
        "ratio": launched / imported,
        "launch_s": launched,
        "import_s": imported,
        "nodes": nodes,
    }


def launch_once(nodes: int) -> float:
    """Seconds from nothing at all until the last node has said hello."""
    stop_fork_server()
    with private_folder() as folder:
        book, keys = local_book(nodes, folder, secure=False)
        wire = Wire(book, COORDINATOR, keys[-1])
        roster = Roster(wire.inbox(), book.run, nodes)
        began = time.perf_counter()
        processes = LocalNodes(book, keys[:-1], Given(folder, TIMEOUT))
        try:
            processes.start()
            while roster.missing:
                if time.perf_counter() - began > TIMEOUT:
                    raise RunFailed("the nodes did not start")
                wait_for_any([roster.inbox], 0.1)
                while (arrival := roster.inbox.receive()) is not None:
                    roster.open(arrival)
            return time.perf_counter() - began
        finally:
            roster.stop_all("that was all")
            processes.end()
            wire.close(0.0)


def expansion() -> dict[str, Any]:
    """Noise from seeds, draws a second on one core ÷ the bare generator's words a second."""
    from lppa.bench.rounds import expansion_speed

    (speed,) = in_processes([(expansion_speed, ())])
    return {"goal": "300 M/s, or 0.4", **speed}


def gradient() -> dict[str, Any]:
    """A client's gradient of the MLP, batch 32, ÷ the same network in plain PyTorch."""
    from lppa.bench.gradients import gradient_speed

    (speed,) = in_processes([(gradient_speed, ())])
    return {"goal": "at most 1.1", **speed}


def attack() -> dict[str, Any]:
    """A step of our DLG, restarts side by side, ÷ the same attack written plainly."""
    from lppa.bench.inversion import dlg_speed

    (speed,) = in_processes([(dlg_speed, ())])
    return {
        "goal": "at most 1",
        "ratio": speed.ratio,
        "ours_ms": speed.ours * 1000,
        "plain_ms": speed.plain * 1000,
        "restarts": speed.restarts,
    }


MEASURES: dict[str, Callable[[], dict[str, Any]]] = {
    "exchange": exchange,
    "overhead": overhead,
    "expansion": expansion,
    "seeded": seeded,
    "seeded-mlp-full": lambda: seeded_mlp(ring=False),
    "seeded-mlp-ring": lambda: seeded_mlp(ring=True),
    "gradient": gradient,
    "lossless": lossless,
    "small": small,
    "start-5": lambda: start(5),
    "start-50": lambda: start(50),
    "attack": attack,
    "launcher": launcher,
    "growth": growth,
}
# Too long, or too large, to be measured unless somebody asks for them.
ASKED: dict[str, Callable[[], dict[str, Any]]] = {
    "growth-1000": lambda: growth(MANY, rounds=10),
    "growth-degree": growth_degree,
    "growth-parameters": growth_parameters,
}


def in_processes(calls: list[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
    """Calls functions, all at once in processes of their own."""
    # Else each of them would import PyTorch by itself, as no node does.
    warm_up()
    processes: list[Any] = []
    pipes, results = [], []
    try:
        for target, given in calls:
            ours, theirs = fork_context().Pipe(duplex=False)
            fork(call_and_send, (target, given, theirs), processes)
            theirs.close()
            pipes.append(ours)
        for pipe, (target, _) in zip(pipes, calls, strict=True):
            if not pipe.poll(TIMEOUT):
                raise RunFailed(f"{target.__name__} gave no result within {TIMEOUT:g} s")
            results.append(pipe.recv())
        return results
    except EOFError:
        raise RunFailed(f"{target.__name__} ended without a result") from None
    finally:
        for process in processes:
            process.join(1.0 if len(results) == len(calls) else 0.0)
            process.kill()
            process.join()


def call_and_send(target: Callable[..., Any], given: tuple[Any, ...], pipe: Any) -> None:
    """In the child: calls, and sends what comes back."""
    # Ctrl-C in a terminal reaches the whole group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe.send(target(*given))
