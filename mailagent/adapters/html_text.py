"""What a person sees of an HTML mail, as text. Hidden text is left out and reported.

Hidden text is how a mail tells a machine what its reader would not see; newsletters use it too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from inscriptis.css_profiles import STRICT_CSS_PROFILE
from inscriptis.html_engine import Inscriptis
from inscriptis.model.config import ParserConfig

from mailagent.adapters.html_tokens import Cut, EndTag, StartTag, StyleSheet, tokenise
from mailagent.adapters.html_tree import QUOTE_BEGINS, QUOTE_ENDS, HtmlTree

_MARKS = QUOTE_BEGINS + QUOTE_ENDS
_MARKED = re.compile(f"[{_MARKS}]")
_WITHOUT_MARKS = str.maketrans("", "", _MARKS)


@dataclass(frozen=True, slots=True)
class HtmlText:
    """The visible text, quotes with `>` signs. `hidden`: there was text nobody would have seen;
    `cut`: not all of it was read, or not all of it understood."""

    text: str
    hidden: bool = False
    cut: bool = False


def render_text(html: str) -> HtmlText:
    """Return the text of an HTML mail as a person sees it. Linear in its length, never raises."""
    tree = HtmlTree()
    cut = False
    for token in tokenise(html):
        match token:
            case StartTag(name, attributes):
                tree.start(name, attributes)
            case EndTag(name):
                tree.end(name)
            case StyleSheet(css):
                tree.style(css)
            case Cut():
                cut = True
            case str(text):
                tree.text(text.translate(_WITHOUT_MARKS))
    config = ParserConfig(css=dict(STRICT_CSS_PROFILE))
    text = Inscriptis(tree.close(), config).get_text()
    return HtmlText(_with_quote_signs(text), tree.hidden, cut or tree.too_deep)


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
