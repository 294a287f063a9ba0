"""A page as a reader without eyes finds it: texts by id, headings, tables, and the sentences of charts."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "link", "input"}


@dataclass
class Table:
    """What a table says of itself."""

    caption: str = ""
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)


class Reading(HTMLParser):
    """Reads a page; an element that is closed wrongly, or not at all, is an error."""

    def __init__(self):
        super().__init__()
        self.text, self.headings, self.tables, self.labels = {}, [], [], []
        self.open = []
        self.cell = None

    @classmethod
    def of(cls, html):
        """What a page holds."""
        made = cls()
        made.feed(html)
        made.close()
        assert made.open == [], made.open
        return made

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in VOID:
            return
        if tag == "svg":
            inside = any(name == "svg" for name, _ in self.open)
            assert given.get("role") == "img" or (inside and given.get("aria-hidden") == "true"), given
            if given.get("role") == "img":
                self.labels.append(given["aria-label"])
        if tag == "table":
            self.tables.append(Table())
        if tag == "tr" and any(name == "tbody" for name, _ in self.open):
            self.tables[-1].rows.append([])
        if tag == "th":
            self.tables[-1].scopes.append(given.get("scope"))
        if tag in ("th", "td", "caption", "h1", "h2", "h3"):
            self.cell = ""
        self.open.append((tag, given.get("id")))

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_data(self, data):
        for _, name in self.open:
            if name is not None:
                self.text[name] = self.text.get(name, "") + data
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        name, _ = self.open.pop()
        assert name == tag, (name, tag)
        if tag in ("h1", "h2", "h3"):
            self.headings.append(self.cell)
        elif tag == "caption":
            self.tables[-1].caption = self.cell
        elif tag in ("th", "td"):
            body = any(name == "tbody" for name, _ in self.open)
            (self.tables[-1].rows[-1] if body else self.tables[-1].head).append(self.cell)
        if tag in ("th", "td", "caption", "h1", "h2", "h3"):
            self.cell = None
