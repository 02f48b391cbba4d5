"""A run's files are read in whatever state they are."""

from __future__ import annotations

import copy
import json

import pytest

from lppa.protocol.errors import WrongUse
from lppa.report.page import render_page
from lppa.report.reading import read_run

JUNK = (None, "<b>x</b>", -1, 10**400, float("nan"), float("inf"), [], {}, True, [[None]], {"a": 1})
FILES = (
    "config.json",
    "topology.json",
    "partition.json",
    "audit.json",
    "summary.json",
    "history.jsonl",
    "metrics.jsonl",
    "attacks/summary.json",
)


def test_a_whole_run_is_read_with_all_its_figures(made_up):
    run = read_run(made_up().whole().folder)
    assert (run.status, run.nodes, run.rounds, run.over) == ("completed", 3, 15, True)
    assert [row.round for row in run.rows] == [5, 10, 15]
    last = run.last
    assert last.accuracy.mean == pytest.approx(0.76)
    assert (last.accuracy.min, last.accuracy.max) == (0.75, 0.77)
    assert (last.loss.min, last.loss.max) == pytest.approx((2 / 15, 2 / 15 + 0.02))
    assert last.mean("gradient_norm") == 2.0
    assert run.graph.W.shape == (3, 3)
    assert run.partition[0] == (10, 0, 5)
    assert run.audit.cells["change"][(1,), 0] == "exact"
    assert run.audit.cells["g1"][(1,), 0] == "mixed"
    assert [attack.name for attack in run.attacks] == ["difference/dlg", "naive/idlg"]
    assert [name for name, _ in run.pictures] == ["curves.png"]
    assert run.problems == ()


def test_a_run_that_grows_is_read_from_its_history(made_up):
    growing = made_up().begin()
    growing.evaluate(5)
    run = read_run(growing.folder)
    assert (run.status, run.over) == ("running", False)
    assert [row.round for row in run.rows] == [5]
    assert run.last.consensus == 0.2
    assert run.seconds["compute"] == pytest.approx(0.5)
    assert run.sent == {"noise": 3000, "state": 30000}


def test_without_a_history_the_clients_own_reports_make_the_curves(made_up):
    growing = made_up().begin()
    growing.lines("metrics.jsonl", [growing.report(node, 5) for node in range(3)])
    growing.lines("metrics.jsonl", [growing.report(node, 10) for node in range(2)])
    run = read_run(growing.folder)
    assert [row.round for row in run.rows] == [5]
    assert run.last.accuracy.max == pytest.approx(0.27)
    assert run.last.ratio == 6.0


def test_a_last_line_that_is_being_written_is_no_problem(made_up):
    growing = made_up().begin()
    growing.evaluate(5)
    for name in ("metrics.jsonl", "history.jsonl"):
        with (growing.folder / name).open("a") as file:
            file.write('{"round": 10, "acc')
    run = read_run(growing.folder)
    assert [row.round for row in run.rows] == [5]
    assert run.problems == ()


def test_a_broken_line_in_the_middle_is_told(made_up):
    growing = made_up().begin()
    with (growing.folder / "metrics.jsonl").open("a") as file:
        file.write("{broken\n")
    growing.evaluate(5)
    run = read_run(growing.folder)
    assert [row.round for row in run.rows] == [5]
    assert "1 lines of metrics.jsonl" in run.problems[0]


@pytest.mark.parametrize(
    ("status", "more", "reason"),
    [
        ("failed", {"error": "node 2 was lost in round 7", "round": 7}, "node 2 was lost"),
        ("interrupted", {"round": 7}, "in round 7"),
    ],
)
def test_a_run_that_did_not_come_to_its_end_says_how(made_up, status, more, reason):
    run = read_run(made_up().begin().end(status, **more).folder)
    assert run.status == status
    assert reason in run.reason
    assert f"{status}: {run.reason}" in render_page([run])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [None, "", "{", "[1, 2", "null", "7", '"x"', "\x00\xff" * 9])
def test_any_file_may_be_missing_or_damaged(made_up, name, content):
    run = made_up().whole()
    if content is None:
        (run.folder / name).unlink()
    else:
        (run.folder / name).write_text(content, encoding="latin-1")
    page = render_page([read_run(run.folder)])
    assert page.count("</html>") == 1


def places(content, path=()):
    """All ways to a value inside a JSON document."""
    pairs = ()
    if isinstance(content, dict):
        pairs = content.items()
    elif isinstance(content, list):
        pairs = enumerate(content[:2])
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


def with_junk(content, path, junk):
    changed = copy.deepcopy(content)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    return changed


@pytest.mark.parametrize("name", FILES)
def test_any_value_may_be_nonsense(made_up, name):
    run = made_up(rounds=(5, 10)).whole()
    content = run.files[name]
    for k, path in enumerate(places(content)):
        for junk in (JUNK[k % len(JUNK)], JUNK[(k // 3) % len(JUNK)]):
            changed = with_junk(content, path, junk)
            if name.endswith(".jsonl"):
                text = "".join(json.dumps(line) + "\n" for line in changed)
            else:
                text = json.dumps(changed)
            (run.folder / name).write_text(text)
            page = render_page([read_run(run.folder)])
            assert "<b>x</b>" not in page, path
            assert ">nan" not in page, path


def test_a_cell_of_the_audit_that_is_nonsense_is_not_taken_for_safe(made_up):
    run = made_up().whole()
    run.json("audit.json", with_junk(run.files["audit.json"], ("pairs", 0, "change"), -1))
    cells = read_run(run.folder).audit.cells["change"]
    assert ((0,), 1) not in cells
    assert cells[(1,), 0] == "exact"


def test_a_result_cannot_name_a_picture_outside_of_the_attacks(made_up):
    run = made_up().whole()
    (run.folder / "secret.png").write_bytes((run.folder / "attacks" / "one.png").read_bytes())
    results = run.files["attacks/summary.json"]
    run.json("attacks/summary.json", with_junk(results, (0, "picture"), "../secret.png"))
    assert read_run(run.folder).attacks[0].picture is None


def test_a_picture_that_is_none_is_left_out(made_up):
    run = made_up().whole()
    (run.folder / "attacks" / "one.png").write_text("<svg onload=alert(1)>")
    assert read_run(run.folder).attacks[0].picture is None


def test_attacks_without_a_summary_are_found_one_by_one(made_up):
    run = made_up().whole()
    one = run.files["attacks/summary.json"][0]
    del one["picture"]
    (run.folder / "attacks" / "summary.json").unlink()
    run.json("attacks/one.json", one)
    (attack,) = read_run(run.folder).attacks
    assert attack.name == "difference/dlg"
    assert attack.picture


def test_a_folder_that_holds_no_run_is_refused(tmp_path):
    with pytest.raises(WrongUse, match="is not a run's directory"):
        read_run(tmp_path)
    with pytest.raises(WrongUse, match="is not a folder"):
        read_run(tmp_path / "nowhere")
