"""The tree that an HTML mail is laid out from: well-formed, shallow, without what is hidden.

Built in one pass. Nothing in it can make laying out slow, deep or huge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, TreeBuilder  # builds only: nothing is parsed

from mailagent.adapters.html_look import Declarations, Look, look_of, parse_sheet

DEPTH_MAX = 100  # of what is laid out, which is a recursion
OPEN_MAX = 300  # of elements that are open at all
# Laying out a table pads every line of a row to the width of its columns. Beyond this many
# characters (lines times text) its cells are written below each other instead.
TABLE_MAX_AREA = 300_000
TABLES_MAX_AREA = 2_000_000

_TABLE_PARTS = {"table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption"}
_BLOCKS = {
    *_TABLE_PARTS,
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
# Not characters of any mail: they mark quotes until the text is laid out.
QUOTE_BEGINS, QUOTE_ENDS = "\ue0f0", "\ue0f1"


@dataclass(slots=True)
class _Open:
    """An element that has begun and not yet ended. Without `element` it is not laid out: it changes
    nothing, or lies too deep."""

    name: str
    look: Look
    element: Element | None
    quote: bool = False


@dataclass(slots=True)
class _Table:
    """What we must know of an open table to foresee how large it becomes."""

    parts: list[Element] = field(default_factory=list)
    lines: int = 1
    text: int = 0


class HtmlTree:
    """Takes tags and texts in order; `close` gives the tree. `hidden`: there was text that nobody
    would have seen; `too_deep`: what is hidden could not be told for certain."""

    def __init__(self) -> None:
        self.hidden = False
        self.too_deep = False
        self._sheet: dict[str, Declarations] = {}
        self._tree = TreeBuilder()
        self._open = [_Open("body", Look(), self._tree.start("body", {}))]
        self._depth = 1
        self._tables: list[_Table] = []
        self._area_left = TABLES_MAX_AREA

    def style(self, css: str) -> None:
        """Take a style sheet into account from here on."""
        self._sheet.update(parse_sheet(css))

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Begin an element, ending those that it ends by itself."""
        if name in _VOID:
            self._break_line(name in {"br", "hr"})
            return
        self._end_implied(name)
        if len(self._open) >= OPEN_MAX:
            self.too_deep = True
            return
        parent = self._open[-1].look
        look = look_of(parent, name, attributes, self._sheet)
        opened = _Open(name, look, None)
        self._open.append(opened)
        if self._depth >= DEPTH_MAX:
            self._break_line(name in _BLOCKS)
        elif name in _BLOCKS or look != parent:
            self._lay_out(opened, attributes)

    def _lay_out(self, opened: _Open, attributes: Mapping[str, str]) -> None:
        seen = opened.name in _BLOCKS and not opened.look.gone
        opened.element = self._tree.start(opened.name if seen else "span", {})
        opened.quote = seen and opened.name == "blockquote" and _is_quote(attributes)
        self._depth += 1
        if opened.quote:
            self._tree.data(QUOTE_BEGINS)
        self._count(opened.name, opened.element)

    def _break_line(self, breaks: bool) -> None:
        if breaks and not self._open[-1].look.gone:
            self._tree.start("br", {})
            self._tree.end("br")
            self._count("br", None)

    def _count(self, name: str, element: Element | None) -> None:
        if name == "table":
            self._tables.append(_Table())
        for table in self._tables:
            table.lines += 1
        if self._tables and element is not None and name in _TABLE_PARTS:
            self._tables[-1].parts.append(element)

    def text(self, text: str) -> None:
        """Add text, unless it cannot be seen where it stands."""
        if not self._open[-1].look.readable:
            self.hidden = self.hidden or bool(text.strip())
            return
        self._tree.data(text)
        for table in self._tables:
            table.text += len(text)
            table.lines += text.count("\n") * any(o.name == "pre" for o in self._open)

    def end(self, name: str) -> None:
        """End the innermost open element of that name, and what is open in it."""
        for index in range(len(self._open) - 1, 0, -1):
            if self._open[index].name == name:
                self._pop_to(index)
                return
            if self._open[index].name in {"table", "td", "th"} and name not in _TABLE_PARTS:
                return
            if self._open[index].name == "table":
                return

    def _end_implied(self, name: str) -> None:
        ended = _ENDS.get(name, {"p"} if name in _BLOCKS else set())
        scope = _SCOPES.get(name, {"table"} if name in _ENDS else _SCOPES["p"])
        for index in range(len(self._open) - 1, 0, -1):
            if self._open[index].name in scope:
                return
            if self._open[index].name in ended:
                self._pop_to(index)

    def _pop_to(self, index: int) -> None:
        while len(self._open) > index:
            opened = self._open.pop()
            if opened.quote:
                self._tree.data(QUOTE_ENDS)
            if opened.element is None:
                continue
            self._tree.end(opened.element.tag)
            self._depth -= 1
            if opened.name == "table":
                self._close_table(self._tables.pop())

    def _close_table(self, table: _Table) -> None:
        area = table.lines * table.text
        if area > min(TABLE_MAX_AREA, self._area_left):
            for part in table.parts:
                part.tag = "div"
        else:
            self._area_left -= area

    def close(self) -> Element:
        """Return the whole tree."""
        self._pop_to(1)
        self._tree.end("body")
        return self._tree.close()


def _is_quote(attributes: Mapping[str, str]) -> bool:
    # Outlook and Apple Mail indent the sender's own text with a blockquote without a border.
    style = attributes.get("style", "").replace(" ", "")
    return attributes.get("type") == "cite" or "border:none" not in style
