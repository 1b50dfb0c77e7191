"""The elements of an HTML mail, as browsers nest them, and the texts between them.

Built in one pass. Nothing in it is nested deep, whatever the mail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from mailagent.adapters.html.tokens import Cut, EndTag, StartTag, StyleSheet, Token

OPEN_MAX = 300

TABLE_PARTS = {"table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption"}
BLOCKS = {
    *TABLE_PARTS,
    *(
        "address article aside blockquote body center dd details div dl dt fieldset figcaption"
    ).split(),
    *(
        "figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary"
    ).split(),
    *("ul xmp listing plaintext").split(),
}
_VOID = {"br", "hr", "img", "input", "link", "meta", "area", "base", "col", "embed", "wbr"}
# A start tag that ends open ones whose end tags HTML lets people leave out.
_ENDS = {
    "li": {"li"},
    "dt": {"dt", "dd"},
    "dd": {"dt", "dd"},
    "tr": {"tr", "td", "th"},
    "td": {"td", "th"},
    "th": {"td", "th"},
    "tbody": {"tr", "td", "th", "thead", "tbody"},
    "p": {"p"},
}
_SCOPES = {"li": {"ul", "ol", "table"}, "p": {"td", "th", "table", "blockquote", "div", "li"}}


@dataclass(frozen=True, slots=True)
class Node:
    """An element. `parent` is the number of the one it stands in."""

    name: str
    attributes: dict[str, str]
    parent: int = 0


class Mark(Enum):
    """What happens between texts and starts of elements."""

    END = 0  # of the innermost open element
    BREAK = 1  # of the line


HTML, BODY = 0, 1


@dataclass(slots=True)
class Page:
    """A document: its elements by number, its style sheets, and in `events` what follows on what: the
    number of an element that begins, a text or a mark. `depth`: of the innermost element. `cut`: not all
    of the document is here."""

    nodes: list[Node] = field(default_factory=lambda: [Node("html", {}), Node("body", {})])
    sheets: list[StyleSheet] = field(default_factory=list)
    events: list[int | str | Mark] = field(default_factory=list)
    depth: int = 0
    cut: bool = False


def build_page(tokens: Iterable[Token]) -> Page:
    """Return the elements and texts of a document; both are never raised about."""
    tree = _Tree()
    page = tree.page
    for token in tokens:
        match token:
            case StartTag(name, attributes):
                tree.start(name, attributes)
            case EndTag(name):
                tree.end(name)
            case StyleSheet():
                page.sheets.append(token)
            case Cut():
                tree.cut()
            case str(text):
                page.events.append(text)
    tree.pop_to(0)
    return page


class _Tree:
    def __init__(self) -> None:
        self.page = Page()
        self._open: list[tuple[str, int]] = []  # names and numbers, below the body

    def start(self, name: str, attributes: dict[str, str]) -> None:
        page = self.page
        if name in {"html", "body"}:
            # There is one of each; later tags only add attributes that it lacks.
            node = page.nodes[HTML if name == "html" else BODY]
            node.attributes.update(attributes | node.attributes)
            return
        if name in _VOID:
            if name in {"br", "hr"}:
                page.events.append(Mark.BREAK)
            return
        self._end_implied(name)
        if len(self._open) >= OPEN_MAX:
            page.cut = True
            return
        parent = self._open[-1][1] if self._open else BODY
        self._open.append((name, len(page.nodes)))
        page.depth = max(page.depth, len(self._open))
        page.events.append(len(page.nodes))
        page.nodes.append(Node(name, attributes, parent))

    def end(self, name: str) -> None:
        """End the innermost open element of that name, and what is open in it."""
        for index in range(len(self._open) - 1, -1, -1):
            opened = self._open[index][0]
            if opened == name:
                self.pop_to(index)
                return
            if opened in {"table", "td", "th"} and name not in TABLE_PARTS:
                return
            if opened == "table":
                return

    def cut(self) -> None:
        """End all that is open but quotes, which hold other people's words."""
        self.page.cut = True
        quotes = (at for at, (name, _number) in enumerate(self._open, 1) if name == "blockquote")
        self.pop_to(max(quotes, default=0))
        self.page.events.append(Mark.BREAK)

    def _end_implied(self, name: str) -> None:
        ended = _ENDS.get(name, {"p"} if name in BLOCKS else set())
        if not ended:
            return
        scope = _SCOPES.get(name, {"table"} if name in _ENDS else _SCOPES["p"])
        for index in range(len(self._open) - 1, -1, -1):
            opened = self._open[index][0]
            if opened in scope:
                return
            if opened in ended:
                self.pop_to(index)

    def pop_to(self, index: int) -> None:
        self.page.events.extend([Mark.END] * (len(self._open) - index))
        del self._open[index:]
