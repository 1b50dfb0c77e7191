"""The CSS of an HTML mail: finds the declarations of each element that decide whether its text is visible.

It understands what mails use: class, id and element selectors and their descendants, on a wide and light
screen. It reports other rules if they hide text. The time is linear in the length of the mail.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from mailagent.adapters.html.tree import Node
from mailagent.adapters.html.visibility import (
    READ,
    Look,
    Seen,
    Style,
    is_understood,
    look_of,
    parse_colour,
)

SHEETS_MAX_LENGTH = 100_000  # of all style sheets of a mail together; a longer one is flagged
STATEMENTS_MAX = 5_000
DECLARATIONS_MAX = 100
SELECTORS_MAX = 20_000  # of all rules together: a nested rule has those of the rule around it again
MATCHES_MAX = 200_000  # how many elements we look at for all selectors together

# Comments, and the contents of strings and URLs, which we do not read.
_NOT_READ = re.compile(
    r"""/\*.*?(?:\*/|\Z)|<!--|-->|"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?|url\([^()"']*+\)?""",
    re.DOTALL,
)
_STATEMENT = re.compile(r"([^{};]*+)([{};]|\Z)")  # the text up to the next brace or semicolon
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.DOTALL)  # CSS Syntax, section 4.3.7
_COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl)a?\([^()]*\)|[a-z]+")
_FONT_SIZE = re.compile(r"[a-z-]*(?:small|large|medium)|[\d.]+(?:[a-z]{1,4}|%)|0?\.?0")
_VALUE_MAX_LENGTH = 200
_SAME = {
    **{"overflow-x": "overflow", "overflow-y": "overflow"},
    **{"inline-size": "width", "max-inline-size": "max-width"},
    **{"block-size": "height", "max-block-size": "max-height"},
}


class Declarations(NamedTuple):
    """CSS properties (longhands, in lower case) and their values. The `important` ones override all others."""

    plain: dict[str, str]
    important: dict[str, str]


@lru_cache(maxsize=1_000)
def parse_declarations(style: str) -> Declarations:
    """Return those declarations of a style attribute or rule that decide whether text is visible."""
    found = Declarations({}, {})
    for declaration in _without_unread(style).split(";")[:DECLARATIONS_MAX]:
        name, _colon, text = declaration.partition(":")
        value, bang, _important = _unescaped(text).partition("!")
        kept = found.important if bang else found.plain
        name = _unescaped(name).strip().removeprefix("-webkit-")
        for longhand, part in _longhands(name, value.strip()[:_VALUE_MAX_LENGTH]):
            if longhand in READ and is_understood(longhand, part):
                kept[longhand] = part
    return found


def _longhands(name: str, value: str) -> Iterator[tuple[str, str]]:
    if name == "font":
        # The font's family comes last. A number alone is the weight, not the size.
        sizes = (word.partition("/") for word in value.split()[:-1])
        fitting = (size for size, slash, _ in sizes if slash or _FONT_SIZE.fullmatch(size))
        yield "font-size", next(fitting, "")
    elif name in {"background", "background-image"}:
        yield "background-image", "image" if re.search(r"url|image\(|gradient\(", value) else "none"
        if name == "background":
            yield (
                "background-color",
                next(filter(parse_colour, _COLOUR.findall(value)), "transparent"),
            )
    else:
        yield _SAME.get(name, name), value


def _hides(style: Style) -> bool:
    return look_of(Look(), "", {}, style).seen is not Seen.YES


def _unescaped(css: str) -> str:
    return _ESCAPE.sub(_escaped_letter, css) if "\\" in css else css


def _escaped_letter(match: re.Match[str]) -> str:
    code = int(match[1] or "0", 16)
    return match[2] or (chr(code) if 0 < code <= 0x10FFFF else "\ufffd").lower()


def _without_unread(css: str) -> str:
    return _NOT_READ.sub(lambda match: "url" if match[0][0] == "u" else " ", css.lower())


# --- rules ----------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """A CSS rule. `applies`: whether it applies on a wide and light screen; None if we do not know."""

    selectors: str
    applies: bool | None
    declarations: str


# Media queries for phones, dark mode and print. Their rules do not apply.
_OTHER_SCREENS = re.compile(
    r"print|max-(?:device-)?width\s*:\s*\d{1,3}(?:\.\d+)?px|scheme\s*:\s*dark"
)
_ALL_SCREENS = re.compile(
    r"\s*(?:only\s+)?(?:all|screen)?(?:\s+and\s+)?(?:\(\s*min-(?:device-)?width\s*:\s*\d{1,3}px\s*\))?\s*"
)
# At-rules that contain further rules of the sheet.
_GROUPS = re.compile(r"@(?:media|supports|layer|container|document|scope)\b")


def _applies(media: str) -> bool | None:
    media = " ".join(media.split())  # the patterns try each way to split a run of spaces
    if _ALL_SCREENS.fullmatch(media):
        return True
    return (
        False if _OTHER_SCREENS.search(media) and "not" not in media and "," not in media else None
    )


def parse_sheets(sheets: Iterable[tuple[str, str]]) -> tuple[list[Rule], bool]:
    """Return the rules of all style sheets, and whether there are more that we did not read. `sheets`: pairs of
    a sheet's text and its `media` attribute."""
    rules: list[Rule] = []
    length, statements = SHEETS_MAX_LENGTH, STATEMENTS_MAX
    for css, media in sheets:
        found = islice(_STATEMENT.finditer(_without_unread(css[:length])), statements)
        statements -= _read_sheet(found, _applies(media.lower()), rules)
        length -= len(css)
        if length < 0 or statements <= 0:
            return rules, True
    return rules, False


def _read_sheet(
    statements: Iterator[re.Match[str]], applies: bool | None, rules: list[Rule]
) -> int:
    """Add the rules of a sheet to `rules`; return how many statements it has."""
    around: list[tuple[str, bool | None]] = [("", applies)]  # the blocks that are open
    count, text = 0, ""
    for statement in statements:
        count += 1
        before, sign = statement.groups()
        if sign == "{":
            prelude = before.strip()
            selectors, outer = around[-1]
            if _GROUPS.match(prelude):
                condition = prelude.removeprefix("@media")
                inner = None if condition.startswith("@") else _applies(condition)
                known = {outer, inner}
                inner = False if False in known else None if None in known else True
                around.append((selectors, inner))
            elif prelude.startswith("@"):  # fonts, pages and animations have no rules for elements
                around.append(("", False))
            else:  # a rule inside another: we do not know its elements
                around.append((prelude, None if selectors else outer))
            text = ""
            continue
        text += before + ";"
        if sign != ";":
            selectors, outer = around.pop() if len(around) > 1 else around[0]
            if selectors and outer is not False:
                rules.append(Rule(selectors, outer, text))
            text = ""
    return count


# --- selectors ------------------------------------------------------------------------------------


class Compound(NamedTuple):
    """A part of a selector, such as `p.note`."""

    element: str
    names: frozenset[str]  # `.class` and `#id`

    @property
    def key(self) -> str:
        """The name by which `Page` looks up its elements."""
        return next(iter(self.names), self.element)


_COMPOUND = re.compile(r"([a-z][\w-]*|\*)?((?:[.#][\w-]+)*)")
# Pseudo-classes and pseudo-elements that concern no text of the mail.
_NO_TEXT = re.compile(r":(?:hover|focus|active|visited|:?before|:?after)|::[\w-]+")


def _parse_selector(selector: str) -> list[Compound] | None:
    """Return the parts of a selector, each a descendant of the one before; None for a selector with other
    combinators."""
    compounds: list[Compound] = []
    for word in _unescaped(selector).replace(":link", "").split():
        match = _COMPOUND.fullmatch(word)
        if match is None:
            return None
        names = frozenset(re.findall(r"[.#][\w-]+", match[2]))
        compounds.append(Compound((match[1] or "").strip("*"), names))
    return compounds or None


def _specificity(compounds: Sequence[Compound]) -> tuple[int, int, int]:
    names = [name for one in compounds for name in one.names]
    ids = sum(name.startswith("#") for name in names)
    return ids, len(names) - ids, sum(bool(one.element) for one in compounds)


class Page:
    """The elements of a document, by their names, classes and ids. `left`: how many elements we still look
    at."""

    def __init__(self, root: Node) -> None:
        self.elements = [each for each in root.iter() if isinstance(each.tag, str)]
        self.left = MATCHES_MAX
        self._names: dict[Node, frozenset[str]] = {}
        self._by_key: dict[str, list[Node]] = defaultdict(list)
        for element in self.elements:
            classes = (f".{one}" for one in element.get("class", "").lower().split())
            self._names[element] = names = frozenset(
                [*classes, f"#{element.get('id', '').lower()}"]
            )
            for key in ("", element.tag, *names):
                self._by_key[key].append(element)

    def find(self, compounds: Sequence[Compound]) -> Iterator[Node]:
        """Yield the elements that match a selector."""
        *outer, last = compounds
        for element in self._by_key.get(last.key, ()):
            self.left -= 1
            if self.left < 0:
                return
            if self._fits(last, element) and self._is_inside(element, outer):
                yield element

    def _fits(self, compound: Compound, element: Node) -> bool:
        return compound.element in {"", element.tag} and compound.names <= self._names[element]

    def _is_inside(self, element: Node, outer: list[Compound]) -> bool:
        wanted = list(outer)
        for around in element.iterancestors() if wanted else ():
            self.left -= 1
            if self._fits(wanted[-1], around):
                wanted.pop()
            if not wanted:
                return True
        return not wanted


def find_styles(root: Node) -> tuple[dict[Node, Style], bool]:
    """Return the declarations that apply to each element, and whether rules that we do not understand may hide
    text."""
    page = Page(root)
    sheets = ((each.text or "", each.get("media", "")) for each in root.iter("style"))
    rules, doubtful = parse_sheets(sheets)
    found: list[tuple[tuple[int, int, int], Declarations, list[Compound]]] = []
    for number, (selector, applies, declarations) in enumerate(_by_selector(rules)):
        if number == SELECTORS_MAX:
            doubtful = True
            break
        compounds = _parse_selector(selector) if applies else None
        if compounds is None:
            doubtful = doubtful or _hides(declarations.plain | declarations.important)
        else:
            found.append((_specificity(compounds), declarations, compounds))
    found.sort(key=lambda each: each[0])
    of_elements: dict[Node, list[Declarations]] = {each: [] for each in page.elements}
    for _specific, declarations, compounds in found:
        for element in page.find(compounds):
            of_elements[element].append(declarations)
    styles = {element: _merged(element, holding) for element, holding in of_elements.items()}
    return styles, doubtful or page.left < 0


def _by_selector(rules: Iterable[Rule]) -> Iterator[tuple[str, bool | None, Declarations]]:
    """Yield each selector of each rule, whether it applies, and its declarations."""
    for rule in rules:
        declarations = parse_declarations(rule.declarations)
        for selector in rule.selectors.split(",") if any(declarations) else ():
            if not _NO_TEXT.search(selector):
                yield selector, rule.applies, declarations


def _merged(element: Node, holding: list[Declarations]) -> Style:
    """Return the declarations of rules and of the element itself, with the important ones last."""
    if own := element.get("style"):
        holding = [*holding, parse_declarations(own)]
    merged: dict[str, str] = {}
    for one in holding:
        merged |= one.plain
    for one in holding:
        merged |= one.important
    return merged
