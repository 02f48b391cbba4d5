"""The report of real runs: what they write is what it reads."""

from __future__ import annotations

import json
import signal
import urllib.request

import numpy as np
import pytest
from click.testing import CliRunner
from processes import Started, eventually, read_lines
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lppa.cli import main
from lppa.protocol.messages import Metrics
from lppa.report.reading import read_run
from lppa.report.tensorboard import EventWriter
from lppa.report.write import write_report

CURIOUS = {
    "model": "lenet",
    "batch": 1,
    "local_steps": 1,
    "rounds": 4,
    "eval_every": 2,
    "normalize": False,
    "init": "independent",
    "reveal_batches": True,
    "topology": "ring",
    "seed": 1,
}

EMPTY = np.zeros(0)


@pytest.fixture
def started(tmp_path):
    """Starts commands, and leaves none behind."""
    folder = tmp_path / "processes"
    folder.mkdir()
    with Started(folder) as processes:
        yield processes


def test_a_real_run_with_an_attack_makes_a_whole_report(local_run):
    run = local_run(attackers=(1,), rule="dsgt", **CURIOUS)
    argv = ["attack", str(run.folder), "--attack", "idlg", "--restarts", "1", "--json", "-q"]
    assert CliRunner().invoke(main, argv).exit_code == 0
    record = read_run(run.folder)
    assert record.problems == ()
    assert [row.round for row in record.rows] == [2, 4]
    last = run.summary["history"][-1]
    assert record.last.accuracy.mean == last["accuracy"]["mean"]
    assert record.last.loss.mean == pytest.approx(last["loss"])
    assert record.last.consensus == last["consensus"]
    assert sorted(record.seconds_by_node) == list(range(5))
    assert len(record.graph.edges) == 10
    assert record.attacks[0].picture
    page = write_report(run.folder).read_text(encoding="utf-8")
    for chart in ("Test accuracy", "Consensus", "Time split", "Topology", "Weights"):
        assert f'data-chart="{chart}"' in page
    assert "No figures yet." not in page
    assert "data:image/png;base64," in page


def test_the_rows_of_a_real_run_are_events_that_tensorboard_reads(local_run, tmp_path):
    run = local_run(rule="lppa", **CURIOUS)
    writer = EventWriter(tmp_path / "events")
    for report in read_lines(run.folder / "metrics.jsonl"):
        writer.metrics(report["node"], Metrics(report["round"], report, EMPTY, EMPTY))
    for row in run.summary["history"]:
        writer.row(row)
    writer.close({})
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    known = events.Scalars("conservation")
    assert [event.step for event in known] == [2, 4]
    for event, row in zip(known, run.summary["history"], strict=True):
        assert event.value == pytest.approx(row["conservation"], rel=1e-6)
    assert events.Scalars("seconds/compute")[-1].value > 0


def test_a_run_is_watched_until_somebody_presses_ctrl_c(local_run, started):
    run = local_run(rule="dsgt", **CURIOUS)
    watch = started.quick("lppa", "watch", run.folder)
    watch.says("http://127.0.0.1:")
    url = next(word for word in watch.err.split() if word.startswith("http://"))

    def page():
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as answer:
            return answer.read().decode()

    assert 'data-chart="Test accuracy"' in eventually(page)
    watch.signal(signal.SIGINT)
    ended = watch.end()
    assert ended.code == 0
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 2
    assert "Traceback" not in ended.err


def test_watching_what_can_never_come_is_refused_in_one_line(tmp_path):
    result = CliRunner().invoke(main, ["watch", str(tmp_path / "no" / "run")])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "check the path" in result.stderr


def test_the_files_of_a_failed_run_make_a_report_too(local_run):
    """As a run that was killed leaves them: no summary, and a last line cut in the middle."""
    run = local_run(rule="dsgt", **CURIOUS)
    (run.folder / "summary.json").unlink()
    metrics = run.folder / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-40])
    (run.folder / "history.jsonl").unlink(missing_ok=True)
    record = read_run(run.folder)
    assert [row.round for row in record.rows] == [2]
    assert record.status == "running"
    assert json.loads((run.folder / "config.json").read_text())["rule"] == record.setting("rule")
    assert "no end on record" in write_report(run.folder).read_text(encoding="utf-8")
