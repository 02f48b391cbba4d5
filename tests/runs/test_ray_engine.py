"""Runs on a real Ray cluster of two hosts: same bits and files, lost hosts, nothing left behind."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from clusters import TOO_SLOW, TRIES, ray_cluster, session, skip_too_slow
from hosts import NODES, SMALL, alone
from processes import Started, command_line, eventually, read_lines, read_summary
from script_modules import import_script

with_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture(scope="module")
def chaos():
    """What a run leaves, and how to compare it: from the script of the long trials."""
    return import_script("chaos_lab")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Started(tmp_path_factory.mktemp("cluster")) as started, ray_cluster(started) as cluster:
        yield cluster


@pytest.fixture
def hosts(cluster):
    """Two hosts that live, with two CPUs each; the second has GPUs that only Ray believes in."""
    living = [host for host in cluster.hosts if host.poll() is None]
    second = living[1] if len(living) > 1 else cluster.add("--num-gpus", 2)
    yield cluster.hosts[0], second
    nothing_is_left(cluster)


def nothing_is_left(cluster):
    """No actor, no node and no folder of a run; Ray itself goes on."""
    ours = ("RayHost", "forkserver", "resource_tracker")

    def left():
        living = [command_line(pid) for host in cluster.hosts for pid in session(host.pid)]
        return [line for line in living if any(word in line for word in ours)]

    eventually(lambda: not left(), what="processes of a run on Ray's hosts have ended")
    assert [line for line in map(command_line, session(cluster.hosts[0].pid)) if "raylet" in line]


def options(cluster, folder, **settings):
    told = {**SMALL, **settings}
    pairs = [x for k, v in told.items() for x in (f"--{k.replace('_', '-')}", v) if v is not True]
    return ["-n", NODES, *pairs, "--out", folder, *on(cluster), "-q"]


def on(cluster):
    return ["--engine", "ray", "--address", cluster.address]


def checkpoints_of(run):
    folders = [run / "nodes" / str(node) / "checkpoints" for node in range(NODES)]
    return [{path.name for path in folder.glob("[!.]*")} for folder in folders]


def files_of(run):
    found = [*run.glob("nodes/*/*"), *run.glob("attacks/*")]
    return sorted(path.relative_to(run).as_posix() for path in found)


def until_it_could_go_on(command, run):
    """Returns when all nodes have sent a checkpoint home."""

    def ready():
        assert command.poll() is None, command.err
        return run.exists() and set.intersection(*checkpoints_of(run))

    eventually(ready)


@with_ray
@pytest.mark.slow
def test_nodes_on_two_ray_hosts_end_with_the_bits_and_files_of_a_local_run(
    chaos, cluster, hosts, started, tmp_path
):
    settings = {"dataset": "digits", "model": "mlp", "batch": 8}
    assert alone(tmp_path / "alone", attackers=(1, 2), **settings).status == "completed"
    run = tmp_path / "run"
    told = options(cluster, run, **settings)
    ended = started.command("lppa", "run", *told, "--attacker", "1,2").end()
    assert ended.code == 0, ended
    here, there = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert len(here["logs"]) == 2
    assert chaos.differences(here, there) == []
    assert chaos.leftovers(run) == []
    assert files_of(run) == files_of(tmp_path / "alone")
    started.all_end()
    assert list(cluster.started.temporary.iterdir()) == []
    assert list(started.temporary.glob("lppa-*")) == []


LONG = {"rounds": 60, "latency": 100, "noise_exchange": "tensor", "noise_every": 3}


@with_ray
@pytest.mark.slow
def test_a_run_whose_raylet_is_killed_is_resumed_to_the_same_bits(
    chaos, cluster, hosts, started, tmp_path
):
    assert alone(tmp_path / "alone", attackers=(0, 3), **LONG).status == "completed"
    run = tmp_path / "run"
    command = started.command("lppa", "run", *options(cluster, run, **LONG), "--attacker", "0,3")
    until_it_could_go_on(command, run)
    cluster.kill(hosts[1])
    ended = command.end()
    assert ended.code == 1, ended
    # Ray may have noticed only that the actor died.
    assert "was lost: " in read_summary(run)["error"]
    assert "Ray's host 127.0.0." in read_summary(run)["error"]
    # Nothing of what Ray says about it is for whoever reads the results.
    assert ended.out == ""
    started.all_end()
    cluster.add("--num-gpus", 2)
    ended = started.command("lppa", "run", "--resume", run, *on(cluster)).end()
    assert ended.code == 0, ended
    assert "note: going on from round " in ended.err
    assert "note: going on from round 0" not in ended.err
    here, there = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert chaos.differences(here, there) == []
    assert chaos.leftovers(run) == []
    # What was left on the host that was killed has gone with the next run there.
    assert list(cluster.started.temporary.iterdir()) == []


@with_ray
@pytest.mark.slow
def test_the_others_go_on_without_the_nodes_of_a_raylet_that_is_killed(
    cluster, hosts, started, tmp_path
):
    run = tmp_path / "run"
    told = options(cluster, run, **{**LONG, "on_failure": "continue", "topology": "full"})
    command = started.command("lppa", "run", *told)
    until_it_could_go_on(command, run)
    cluster.kill(hosts[1])
    ended = command.end()
    assert ended.code == 0, ended
    views = [event for event in read_lines(run / "views.jsonl") if event["kind"] == "view"]
    stayed = views[-1]["members"]
    assert stayed in ([0, 1], [2, 3])
    assert [n for n in range(NODES) if (run / f"nodes/{n}/state.pt").exists()] == stayed


@pytest.fixture
def running(cluster, hosts, started, tmp_path):
    """A run on Ray that has long to go."""
    told = options(cluster, tmp_path / "run", rounds=5000, latency=20)

    def start(*more):
        command = started.command("lppa", "run", *told, *more)
        until_it_could_go_on(command, tmp_path / "run")
        return command

    return start


@with_ray
@pytest.mark.slow
def test_an_interrupted_run_leaves_nothing_on_ray_and_has_its_checkpoints_here(
    cluster, hosts, running, started, tmp_path
):
    command = running()
    # Nobody asked for a GPU, and so nobody takes one.
    assert [visible_gpus(host) for host in hosts] == [{""}, {""}]
    command.signal_group(signal.SIGINT)
    assert command.end().code == 130
    assert read_summary(tmp_path / "run")["status"] == "interrupted"
    started.all_end()
    nothing_is_left(cluster)
    assert list(cluster.started.temporary.iterdir()) == []
    assert set.intersection(*checkpoints_of(tmp_path / "run"))


@with_ray
@pytest.mark.slow
def test_a_run_that_is_killed_leaves_no_process_on_ray(cluster, running, started):
    command = running()
    command.signal(signal.SIGKILL)
    command.end()
    started.all_end()
    nothing_is_left(cluster)


def visible_gpus(host):
    """What GPUs the processes that nodes are forked from may see."""
    found = set()
    for pid in session(host.pid):
        if "forkserver" in command_line(pid):
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if line.startswith(b"CUDA_VISIBLE_DEVICES="):
                        found.add(line.partition(b"=")[2].decode())
    return found


@with_ray
@pytest.mark.slow
def test_nodes_that_ask_for_gpus_see_those_that_ray_gave_to_their_actor(
    cluster, hosts, running, started
):
    command = running("--gpus-per-node", 0.5, "--cpus-per-node", 0.5)
    assert visible_gpus(hosts[1]) == {"0", "1"}
    assert visible_gpus(hosts[0]) == set()
    command.signal(signal.SIGTERM)
    assert command.end().code == 130
    started.all_end()


@with_ray
@pytest.mark.slow
def test_a_cluster_without_room_is_told_with_what_it_has(cluster, hosts, started, tmp_path):
    told = [*options(cluster, tmp_path / "run"), "--cpus-per-node", 1.5]
    ended = started.command("lppa", "run", *told).end()
    assert ended.code == 1
    (error,) = ended.errors
    assert "no room for 4 nodes with 1.5 CPUs each" in error
    assert "2 hosts of the cluster have 4 CPUs, 4 of them free" in error
    assert error.endswith("give each less by --cpus-per-node")
    started.all_end()


@with_ray
@pytest.mark.slow
def test_without_an_address_a_run_has_a_ray_of_its_own_which_ends_with_it(chaos, started, tmp_path):
    assert alone(tmp_path / "alone").status == "completed"
    # Sockets of Ray are below it.
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        started.temporary = Path(short)
        pairs = [x for k, v in SMALL.items() for x in (f"--{k.replace('_', '-')}", v)]
        told = ["-n", NODES, *pairs, "--out", tmp_path / "run", "--engine", "ray", "-q"]
        for _ in range(TRIES):
            ended = started.command("lppa", "run", *told).end()
            started.all_end()
            assert list(Path(short).iterdir()) == []
            if TOO_SLOW not in ended.err:
                break
            shutil.rmtree(tmp_path / "run")
        else:
            skip_too_slow()
        assert ended.code == 0, ended
    here, there = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert chaos.differences(here, there) == []


@with_ray
@pytest.mark.parametrize(
    ("told", "words"),
    [
        (("--address", "nonsense"), "is not HOST:PORT"),
        (("--address", "127.0.0.1:1"), "no Ray answers there"),
        (("--address", "127.0.0.1:99999"), "no Ray answers there"),
        (("--cpus-per-node", 0), "--cpus-per-node must be from 0.0001 to 10000"),
        (("--gpus-per-node", 1.5), "Ray gives a part of one, or whole ones"),
        (("--hosts", "hosts.txt"), "--hosts is of no use with --engine ray"),
    ],
)
def test_wrong_use_is_told_before_anything_starts(started, told, words):
    ended = started.quick("lppa", "run", "--engine", "ray", *told).end()
    assert ended.code == 2
    (error,) = ended.errors
    assert words in error
    assert list(started.here.iterdir()) == []


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_one_sentence_says_how_to_get_it(started):
    ended = started.quick("lppa", "run", "--engine", "ray").end()
    assert ended.code == 2
    assert ended.errors == [
        "error: --engine ray needs Ray, which is not installed: pip install 'lppa[ray]'"
    ]
