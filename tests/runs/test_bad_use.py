"""Wrong use gets one clear line and exit code 2, and leaves nothing behind."""

from __future__ import annotations

import json
import re

import pytest
from processes import PATIENCE, eventually, read_summary
from refusals import assert_refused

from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint
from lppa.running.rundir import RunDirectory

TINY = ("--dataset", "quadratic", "--rounds", "3", "--timeout", str(PATIENCE))


def contents(folder):
    """All files below a folder with what is in them."""
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ("lppa run -n 1", "at least 2 nodes"),
        ("lppa run -n 0", "at least 2 nodes"),
        ("lppa peers 1", "at least 2 nodes"),
        ("lppa peers -- -4", "at least 2 nodes"),
        ("lppa run --rounds 0", "--rounds"),
        ("lppa run --lr nan", "--lr"),
        ("lppa run --dataset quadratic --model cnn", "--model cnn"),
        ("lppa run --dataset gone.csv --target price", r"gone\.csv: no such file"),
        ("lppa run --target price", "--target names a column of a .csv file"),
        ("lppa run --topology hypercube", "unknown topology hypercube"),
        ("lppa run --topology gone.json", "gone.json"),
        ("lppa run --config gone.toml", "gone.toml"),
        ("lppa peers 3 --port 65535 --fixed-ports", "--port 65535"),
        ("lppa peers 3 --host 10.0.0.1 --host 10.0.0.2", "2 times"),
        ("lppa-node --id 0 --peers gone.json", "gone.json does not exist"),
        ("lppa-coordinator --peers gone.json", "gone.json does not exist"),
        ("lppa-node --id 0 --peers .", "cannot be read"),
    ],
)
def test_a_wrong_argument_is_named_in_one_line(started, argv, reason):
    assert_refused(started, started.quick(*argv.split()).end(), reason)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("--device", "tpu"),
        ("--dataset", "nowhere"),
        ("--partition", "halves"),
        ("--model", "transformer"),
        ("--timeout", "1e9"),
        ("--seed", "99999999999999999999"),
        ("--beta", "1e300"),
    ],
)
def test_a_setting_that_no_node_can_follow_is_refused_before_anything_starts(
    started, setting, value
):
    argv = ["lppa", "run", "-n", 2, "--rounds", 1, "--out", "run", setting, value]
    if setting not in ("--dataset", "--partition", "--model"):
        argv += ["--dataset", "quadratic"]
    command = started.quick(*argv)
    # Not an answer yet, but a run that goes on: the test needs no more than that.
    eventually(lambda: command.poll() is not None or (started.here / "run").exists())
    assert not (started.here / "run").exists(), "a run was started"
    assert_refused(started, command.end(), setting)


@pytest.mark.parametrize("timeout", ["inf", "nan", "1e9"])
def test_a_node_refuses_a_timeout_that_is_no_number_of_seconds(started, peers, timeout):
    ended = started.node(0, peers, "--timeout", timeout).end()
    assert ended.code == 2, ended
    assert "Traceback" not in ended.err
    assert "--timeout" in ended.err


@pytest.mark.parametrize(
    "argv", ["lppa nothing", "lppa run --nothing 1", "lppa-node --nothing", "lppa-node --id 0"]
)
def test_an_unknown_command_or_option_is_wrong_use(started, argv):
    ended = started.quick(*argv.split()).end()
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert ended.err.splitlines()[-1].lower().startswith("error: ")


def test_with_v_a_wrong_use_shows_where_it_was_found(started):
    ended = started.quick("lppa", "run", "-n", 1, "-v").end()
    assert ended.code == 2
    assert "Traceback" in ended.err
    assert len(ended.errors) == 1


@pytest.mark.parametrize("command", ["lppa run", "lppa peers", "lppa-node", "lppa-coordinator"])
def test_every_command_has_a_help_text_with_an_example(started, command):
    for option in ("-h", "--help"):
        ended = started.command(*command.split(), option).end()
        assert (ended.code, ended.err) == (0, "")
        assert f"Example: {command}" in " ".join(ended.out.split())


# --- graphs -------------------------------------------------------------------------------------


def test_a_graph_that_is_not_strongly_connected_says_who_cannot_reach_whom(started, tmp_path):
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps([[0, 1], [1, 0], [1, 2]]))
    ended = started.quick("lppa", "run", "-n", 3, "--topology", graph, "--out", "run").end()
    assert_refused(started, ended, r"not strongly connected: node 2 cannot reach nodes 0, 1")
    peers = started.peers(3)
    ended = started.quick("lppa-coordinator", "--peers", peers, "--topology", graph).end()
    assert_refused(started, ended, r"node 2 cannot reach nodes 0, 1")


@pytest.mark.slow
def test_two_runs_of_two_side_by_side_warn_complete_and_print_one_json_document_each(started):
    """The second starts as soon as the first has chosen its directory, and must choose another."""
    argv = ("lppa", "run", "-n", 2, *TINY, "--json")
    commands = [started.command(*argv)]
    eventually(lambda: list(started.here.glob("runs/*/config.json")), what="it has a directory")
    commands.append(started.command(*argv))
    directories = set()
    for ended in [command.end() for command in commands]:
        assert ended.code == 0, ended
        printed = json.loads(ended.out)
        folder = started.here / printed.pop("directory")
        directories.add(folder)
        assert printed == read_summary(folder)
        assert printed["status"] == "completed"
        assert len(printed["warnings"]) == 1
        for warning in printed["warnings"]:
            assert f"warning: {warning}" in ended.err.splitlines()
    assert len(directories) == 2
    assert list(started.temporary.iterdir()) == []
    started.all_end()


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({"nodes": 2, "rule": "lppa"}, "node 1 learns node 0's"),
        ({"nodes": 3, "rule": "dsgt"}, "node 1 learns node 0's"),
        ({"nodes": 5, "rule": "lppa", "noise_every": 1, "noise_exchange": "seed"}, None),
    ],
)
def test_a_run_tells_in_one_line_what_it_does_not_hide(local_run, settings, warning):
    summary = local_run(dataset="quadratic", rounds=2, local_steps=1, **settings).summary
    assert summary["status"] == "completed"
    assert len(summary["warnings"]) == (warning is not None)
    for line in summary["warnings"]:
        assert warning in line


# --- the run's directory ------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["a run", "a folder of somebody else", "a file"])
def test_an_out_that_exists_is_refused_and_left_as_it_was(started, tmp_path, what):
    out = tmp_path / "out"
    if what == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / ("config.json" if what == "a run" else "thesis.txt")).write_text("mine")
    before = contents(tmp_path / "out") if out.is_dir() else out.read_bytes()
    ended = started.quick("lppa", "run", "-n", 2, *TINY, "--out", out).end()
    assert_refused(started, ended, "out exists already")
    assert (contents(out) if out.is_dir() else out.read_bytes()) == before


def test_two_runs_do_not_share_a_directory_even_if_both_found_it_free(tmp_path):
    first, second = (make_blueprint(make_settings({"seed": s}), 2, "run") for s in (1, 2))
    RunDirectory(tmp_path / "run", first).metrics_file.close()
    with pytest.raises(WrongUse, match="exists already"):
        RunDirectory(tmp_path / "run", second)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["seed"] == 1


@pytest.mark.parametrize(
    "argv",
    [
        ("lppa", "run", "-n", 2, *TINY, "--out"),
        ("lppa", "peers", 2, "--out"),
    ],
)
@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nowhere"])
def test_an_out_that_cannot_be_made_is_told_in_one_line(started, tmp_path, argv, place):
    (tmp_path / "file").write_text("mine")
    ended = started.quick(*argv, tmp_path / place).end()
    assert_refused(started, ended, re.escape(place))
    assert (tmp_path / "file").read_text() == "mine"


def test_an_address_book_is_not_overwritten(started, peers):
    before = contents(peers.parent)
    ended = started.quick("lppa", "peers", 2, "--out", peers.parent).end()
    assert_refused(started, ended, "peers.json exists already")
    assert contents(peers.parent) == before


@pytest.mark.parametrize("host", ["", "two words", "tcp://10.0.0.1", "*"])
def test_a_host_that_is_none_does_not_get_into_an_address_book(started, tmp_path, host):
    ended = started.quick("lppa", "peers", 2, "--host", host, "--out", tmp_path / "book").end()
    assert_refused(started, ended, "--host")
    assert not (tmp_path / "book").exists()


def test_json_of_peers_is_the_address_book_without_any_secret(started, tmp_path):
    ended = started.quick("lppa", "peers", 2, "--json", "--out", tmp_path / "book").end()
    assert ended.code == 0
    assert json.loads(ended.out) == json.loads((tmp_path / "book" / "peers.json").read_text())
    for key in (tmp_path / "book" / "keys").iterdir():
        assert key.read_text().strip() not in ended.out + ended.err
