"""`lppa audit` as a person calls it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from lppa.api import audit as examined
from lppa.auditing.document import warning_lines
from lppa.auditing.findings import AuditDocument, Pair
from lppa.auditing.picture import draw_audit
from lppa.commands.audit import audit, show

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
        pair = Pair([1], 0, dict(zip(names, values, strict=True)), None, "weak")
        found = replace(examined(nodes=2, dataset="quadratic"), targets=names, pairs=[pair])
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
    found = AuditDocument.from_dict(json.loads(call("-n", 2, "--json").stdout))
    assert found.bad
    assert "to change that, use --" in warning_lines(found)[0]
    (line,) = warning_lines(replace(found, advice=advice))
    assert line.startswith(found.verdict[0].split(" (")[0])
    assert line.endswith(" (`lppa audit` tells more)")
    show(replace(found, advice=advice))
    printed = capsys.readouterr().out
    assert found.verdict[0] in printed
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


# --- several topologies, round by round, for scripts --------------------------------------------


def test_names_of_topologies_are_folded_and_never_cut():
    words = ["-n", "8", "--compare", "full,random-regular:3,random-regular:4"]
    told = CliRunner(env={"COLUMNS": "80"}).invoke(audit, words).stdout
    assert "…" not in told
    assert ":3" in told
    assert ":4" in told


def test_topologies_are_compared_in_a_line_each_and_one_that_is_refused_says_why():
    names = "full, ring,random-regular:9,directed-ring"
    result = call("-n", 5, "--compare", names)
    assert result.exit_code == 0
    for name in names.replace(" ", "").split(","):
        assert f" {name} " in result.stdout
    assert [result.stdout.count(grade) for grade in ("hidden", " weak", " open")] == [1, 1, 1]
    assert "\nrandom-regular:9: topology random-regular:9 with 5 nodes does not" in result.stdout
    assert result.stdout.endswith(" times degree even\n")
    assert "coalition: the fewest nodes" in result.stdout
    found = json.loads(call("-n", 5, "--compare", names, "--json").stdout)
    assert (found["nodes"], found["rule"]) == (5, "lppa")
    assert [row["topology"] for row in found["compare"]] == names.replace(" ", "").split(",")
    assert "refused" in found["compare"][2]


def test_where_all_topologies_are_refused_nothing_is_compared():
    result = call("--compare", "random-regular:9,random-regular:99")
    assert result.exit_code == 2
    assert "--compare: topology random-regular:9 with 5 nodes does not exist" in result.stderr


def test_a_topology_that_does_not_exist_is_a_typing_error_and_one_that_is_named_twice_is_one():
    result = call("--compare", "full,moebius")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "unknown topology moebius" in result.stderr
    result = call("--compare", "full,ring, full", "--json")
    told = [row["topology"] for row in json.loads(result.stdout)["compare"]]
    assert told == ["full", "ring"]


@pytest.mark.parametrize(
    "others",
    [("--attackers", "1"), ("--victim", "1"), ("--per-round",), ("--out", "nowhere")],
    ids=str,
)
def test_a_comparison_goes_alone(others, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("--compare", "full,ring", *others)
    assert result.exit_code == 2
    assert "--compare goes without" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_round_by_round_noise_at_the_start_hides_the_first_gradient_and_no_later_change(tmp_path):
    start = ("-n", 5, "--noise-every", 0, "--beta", 1, "--per-round")
    result = call(*start, "--json", "--out", tmp_path)
    told = json.loads(result.stdout)["per_round"]
    first, *later = told["rounds"]
    assert (first["gradient"], first["change"], first["grade"]) == (3.4641016, None, "hidden")
    assert first["ratio"] > 100
    assert [row["round"] for row in later] == [1, 2, 3, 4]
    assert {(row["change"], row["ratio"], row["grade"]) for row in later} == {("exact", 0, "open")}
    assert (tmp_path / "per-round.png").read_bytes().startswith(PNG)
    printed = call(*start).stdout
    assert "node 0 on node 1, round by round" in printed
    assert "change from the one before" in printed
    assert "per_round" not in json.loads(call("-n", 5, "--json").stdout)


def test_round_by_round_fresh_noise_hides_every_round_as_much_as_all_together():
    for topology in ("full", "directed-ring", "ring"):
        argv = ("-n", 6, "--topology", topology, "--beta", 1, "--per-round", "--json")
        found = json.loads(call(*argv).stdout)
        rows = found["per_round"]["rounds"]
        assert {row["grade"] for row in rows} == {"hidden"}
        least = min(pair["ratio"] for pair in found["pairs"])
        assert min(row["ratio"] for row in rows) == pytest.approx(least)


def test_what_is_mixed_under_fresh_noise_has_that_noise_on_it_round_by_round():
    # Node 3 of a directed ring hears nothing of node 0 that it could tell apart.
    argv = ("-n", 5, "--topology", "directed-ring", "--attackers", 3, "--victim", 0, "--beta", 1)
    for every, grade in ((1, "hidden"), (0, "weak")):
        given = ("--noise-every", every, "--per-round", "--json")
        found = json.loads(call(*argv, *given).stdout)
        (pair,) = found["pairs"]
        assert {row["gradient"] for row in found["per_round"]["rounds"]} == {"mixed"}
        for row in found["per_round"]["rounds"]:
            assert (row["ratio"], row["grade"]) == (pair["ratio"], grade)


WEAK = ("-n", 5, "--rule", "dp", "--gradient-rms", 0.1, "--beta", 0.5)  # √2 · 0.5 / 0.1 = 7.07
OPEN = ("-n", 5, "--rule", "dsgt")
HIDDEN = ("-n", 5)


@pytest.mark.parametrize(
    ("argv", "fail_on", "code"),
    [
        (HIDDEN, "open", 0),
        (HIDDEN, "weak", 0),
        (WEAK, "open", 0),
        (WEAK, "weak", 3),
        (OPEN, "open", 3),
        (OPEN, "weak", 3),
        (("-n", 5, "--compare", "full,ring"), "open", 0),
        (("-n", 5, "--compare", "full,star,ring"), "open", 3),
        (("-n", 5, "--compare", "full,random-regular:9"), "weak", 2),
        (("-n", 5, "--compare", "star,random-regular:9"), "open", 3),
    ],
    ids=str,
)
def test_a_script_is_told_by_the_exit_code(argv, fail_on, code):
    assert call(*argv).exit_code == 0
    result = call(*argv, "--fail-on", fail_on, "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["nodes"] == 5
    assert ("no grade for random-regular:9" in result.stderr) == ("random-regular:9" in str(argv))


def test_the_size_of_what_is_to_be_hidden_is_used_as_it_is_given():
    argv = ("-n", 5, "--beta", 0.3, "--batch", 7, "--local-steps", 3, "--gradient-rms", 0.02)
    found = json.loads(call(*argv, "--json").stdout)
    assert found["hide"] == {
        **{"rms": 0.02, "source": "option", "examples": None},
        **{"spread": 1.0, "always": False},
    }
    for pair in found["pairs"]:
        assert pair["ratio"] == pytest.approx(min(pair["g0"], pair["g1"], pair["change"]) * 15)
    table = json.loads(call(*argv[:-2], "--json").stdout)["hide"]
    assert table == {
        "rms": pytest.approx(0.85 / 21),
        "source": "table",
        "examples": 21,
        "spread": 1.0,
        "always": False,
    }
    for wrong in ("0", "-1", "much"):
        assert call("--gradient-rms", wrong).exit_code == 2


def test_an_example_that_every_gradient_has_is_told_more_in_a_longer_run():
    argv = ("-n", 5, "--rule", "dsgd", "--batches", "same", "--beta", 0.41, "--json")
    short, usual, long = (
        json.loads(call(*argv, *more).stdout)["pairs"][0]["ratio"]
        for more in (("--run-rounds", 20), (), ("--run-rounds", 320))
    )
    assert short / usual == pytest.approx((79 / 19) ** 0.5)
    assert usual / long == pytest.approx((319 / 79) ** 0.5)


def test_rounds_that_only_average_are_overheard_too():
    argv = ("-n", 5, "--topology", "ring", "--noise-every", 0, "--rounds", 1, "--json")
    argv += ("--init", "independent", "--mixing", "combine-then-adapt")
    without, finished = (json.loads(call(*argv, "--finish", k).stdout)["pairs"] for k in (0, 3))
    assert sum(p["g1"] != "mixed" for p in finished) > sum(p["g1"] != "mixed" for p in without)


@pytest.mark.parametrize(
    "argv", [(), ("--rule", "dp", "--clip", 1), ("--rule", "dsgd"), ("--per-round",)], ids=str
)
def test_an_audit_that_was_written_down_is_read_as_it_was(argv):
    told = json.loads(call("-n", 3, *argv, "--json").stdout)
    found = AuditDocument.from_dict(told)
    assert json.dumps(found.to_dict()) == json.dumps(told)
    assert found == told
    assert (found.pairs[0].noise["g0"], found["pairs"][0]["g0"]) == (told["pairs"][0]["g0"],) * 2
