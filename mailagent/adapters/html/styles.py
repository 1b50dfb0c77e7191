"""The CSS of an HTML mail: which declarations hold for each element, as far as they decide what is seen.

Reads what mails use: class, id and element selectors, one inside the other, and media queries about the
screen. The time is linear in the length of the mail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from mailagent.adapters.html.tree import HTML, Page
from mailagent.adapters.html.visibility import (
    HIDES,
    MAY_HIDE,
    PLACES,
    SIZES,
    Style,
    hides,
    is_risky,
    is_understood,
    parse_colour,
)

SHEETS_MAX_LENGTH = 100_000  # of all style sheets of a mail; beyond it, the mail is flagged
RULES_MAX = 2_000
DECLARATIONS_MAX = 100
STATEMENTS_MAX = 10_000
MATCHES_MAX = 500_000  # selectors times elements

_STRING = r""""(?:[^"\\\n]|\\.?)*+"?|'(?:[^'\\\n]|\\.?)*+'?"""
_QUOTED = re.compile(_STRING)
_COMMENT = re.compile(rf"{_STRING}|/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.DOTALL)  # CSS Syntax, section 4.3.7
# What stands before the next brace or semicolon.
_STATEMENT = re.compile(
    rf"((?:[^\"'{{}};(\\]|\\.?|{_STRING}|\((?:[^()\"'{{}}\\]|\\.?|{_STRING})*+\)?)*+)([{{}};]|\Z)",
    re.DOTALL,
)
_DECLARATION = re.compile(
    rf"(?:[^;\"'(\\]|\\.?|{_STRING}|\((?:[^()\"'\\]|\\.?|{_STRING})*+\)?)++", re.DOTALL
)
_PLAIN_VALUE = re.compile(r"[\w#%.,()/+*=:\s-]{1,200}\Z")
_URL = re.compile(r"url\([^)]*\)?")
_COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl)a?\([^()]*\)|[a-z]+")
_FONT_SIZE = re.compile(
    r"(?:xx?-)?(?:small|large)|smaller|larger|medium|[\d.]+(?:[a-z]{1,4}|%)|0?\.?0"
)
_SAME = {
    "overflow-x": "overflow", "overflow-y": "overflow",
    "inline-size": "width", "block-size": "height",
    "max-inline-size": "max-width", "max-block-size": "max-height",
}  # fmt: skip
_KEPT = {
    *HIDES,
    *MAY_HIDE,
    *PLACES,
    *SIZES,
    *"display visibility opacity overflow position float".split(),
    *"color text-fill-color font-size background-color background-image".split(),
}


class Declarations(NamedTuple):
    """Lower-case longhands; `important` ones come after all others."""

    plain: dict[str, str]
    important: dict[str, str]


def parse_declarations(style: str) -> Declarations:
    """Return the declarations of a style attribute or a rule that decide what is seen."""
    found = Declarations({}, {})
    for declaration in islice(
        _DECLARATION.finditer(_without_comments(style.lower())), DECLARATIONS_MAX
    ):
        name, _colon, value = declaration[0].partition(":")
        name = _unescaped(name).strip().removeprefix("-webkit-")
        value, bang, _important = _QUOTED.sub("x", _unescaped(value)).partition("!")
        kept = found.important if bang else found.plain
        for longhand, part in _longhands(name, value.strip()):
            if longhand not in _KEPT or not _PLAIN_VALUE.match(part):
                continue
            # Browsers pass over a value that they do not understand. What may hide text stays flagged.
            stays = longhand in kept and is_risky(longhand, kept[longhand])
            if is_understood(longhand, part) and not stays:
                kept[longhand] = part
    return found


def _longhands(name: str, value: str) -> Iterator[tuple[str, str]]:
    if name == "font":
        # The family comes last; a number alone is the weight.
        sizes = (word.partition("/") for word in value.split()[:-1])
        yield (
            "font-size",
            next((size for size, slash, _ in sizes if slash or _FONT_SIZE.fullmatch(size)), ""),
        )
    elif name in {"background", "background-image"}:
        yield (
            "background-image",
            "image" if re.search(r"url\(|image\(|gradient\(", value) else "none",
        )
        if name == "background":
            words = _COLOUR.findall(_URL.sub(" ", value))
            yield "background-color", next(filter(parse_colour, words), "transparent")
    else:
        yield _SAME.get(name, name), value


def _unescaped(css: str) -> str:
    return _ESCAPE.sub(_escaped_letter, css) if "\\" in css else css


def _escaped_letter(match: re.Match[str]) -> str:
    code = int(match[1] or "0", 16)
    return match[2] or (chr(code) if 0 < code <= 0x10FFFF else "\ufffd").lower()


def _without_comments(css: str) -> str:
    return _COMMENT.sub(lambda match: match[0] if match[0][0] in "\"'" else " ", css)


# --- rules ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Rule:
    """`applies`: None if only some screens or programs apply it."""

    selector: str
    applies: bool | None
    text: list[str] = field(default_factory=list)


def parse_sheets(sheets: Iterable[tuple[str, str]]) -> tuple[list[Rule], bool]:
    """Return the rules of all style sheets, given with their `media` attributes, and whether there are more."""
    rules: list[Rule] = []
    length, statements = SHEETS_MAX_LENGTH, STATEMENTS_MAX
    for css, media in sheets:
        found = islice(_STATEMENT.finditer(_without_comments(css[:length].lower())), statements)
        length -= len(css)
        for statement in _read_sheet(found, Rule("", _applies(media)), rules):
            statements -= statement
        if length < 0 or statements <= 0 or len(rules) > RULES_MAX:
            return rules[:RULES_MAX], True
    return rules, False


def _read_sheet(
    statements: Iterator[re.Match[str]], sheet: Rule, rules: list[Rule]
) -> Iterator[int]:
    """Add the rules of a sheet to `rules`; yield 1 for each statement."""
    blocks = [sheet]
    for statement in statements:
        yield 1
        text, sign = statement.groups()
        if sign == "{":
            blocks.append(_open(blocks[-1], text.strip()))
            if blocks[-1].selector and blocks[-1].applies is not False:
                rules.append(blocks[-1])
        else:
            blocks[-1].text.append(text)
        if sign == "}" and len(blocks) > 1:
            blocks.pop()


def _open(outer: Rule, prelude: str) -> Rule:
    if not prelude.startswith("@"):
        # A rule inside another: we do not know its elements.
        return Rule(prelude, None if outer.selector else outer.applies)
    name, _space, condition = re.sub(r"\(", " (", prelude[1:], count=1).partition(" ")
    if name == "media":
        applies = _applies(condition)
    else:  # fonts, pages and animations have no rules for elements
        applies = None if name in {"supports", "layer", "container", "document", "scope"} else False
    known = (outer.applies, applies)
    return Rule(outer.selector, False if False in known else None if None in known else True)


# A wide, light screen. Rules for phones, for the dark and for paper do not count.
_SCREEN = {"width": 1280, "height": 800}
_SIZE = re.compile(
    r"\(\s*(min|max)-(?:device-)?(width|height)\s*:\s*(\d{1,6})(?:\.\d+)?\s*(px|r?em)?\s*\)"
)
_NOT_OURS = re.compile(
    r"print|speech|handheld|projection|tty|tv|\(\s*prefers-color-scheme\s*:\s*dark\s*\)"
)


def _applies(media: str) -> bool | None:
    found = [_query_applies(" ".join(query.split())) for query in media.lower().split(",")[:50]]
    return True if True in found else None if None in found else False


def _query_applies(query: str) -> bool | None:
    bare = query.removeprefix("not ").removeprefix("only ")
    found = [_feature_applies(feature) for feature in bare.split(" and ")[:50]]
    applies = False if False in found else None if None in found else True
    return not applies if query.startswith("not ") and applies is not None else applies


def _feature_applies(feature: str) -> bool | None:
    if feature in {"", "all", "screen"}:
        return True
    if _NOT_OURS.fullmatch(feature):
        return False
    size = _SIZE.fullmatch(feature)
    if size is None:
        return None
    pixels = int(size[3]) * (16 if size[4] in {"em", "rem"} else 1)
    return _SCREEN[size[2]] >= pixels if size[1] == "min" else _SCREEN[size[2]] <= pixels


# --- selectors ------------------------------------------------------------------------------------


class Compound(NamedTuple):
    """A part of a selector, such as `p.note`. `child`: stands directly in the part before it."""

    element: str
    names: frozenset[str]
    child: bool


class Matched(NamedTuple):
    """A rule by its specificity, with its declarations and the selector of some of its elements."""

    specificity: tuple[int, int, int]
    declarations: Declarations
    compounds: Sequence[Compound]


_COMPOUND = re.compile(r"([a-z][\w-]*|\*)?((?:[.#][\w-]+)*)")
_SELECTOR = re.compile(r"[\w\s>.#*-]+")
# These elements and states of elements have no text that a reader sees.
_NO_TEXT = re.compile(r":(?:hover|focus|active|visited|:?before|:?after)|::[\w-]+")


def find_styles(page: Page) -> tuple[list[Style], bool]:
    """Return the declarations that hold for each element, and whether there may be others that hide text."""
    rules, doubtful = parse_sheets((sheet.text, sheet.media) for sheet in page.sheets)
    names = [_names_of(node.attributes) for node in page.nodes]
    matched: list[Matched] = []
    left, all_names = MATCHES_MAX // len(page.nodes), frozenset[str]().union(*names)
    for rule in rules:
        declarations = parse_declarations(";".join(rule.text))
        for selector in rule.selector.split(",") if any(declarations) else ():
            compounds = _parse_selector(selector) if rule.applies else None
            if compounds is None:
                doubtful = doubtful or (not _NO_TEXT.search(selector) and _hides(declarations))
            elif all(one.names <= all_names for one in compounds) and compounds:
                matched.append(Matched(_specificity(compounds), declarations, compounds))
                left -= len(compounds)
        if left < 0:
            doubtful = True
            break
    matched.sort(key=lambda each: each.specificity)
    return _cascade(page, names, matched), doubtful


def _names_of(attributes: Mapping[str, str]) -> frozenset[str]:
    classes = (f".{one}" for one in attributes.get("class", "").split())
    return frozenset([*classes, f"#{attributes.get('id', '')}"])


def _hides(declarations: Declarations) -> bool:
    return hides(declarations.plain | declarations.important)


def _parse_selector(selector: str) -> list[Compound] | None:
    """Return the parts of a selector; none if it has no elements with text, None if we do not know it."""
    if _NO_TEXT.search(selector):
        return []
    selector = _unescaped(selector).replace(":link", "").strip()
    if not _SELECTOR.fullmatch(selector):
        return None
    compounds: list[Compound] = []
    child = False
    for word in selector.replace(">", " > ").split():
        match = _COMPOUND.fullmatch(word)
        if word == ">":
            child = True
        elif match is None:
            return None
        else:
            named = frozenset(re.findall(r"[.#][\w-]+", match[2]))
            compounds.append(Compound((match[1] or "").strip("*"), named, child))
            child = False
    return compounds or None


def _specificity(compounds: Sequence[Compound]) -> tuple[int, int, int]:
    names = [name for one in compounds for name in one.names]
    ids = sum(name.startswith("#") for name in names)
    return ids, len(names) - ids, sum(bool(one.element) for one in compounds)


def _cascade(
    page: Page, names: Sequence[frozenset[str]], matched: Sequence[Matched]
) -> list[Style]:
    """Return the declarations of each element: those of rules, its own, then the important ones."""
    found: list[list[Declarations]] = [[] for _node in page.nodes]
    for rule in matched:
        for number in _elements_of(page, names, rule.compounds):
            found[number].append(rule.declarations)
    own: dict[str, Declarations] = {}
    styles: list[Style] = []
    for node, declarations in zip(page.nodes, found, strict=True):
        if style := node.attributes.get("style"):
            if style not in own:
                own[style] = parse_declarations(style)
            declarations.append(own[style])
        merged: dict[str, str] = {}
        for each in (
            *(one.plain for one in declarations),
            *(one.important for one in declarations),
        ):
            merged.update(each)
        styles.append(merged)
    return styles


def _elements_of(
    page: Page, names: Sequence[frozenset[str]], compounds: Sequence[Compound]
) -> Iterator[int]:
    """Yield the elements of a selector, in one pass: parents come before children."""
    # Bit i: the first i + 1 parts of the selector end at this element, or at it or one around it.
    ended: list[int] = []
    around: list[int] = []
    for number, node in enumerate(page.nodes):
        is_root = number == HTML
        parent, outer = (0, 0) if is_root else (ended[node.parent], around[node.parent])
        here = 0
        for bit, one in enumerate(compounds):
            before = parent if one.child else outer
            fits = one.element in {"", node.name} and one.names <= names[number]
            if fits and (bit == 0 or before >> (bit - 1) & 1):
                here |= 1 << bit
        ended.append(here)
        around.append(outer | here)
        if here >> (len(compounds) - 1):
            yield number
