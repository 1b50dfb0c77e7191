"""Which declarations of a mail's style sheets and style attributes hold for each element.

css-inline matches the selectors and applies the cascade. It never sees the mail: what is nested 10,000
deep would crash it. It gets a skeleton of the elements, and rules that we have read before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape

from css_inline import CSSInliner, InlineError

from mailagent.adapters.html.css_rules import (
    IMPORTANT,
    Applies,
    Rule,
    parse_declarations,
    parse_sheets,
)
from mailagent.adapters.html.tree import BODY, HTML, Mark, Page

# Selectors times elements: each pair may cost 60 ns.
MATCHES_MAX = 500_000

Style = Mapping[str, str]
Styles = Mapping[int, Style]  # by the number of the element

# What css-inline matches in time that does not grow with the square of the elements. Not among it: `~`,
# `:has()`, and what stands in parentheses in other ones. `:is()` and `:where()` it does not know.
_PSEUDO_CLASS = (
    r":(?:first-child|last-child|only-child|root|empty|link|any-link|visited|hover|focus|active|target"
    r"|checked|enabled|disabled|not\([^()\s>~+:]*\)|nth-(?:last-)?child\([\dn+ -]{0,20}(?:odd|even)?\))"
)
_KNOWN_SELECTOR = re.compile(
    rf"(?:[\w\s>+.#*,-]|\\[^\n]|\[[^\[\]{{}}]{{1,200}}\]|::?(?:before|after|first-l\w+|-\w[\w-]+)|{_PSEUDO_CLASS}(?![\w(-]))++"
)
_SIMPLE_SELECTOR = re.compile(r"[\w\s>.#*+~-]+")
_NAMES_ONLY = re.compile(r"[\w\s>.#*+~,-]+")
_INSIDE = re.compile(r"[\s>]")
_NAMES = re.compile(r"[.#][\w-]+")
# Elements whose content HTML parsers read in a way of its own. The others are all alike.
_UNLIKE_OTHERS = {
    *"script style title template noframes noscript noembed iframe textarea plaintext xmp".split(),
    *"select option optgroup svg math head frameset frame listing image keygen isindex".split(),
}
_NAME = re.compile(r"[a-z][a-z0-9]{0,20}")
_STYLED = re.compile(r"<[^<>]*? data-n=\"(\d{1,6})\"(?: [\w-]+=\"[^\"]*\")*? style=\"([^\"]*)\"")


class Cascade:
    """The declarations that hold for each element of a page.

    `doubtful` are rules that only some screens or programs apply; `unread` those whose elements we
    cannot tell. `cut`: there are more rules than we have time for.
    """

    def __init__(self, page: Page) -> None:
        memo: dict[str, Style] = {"": {}}
        self._own: dict[int, Style] = {}
        for number, node in enumerate(page.nodes):
            if style := node.attributes.get("style"):
                if style not in memo:
                    memo[style] = parse_declarations(style)
                self._own[number] = memo[style]
        rules, cut = parse_sheets((sheet.text, sheet.media) for sheet in page.sheets)
        rules, self.unread = _with_known_selectors(rules)
        self._rules, too_many = _that_may_match(rules, page)
        self.cut = cut or too_many
        self.doubtful = [rule for rule in self._rules if rule.applies is not Applies.ALWAYS]
        needed = any(not _NAMES_ONLY.fullmatch(rule.selector) for rule in self._rules)
        self._skeleton = _skeleton(page, self._own, needed) if self._rules else ""

    def styles(self, doubtful: bool = False) -> Styles:
        """Return the declarations of each element that has any, with or without doubtful rules."""
        found = {number: _without_importance(style) for number, style in self._own.items()}
        rules = [rule for rule in self._rules if doubtful or rule.applies is Applies.ALWAYS]
        if rules:
            css = "\n".join(f"{rule.selector}{{{_written(rule.declarations)}}}" for rule in rules)
            inliner = CSSInliner(
                inline_style_tags=False, load_remote_stylesheets=False, extra_css=css
            )
            try:
                inlined = inliner.inline(self._skeleton)
            except (InlineError, UnicodeError):  # lone surrogates are no UTF-8
                self.cut = True
                return found
            for number, style in _STYLED.findall(inlined):
                found[int(number)] = _without_importance(_declared(style))
        return found


def _with_known_selectors(rules: list[Rule]) -> tuple[list[Rule], list[Rule]]:
    known: list[Rule] = []
    unknown: list[Rule] = []
    for rule in rules:
        for selector in _selectors(rule):
            one = Rule(selector, rule.declarations, rule.applies)
            sound = not rule.nested and _KNOWN_SELECTOR.fullmatch(selector)
            (known if sound else unknown).append(one)
    return known, unknown


def _selectors(rule: Rule) -> list[str]:
    if "(" in rule.selector or "[" in rule.selector:
        return [rule.selector]
    return rule.selector.split(",")


def _that_may_match(rules: list[Rule], page: Page) -> tuple[list[Rule], bool]:
    """Return the rules without those for classes and ids that no element has; as many as we have time
    for, and whether there are more."""
    names: set[str] = set()
    for node in page.nodes:
        names.update(f".{one}" for one in node.attributes.get("class", "").split())
        names.add(f"#{node.attributes.get('id', '')}")
    left = MATCHES_MAX
    kept: list[Rule] = []
    for rule in rules:
        if not _may_match(rule.selector, names):
            continue
        # For what stands inside something else, all that an element stands in may be looked at.
        steps = 1 + page.depth // 30 if _INSIDE.search(rule.selector.strip()) else 1
        left -= len(page.nodes) * steps * (1 + rule.selector.count(","))
        if left < 0:
            return kept, True
        kept.append(rule)
    return kept, False


def _may_match(selector: str, names: set[str]) -> bool:
    return not _SIMPLE_SELECTOR.fullmatch(selector) or names.issuperset(_NAMES.findall(selector))


def _skeleton(page: Page, own: Styles, all_attributes: bool) -> str:
    pieces = [_tag(page, HTML, own, all_attributes), _tag(page, BODY, own, all_attributes)]
    open_names: list[str] = []
    for event in page.events:
        if isinstance(event, int):
            open_names.append(_safe_name(page.nodes[event].name))
            pieces.append(_tag(page, event, own, all_attributes))
        elif event is Mark.END:
            pieces.append(f"</{open_names.pop()}>")
    return f"<!DOCTYPE html>{''.join(pieces)}"


@lru_cache(maxsize=500)
def _safe_name(name: str) -> str:
    return name if _NAME.fullmatch(name) and name not in _UNLIKE_OTHERS else "x-other"


def _tag(page: Page, number: int, own: Styles, all_attributes: bool) -> str:
    node = page.nodes[number]
    written = f'<{_safe_name(node.name)} data-n="{number}"'
    for name, value in node.attributes.items():
        if name in {"class", "id"} or (all_attributes and _ATTRIBUTE.fullmatch(name)):
            written += f' {name}="{escape(value)}"'
    return f'{written} style="{_written(own[number])}">' if number in own else f"{written}>"


_ATTRIBUTE = re.compile(r"(?!(?:data-n|style)\Z)[a-z][a-z0-9-]{0,40}")


def _written(style: Style) -> str:
    return ";".join(f"{name}:{value}" for name, value in style.items())


def _declared(style: str) -> Style:
    pairs = (one.partition(":") for one in style.split(";"))
    return {name.strip(): value.strip() for name, _colon, value in pairs}


def _without_importance(style: Style) -> Style:
    return {name: value.removesuffix(IMPORTANT).rstrip() for name, value in style.items()}
