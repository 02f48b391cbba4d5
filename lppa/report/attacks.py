"""What the attacks found: for each its picture, a sentence that judges it, and its scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lppa.report.formats import clients, figure, percent, plural, seconds
from lppa.report.grades import grade_key, words_of
from lppa.report.markup import Markup, scrolling, tag
from lppa.report.pixels import embedded, png_width
from lppa.report.record import Attack, Audit

# name in the files, name on the page, and how it is written
SCORES = (
    ("psnr", "PSNR", lambda v: f"{v:.1f} dB"),
    ("ssim", "SSIM", lambda v: f"{v:.2f}"),
    ("mse_clamped", "MSE", figure),
    ("cosine", "cosine", lambda v: f"{v:.2f}"),
    ("label_accuracy", "labels", lambda v: percent(v, 0)),
)
GUESSES = {"zeros": "all zeros", "mean": "mean image", "start": "untrained start"}
PIXELS = 1.5  # of a picture, for one of the page: its smallest writing then has 11
COLUMN = 490  # pixels that a picture has beside another
CLEAR_GAIN = 3.0  # dB over the mean of all data: more than any attack got of what is hidden
CLEARLY = 0.75  # a label histogram whose error is below so much of a guess's tells something


def gallery(
    attacks: Sequence[Attack],
    pictures: Sequence[tuple[str, bytes]],
    classes: int | None = None,
    audit: Audit | None = None,
) -> list[Markup]:
    """Each attack with its picture and its scores, then the pictures over several attacks.

    `classes` is how many labels there are to guess from, where that is known; what the audit says
    of the same clients stands beside each result, whether the two agree or not.
    """
    shown = [_attack(attack, classes, audit) for attack in attacks]
    shown += [
        tag(
            "figure",
            _picture(image, f"Picture {name} of the attacks"),
            tag("figcaption", name),
            class_=_size(image),
        )
        for name, image in pictures
    ]
    return [tag("div", shown, class_="gallery")]


def _attack(attack: Attack, classes: int | None, audit: Audit | None) -> Markup:
    by = clients(attack.attackers) if attack.attackers else "somebody"
    against = "" if attack.victim is None else f" against client {attack.victim}"
    when = "" if attack.round is None else f", round {attack.round}"
    told = f"{attack.name} by {by}{against}{when}"
    picture = None
    if attack.picture:
        alt = f"What {told} reconstructed, beside the truth where that is known"
        picture = _picture(attack.picture, alt)
    return tag(
        "figure",
        tag("figcaption", tag("h4", attack.name), tag("p", f"{by}{against}{when}", class_="note")),
        picture,
        tag("p", *_judged(attack, classes), _audited(attack, audit)),
        _scores(attack),
        tag("p", _effort(attack), class_="note"),
        class_=_size(attack.picture),
    )


def _audited(attack: Attack, audit: Audit | None) -> list[str | Markup] | None:
    """The audit's word on the same attackers and the same client."""
    if audit is None or not audit.pairs or attack.victim is None or not attack.attackers:
        return None
    pair = audit.pairs.get((tuple(sorted(attack.attackers)), attack.victim))
    if pair is None:
        return [" ", tag("span", "audit: these were not looked at", class_="key none")]
    if pair.grade == "hidden" and _gain(attack) > CLEAR_GAIN:
        return [" ", grade_key("open", "audit: hidden, which this attack shows to be wrong")]
    return [" ", grade_key(pair.grade, f"audit: {words_of(pair)}")]


def _gain(attack: Attack) -> float:
    """By how many dB an image was rebuilt better than the mean of all data."""
    own, mean = (attack.scores.get(name, {}).get("psnr") for name in ("this attack", "mean"))
    return 0.0 if own is None or mean is None else own - mean


def _picture(image: bytes, alt: str) -> Markup:
    """As large as its writing needs; it scrolls where there is no room for that."""
    shown = embedded(image, alt, width=round(png_width(image) / PIXELS))
    return tag("div", scrolling(shown), class_="paper")


def _size(image: bytes | None) -> str | None:
    """A wide picture gets the whole width of the page."""
    return "whole" if image and round(png_width(image) / PIXELS) > COLUMN else None


def _judged(attack: Attack, classes: int | None) -> list[str | Markup]:
    """The result in a sentence: it is green only if neither data nor labels are better than a
    guess without any message."""
    own, mean = attack.scores.get("this attack", {}), attack.scores.get("mean", {})
    name, unit = ("psnr", " dB") if "psnr" in own else ("cosine", "")
    labels = _labels(attack, classes)
    if name not in own or name not in mean:
        if labels is None:
            return ["The truth is not on record, so there is no score."]
        leaked, said = labels
        return [_verdict(f"Labels: {said}.", leaked)]
    better = own[name] > mean[name]
    word = "better than a guess" if better else "no better than a guess"
    what = "Image" if name == "psnr" else "Data"
    leaked, said = (False, "") if labels is None else (labels[0], f" Labels: {labels[1]}.")
    against = f" {figure(own[name])}{unit} against {figure(mean[name])}{unit}"
    verdict = _verdict(f"{what}: {word}.{said}", better or leaked)
    return [verdict, f"{against} for the mean of all data."]


def _verdict(said: str, leaks: bool) -> Markup:
    return tag("b", said, class_="leaks" if leaks else "holds")


def _labels(attack: Attack, classes: int | None) -> tuple[bool, str] | None:
    """Whether the labels are clearly better than a guess, and how many are right; None without a
    score."""
    known, right = attack.figures, attack.scores.get("this attack", {}).get("label_accuracy")
    if "histogram_error" in known and "histogram_error_uniform" in known and attack.labels > 1:
        # How many there are of each was asked for; which example has which is not known.
        error, guess = known["histogram_error"], known["histogram_error_uniform"]
        said = f"counts {percent(1 - error, 0)} right (uniform guess {percent(1 - guess, 0)})"
        return error < CLEARLY * guess, said
    if right is None:
        return None
    # Few labels can be right by luck; but if all are, nobody should rely on that.
    chance = 1 / classes if classes else 0.5
    luck = chance + 2 * math.sqrt(chance * (1 - chance) / max(1, attack.labels))
    by_chance = f" (chance {percent(chance, 0)})" if classes else ""
    return right >= min(1.0, luck), f"{percent(right, 0)} right{by_chance}"


def _scores(attack: Attack) -> Markup | None:
    columns = [s for s in SCORES if any(s[0] in of for of in attack.scores.values())]
    if not columns:
        return None
    rows = [
        tag(
            "tr",
            tag("th", GUESSES.get(name, name), scope="row"),
            [tag("td", show(of[key]) if key in of else "–") for key, _, show in columns],
        )
        for name, of in attack.scores.items()
    ]
    head = tag(
        "tr",
        tag("th", "guess", scope="col"),
        [tag("th", name, scope="col") for _, name, _ in columns],
    )
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="scores")
    return scrolling(table)


def _effort(attack: Attack) -> str:
    known = attack.figures
    parts = []
    if "iterations" in known:
        parts.append(plural(int(known["iterations"]), "iteration"))
    if "seconds" in known:
        parts.append(seconds(known["seconds"]))
    if "loss" in known:
        parts.append(f"attack loss {figure(known['loss'])}")
    if "sigma" in known:
        sigma = figure(known["sigma"])
        # The naive attacker takes what it hears for the gradient, and removes nothing.
        naive = attack.name.startswith("naive/")
        parts.append(f"{'noise on it, none removed,' if naive else 'noise left'} σ {sigma}")
    if "histogram_error" in known:
        error = f"label histogram off by {percent(known['histogram_error'], 0)}"
        if "histogram_error_uniform" in known:
            error += f" (uniform guess {percent(known['histogram_error_uniform'], 0)})"
        parts.append(error)
    return ", ".join(parts)
