"""What a node itself insists on, whatever the coordinator's plan says.

A plan that breaks it is refused with a sentence before any data is read. Whether neighbours were
given the same plan is not asked here: their greetings tell (`protocol.fingerprint`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lppa.node.rules import find_rule
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import Plan
from lppa.protocol.settings import Settings, make_settings

LONGEST_NAME = 255  # bytes in the name of a folder


@dataclass(frozen=True)
class Policy:
    """The least noise that a node takes part with, and whose folders it uses.

    `trusts_folders` where coordinator and node are one person's processes on one machine: then the
    plan says where raw data is.
    """

    least_beta: float = 0.0
    least_noise_every: int | None = None
    allow_reveal_batches: bool = False
    trusts_folders: bool = False

    def settings(self, plan: Plan, own: dict[str, Any]) -> Settings:
        """The settings of a plan, with this node's own over them; raises RunFailed with a refusal.

        `own` is what the person at this node has set.
        """
        told = plan.settings if self.trusts_folders else {**plan.settings, "data_dir": None}
        settings = make_settings(told, own)
        refusal = self.refusal(settings)
        if refusal is not None:
            raise RunFailed(f"this node refuses the plan: {refusal}")
        return settings

    def refusal(self, settings: Settings) -> str | None:
        """Why settings break the policy; None where they do not."""
        if settings.reveal_batches and not self.allow_reveal_batches:
            return "it would reveal the batches, and --allow-reveal-batches was not said here"
        if not self.least_beta and self.least_noise_every is None:
            return None
        if find_rule(settings.rule).noise == "none":
            return f"the rule {settings.rule} adds no noise, and this node insists on some"
        if settings.seed is not None:
            return "its --seed lets anyone predict the noise, and this node insists on noise"
        if settings.scale < self.least_beta:
            return f"its --beta is {settings.scale:g}, and --least-beta is {self.least_beta:g} here"
        every = self.least_noise_every
        if every is not None and not 0 < settings.noise_every <= every:
            often = f"every {settings.noise_every} rounds" if settings.noise_every else "once"
            return f"noise would come {often}, and --least-noise-every is {every} here"
        return None


def run_folder(out: Path | None, name: str) -> Path:
    """Where a run's files go: as this node was told, else below runs/, whatever the name."""
    if out is not None:
        return out
    plain = name.isprintable() and name not in ("", ".", "..") and "/" not in name
    if not plain or len(name.encode()) > LONGEST_NAME:
        raise RunFailed(
            f"this node refuses the plan: the run's name {name[:80]!r} is no name of a folder; "
            "say here where its files go: --out"
        )
    return Path("runs") / name
