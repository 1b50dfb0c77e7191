"""What a person sees of an HTML mail, as text. Hidden text is left out and reported.

Hidden text is how a mail tells a machine what its reader would not see; newsletters use it too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from inscriptis.css_profiles import STRICT_CSS_PROFILE
from inscriptis.html_engine import Inscriptis
from inscriptis.model.config import ParserConfig

from mailagent.adapters.html.css_cascade import Cascade, Styles
from mailagent.adapters.html.css_rules import Rule
from mailagent.adapters.html.layout import QUOTE_BEGINS, QUOTE_ENDS, Layout
from mailagent.adapters.html.tokens import tokenise
from mailagent.adapters.html.tree import Page, build_page
from mailagent.adapters.html.visibility import Look, Seen, Style, hides, look_of

HIDDEN_MAX_LENGTH = 20_000

_MARKS = QUOTE_BEGINS + QUOTE_ENDS
_MARKED = re.compile(f"[{_MARKS}]")
_WITHOUT_MARKS = str.maketrans("", "", _MARKS)


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
    cascade = Cascade(page)
    seen = _seen(page, cascade.styles())
    if _may_differ(cascade, seen):
        others = _seen(page, cascade.styles(doubtful=True))
        seen = [one.joined(other) for one, other in zip(seen, others, strict=True)]
    layout = Layout(page, seen)
    # What was not read may have been hidden, or may have hidden something.
    doubtful = page.cut or layout.doubtful or cascade.cut or any(map(_hides, cascade.unread))
    text = Inscriptis(layout.root, ParserConfig(css=dict(STRICT_CSS_PROFILE))).get_text()
    hidden = " ".join(" ".join(layout.hidden).split())[:HIDDEN_MAX_LENGTH]
    return HtmlText(_with_quote_signs(text), bool(hidden) or doubtful, page.cut, hidden)


def _may_differ(cascade: Cascade, seen: list[Seen]) -> bool:
    """Whether some readers may see what others do not."""
    if not cascade.doubtful:
        return False
    return set(seen) != {Seen.YES} or any(map(_hides, cascade.doubtful))


def _hides(rule: Rule) -> bool:
    return hides(rule.declarations)


def _seen(page: Page, styles: Styles) -> list[Seen]:
    """Return whether a text in each element is seen."""
    looks: list[Look] = []
    seen: list[Seen] = []
    for number, node in enumerate(page.nodes):
        parent = looks[node.parent] if looks else Look()
        look = look_of(parent, node.name, node.attributes, styles.get(number, _NO_STYLE))
        seen.append(seen[node.parent] if seen and look is parent else look.seen)
        looks.append(look)
    return seen


_NO_STYLE: Style = {}


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
