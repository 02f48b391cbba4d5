"""Other people's problems: their networks, losses, data, metrics and rules, in real processes."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import lppa
from lppa.protocol.errors import RunFailed, WrongUse

EXAMPLES = Path(__file__).parent.parent / "examples"
RING = {"nodes": 4, "topology": "ring", "rule": "lppa", "seed": 1, "timeout": 300}


@pytest.fixture(autouse=True)
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_every_example_is_under_60_lines():
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) < 60, path


def check_audit(run):
    """Audited like any other run: what every client learns of every neighbour, and a grade."""
    assert {(p["attackers"][0], p["victim"]) for p in run.audit["pairs"]} >= {(0, 1), (1, 0)}
    assert run.summary["grade"] in ("open", "weak", "hidden")
    assert run.audit["hide"]["source"] in ("start", "run")


def test_a_residual_net_with_batchnorm(tmp_path):
    import residual_net

    said = []

    class Ear(lppa.Listener):
        def say(self, text):
            said.append(text)

    run = lppa.run(
        residual_net.problem, rounds=10, out=tmp_path / "run", listener=Ear(), attackers=[1], **RING
    )
    assert run.summary["dataset"] == "own/stripes"
    assert run.history["accuracy"][-1] > 0.9
    assert any("32 running averages" in text for text in said)
    check_audit(run)
    # The averages have moved from where they began, and to the same place for all.
    one, other = run.model(0), run.model(1)
    norm, norm_too = one[1].norm_one, other[1].norm_one
    assert float((norm.running_var - 1).abs().min()) > 0.01
    # Noise enters them as it does weights.
    torch.testing.assert_close(norm.running_var, norm_too.running_var, rtol=0.1, atol=0.2)
    x, y = residual_net.images(50, 7)
    assert float((one(x).argmax(1) == y).double().mean()) > 0.9
    assert run.report().stat().st_size > 10_000
    with pytest.raises(WrongUse, match="attacks rebuild the data sets that come with lppa"):
        run.attack("difference/dlg", victim=0)


def test_a_small_transformer_on_text(tmp_path):
    import small_transformer

    run = lppa.run(
        small_transformer.problem,
        rounds=6,
        lr=0.3,
        momentum=0.9,
        eval_every=2,
        out=tmp_path / "run",
        **RING,
    )
    first, *_, last = run.history["perplexity"]
    assert last < first < 96
    assert run.summary["accuracy"] is None
    assert set(run.summary["metrics"]["perplexity"]) == {"mean", "min", "max"}
    check_audit(run)


def test_a_regression_from_a_csv(tmp_path, monkeypatch):
    import csv_regression

    random = np.random.default_rng(1)
    x = random.normal(size=(400, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.1 * random.normal(size=400)
    with (tmp_path / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "target", "c"])
        writer.writerows([(*row[:2], goal, row[2]) for row, goal in zip(x, y, strict=True)])
    monkeypatch.setenv("TABLE", str(tmp_path / "table.csv"))
    run = lppa.run(csv_regression.problem, rounds=15, out=tmp_path / "run", **RING)
    assert run.history["half_off_by"][-1] < 0.5 < np.median(abs(y))
    check_audit(run)
    frame_columns = run.history.columns
    assert {"round", "loss", "half_off_by", "half_off_by_min", "consensus"} <= set(frame_columns)


# --- rules --------------------------------------------------------------------------------------


def test_a_rule_from_outside_is_exact_against_a_matrix_reference(tmp_path):
    from push_sum import PushSum

    from lppa.models.quadratic import quadratic
    from lppa.protocol.seeds import derive
    from lppa.protocol.settings import make_settings
    from lppa.running.prepare import make_blueprint

    nodes, rounds, lam, steps = 5, 12, 0.05, 3
    settings = {"dataset": "quadratic", "topology": "directed-ring", "rounds": rounds, "lr": lam}
    settings |= {"local_steps": steps, "seed": 3, "dtype": "float64", "weights": "random"}
    run = lppa.run(rule=PushSum, nodes=nodes, out=tmp_path / "run", timeout=300, **settings)
    assert run.summary["rule"] == "own/push-sum"
    assert run.summary["grade"] == "open"
    assert "Nobody has audited" in run.audit["verdict"][0]
    blueprint = make_blueprint(make_settings(settings), nodes, "reference")
    problem = quadratic(nodes, derive(blueprint.run_seed, "problem"), shared=False)
    W = torch.from_numpy(blueprint.W)

    def gradients(theta):
        return torch.stack([problem.gradient(i, theta[i]) for i in range(nodes)])

    x, w = start_of(blueprint), torch.ones(nodes, 1, dtype=torch.float64)
    for _ in range(rounds):
        x, w = W @ x, W @ w
        at, total = x / w, 0.0
        for _ in range(steps):
            g = gradients(at)
            at, total = at - lam * g, total + g
        x = x - lam * total
    found = torch.stack([run.state(i)["theta"] for i in range(nodes)])
    assert float((found - x / w).norm() / (x / w).norm()) < 1e-9


def start_of(blueprint):
    from lppa.node.learner import make_learner

    cpu, nodes = torch.device("cpu"), blueprint.nodes
    learners = (
        make_learner(blueprint.settings, i, nodes, blueprint.run_seed, cpu) for i in range(nodes)
    )
    return torch.stack([learner.start() for learner in learners])


# --- what goes wrong is told as theirs ----------------------------------------------------------


def tiny(**changes):
    x, y = torch.randn(40, 3), torch.randint(0, 2, (40,))
    return lppa.Problem(**{"module": nn.Linear(3, 2), "train": (x, y), "test": (x, y), **changes})


class Broken(nn.Linear):
    def forward(self, x):
        if self.training and len(x) == 10:
            raise ZeroDivisionError("no such luck")
        return super().forward(x)


def test_an_error_in_somebodys_network_names_their_file_line_and_client(tmp_path):
    problem = tiny(module=Broken(3, 2))
    with pytest.raises(RunFailed) as caught:
        lppa.run(problem, nodes=3, batch=10, rounds=2, out=tmp_path / "run", timeout=60)
    line = 1 + next(
        k for k, text in enumerate(Path(__file__).read_text().splitlines()) if "no such" in text
    )
    told = str(caught.value)
    assert (
        f"{Path(__file__).name}, line {line}, in forward: ZeroDivisionError: no such luck" in told
    )
    assert caught.value.node in (0, 1, 2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"train": [(torch.zeros(4, 3), torch.zeros(4, dtype=int))]}, "has data for 1 clients"),
        ({"train": (torch.zeros(4, 3), torch.zeros(3))}, "4 inputs and 3 targets"),
        ({"train": 7}, "must be a pair of arrays or a torch Dataset"),
        ({"module": lambda: 7}, "made a int, not an nn.Module"),
    ],
)
def test_a_problem_that_is_none_is_refused_before_anything_starts(tmp_path, changes, reason):
    with pytest.raises(WrongUse, match=reason):
        lppa.run(tiny(**changes), nodes=3, rounds=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_of_each_client_and_a_torch_dataset(tmp_path):
    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 30

        def __getitem__(self, i):
            return torch.tensor([i / 30, 1.0, 0.0]), i % 2

    own = [(torch.randn(20 + 10 * i, 3), torch.randint(0, 2, (20 + 10 * i,))) for i in range(3)]
    run = lppa.run(tiny(train=own, test=Rows()), nodes=3, rounds=2, out=tmp_path / "run")
    assert run.summary["status"] == "completed"
    partition = (tmp_path / "run" / "partition.json").read_text()
    assert partition.count("[") == 4
    labels = lppa.run(
        tiny(train=Rows()), nodes=3, rounds=1, partition="dirichlet:0.5", out=tmp_path / "two"
    )
    assert labels.summary["status"] == "completed"
    assert "main" not in sys.modules["lppa"].__dict__
