"""Runs across machines with addresses of their own, by hand and over ssh: bits as on one."""

from __future__ import annotations

import hashlib
import shutil
import threading
from importlib.util import find_spec

import pytest
from clusters import ray_cluster
from hosts import SMALL
from namespaces import Lab
from processes import COMMANDS, Started, eventually, read_lines
from sshd import Sshd

import lppa
from lppa.protocol.settings import make_settings
from lppa.running.display import Silent
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local

pytestmark = pytest.mark.slow
MACHINES = 3


def options_of(settings):
    return [x for k, v in settings.items() for x in (f"--{k.replace('_', '-')}", v)]


@pytest.fixture
def lab():
    with Lab(MACHINES) as lab:
        yield lab


@pytest.fixture
def local_bits(tmp_path):
    """The final states of the same run on this machine."""

    def states(**settings):
        blueprint = make_blueprint(make_settings({**SMALL, **settings}), MACHINES, "run")
        assert run_local(blueprint, tmp_path / "local", Silent()).status == "completed"
        return bits([tmp_path / "local"] * MACHINES)

    return states


def bits(runs):
    """The final state of each node, by its own run's directory."""
    files = [run / "nodes" / str(node) / "state.pt" for node, run in enumerate(runs)]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


@pytest.fixture
def by_hand(lab, started, tmp_path):
    """The recipe in the README, each machine with its own folder and its own key alone."""

    def run(during=None, **settings):
        hosts = [x for address in lab.addresses for x in ("--host", address)]
        book = tmp_path / "book"
        made = started.command(*lab.on(0), COMMANDS / "lppa", "peers", 3, *hosts, "--out", book)
        assert made.end().code == 0, made.err
        folders = [tmp_path / f"machine-{i}" for i in range(MACHINES)]
        for i, folder in enumerate(folders):
            (folder / "keys").mkdir(parents=True)
            shutil.copy(book / "peers.json", folder)
            shutil.copy(book / "keys" / f"node-{i}.key", folder / "keys")
        shutil.copy(book / "keys" / "coordinator.key", folders[0] / "keys")
        told = ["--peers", folders[0] / "peers.json", "--out", tmp_path / "led"]
        options = options_of({**SMALL, **settings})
        coordinator = started.command(
            *lab.on(0), COMMANDS / "lppa-coordinator", *told, *options, "-q"
        )
        nodes = []
        for i, folder in enumerate(folders):
            told = ["--id", i, "--peers", folder / "peers.json", "--timeout", 300]
            node = (COMMANDS / "lppa-node", *told, "--out", folder / "run", "-q")
            nodes.append(started.command(*lab.on(i), *node))
        if during is not None:
            during(tmp_path / "led", coordinator)
        assert coordinator.end().code == 0, coordinator.err
        assert [node.end().code for node in nodes] == [0] * MACHINES, [n.err for n in nodes]
        return bits([folder / "run" for folder in folders])

    return run


def test_the_recipe_by_hand_gives_the_same_bits_on_machines_of_their_own(by_hand, local_bits):
    assert by_hand() == local_bits()


def test_a_cable_that_is_pulled_for_seconds_changes_no_bit(lab, by_hand, local_bits):
    settings = {"rounds": 60, "latency": 20}

    def pull_one(run, coordinator):
        def reached():
            return len(read_lines(run / "history.jsonl"))

        eventually(lambda: coordinator.poll() is not None or reached() > 3)
        lab.pull(1)
        # As long as it is out; on a ring of three nobody gets on without the others.
        threading.Event().wait(5)
        assert reached() < 30
        lab.plug(1)

    assert by_hand(pull_one, **settings) == local_bits(**settings)


@pytest.mark.parametrize(
    "how",
    [
        "netem delay 20ms 5ms loss 1%",
        "tbf rate 2mbit burst 16kb latency 100ms",
    ],
)
def test_a_slow_or_lossy_link_changes_no_bit(lab, by_hand, local_bits, how):
    lab.shape(2, how.split())
    assert by_hand() == local_bits()


def test_hosts_that_ssh_reaches_on_machines_of_their_own_find_each_other(
    lab, started, local_bits, tmp_path
):
    machines = [(lab.on(i), [lab.addresses[i]]) for i in (1, 2)]
    sshd = Sshd(started, tmp_path / "sshd", machines)
    options = ["--engine", "ssh", "--hosts", sshd.hosts, "--ssh", sshd.ssh, "-q"]
    options += ["--out", tmp_path / "run", *options_of(SMALL)]
    command = started.command(*lab.on(0), COMMANDS / "lppa", "run", "-n", MACHINES, *options)
    assert command.end().code == 0, command.err
    assert bits([tmp_path / "run"] * MACHINES) == local_bits()
    logs = [(tmp_path / "run/nodes" / str(i) / "node.log").read_text() for i in range(MACHINES)]
    assert all("done after round" in log for log in logs)


def test_the_same_seeds_give_the_same_bits_in_five_places(
    by_hand, started, slurm, tmp_path, tmp_path_factory
):
    """`pytest -s -k five_places` prints the hashes."""
    settings = {**SMALL, "dataset": "digits", "model": "mlp", "batch": 8, "nodes": MACHINES}
    sshd = Sshd(started, tmp_path / "sshd")
    places = {
        "locally": {},
        "over ssh": {"engine": "ssh", "hosts": sshd.hosts, "ssh": sshd.ssh},
        "on Slurm": {"engine": "slurm", "slurm_options": "--nodes=2 --ntasks-per-node=2"},
    }
    found = {}
    for where, how in places.items():
        run = lppa.run(**settings, **how, out=tmp_path / where.replace(" ", "-"))
        found[where] = bits([run.folder] * MACHINES)
    found["by hand across namespaces"] = by_hand(
        **{name: value for name, value in settings.items() if name != "nodes"}
    )
    for where, hashes in found.items():
        print(f"{hashlib.sha256(''.join(hashes).encode()).hexdigest()}  {where}")
    assert list(found.values()) == [found["locally"]] * len(found)
    if find_spec("ray") is None:
        pytest.skip("the same in four places; Ray is not installed")
    # Where a host's folder has a short path: there are sockets in it.
    with Started(tmp_path_factory.mktemp("ray")) as hosts, ray_cluster(hosts) as cluster:
        cluster.add()
        ray = {"engine": "ray", "address": cluster.address}
        run = lppa.run(**settings, **ray, out=tmp_path / "on-Ray")
    hashes = bits([run.folder] * MACHINES)
    print(f"{hashlib.sha256(''.join(hashes).encode()).hexdigest()}  on Ray")
    assert hashes == found["locally"]
