"""An audit's look at data and networks that no table knows: as a run's, and in the same process.

What the table knows is not looked at: that takes neither data nor PyTorch. But where shares are
uneven and the data lies prepared on disk, the smallest is counted. Nothing is judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lppa.auditing.assemble import Hidden
from lppa.coordinator.plan import Blueprint
from lppa.models.rules import FACTS
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import OWN, QUADRATICS, Settings
from lppa.running.facts import Facts, is_at_hand, look
from lppa.running.known_networks import is_known
from lppa.running.prepare import choose_noise

if TYPE_CHECKING:
    from lppa.running.scout import Scout


def looked_at(
    blueprint: Blueprint, hide: Hidden | None = None, scout: Scout | None = None
) -> Blueprint:
    """The same run with what a run would know of its data and its network when it begins."""
    facts = measured(blueprint, hide, scout)
    return blueprint if facts is None else choose_noise(blueprint, facts)


def measured(
    blueprint: Blueprint, hide: Hidden | None = None, scout: Scout | None = None
) -> Facts | None:
    """What is known of data and network once they were looked at; None where nobody has to look.

    `hide` is what somebody said is to be hidden, `scout` has the problem that somebody brought.
    """
    settings = blueprint.settings
    if settings.dataset in QUADRATICS or _is_told(blueprint, hide):
        return None
    if is_known(settings):
        # Only how few rows a client has is not in the table: in equal shares none has fewer.
        uneven = settings.partition != Settings.partition
        about = settings, blueprint.nodes, blueprint.run_seed
        return look(*about) if uneven and is_at_hand(settings) else None
    brought = scout is not None and scout.code is not None and scout.code.problem is not None
    if settings.dataset.startswith(OWN) and not brought:
        raise WrongUse(
            f"{settings.dataset} is a problem of your own, and no table knows it: give it by "
            "--problem FILE.py:NAME, or what is to be hidden by --gradient-rms, with "
            f"{_named_besides(settings)}"
        )
    # Imported late: most audits are of networks that the table knows.
    from lppa.running.launch import stop_fork_server
    from lppa.running.scout import Scout

    beside = scout or Scout()
    try:
        return beside.look(settings, blueprint.nodes, blueprint.run_seed)
    finally:
        beside.close()
        stop_fork_server()


def _is_told(blueprint: Blueprint, hide: Hidden | None) -> bool:
    """Whether all that would be measured was named: what is to be hidden, β, and the steps."""
    return hide is not None and not blueprint.beta_chosen and not _steps_matter(blueprint.settings)


def _steps_matter(settings: Settings) -> bool:
    """Whether noise hides the less the longer a pass over the data is."""
    in_theta = settings.rule in FACTS and FACTS[settings.rule].in_theta
    return in_theta and settings.local_steps == "epoch"


def _named_besides(settings: Settings) -> str:
    """What has to be named together with the size of what is to be hidden."""
    return "--beta and a number of --local-steps" if _steps_matter(settings) else "--beta"
