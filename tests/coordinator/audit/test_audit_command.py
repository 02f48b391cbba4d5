"""`lppa audit` as a person calls it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lppa.coordinator.audit.command import audit, show
from lppa.coordinator.audit.document import warning_lines
from lppa.coordinator.audit.picture import draw_audit

PNG = b"\x89PNG\r\n\x1a\n"


def call(*argv):
    runner = CliRunner(env={"COLUMNS": "120"})
    return runner.invoke(audit, [str(word) for word in argv], catch_exceptions=False)


def test_a_table_a_verdict_and_the_law_are_printed():
    start = ("--noise-every", 0, "--noise-exchange", "tensor")
    result = call("-n", 5, "--rule", "lppa", *start)
    assert result.exit_code == 0
    assert "EXACT" in result.stdout
    assert "3.46" in result.stdout
    assert "node 1 learns node 0's gradient change exactly after round 1" in result.stdout
    assert "--noise-every 1 --noise-exchange seed" in result.stdout
    assert "2β²(d_in + d_out)" in result.stdout


def test_many_pairs_are_grouped():
    result = call("-n", 12, "--topology", "ring")
    assert result.exit_code == 0
    assert "(24 pairs)" in result.stdout


def test_json_is_all_of_it_and_nothing_else():
    result = call("-n", 5, "--json")
    found = json.loads(result.stdout)
    assert (found["nodes"], found["rounds"], found["bad"]) == (5, 4, False)
    assert len(found["pairs"]) == 20
    assert {pair["g0"] for pair in found["pairs"]} == {3.4641016}


def test_attackers_pool_what_they_know_and_one_victim_can_be_chosen():
    argv = ("-n", 5, "--attackers", "1,2,3,4", "--victim", 0, "--noise-every", 1, "--json")
    (pair,) = json.loads(call(*argv).stdout)["pairs"]
    assert pair["attackers"] == [1, 2, 3, 4]
    assert pair["g0"] == "exact"


def test_the_picture_and_the_json_are_written(tmp_path):
    out = tmp_path / "here"
    result = call("-n", 4, "--topology", "directed-ring", "--out", out, "--json")
    assert json.loads((out / "audit.json").read_text()) == json.loads(result.stdout)
    assert (out / "audit.png").read_bytes().startswith(PNG)
    again = call("-n", 4, "--out", out)
    assert again.exit_code == 2
    assert "exists already" in again.stderr


def test_exact_cells_are_red_and_what_is_not_identifiable_is_grey(tmp_path):
    red, grey = (0xC0, 0x39, 0x2B), (0xD9, 0xD9, 0xD9)
    names = ["g0", "g1", "change", "telescoped"]

    def area(*values):
        pair = {"attackers": [1], "victim": 0, **dict(zip(names, values, strict=True))}
        found = {
            **{"nodes": 2, "rule": "lppa", "topology": "full", "noise_every": 0, "rounds": 4},
            **{"targets": names, "pairs": [pair]},
        }
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.png"
        draw_audit(path, found)
        from matplotlib.image import imread

        pixels = (imread(path)[..., :3] * 255).round().astype(int)
        return [int((pixels == colour).all(axis=-1).sum()) for colour in (red, grey)]

    # The legend shows both colours; a cell adds far more.
    reds, greys = zip(
        area(1.0, 1.0, 1.0, 1.0),
        area(1.0, 1.0, "exact", "exact"),
        area("mixed", 1.0, 1.0, 1.0),
        strict=True,
    )
    assert reds[1] > 5 * reds[0]
    assert greys[2] > 5 * greys[0]
    assert reds[2] == reds[0]


@pytest.mark.parametrize("advice", ["", None])
def test_where_nothing_helps_no_advice_is_announced(capsys, advice):
    found = json.loads(call("-n", 2, "--json").stdout)
    assert found["bad"]
    assert "to change that, use --" in warning_lines(found)[0]
    (line,) = warning_lines({**found, "advice": advice})
    assert line.startswith(found["verdict"][0].split(" (")[0])
    assert line.endswith(" (`lppa audit` tells more)")
    show({**found, "advice": advice})
    printed = capsys.readouterr().out
    assert found["verdict"][0] in printed
    assert "change that" not in (line + printed)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("--beta", "-1"), "--beta must be"),
        (("--beta", "nan"), "--beta must be"),
        (("--beta-own", "-0.5"), "--beta-own must be"),
        (("--beta-own", "0.1", "--rule", "dp"), "--beta-own goes with --rule lppa"),
        (("--clip", "0"), "--clip must be"),
        (("--attackers", "7"), "there is no node 7 in a graph of 5: ids are 0 to 4"),
        (("--attackers", "1,x"), "--attackers must be comma-separated whole numbers"),
        (("--attackers", "0,1,2,3,4"), "leave at least one"),
        (("--victim", "5"), "there is no node 5"),
        (("--attackers", "1", "--victim", "1"), "cannot be attacker and victim"),
        (("--topology", "moebius"), "unknown topology moebius"),
        (("-n", "1"), "at least 2 nodes"),
        (("-n", "0"), "at least 2 nodes"),
    ],
)
def test_wrong_use_is_refused_in_one_line(argv, reason):
    result = call(*argv)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert reason in line


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    result = call("--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "is a file" in result.stderr


def test_settings_come_from_a_preset_and_from_a_runs_config_too(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"rule": "dp", "rounds": 9, "about": {"nodes": 3}}))
    found = json.loads(call("--preset", "paper", "--config", config, "--json").stdout)
    assert (found["rule"], found["nodes"], found["init"]) == ("dp", 3, "independent")


def test_a_toml_file_may_say_how_many_nodes_and_the_command_line_wins(tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text("nodes = 4\n")
    assert json.loads(call("--config", config, "--json").stdout)["nodes"] == 4
    assert json.loads(call("--config", config, "-n", 3, "--json").stdout)["nodes"] == 3
