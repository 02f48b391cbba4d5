"""What may rightly be said of the noise's size, and when an ε may be stated at all.

How much of the noise is left for a given attacker is in `exposure`. All of it counts one term for
each direction of an edge. Where seeds are exchanged, clients make both terms of an edge that goes
both ways by one draw (`node/pairs.py`), of the very law of their difference; as the two only ever
enter as that difference, and whoever knows one knows both, nothing that is said here changes.
"""

from __future__ import annotations

import math

from lppa.auditing.assemble import Case
from lppa.coordinator.figures import Guarantee
from lppa.models.rules import facts_of, rule_like
from lppa.protocol.settings import Settings
from lppa.running.known_networks import known_network

DELTA = 1e-5


def law(case: Case) -> list[str]:
    """The law of the noise under these settings, and what it guarantees."""
    return [*_size(case), *_guarantee(case)]


def _size(case: Case) -> list[str]:
    settings, rule = case.settings, case.rule
    if rule.noiseless or settings.scale == settings.beta_own == 0:
        return ["There is no noise."]
    sentences = []
    if rule.own_noise:
        sentences.append(
            f"{settings.rule} adds one draw per release: a standard deviation of √2·β = "
            f"{math.sqrt(2) * settings.scale:.4g}."
        )
    elif settings.scale > 0:
        degrees = sorted({degree_sum(case, i) for i in range(case.nodes)})
        least, most = degrees[0], degrees[-1]
        span = f"{least}" if least == most else f"{least} to {most}"
        sentences += [
            "A node's noise difference is the sum of one draw per edge, in and out, so that its "
            f"variance is 2β²(d_in + d_out). Here d_in + d_out is {span}: a standard deviation of "
            f"{_range(least, most, math.sqrt(2) * settings.scale)}"
            + (_in_theta(case) if rule.in_theta else _beside_one_draw(case, least, most)),
            "A neighbour knows the draws on its own edges, and colluders know those on all theirs: "
            "for them that part is no noise.",
        ]
    if settings.beta_own > 0:
        sentences.append(
            f"Each node adds own noise with a standard deviation of √2·β_own = "
            f"{math.sqrt(2) * settings.beta_own:.4g} that nobody else knows. It does not cancel, "
            "so it costs accuracy as dp's does: how much, `lppa report` of this run and of one "
            "with the same --seed and without --beta-own tells"
            + (f" ({rule.own_noise_cost})." if rule.own_noise_cost else ".")
        )
    if rule.in_theta:
        weight = rule.update.weight(case.step)
        sentences.append(
            "Noise is in θ, where a gradient is multiplied with the step K·λ: on a gradient all of "
            f"it is 1/(K·λ) = {1 / weight:.4g} times as large"
            + (", and more in later rounds." if settings.lr_decay else ".")
        )
    if not rule.update.tells_changes:
        sentences.append(
            "A gradient is in the message after its own round: noise in the first message hides "
            "none from who hears all that a node listens to."
        )
    return sentences


def _beside_one_draw(case: Case, least: int, most: int) -> str:
    """What noise differences are beside one draw, which is all that dp adds."""
    other = rule_like(case.rule, "own")
    one = f"{other}'s" if other else "one draw"
    only = (
        "√2 times for one neighbour each way"
        if least == most == 2
        else "it would be √2 times only for one neighbour each way"
    )
    return f", which is √(d_in + d_out) = {_range(least, most, 1.0)} times {one} ({only})."


def _in_theta(case: Case) -> str:
    """How far noise differences move models, for a moment."""
    network = case.network or known_network(case.settings)
    if network is None:
        return " in θ."
    return f" in θ, whose weights are about {network.weight_rms:g} in size once trained."


def degree_sum(case: Case, node: int) -> int:
    """d_in + d_out of a node."""
    graph = case.topology
    return len(graph.in_neighbours(node)) + len(graph.out_neighbours(node))


def _range(least: int, most: int, scale: float) -> str:
    low, high = (f"{scale * math.sqrt(d):.4g}" for d in (least, most))
    return low if low == high else f"{low} to {high}"


def spread(batch: int, steps: int | None) -> float:
    """The part of 2C that replacing one example can change a gradient by; C is the clipping norm.

    1 / batch with one step. With several, what comes after the example's step is taken at other
    points, and may differ by as much as gradients can; of unknown many steps that is all.
    """
    return 1.0 if steps is None else (1.0 / batch + steps - 1) / steps


def epsilon(clip: float, batch: int, scale: float, steps: int | None = 1) -> float:
    """ε of one release: samples clipped to L1 norm C, Laplace noise of this scale."""
    return 2.0 * clip * spread(batch, steps) / scale


def rho(clip: float, batch: int, scale: float, steps: int | None = 1) -> float:
    """ρ of one release (zero-concentrated): L2 norm C, Gaussian noise of deviation √2·scale."""
    return (clip * spread(batch, steps) / scale) ** 2


def of_rho(value: float) -> float:
    """The ε that goes with δ = 10⁻⁵."""
    return value + 2.0 * math.sqrt(value * math.log(1.0 / DELTA))


def guarantee(settings: Settings) -> Guarantee | None:
    """What noise that nobody else knows promises for clipped gradients; None where nothing.

    Where changes are told a gradient is in two messages, with + in one and − in the next, and may
    change by as much in every round: all but the first release count twice, in ρ four times. Else
    it is in one message, multiplied with what it has there: in θ the length of its round's step.
    """
    rule, scale = facts_of(settings.rule), unknown_scale(settings)
    if rule.noiseless or scale == 0 or settings.clip is None:
        return None
    if not rule.update.tells_changes:
        return _guarantee_one_by_one(settings, settings.clip)
    steps = None if settings.local_steps == "epoch" else int(settings.local_steps)
    told = (settings.clip, settings.batch, scale, steps)
    rounds, every = settings.rounds, settings.noise_every == 1
    if settings.noise == "laplace":
        one = epsilon(*told)
        return Guarantee(one, (2 * rounds - 1) * one if every else None, 0.0, rounds)
    one = rho(*told)
    whole = of_rho((4 * rounds - 3) * one) if every else None
    return Guarantee(of_rho(one), whole, DELTA, rounds)


def unknown_scale(settings: Settings) -> float:
    """The scale of the noise that nobody but its sender ever knows."""
    return settings.scale if facts_of(settings.rule).own_noise else settings.beta_own


def _guarantee_one_by_one(settings: Settings, clip: float) -> Guarantee | None:
    """The same for gradients that are told by themselves, in the message after their round.

    Nothing where no gradient has noise, or a step's length is not known.
    """
    if settings.noise_every == 0 or settings.local_steps == "epoch":
        return None
    steps = int(settings.local_steps)
    # The last gradient is sent in the first round that finishes, if there is one.
    sent = settings.rounds - (settings.finishing == 0)
    weight = facts_of(settings.rule).update.weight
    lengths = [weight(steps * settings.step(t)) for t in range(max(1, sent))]
    told = (clip, settings.batch, unknown_scale(settings), steps)
    every = settings.noise_every == 1
    if settings.noise == "laplace":
        one = epsilon(*told)
        whole = one * sum(lengths[:sent]) if every else None
        return Guarantee(one * lengths[0], whole, 0.0, sent)
    one = rho(*told)
    whole = of_rho(one * sum(length**2 for length in lengths[:sent])) if every else None
    return Guarantee(of_rho(one * lengths[0] ** 2), whole, DELTA, sent)


def _guarantee(case: Case) -> list[str]:
    """An ε only where one holds, with what it means."""
    settings, scale = case.settings, unknown_scale(case.settings)
    if case.rule.noiseless or (case.rule.own_noise and scale == 0):
        return []
    if scale == 0:
        return [
            f"No ε is stated for {settings.rule}'s noise: it sums to zero, and neighbours that "
            "collude take all of it away. Noise of one's own (--beta-own) can have one."
        ]
    found = guarantee(settings)
    if settings.clip is None:
        return ["No ε is stated: without --clip one sample can change a gradient by any amount."]
    if found is None:
        why = (
            "noise at the start comes before any gradient"
            if settings.noise_every == 0
            else "how long the step of a whole pass is depends on the data"
        )
        return [f"No ε is stated: {why}."]
    return [_one_release(case, found), _over_a_run(case, found)]


def _one_release(case: Case, found: Guarantee) -> str:
    settings, rule = case.settings, case.rule
    name = "β" if rule.own_noise else "β_own"
    steps = settings.local_steps
    if steps == 1:
        what, part, two = f"a gradient over {settings.batch} samples", f"C/(batch·{name})", "2"
    elif steps == "epoch":
        what, part, two = "the mean of all gradients on a path", f"C/{name}", "2"
    else:
        what = f"the mean of {steps} gradients on a path"
        part, two = f"{spread(settings.batch, int(steps)):.3g}·C/{name}", "2·"
    if rule.in_theta and not rule.update.tells_changes:
        length = rule.update.weight(int(steps) * settings.step(0))
        what, part, two = f"a step of {length:.3g} along {what}", f"{length:.3g}·{part}", "2·"
    if settings.noise == "laplace":
        return (
            f"One release, {what} with this noise on it, has "
            f"ε = {two}{part} = {found.release:.3g}: if one sample is replaced by another, "
            f"nothing that anyone can see becomes more than e^ε = {_exponential(found.release)} "
            "times as likely, whoever colludes."
        )
    return (
        f"Gaussian noise has no ε without a δ. One release, {what} with this noise on it, has "
        f"(ε, δ) = ({found.release:.3g}, {DELTA:g}), from ρ = ({part})²: except with a "
        "probability of about δ, replacing one sample makes nothing that anyone can see more than "
        "e^ε times as likely, whoever colludes."
    )


def _exponential(value: float) -> str:
    return f"{math.exp(value):.3g}" if value < 700 else "a number beyond all use"


def _over_a_run(case: Case, found: Guarantee) -> str:
    alone = not case.rule.update.tells_changes
    if found.run is None and alone:
        return (
            "It holds for gradients that are sent with fresh noise only. The others are sent "
            "without, so that for the run as a whole no ε holds."
        )
    if found.run is None:
        return (
            "It holds for the first message only. Later gradients are sent without fresh noise, "
            "so that for the run as a whole no ε holds."
        )
    total = f"ε = {found.run:.3g}" if found.delta == 0 else f"(ε, δ) = ({found.run:.3g}, {DELTA:g})"
    if alone:
        return (
            f"Over a run {found.releases} releases add up to at most {total}: a gradient is in one "
            "message, and a sample may be in every gradient."
        )
    return (
        f"Over {found.releases} rounds releases add up to at most {total}: a gradient is in two "
        "messages, with + in one and − in the next, and a sample may be in every gradient."
    )
