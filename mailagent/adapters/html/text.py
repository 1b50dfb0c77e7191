"""What a person sees of an HTML mail, as text. Hidden text is left out and reported.

Hidden text is how a mail tells a machine what its reader would not see; newsletters use it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, TreeBuilder  # builds only: nothing is parsed

from inscriptis.css_profiles import STRICT_CSS_PROFILE
from inscriptis.html_engine import Inscriptis
from inscriptis.model.config import ParserConfig

from mailagent.adapters.html.styles import find_styles
from mailagent.adapters.html.tokens import tokenise
from mailagent.adapters.html.tree import BLOCKS, TABLE_PARTS, Mark, Node, Page, build_page
from mailagent.adapters.html.visibility import Look, Seen, Style, look_of

HIDDEN_MAX_LENGTH = 20_000

DEPTH_MAX = 100  # of what is laid out, which is a recursion
# Laying out a table pads every line of a row to the width of its columns. Beyond this many
# characters (lines times text) its cells are written below each other instead.
TABLE_MAX_AREA = 300_000
TABLES_MAX_AREA = 2_000_000

# Not characters of any mail: they mark quotes until the text is laid out.
QUOTE_BEGINS, QUOTE_ENDS = "\ue0f0", "\ue0f1"
_MARKED = re.compile(f"[{QUOTE_BEGINS}{QUOTE_ENDS}]")
_WITHOUT_MARKS = str.maketrans("", "", QUOTE_BEGINS + QUOTE_ENDS)
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class HtmlText:
    """The visible text, quotes with `>` signs. `hidden`: some of the mail's text is not seen, or perhaps
    not; what surely is not is `hidden_text`. `cut`: not all of the mail was read."""

    text: str
    hidden: bool = False
    cut: bool = False
    hidden_text: str = ""


def render_text(html: str) -> HtmlText:
    """Return the text of an HTML mail as a person sees it. Linear in its length, never raises."""
    page = build_page(tokenise(html))
    styles, doubtful_rules = find_styles(page)
    layout = Layout(page, _seen(page, styles))
    # What was not read may have been hidden, or may have hidden something.
    doubtful = page.cut or layout.doubtful or doubtful_rules
    text = Inscriptis(layout.root, ParserConfig(css=dict(STRICT_CSS_PROFILE))).get_text()
    hidden = " ".join(" ".join(layout.hidden).split())[:HIDDEN_MAX_LENGTH]
    return HtmlText(_with_quote_signs(text), bool(hidden) or doubtful, page.cut, hidden)


def _seen(page: Page, styles: Sequence[Style]) -> list[Seen]:
    """Return whether a text in each element is seen."""
    looks: list[Look] = []
    for node, style in zip(page.nodes, styles, strict=True):
        parent = looks[node.parent] if looks else Look()
        looks.append(look_of(parent, node.name, node.attributes, style))
    return [look.seen for look in looks]


def _with_quote_signs(text: str) -> str:
    lines: list[str] = []
    depth = 0
    for line in text.split("\n"):
        deepest = depth
        for letter in _MARKED.findall(line):
            depth += (letter == QUOTE_BEGINS) - (letter == QUOTE_ENDS)
            deepest = max(deepest, depth)
        bare = line.translate(_WITHOUT_MARKS)
        lines.append(f"{'>' * deepest} {bare.strip()}" if deepest and bare.strip() else bare)
    return "\n".join(lines)


# --- layout ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """An element that has begun and not yet ended. Without `element` it is not laid out: it changes
    nothing, or lies too deep."""

    name: str
    seen: Seen = Seen.YES
    element: Element | None = None
    quote: bool = False


@dataclass(slots=True)
class _Table:
    """What we must know of an open table to foresee how large it becomes."""

    parts: list[Element] = field(default_factory=list)
    lines: int = 1
    text: int = 0


class Layout:
    """`root` holds what is seen. `hidden`: the texts that are not. `doubtful`: some of what is laid
    out may not be seen by every reader."""

    def __init__(self, page: Page, seen: Sequence[Seen]) -> None:
        self.hidden: list[str] = []
        self.doubtful = False
        self._tree = TreeBuilder()
        self._open = [_Open("body", seen[1], self._tree.start("body", {}))]
        self._depth = 1
        self._pre = 0
        self._tables: list[_Table] = []
        self._area_left = TABLES_MAX_AREA
        for event in page.events:
            if isinstance(event, int):
                self._start(page.nodes[event], seen[event])
            elif isinstance(event, str):
                self._text(event.translate(_WITHOUT_MARKS))
            elif event is Mark.END:
                self._end()
            else:
                self._break_line(self._open[-1].seen)
        self._tree.end("body")
        self.root = self._tree.close()

    def _start(self, node: Node, seen: Seen) -> None:
        opened = _Open(node.name, seen)
        self._open.append(opened)
        if node.name not in BLOCKS or seen is Seen.GONE:
            return
        if self._depth >= DEPTH_MAX:
            self._break_line(seen)
            return
        opened.element = self._tree.start(node.name, {})
        opened.quote = node.name == "blockquote" and _is_quote(node)
        self._depth += 1
        self._pre += node.name == "pre"
        if opened.quote:
            self._tree.data(QUOTE_BEGINS)
        if node.name == "table":
            self._tables.append(_Table())
        if self._tables:
            self._tables[-1].lines += 1
            if node.name in TABLE_PARTS:
                self._tables[-1].parts.append(opened.element)

    def _break_line(self, seen: Seen) -> None:
        if seen is not Seen.GONE:
            self._tree.start("br", {})
            self._tree.end("br")
            if self._tables:
                self._tables[-1].lines += 1

    def _text(self, text: str) -> None:
        seen = self._open[-1].seen
        if seen is not Seen.YES and _WORD.search(text):
            self.doubtful = self.doubtful or seen is Seen.PERHAPS
            if seen is not Seen.PERHAPS:
                self.hidden.append(text)
        if seen in {Seen.NO, Seen.GONE}:
            return
        self._tree.data(text)
        if self._tables:
            self._tables[-1].text += len(text)
            self._tables[-1].lines += text.count("\n") if self._pre else 0

    def _end(self) -> None:
        opened = self._open.pop()
        if opened.quote:
            self._tree.data(QUOTE_ENDS)
        if opened.element is None:
            return
        self._tree.end(opened.element.tag)
        self._depth -= 1
        self._pre -= opened.name == "pre"
        if opened.name == "table":
            self._close_table(self._tables.pop())

    def _close_table(self, table: _Table) -> None:
        if self._tables:
            self._tables[-1].lines += table.lines
            self._tables[-1].text += table.text
        area = table.lines * table.text
        if area > min(TABLE_MAX_AREA, self._area_left):
            for part in table.parts:
                part.tag = "div"
        else:
            self._area_left -= area


def _is_quote(node: Node) -> bool:
    # Outlook and Apple Mail indent the sender's own text with a blockquote without a border.
    style = node.attributes.get("style", "").replace(" ", "")
    return node.attributes.get("type") == "cite" or "border:none" not in style
