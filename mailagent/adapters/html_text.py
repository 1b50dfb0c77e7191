"""What a person sees of an HTML mail, as text. Hidden text is left out and reported.

Hidden text is how a mail tells a machine what its reader would not see; newsletters use it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, TreeBuilder  # builds only: nothing is parsed

from inscriptis.css_profiles import STRICT_CSS_PROFILE
from inscriptis.html_engine import Inscriptis
from inscriptis.model.config import ParserConfig

from mailagent.adapters.html_look import Declarations, Look, look_of, parse_sheet
from mailagent.adapters.html_tokens import Cut, EndTag, StartTag, StyleSheet, tokenise

DEPTH_MAX = 100
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
_QUOTE_BEGINS, _QUOTE_ENDS = "\ue0f0", "\ue0f1"
_WITHOUT_MARKS = str.maketrans("", "", _QUOTE_BEGINS + _QUOTE_ENDS)


@dataclass(frozen=True, slots=True)
class HtmlText:
    """The visible text, quotes with `>` signs, and whether there was text nobody would have seen."""

    text: str
    hidden: bool = False
    cut: bool = False


@dataclass(slots=True)
class _Open:
    """An element that has begun and not yet ended."""

    name: str
    look: Look
    element: Element
    quote: bool = False


@dataclass(slots=True)
class _Table:
    """What we must know of an open table to foresee how large it becomes."""

    parts: list[Element] = field(default_factory=list)
    lines: int = 1
    text: int = 0


def render_text(html: str) -> HtmlText:
    """Return the text of an HTML mail as a person sees it. Linear in its length, never raises."""
    builder = _Builder()
    cut = False
    for token in tokenise(html.translate(_WITHOUT_MARKS)):
        match token:
            case StartTag(name, attributes):
                builder.start(name, attributes)
            case EndTag(name):
                builder.end(name)
            case StyleSheet(css):
                builder.sheet.update(parse_sheet(css))
            case Cut():
                cut = True
            case str(text):
                builder.text(text)
    config = ParserConfig(css=dict(STRICT_CSS_PROFILE))
    text = Inscriptis(builder.close(), config).get_text()
    return HtmlText(_with_quote_signs(text), builder.hidden, cut)


class _Builder:
    """Builds the tree that inscriptis lays out: well-formed, shallow, without what is hidden."""

    def __init__(self) -> None:
        self.sheet: dict[str, Declarations] = {}
        self.hidden = False
        self._tree = TreeBuilder()
        self._open = [_Open("body", Look(), self._tree.start("body", {}))]
        self._tables: list[_Table] = []
        self._area_left = TABLES_MAX_AREA

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _VOID:
            self._void(name)
            return
        self._end_implied(name)
        parent = self._open[-1].look
        look = look_of(parent, name, attributes, self.sheet)
        if len(self._open) > DEPTH_MAX or (name not in _BLOCKS and look == parent):
            return
        tag = name if name in _BLOCKS and not look.gone else "span"
        element = self._tree.start(tag, {})
        quote = name == "blockquote" and not look.gone and _is_quote(attributes)
        self._open.append(_Open(name, look, element, quote))
        if quote:
            self._tree.data(_QUOTE_BEGINS)
        self._count(name, element)

    def _void(self, name: str) -> None:
        if name in {"br", "hr"} and not self._open[-1].look.gone:
            self._tree.start("br", {})
            self._tree.end("br")
            self._count(name, None)

    def _count(self, name: str, element: Element | None) -> None:
        if name == "table":
            self._tables.append(_Table())
        for table in self._tables:
            table.lines += 1
        if self._tables and element is not None and name in _TABLE_PARTS:
            self._tables[-1].parts.append(element)

    def text(self, text: str) -> None:
        if not self._open[-1].look.readable:
            self.hidden = self.hidden or bool(text.strip())
            return
        self._tree.data(text)
        for table in self._tables:
            table.text += len(text)
            table.lines += text.count("\n") * any(o.name == "pre" for o in self._open)

    def end(self, name: str) -> None:
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
                self._tree.data(_QUOTE_ENDS)
            self._tree.end(opened.element.tag)
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
        self._pop_to(1)
        self._tree.end("body")
        return self._tree.close()


def _is_quote(attributes: Mapping[str, str]) -> bool:
    # Outlook and Apple Mail indent the sender's own text with a blockquote without a border.
    style = attributes.get("style", "").replace(" ", "")
    return attributes.get("type") == "cite" or "border:none" not in style


def _with_quote_signs(text: str) -> str:
    lines: list[str] = []
    depth = 0
    for line in text.split("\n"):
        deepest = depth
        for letter in line:
            depth += (letter == _QUOTE_BEGINS) - (letter == _QUOTE_ENDS)
            deepest = max(deepest, depth)
        bare = line.translate(_WITHOUT_MARKS)
        lines.append(f"{'>' * deepest} {bare.strip()}" if deepest and bare.strip() else bare)
    return "\n".join(lines)
