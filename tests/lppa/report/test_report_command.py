"""`lppa report` writes where it says, and says in one line what is wrong."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lppa.cli import main


def call(*argv):
    return CliRunner().invoke(main, ["report", *map(str, argv)])


def test_a_run_gets_its_report_beside_its_other_files(made_up):
    run = made_up().whole()
    result = call(run.folder)
    assert result.exit_code == 0
    assert result.stdout == f"{run.folder}/report.html\n"
    assert "</html>" in (run.folder / "report.html").read_text()


def test_several_runs_share_a_report_in_this_folder(made_up, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert call(made_up("a").whole().folder, made_up("b").whole().folder).exit_code == 0
    assert "2 runs side by side" in (here / "report.html").read_text()
    assert not list(tmp_path.glob("[ab]/report.html"))


def test_as_json_it_says_what_it_wrote_and_nothing_else(made_up, tmp_path):
    run, out = made_up().begin(), tmp_path / "deep" / "page.html"
    result = call(run.folder, "--out", out, "--json")
    said = json.loads(result.stdout)
    assert said["report"] == str(out)
    assert said["bytes"] == out.stat().st_size
    assert said["runs"] == [{"name": "made-up", "directory": str(run.folder), "status": "running"}]


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["{none}"], "is not a folder"),
        (["{empty}"], "is not a run's directory"),
        (["{run}", "--out", "{empty}"], "is a folder"),
        (["{run}", "--out", "{file}/page.html"], "cannot be written"),
        (["{run}", "{none}"], "is not a folder"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(made_up, tmp_path, argv, reason):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    run = made_up().whole().folder
    names = {"run": run, **{name: tmp_path / name for name in ("none", "empty", "file")}}
    result = call(*[word.format(**names) for word in argv])
    assert result.exit_code == 2
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
