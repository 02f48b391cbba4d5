"""What is known of the shipped networks on the shipped data before anything is run.

Measured once, with `scripts/measure_networks.py`; a run measures its own and does not need it.
"""

from __future__ import annotations

from lppa.models.sizes import Network
from lppa.protocol.settings import QUADRATICS, Settings

NETWORKS: dict[tuple[str, str], Network] = {
    ("digits", "cnn"): Network(6_090, 1_438, 0.85, 0.10),
    ("digits", "mlp"): Network(17_226, 1_438, 0.24, 0.083),
    ("digits", "lenet"): Network(8_026, 1_438, 0.066, 0.31),
    ("mnist", "cnn"): Network(28_938, 60_000, 0.45, 0.036),
    ("mnist", "mlp"): Network(109_386, 60_000, 0.14, 0.030, spread=1.2),
    ("mnist", "lenet"): Network(13_426, 60_000, 0.24, 0.29),
    ("fmnist", "cnn"): Network(28_938, 60_000, 0.40, 0.039),
    ("cifar10", "cnn"): Network(34_538, 50_000, 0.35, 0.036),
    ("cifar10", "lenet"): Network(15_826, 50_000, 0.23, 0.29),
    ("adult", "mlp"): Network(22_338, 32_561, 0.10, 0.056),
    ("covtype", "mlp"): Network(15_426, 435_762, 0.12, 0.069),
    ("rcv1", "mlp"): Network(6_054_722, 1_000, 0.005, 0.0037, spread=5.0),
    ("mnist", "cnn-6-16"): Network(44_426, 60_000, 0.67, 0.048),
    ("fmnist", "cnn-6-16"): Network(44_426, 60_000, 0.52, 0.048),
    ("cifar10", "cnn-6-16"): Network(62_006, 50_000, 0.31, 0.038),
    ("adult", "mlp:128"): Network(14_210, 32_561, 0.13, 0.058),
    ("adult:binary", "mlp:32-16-8"): Network(4_586, 32_561, 0.28, 0.074),
    ("covtype:1", "mlp:128"): Network(7_298, 435_762, 0.17, 0.081),
    ("covtype:1", "mlp"): Network(15_426, 435_762, 0.15, 0.067),
}


def is_known(settings: Settings) -> bool:
    """Whether the table has the network of these settings."""
    usual = settings.init_weights == Settings.init_weights and settings.normalize
    return usual and (settings.dataset, settings.model) in NETWORKS


def known_network(settings: Settings) -> Network | None:
    """The network of these settings; for data of one's own the most cautious of its kind."""
    if settings.dataset in QUADRATICS:
        return None
    found = NETWORKS.get((settings.dataset, settings.model))
    if found is not None:
        return found
    alike = [network for (_, model), network in NETWORKS.items() if model == settings.model]
    if not alike:
        return None
    return Network(
        parameters=max(network.parameters for network in alike),
        rows=0,
        example_rms=max(network.example_rms for network in alike),
        weight_rms=min(network.weight_rms for network in alike),
        spread=max(network.spread for network in alike),
    )
