"""An experiment's settings: every option once, with its default, help text and bounds.

The command line, `--config` files, the plan message and `config.json` are all made from this one
dataclass. It holds what the nodes must agree on; where a run writes and who talks is not here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from lppa.protocol.checks import checked, option
from lppa.protocol.errors import WrongUse

PARTITIONS = "iid, quantity:ALPHA, dirichlet:ALPHA, benchmark:ALPHA or classes:K"
MODELS = "cnn, cnn-6-16, lenet, mlp, or mlp:WIDTH-WIDTH… with widths of your own"
NEED_IMAGES = ("cnn", "cnn-6-16", "lenet")
RULES = ("dsgt", "dp", "lppa", "dsgd")
CANCELLING = ("lppa", "dsgd")  # those whose noise cancels, and so may have --beta-own besides
OWN = "own/"  # before the name of a rule or a problem that a run brings itself
NOISE_EXCHANGES = ("tensor", "seed")
LONGEST_WAIT = 1_000_000.0  # seconds; ZeroMQ counts milliseconds in 32 bits


def noise_due(every: int, t: int) -> bool:
    """Whether noise is due before the states of round t are sent."""
    return t == 0 or (every > 0 and t % every == 0)


def decayed(length: float, decay: float | str, t: int) -> float:
    """How long a step of this length is in round t; `decay` is as --lr-decay has it."""
    if decay == "sqrt":
        return length / math.sqrt(t + 1)
    if isinstance(decay, str):
        return length * next((part for first, part in reversed(parts_of(decay)) if first <= t), 1.0)
    return length / (1.0 + decay * t)


def parts_of(table: str) -> list[tuple[int, float]]:
    """From which round on which part of a step is taken, from a text such as `300:0.1,450:0.01`."""
    pairs = [entry.split(":") for entry in table.split(",")]
    try:
        parts = [(int(first), float(part)) for first, part in pairs]
    except ValueError:
        parts = []
    rounds = [first for first, _ in parts]
    if not parts or rounds != sorted(set(rounds)) or not all(0 < p < 1e9 for _, p in parts):
        raise WrongUse(
            f"--lr-decay {table}: rounds must rise, and parts of λ be numbers above 0, as in "
            "300:0.1,450:0.01"
        )
    return parts


@dataclass(frozen=True)
class Settings:
    """What is learned, how it is aggregated, and for how long."""

    # -- the learning problem; `make_settings` fills in data set and model where none is given
    dataset: str = option(
        None,
        "digits (embedded), mnist, fmnist, cifar10, adult, rcv1, covtype, a .npz file, a .csv file "
        "(with --target), or the quadratic problem: quadratic, quadratic-shared. adult:binary has "
        "0 and 1 only, covtype:K is class K against the rest (covtype is covtype:2).  "
        "[default: digits]",
        pattern=r"digits|f?mnist|cifar10|adult(:binary)?|rcv1|covtype(:[1-7])?|.+\.(npz|csv)|"
        rf"quadratic(-shared)?|{OWN}.+",
        allowed="digits, mnist, fmnist, cifar10, adult, adult:binary, rcv1, covtype, covtype:1 to "
        "covtype:7, quadratic, quadratic-shared, a .npz or .csv file",
    )
    target: str | None = option(None, "Column of a .csv file that is to be predicted.")
    task: str = option(
        "auto",
        "What the target of a .csv file is: classes, or a number to come close to (regression). "
        "auto: classes if it is text, or whole numbers with at most 50 different values.",
        choices=("auto", "classes", "regression"),
    )
    data_dir: str | None = option(
        None, "Folder of the raw data.  [default: $LPPA_DATA, else a folder of this user]"
    )
    normalize: bool = option(
        True, "Shift and scale inputs to mean 0 and deviation 1 over the training part.", kind=bool
    )
    partition: str = option(
        "iid",
        f"How the training data is split over clients: {PARTITIONS}.",
        allowed=PARTITIONS,
        pattern=r"iid|(quantity|dirichlet|benchmark):[0-9.eE+-]+|classes:[0-9]+",
    )
    model: str = option(
        None,
        f"Network: {MODELS}.  [default: cnn for digits, mnist, fmnist and cifar10, else mlp]",
        pattern=r"cnn(-6-16)?|lenet|mlp(:[1-9][0-9]{0,5}(-[1-9][0-9]{0,5}){0,7})?|quadratic|own",
        allowed=f"{MODELS}, such as mlp:32-16-8",
    )
    init_weights: str = option(
        "default",
        "First weights: as PyTorch draws them, or normal:STD:BIAS, normally distributed weights "
        "and constant biases.",
        pattern=r"default|normal:[0-9.eE+-]+:[0-9.eE+-]+",
        allowed="default or normal:STD:BIAS, such as normal:0.1:0.1",
    )
    batch: int = option(64, "Samples in one gradient.", kind=int, least=1)
    batches: str = option(
        "next",
        "Each gradient on the next batch, or all on the same first one.",
        choices=("next", "same"),
    )
    # -- the algorithm
    rule: str = option(
        "lppa",
        f"Aggregation rule: {', '.join(RULES)}, or FILE.py:NAME, a rule of your own.",
        pattern="|".join(RULES) + rf"|{OWN}[\w.-]+",
        allowed=f"{', '.join(RULES)} or a rule of your own",
    )
    rounds: int = option(80, "Communication rounds T.", kind=int, least=1)
    lr: float = option(0.03, "Step size λ.", kind=float, above=0.0)
    lr_decay: float | str = option(
        0.0,
        "λ in round t is λ / (1 + DECAY·t); sqrt: λ / √(t + 1); ROUND:PART,…: from each such round "
        "on that part of λ, as in 300:0.1,450:0.01.",
        kind=float,
        least=0.0,
        words=("sqrt",),
        pattern=r"[0-9]+:[0-9.eE+-]+(,[0-9]+:[0-9.eE+-]+)*",
        allowed="ROUND:PART,…",
    )
    local_steps: int | str = option(
        10,
        "Gradient steps per round, or `epoch` for one pass over a client's share of the data.",
        kind=int,
        least=1,
        words=("epoch",),
    )
    momentum: float = option(
        0.0,
        "Momentum within a round's local steps; each round begins at rest.",
        kind=float,
        least=0.0,
        most=0.999,
    )
    weight_decay: float = option(
        0.0, "Adds DECAY·θ to each gradient of the local steps.", kind=float, least=0.0
    )
    mixing: str = option(
        "adapt-then-combine",
        "Order of step and averaging; the paper's is combine-then-adapt.",
        choices=("adapt-then-combine", "combine-then-adapt"),
    )
    init: str = option(
        "common",
        "Start all clients from one random model, or each from its own (the paper).",
        choices=("common", "independent"),
    )
    finish: int | str = option(
        "auto",
        "Extra last rounds that only average θ, so that all clients end with one model. auto: as "
        "many as bring them within a twentieth of their distance on this graph, but no more than a "
        "tenth of --rounds.",
        kind=int,
        least=0,
        words=("auto",),
    )
    reveal_batches: bool = option(
        False,
        "Let every client write its batches to its own folder, so that attacks can be scored.",
        kind=bool,
    )
    # -- noise
    noise: str = option("laplace", "Noise distribution.", choices=("laplace", "gaussian"))
    beta: float | str = option(
        "auto",
        "Noise scale β; both kinds of noise have the standard deviation √2·β. auto: as large as "
        "hides an example of the data, as far as models bear it on this graph.",
        kind=float,
        least=0.0,
        most=1e9,
        words=("auto",),
    )
    noise_every: int = option(
        1, "Inject noise every K rounds; 0: at the start only.", kind=int, least=0
    )
    noise_exchange: str = option(
        "seed",
        "Send the noise itself, or once a 32-byte seed that both ends expand: fresh noise in every "
        "round then costs no bandwidth.",
        choices=NOISE_EXCHANGES,
    )
    beta_own: float = option(
        0.0,
        "Scale of independent noise that each client adds besides lppa's; the only part that "
        "survives when all neighbours collude, and it costs accuracy.",
        kind=float,
        least=0.0,
        most=1e9,
    )
    clip: float | None = option(
        None,
        "Clip the gradient of each sample to this norm: L1 with Laplace noise, L2 with Gaussian.",
        kind=float,
        above=0.0,
    )
    robust: str = option(
        "off",
        "clip: bound what a neighbour sends to ten times the length that is usual among them. What "
        "is cut off no longer cancels.",
        choices=("off", "clip"),
    )
    # -- the network
    topology: str = option(
        "full",
        "full, ring, directed-ring, star, grid, torus, random-regular[:D], erdos-renyi[:P], "
        "small-world[:K], exponential, or a JSON file with directed edges: [from, to] is a link "
        "one way, [to, from] beside it makes it two-way.",
    )
    weights: str = option(
        "uniform", "Matrix that Sinkhorn-Knopp starts from.", choices=("uniform", "random")
    )
    latency: float = option(
        0.0,
        "Hold every message back for a random time of up to MS milliseconds.",
        kind=float,
        least=0.0,
    )
    timeout: float = option(
        60.0,
        "Seconds to wait for a peer before the run fails.",
        kind=float,
        above=0.0,
        most=LONGEST_WAIT,
    )
    # -- what goes wrong
    on_failure: str = option(
        "stop",
        "When a node is lost: stop (go on later with --resume), or continue without it.",
        choices=("stop", "continue"),
    )
    slow: str = option(
        "wait",
        "When a node is late: wait, or drop:SECONDS, and go on without it (with --on-failure "
        "continue).",
        pattern=r"wait|drop:[0-9]+(\.[0-9]+)?",
        allowed="wait or drop:SECONDS",
    )
    checkpoint_every: int = option(
        10,
        "Rounds between checkpoints, from which --resume goes on; 0: none.",
        kind=int,
        least=0,
    )
    # -- numbers and machines
    dtype: str = option("float32", "Number type of θ and γ.", choices=("float32", "float64"))
    device: str = option(
        "auto",
        "auto (cuda:<id mod GPUs>, else cpu), cpu, cuda or cuda:K.",
        pattern=r"auto|cpu|cuda(:[0-9]+)?",
        allowed="auto, cpu, cuda or cuda:K",
    )
    eval_every: int = option(
        5, "Rounds between evaluations; the last round is always evaluated.", kind=int, least=1
    )
    eval_samples: int = option(
        0, "Test on that many rows only, the same for all clients; 0: all.", kind=int, least=0
    )
    seed: int | None = option(
        None,
        "Make the run reproducible. The noise is then predictable: for experiments only.",
        kind=int,
        least=0,
        most=2**62,
    )

    def step(self, t: int) -> float:
        """λ in round t."""
        return decayed(self.lr, self.lr_decay, t)

    @property
    def patience(self) -> float | None:
        """Seconds that a late node is waited for before it is dropped; None: it is not."""
        return None if self.slow == "wait" else float(self.slow.removeprefix("drop:"))

    @property
    def scale(self) -> float:
        """β as a number: a run has one, whoever chose it."""
        return float(self.beta)

    @property
    def finishing(self) -> int:
        """How many rounds only average θ: a run has a number, whoever chose it."""
        return 0 if self.finish == "auto" else int(self.finish)

    @property
    def total(self) -> int:
        """All rounds, with those that only average θ."""
        return self.rounds + self.finishing

    def noisy(self, t: int) -> bool:
        """Whether noise is due before the states of round t are sent."""
        return noise_due(self.noise_every, t)

    def evaluated(self, t: int) -> bool:
        """Whether models are tested after t rounds: every so many, and always at the end."""
        last = self.total
        return t in (self.rounds, last) or (0 <= t < last and t % self.eval_every == 0)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, for JSON and for the plan message."""
        return asdict(self)


def drawn(init_weights: str) -> tuple[float, float] | None:
    """Deviation of the first weights and their biases; None: as PyTorch draws them."""
    if init_weights == "default":
        return None
    try:
        deviation, bias = (float(number) for number in init_weights.split(":")[1:])
    except ValueError:
        deviation = bias = math.nan
    if not (0 <= deviation < math.inf and math.isfinite(bias)):
        raise WrongUse(f"--init-weights {init_weights}: must be normal:STD:BIAS, two numbers")
    return deviation, bias


QUADRATICS = ("quadratic", "quadratic-shared")
IMAGES = ("digits", "mnist", "fmnist", "cifar10")
DEFAULT_MODELS = dict.fromkeys(QUADRATICS, "quadratic") | dict.fromkeys(IMAGES, "cnn")

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "normalize": False,
        "init": "independent",
        "mixing": "combine-then-adapt",
        "weights": "random",
        "lr": 0.05,
        "batch": 256,
        "local_steps": "epoch",
        "rounds": 50,
        "beta": 0.025,
        "noise": "laplace",
        "noise_every": 0,
        "noise_exchange": "tensor",
        "finish": 0,
    },
}


def make_settings(*layers: Mapping[str, Any]) -> Settings:
    """Settings from mappings, later ones winning; every value is checked.

    Keys may be spelled with dashes or underscores. A value of None means "not given".
    """
    known = {f.name: f for f in fields(Settings)}
    given: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            name = key.replace("-", "_")
            if name not in known:
                raise WrongUse(f"unknown setting {key!r}; known: {', '.join(known)}")
            if value is not None:
                given[name] = checked(known[name], value)
    return _with_problem(given)


def _with_problem(given: dict[str, Any]) -> Settings:
    """Fills in data set and model, each of which may follow from the other."""
    dataset, model = given.get("dataset"), given.get("model")
    if dataset is None:
        dataset = "quadratic" if model == "quadratic" else "digits"
    if model is None:
        model = DEFAULT_MODELS.get(dataset, "mlp")
    decayed(1.0, given.get("lr_decay", 0.0), 0)  # a table that makes no sense is refused here
    drawn(given.get("init_weights", "default"))
    if (dataset in QUADRATICS) != (model == "quadratic"):
        raise WrongUse(f"--model {model} does not go with --dataset {dataset}")
    settings = Settings(**{**given, "dataset": dataset, "model": model})
    if settings.target is not None and not dataset.endswith(".csv"):
        raise WrongUse(f"--target names a column of a .csv file, and --dataset is {dataset}")
    if settings.task != "auto" and not dataset.endswith(".csv"):
        raise WrongUse(f"--task goes with a .csv file, and --dataset is {dataset}")
    if settings.beta_own and settings.rule not in CANCELLING:
        which = " or ".join(CANCELLING)
        raise WrongUse(f"--beta-own goes with --rule {which}, not with {settings.rule}")
    if settings.patience is not None and settings.on_failure != "continue":
        raise WrongUse("--slow drop:SECONDS goes with --on-failure continue")
    if settings.clip is not None and dataset in QUADRATICS:
        raise WrongUse("--clip needs samples, and the quadratic problem has none")
    return settings
