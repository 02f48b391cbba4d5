"""Pages as tests look at them: parsed, with a check of their nesting."""

from __future__ import annotations

from html.parser import HTMLParser

from lppa.report.markup import VOID
from lppa.report.page import render_page
from lppa.report.reading import read_run

CURVES = {"Test accuracy", "Test loss", "Consensus", "Conservation", "Noise and gradient"}


class Document(HTMLParser):
    """All elements of a page with their attributes, and the text in it; refuses bad nesting."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def charts(self):
        return [a["data-chart"] for _, a in self.elements if "data-chart" in a]


def page_of(*runs):
    return Document(render_page([read_run(run.folder) for run in runs]))
