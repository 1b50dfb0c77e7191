"""Renders the visible text of an HTML mail. Hidden text is left out and reported.

By hidden text, a mail may tell a machine something that people do not see. Newsletters have hidden text, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree.ElementTree import Element, TreeBuilder  # builds only: nothing is parsed

from inscriptis.css_profiles import STRICT_CSS_PROFILE
from inscriptis.html_engine import Inscriptis
from inscriptis.model.config import ParserConfig

from mailagent.adapters.html.styles import find_styles
from mailagent.adapters.html.tree import Node, parse_html, walk
from mailagent.adapters.html.visibility import Look, Seen, Style, look_of

TEXT_MAX_LENGTH = 500_000
HIDDEN_MAX_LENGTH = 20_000
DEPTH_MAX = 100  # of the elements that we lay out, by recursion
# The layout of a table pads every line of a row to the width of its columns. For a table with more characters
# than this (lines times text), we write the cells below each other instead.
TABLE_MAX_AREA = 300_000
TABLES_MAX_AREA = 2_000_000

# Private-use characters, which mark quotations until the text is laid out.
QUOTE_BEGINS, QUOTE_ENDS = "\ue0f0", "\ue0f1"
_MARKED = re.compile(f"[{QUOTE_BEGINS}{QUOTE_ENDS}]")
_WITHOUT_MARKS = str.maketrans("", "", QUOTE_BEGINS + QUOTE_ENDS)
_WORD = re.compile(r"\w")

_TABLE_PARTS = {"table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption"}
_BLOCKS = {
    *_TABLE_PARTS,
    *"address article aside blockquote center dd details div dl dt fieldset figcaption".split(),
    *"figure footer form h1 h2 h3 h4 h5 h6 header li main nav ol p pre section summary ul".split(),
}


@dataclass(frozen=True, slots=True)
class HtmlText:
    """The visible text, with `>` before quotations. `hidden`: some text is hidden, or may be. `hidden_text`:
    the text that is certainly hidden. `cut`: we did not read all of the mail."""

    text: str
    hidden: bool = False
    cut: bool = False
    hidden_text: str = ""


def render_text(html: str) -> HtmlText:
    """Return the text of an HTML mail as a person sees it. The time is linear in its length. Never raises."""
    root, cut = parse_html(html)
    if root is None:
        return HtmlText("")
    styles, doubtful = find_styles(root)
    layout = _Layout(root, styles)
    text = Inscriptis(layout.root, ParserConfig(css=dict(STRICT_CSS_PROFILE))).get_text()
    hidden = " ".join(" ".join(layout.hidden).split())[:HIDDEN_MAX_LENGTH]
    cut = cut or layout.cut
    # The part that we did not read may be hidden, or may hide other text.
    is_hidden = bool(hidden) or layout.doubtful or doubtful or cut
    return HtmlText(_with_quote_signs(text), is_hidden, cut, hidden)


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


class _Layout:
    """Separates visible from hidden text. `root`: the visible text, block by block. `hidden`: the hidden texts.
    `doubtful`: some visible text may be hidden in some mail programs. `cut`: there was too much text."""

    def __init__(self, source: Node, styles: dict[Node, Style]) -> None:
        self.hidden: list[str] = []
        self.doubtful = self.cut = False
        self._left = TEXT_MAX_LENGTH
        self._tree = TreeBuilder()
        self._tree.start("body", {})
        looks = [Look()]
        open_blocks: list[Node] = []
        for event, element in walk(source):
            if event == "start":
                looks.append(look_of(looks[-1], element.tag, element.attrib, styles[element]))
                seen = looks[-1].seen
                if element.tag in {"br", "hr"} and seen is not Seen.GONE:
                    self._break_line()
                elif element.tag in _BLOCKS and seen is not Seen.GONE:
                    if len(open_blocks) < DEPTH_MAX:
                        open_blocks.append(element)
                        self._tree.start(element.tag, {})
                        self._tree.data(QUOTE_BEGINS if _is_quote(element) else "")
                    else:
                        self._break_line()
                self._text(element.text, seen)
                continue
            looks.pop()
            if open_blocks and open_blocks[-1] is element:
                open_blocks.pop()
                self._tree.data(QUOTE_ENDS if _is_quote(element) else "")
                self._tree.end(element.tag)
            self._text(element.tail, looks[-1].seen)
        self._tree.end("body")
        self.root = self._tree.close()
        _flatten_large_tables(self.root)

    def _break_line(self) -> None:
        self._tree.start("br", {})
        self._tree.end("br")

    def _text(self, text: str | None, seen: Seen) -> None:
        text = (text or "").translate(_WITHOUT_MARKS)
        if seen is not Seen.YES and _WORD.search(text):
            self.doubtful = self.doubtful or seen is Seen.PERHAPS
            if seen is not Seen.PERHAPS:
                self.hidden.append(text)
        if seen in {Seen.NO, Seen.GONE}:
            return
        self.cut = self.cut or len(text) > self._left
        self._tree.data(text[: self._left])
        self._left -= min(len(text), self._left)


def _is_quote(element: Node) -> bool:
    # In Outlook and Apple Mail, a blockquote without a border only indents the sender's own text.
    style = element.get("style", "").replace(" ", "").lower()
    cited = element.get("type", "").lower() == "cite" or "border:none" not in style
    return element.tag == "blockquote" and cited


def _flatten_large_tables(root: Element) -> None:
    lines: dict[Element, int] = {}
    text: dict[Element, int] = {}
    left = TABLES_MAX_AREA
    large: set[Element] = set()
    for element in reversed(list(root.iter())):  # children before parents
        own = [element.text or "", *(child.tail or "" for child in element)]
        lines[element] = 1 + sum(lines[child] for child in element)
        lines[element] += sum(part.count("\n") for part in own) if element.tag == "pre" else 0
        text[element] = sum(map(len, own)) + sum(text[child] for child in element)
        if element.tag == "table":
            area = lines[element] * text[element]
            if area > min(TABLE_MAX_AREA, left):
                large.add(element)
            else:
                left -= area
    table_of: dict[Element, Element] = {}
    for element in root.iter():
        for child in element:
            if (table := child if child.tag == "table" else table_of.get(element)) is not None:
                table_of[child] = table
    for element, table in table_of.items():
        if table in large and element.tag in _TABLE_PARTS:
            element.tag = "div"
