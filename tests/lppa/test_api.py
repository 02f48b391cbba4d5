"""What `import lppa` gives, without any run: names, refusals, and tables of figures."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

import lppa
from lppa.api import own_code, scouted
from lppa.coordinator.figures import Row, Spread
from lppa.finished import History, flat
from lppa.node.blame import blame
from lppa.own_code import OwnCode, find, names_of, unpack
from lppa.protocol.errors import WrongUse


def test_all_public_names_are_there_and_no_others():
    for name in lppa.__all__:
        assert getattr(lppa, name) is not None
    assert dir(lppa) == sorted(lppa.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lppa.nothing  # noqa: B018


def test_an_audit_is_a_call_also_after_its_package_was_loaded():
    import lppa.auditing.document

    found = lppa.audit(nodes=4, topology="ring", seed=1)
    assert (found["nodes"], found["topology"]) == (4, "ring")
    assert found["hide"]["source"] == "table"


def problem(**changes):
    x, y = torch.randn(60, 3), torch.arange(60) % 2
    given = {"module": nn.Linear(3, 2), "train": (x, y), "test": (x, y), "name": "mine"}
    return lppa.Problem(**{**given, **changes})


def test_an_audit_of_somebodys_problem_goes_by_what_is_measured_of_it():
    found = lppa.audit(problem(), nodes=3, seed=1)
    assert found["hide"]["source"] == "start"
    # Batches of all twenty rows, ten times: each gradient is shared by twenty.
    assert found["hide"]["examples"] == 20


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"topologi": "ring"}, "unknown setting 'topologi'"),
        ({"rule": "foo"}, "--rule must be"),
        ({"rule": "nowhere.py:Rule"}, "does not exist"),
        ({"problem": "nowhere.py:problem"}, "does not exist"),
        ({"problem": "problem"}, "is not like FILE.py:NAME"),
        ({"problem": 7}, "must be an lppa.Problem, not a int"),
        ({"problem": problem, "dataset": "digits"}, "leave dataset and model out"),
        ({"nodes": 1}, "at least 2 nodes"),
        ({"attackers": [9]}, "no node 9"),
        ({"out": "x", "name": "y"}, "give one of them"),
    ],
)
def test_wrong_use_is_told_before_anything_starts(given, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongUse, match=reason):
        lppa.run(**given)
    assert not list(tmp_path.iterdir())


def test_code_of_scripts_and_notebooks_reaches_another_process(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import lppa, torch\n"
        "@lppa.rule('stay')\n"
        "class Stay:\n"
        "    travels = ('theta',)\n"
        "    def start(self, theta, local): return {'theta': theta}\n"
        "    def combine(self, own, mixed, t, local): return {'theta': own['theta']}\n"
        "class Net(torch.nn.Linear): pass\n"
        "def problem():\n"
        "    x, y = torch.zeros(4, 3), torch.zeros(4, dtype=int)\n"
        "    return lppa.Problem(lambda: Net(3, 2), (x, y), (x, y), name='mine')\n"
    )
    packed = tmp_path / "packed"
    with scouted(own_code(f"{script}:problem", f"{script}:Stay")) as scout:
        names = scout.names()
        scout.keep_code(packed)
    assert names == {"dataset": "own/mine", "model": "own", "rule": "own/stay"}
    script.unlink()
    there = (
        "import sys, pathlib; from lppa.own_code import unpack; from lppa.node.rules import RULES; "
        "code = unpack(pathlib.Path(sys.argv[1]).read_bytes()); "
        "print(type(code.made.build(0)).__name__, 'own/stay' in RULES)"
    )
    said = subprocess.run([sys.executable, "-c", there, packed], capture_output=True, text=True)
    assert said.stdout.split() == ["Net", "True"], said.stderr


def test_a_rule_by_its_short_name_is_found_where_it_was_registered():
    @lppa.rule("short")
    class Short:
        travels = ("theta",)

        def start(self, theta, local):
            return {"theta": theta}

        def combine(self, own, mixed, t, local):
            return mixed

    code = own_code(None, "short")
    assert names_of(code) == {"rule": "own/short"}
    assert unpack(OwnCode(None, code.rule).pack()).rule.travels == ("theta",)


@pytest.mark.parametrize(
    ("body", "reason"),
    [("travels = ()", "no start and no combine"), ("", "no travels")],
)
def test_a_class_that_is_no_rule_is_refused(body, reason):
    space: dict = {}
    exec(f"class Rule:\n    {body or 'pass'}", space)
    with pytest.raises(WrongUse, match=reason):
        lppa.rule("none")(space["Rule"])


def test_an_error_in_somebodys_file_is_told_with_its_line(tmp_path):
    script = tmp_path / "broken.py"
    script.write_text("x = 1\ny = 1 / 0\n")
    with pytest.raises(WrongUse, match=r"broken\.py, line 2, in <module>: ZeroDivisionError"):
        find(f"{script}:problem", "--problem")
    script.write_text("def (:\n")
    with pytest.raises(WrongUse, match=r"broken\.py, line 1: SyntaxError"):
        find(f"{script}:problem", "--problem")


def test_an_error_of_ours_is_not_blamed_on_anybody():
    try:
        lppa.protocol.settings.make_settings({"rule": 7})
    except WrongUse as error:
        assert "test_api.py" in blame(error)
        error.__traceback__ = error.__traceback__.tb_next
        assert blame(error) is None


def test_history_is_a_table_by_round():
    row = Row(
        round=5,
        reported={"accuracy": Spread(mean=0.5, min=0.4, max=0.6), "loss": 1.0},
        consensus=0.0,
        conservation=None,
        metrics={"r2": None},
    )
    history = History((flat(row), {**flat(row), "round": 10}))
    assert history["round"] == [5, 10]
    assert history["accuracy_min"] == [0.4, 0.4]
    assert "r2" not in history.columns
    assert len(history) == len(list(history)) == 2
    with pytest.raises(KeyError, match="nothing: there are round"):
        history["nothing"]


def no_such_file():
    raise OSError("no such table")


def bad_loss(out, y):
    return out.sum() / 0 + [][0]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (no_such_file, r"cannot be made: .*test_api\.py, line \d+, in no_such_file: OSError"),
        (problem(loss=bad_loss), r"fails before .*test_api\.py, line \d+, in bad_loss: IndexError"),
    ],
)
def test_code_that_fails_before_anything_starts_is_told_as_theirs(given, reason, tmp_path):
    with pytest.raises(WrongUse, match=reason):
        lppa.run(given, nodes=3, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
