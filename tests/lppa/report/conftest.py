"""Run directories made by hand, and one browser for all tests that need one."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lppa.report.pixels import encode_png, heat_pixels

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
)
SCORES = {"mse_raw": 0.1, "mse_clamped": 0.1, "psnr": 10.0, "ssim": 0.3, "cosine": 0.8}


@dataclass
class MadeUp:
    """A run's directory as a run would leave it, with small figures that tests can count on."""

    folder: Path
    nodes: int = 3
    rounds: tuple[int, ...] = (5, 10, 15)
    rule: str = "lppa"
    files: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    def accuracy(self, node: int, round: int) -> float:
        return round / 20 + node / 100

    def report(self, node: int, round: int) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy(node, round),
            "loss": 2.0 / round + node / 100,
            "gradient_norm": 1.0 + node,
            "gamma_norm": 2.0,
            "noise_norm": 6.0 if self.rule == "lppa" else 0.0,
            "noise_to_gradient": 6.0 if self.rule == "lppa" else 0.0,
            "seconds": {"compute": 0.1 * round, "exchange": 0.02 * round, "eval": 0.01 * round},
            "bytes": {"noise": 1000, "state": 2000 * round},
            "node": node,
            "round": round,
        }

    def row(self, round: int) -> dict[str, Any]:
        of_all = [self.accuracy(node, round) for node in range(self.nodes)]
        mean = sum(of_all) / self.nodes
        return {
            "round": round,
            "accuracy": {"mean": mean, "min": of_all[0], "max": of_all[-1]},
            "loss": 2.0 / round,
            "consensus": 1.0 / round,
            "conservation": 1e-7 * round,
            "noise_to_gradient": 6.0,
        }

    def json(self, name: str, content: Any) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=2), encoding="utf-8")
        self.files[name] = content

    def lines(self, name: str, content: list[dict[str, Any]]) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in content)
        self.files[name] = [*self.files.get(name, []), *content]

    def begin(self) -> MadeUp:
        """What is there before the first round."""
        n = self.nodes
        settings = {"rule": self.rule, "dataset": "digits", "rounds": self.rounds[-1]}
        about = {"name": self.folder.name, "nodes": n, "versions": {"lppa": "0.1.0"}}
        settings |= {"topology": "ring", "dtype": "float32", "seed": 1}
        self.json("config.json", {**settings, "about": about})
        W, edges = np.eye(n) / 2, []
        for i in range(n):
            W[(i + 1) % n, i] += 0.3
            W[i, (i + 1) % n] += 0.2
            edges += [[i, (i + 1) % n], [(i + 1) % n, i]]
        graph = {"name": "ring", "nodes": n, "edges": sorted(edges), "W": W.tolist()}
        self.json("topology.json", {**graph, "spectral_gap": 0.4})
        labels = [[10 * (i + 1), 0, 5 + k] for k, i in enumerate(range(n))]
        self.json("partition.json", {"labels": labels, "classes": 3})
        return self

    def evaluate(self, round: int) -> None:
        """One evaluation of all clients."""
        self.lines("metrics.jsonl", [self.report(node, round) for node in range(self.nodes)])
        self.lines("history.jsonl", [self.row(round)])

    def end(self, status: str = "completed", **more: Any) -> MadeUp:
        """summary.json."""
        history = [self.row(round) for round in self.rounds]
        summary = {
            "status": status,
            "name": self.folder.name,
            "rule": self.rule,
            "dataset": "digits",
            "nodes": self.nodes,
            "topology": "ring",
            "rounds": self.rounds[-1],
            "seconds": {"total": 9.0, "compute": 1.5, "exchange": 0.3, "eval": 0.2, "round": 0.1},
            "bytes": {"noise": 3000, "state": 90000},
            "warnings": [],
            "history": history,
        }
        self.json("summary.json", {**summary, **more})
        return self

    def regression(self, worse: float = 0.0) -> MadeUp:
        """The same run, judged by two metrics in the place of accuracy, and with no classes."""
        self.whole()
        self.json("partition.json", {"classes": 0, "labels": [[30]] * self.nodes})
        rows = []
        for round in self.rounds:
            mean = 250_000 / round + worse
            rmse = {"mean": mean, "min": mean - 100, "max": mean + 100}
            r2 = {"mean": round / 100, "min": -0.5, "max": 0.9}
            rows.append({**self.row(round), "accuracy": None, "metrics": {"rmse": rmse, "r2": r2}})
        summary = json.loads((self.folder / "summary.json").read_text())
        self.json("summary.json", {**summary, "history": rows})
        for name in ("metrics.jsonl", "history.jsonl"):
            (self.folder / name).unlink()
        return self

    def audited(self, pair: dict[str, Any] | None = None, **more: Any) -> MadeUp:
        """audit.json; `pair` is what all pairs find, by default a change exactly."""
        exact = {"g0": 3.46, "g1": "mixed", "change": "exact", "ratio": 0.0, "grade": "open"}
        pairs = [
            {"attackers": [a], "victim": v, **(exact if pair is None else pair)}
            for a in range(self.nodes)
            for v in range(self.nodes)
            if a != v
        ]
        found = {
            "rule": self.rule,
            "beta": 0.01,
            "beta_own": 0.0,
            "targets": ["g0", "g1", "change"],
            "pairs": pairs,
            "hide": {"rms": 0.00065, "source": "run", "examples": 287},
            "thresholds": {"open_below": 3.0, "hidden_from": 20.0},
            "grade": "open",
            "dropout": {
                "victim": 0,
                "gone": 1,
                "attackers": [2],
                "noise": 2.8284271,
                "ratio": 40.6005,
                "grade": "hidden",
            },
            "epsilon": {"release": 0.3125, "run": 4.6875, "delta": 0.0, "releases": 15},
            "smallest": {"0": [1], "1": [0, 2], "2": None},
            "law": ["A node's noise difference has a law."],
            "verdict": ["Node 1 learns the change of node 0's gradient exactly."],
            "advice": "use --noise-every 1",
            "bad": True,
        }
        self.json("audit.json", {**found, **more})
        return self

    def graded(self, grade: str, ratio: float | None, **more: Any) -> MadeUp:
        """audit.json with nothing exact, where all pairs have this grade."""
        values = {"g0": 3.46, "g1": "mixed", "change": 1.4284985e-05}
        pair = {**values, "ratio": ratio, "grade": grade}
        return self.audited(pair, grade=grade, bad=False, **more)

    def attacked(self) -> MadeUp:
        """Two attacks, one with a score and a picture, and a picture of both."""
        one = {
            "attack": "difference/dlg",
            "attackers": [1],
            "victim": 0,
            "round": 0,
            "iterations": 12,
            "seconds": 1.5,
            "loss": 1e-9,
            "sigma": 0.0,
            "score": {**SCORES, "psnr": 40.0, "label_accuracy": 1.0},
            "baselines": {"zeros": SCORES, "mean": {**SCORES, "psnr": 12.0}},
            "picture": "one.png",
        }
        two = {"attack": "naive/idlg", "attackers": [1], "victim": 0, "round": 0, "picture": None}
        self.json("attacks/summary.json", [one, two])
        for name in ("one.png", "curves.png"):
            picture = encode_png(heat_pixels(np.eye(8)))
            (self.folder / "attacks" / name).write_bytes(picture)
        return self

    def whole(self) -> MadeUp:
        """Everything that a run with an attacker leaves."""
        self.begin()
        for round in self.rounds:
            self.evaluate(round)
        return self.end().audited().attacked()


@pytest.fixture
def made_up(tmp_path):
    """Makes run directories."""

    def make(name: str = "made-up", **options: Any) -> MadeUp:
        return MadeUp(tmp_path / name, **options)

    return make


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """One headless browser with nothing behind it: no network, no driver to fetch."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service

    for program in (CHROMIUM, DRIVER):
        if not program.exists():
            pytest.skip(f"{program} is missing (Debian: apt install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    profile = tmp_path_factory.mktemp("chromium")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
            patch.delenv(name, raising=False)
        try:
            browser = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        except WebDriverException as error:
            pytest.skip(f"chromium does not start here: {str(error).splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.quit()
            shutil.rmtree(profile, ignore_errors=True)
