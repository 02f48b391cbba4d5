"""HTML and SVG as text that is escaped by default: only what `tag` made is taken as it is.

Every string that comes from a file passes through here, so none of them can become markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

VOID = {"img", "meta", "link", "br"}
# What XML forbids and what could upset a terminal or an editor later; no figure needs it.
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *content: Any, **attributes: Any) -> Markup:
    """An element. `class_` stands for class, `stroke_width` for stroke-width; None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(content)}</{name}>")


def join(content: Iterable[Any]) -> Markup:
    """Parts one after another; text is escaped, markup is not, None is nothing."""
    return Markup("".join(_text(part) for part in content))


def _text(part: Any) -> str:
    if part is None:
        return ""
    if isinstance(part, Markup):
        return part
    if isinstance(part, (list, tuple)):
        return join(part)
    return escape(part)


def escape(value: Any) -> str:
    """Text or a number, safe in an element and in an attribute."""
    if isinstance(value, float):
        value = short(value)
    return html.escape(CONTROLS.sub("�", str(value)), quote=True)


def short(value: float) -> str:
    """A coordinate with one decimal at most: more cannot be seen."""
    return f"{value:.1f}".removesuffix(".0")


def no_wrap(text: str) -> str:
    """Keeps a number and its unit on one line."""
    return text.replace(" ", "\u00a0")


def scrolling(table: Markup) -> Markup:
    """A table in a box of its own, which scrolls where the page is too narrow for it."""
    return tag("div", table, class_="wide", tabindex="0")
