"""CSS of mails: the declarations and rules that decide whether text is seen. Linear in its length.

Shorthands become longhands, vendor prefixes go. Selectors and the cascade are for `css_cascade`,
what the values mean is for `visibility`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice

from mailagent.adapters.html.colours import parse_colour
from mailagent.adapters.html.visibility import FONT_SIZES

# Of all style sheets of a mail. Beyond them, text is kept and flagged.
SHEETS_MAX_LENGTH = 100_000
STATEMENTS_MAX = 10_000
RULES_MAX = 2_000
DECLARATIONS_MAX = 100

IMPORTANT = " !important"

_STRING = r""""(?:[^"\\\n]|\\.?)*+"?|'(?:[^'\\\n]|\\.?)*+'?"""
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
_HIDING = re.compile(r"none|hidden|collapse|0")
_VENDOR = re.compile(r"-(?:webkit|moz|ms|o)-")

_KEPT = {
    *("display visibility content-visibility opacity filter color text-fill-color".split()),
    *("font-size background-color background-image background-clip".split()),
    *("width height max-width max-height min-width min-height overflow".split()),
    *("position left top right bottom text-indent margin-left margin-top".split()),
    *("clip clip-path transform translate rotate scale zoom padding-left letter-spacing".split()),
    *("line-height z-index float mask-image animation-name text-security mso-hide".split()),
}
_FONT_SIZE = re.compile(
    r"(?:xx?-)?(?:small|large)|smaller|larger|medium|[\d.]+(?:[a-z]{1,4}|%)|0?\.?0"
)

_URL = re.compile(r"url\([^)]*\)?")


class Applies(IntEnum):
    """Whether the rules of a sheet count. A person may read on a phone or in the dark."""

    NEVER = 0
    ON_PHONES = 1
    PERHAPS = 2
    ALWAYS = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a style sheet; `nested` if it stands in another rule, whose selector it lacks."""

    selector: str
    declarations: dict[str, str]
    applies: Applies
    nested: bool = False


_GLOBAL = {"inherit", "initial", "unset", "revert", "revert-layer"}
_KEYWORDS = {
    "display": set(
        "none block inline inline-block flex inline-flex grid inline-grid table inline-table contents "
        "list-item flow-root flow run-in ruby math table-row table-cell table-column table-caption "
        "table-row-group table-header-group table-footer-group table-column-group".split()
    ),
    "visibility": {"visible", "hidden", "collapse"},
    "position": {"static", "relative", "absolute", "fixed", "sticky"},
    "overflow": {"visible", "hidden", "clip", "scroll", "auto"},
}
_LENGTH_VALUE = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:px|p[tc]|in|[cm]m|q|r?em|ex|ch|[sld]?v(?:w|h|min|max|i|b)|lh|%)?"
    r"|[a-z-]+\(.*|auto|none|normal|(?:max|min|fit)-content|contain|content|stretch"
)
_LENGTHS = {
    *"width height max-width max-height min-width min-height left top right bottom".split(),
    *"text-indent margin-left margin-top padding-left letter-spacing line-height".split(),
}
_FUNCTIONS = {"clip-path", "clip", "transform", "filter"}
_COLOURS = {"color", "background-color", "text-fill-color"}
_NUMBER = re.compile(r"[+-]?(?:\d|\.\d)|[a-z-]+\(")


def _is_valid(name: str, value: str) -> bool:
    """Whether a program would take a value for a property (CSS Syntax, section 8.2); of those that we do
    not check, any."""
    if value in _GLOBAL or value.startswith(("-webkit-", "-moz-", "-ms-", "var(")):
        return True
    if name in _KEYWORDS:
        return bool(value) and _KEYWORDS[name].issuperset(value.split())
    if name in _LENGTHS:
        return _LENGTH_VALUE.fullmatch(value) is not None
    if name in _FUNCTIONS:
        return "(" in value or value in {"none", "auto"}
    if name in _COLOURS:
        return "(" in value or value == "currentcolor" or parse_colour(value) is not None
    if name == "opacity":
        return bool(_NUMBER.match(value))
    if name == "font-size":
        return value in FONT_SIZES or _LENGTH_VALUE.fullmatch(value) is not None
    return True


def parse_declarations(style: str) -> dict[str, str]:
    """Return the declarations of a style attribute or a rule that decide what is seen.

    Names and values are lower-case longhands; what is important ends in `IMPORTANT`.
    """
    found: dict[str, str] = {}
    for name, value, important in _declarations(_without_comments(style.lower())):
        if name not in _KEPT or not _PLAIN_VALUE.match(value):
            continue
        if not _is_valid(name, value):
            continue  # programs pass over what they cannot read, and keep what stood before
        if important or not found.get(name, "").endswith(IMPORTANT):
            found[name] = value + IMPORTANT * important
    return found


def _declarations(style: str) -> Iterator[tuple[str, str, bool]]:
    for declaration in _DECLARATION.findall(style)[:DECLARATIONS_MAX]:
        name, _colon, value = declaration.partition(":")
        value, bang, _important = _unescaped(value).partition("!")
        for longhand, one in _longhands(_VENDOR.sub("", _unescaped(name).strip()), value.strip()):
            yield longhand, one.strip(), bool(bang)


def _longhands(name: str, value: str) -> Iterator[tuple[str, str]]:
    if name == "font":
        yield "font-size", _font_size(value)
    elif name in {"background", "background-image"}:
        yield "background-image", _image(value)
        if name == "background":
            yield "background-color", _colour_in(_URL.sub(" ", value.partition("gradient(")[0]))
    elif name in {"inset", "margin"}:
        sides = value.split() or [""]
        top, right = sides[0], sides[1 % len(sides)]
        prefix = "margin-" if name == "margin" else ""
        yield prefix + "top", top
        yield prefix + "left", sides[3] if len(sides) > 3 else right
    elif name in {"mask", "animation"}:
        yield ("mask-image" if name == "mask" else "animation-name"), value
    else:
        yield _PHYSICAL.get(name, name), value


# Of a page that is written from left to right (CSS Logical Properties).
_PHYSICAL = {
    **dict.fromkeys(("overflow-x", "overflow-y"), "overflow"),
    **{"margin-inline-start": "margin-left", "margin-block-start": "margin-top"},
    **{"inset-inline-start": "left", "inset-block-start": "top"},
    "padding-inline-start": "padding-left",
    **{f"{least}inline-size": f"{least}width" for least in ("", "min-", "max-")},
    **{f"{least}block-size": f"{least}height" for least in ("", "min-", "max-")},
}


def _font_size(font: str) -> str:
    for word in font.split():
        size, slash, _line_height = word.partition("/")
        if (slash and size) or _FONT_SIZE.fullmatch(size):  # a number alone is the weight
            return size
    return font


def _image(value: str) -> str:
    if "gradient(" in value:
        return _colour_in(value.partition("gradient(")[2])
    return "image" if "url(" in value or "image(" in value else "none"


def _colour_in(value: str) -> str:
    words = (word for word in _COLOUR.findall(value) if word not in _NO_COLOURS)
    return next(words, "transparent")


_COLOUR = re.compile(
    r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl)a?\([^()]*\)|\b(?:hwb|lab|lch)\([^()]*\)|[a-z]+"
)
_NO_COLOURS = {
    *(
        "none repeat no x y scroll fixed local left right top bottom center auto cover contain".split()
    ),
    *("to deg turn rad px em at circle ellipse border box padding content round space url".split()),
}


def _unescaped(css: str) -> str:
    return _ESCAPE.sub(_escaped_letter, css) if "\\" in css else css


def _escaped_letter(match: re.Match[str]) -> str:
    code = int(match[1] or "0", 16)
    return match[2] or (chr(code) if 0 < code <= 0x10FFFF else "\ufffd").lower()


def _without_comments(css: str) -> str:
    if "/*" not in css and "--" not in css:
        return css
    return _COMMENT.sub(lambda match: match[0] if match[0][0] in "\"'" else " ", css)


def parse_sheets(sheets: Iterable[tuple[str, str]]) -> tuple[list[Rule], bool]:
    """Return the rules of all style sheets of a document, and whether there are more.

    A sheet comes with the `media` attribute of its element. Never raises. Statements are read as
    browsers do (CSS Syntax, section 5.4): a stray brace or semicolon spoils the rule that follows it.
    """
    rules: list[Rule] = []
    length, statements = SHEETS_MAX_LENGTH, STATEMENTS_MAX
    for css, media in sheets:
        found = list(
            islice(_STATEMENT.finditer(_without_comments(css[:length].lower())), statements + 1)
        )
        rules += islice(_parse_sheet(found, _applies(media)), RULES_MAX + 1 - len(rules))
        length -= len(css)
        statements -= len(found)
        if length < 0 or statements < 0 or len(rules) > RULES_MAX:
            return rules[:RULES_MAX], True
    return rules, False


def _parse_sheet(statements: list[re.Match[str]], applies: Applies) -> Iterator[Rule]:
    open_blocks: list[_Block] = []
    document = _Block(applies)
    spoiled = False
    for statement in statements:
        text, sign = statement.groups()
        block = open_blocks[-1] if open_blocks else document
        if sign == "{":
            open_blocks.append(_Block(Applies.NEVER) if spoiled else _open(block, text.strip()))
            spoiled = False
        elif block.selector:
            block.declarations.append(text)
        elif not open_blocks and sign and not text.lstrip().startswith("@"):
            spoiled = True
        if sign == "}" and open_blocks:
            yield from open_blocks.pop().rules()
    for block in reversed(open_blocks):
        yield from block.rules()


@dataclass(slots=True)
class _Block:
    """A rule or an at-rule that is open. `selector` is empty in an at-rule."""

    applies: Applies
    selector: str = ""
    nested: bool = False
    declarations: list[str] = field(default_factory=list)

    def rules(self) -> Iterator[Rule]:
        if self.selector and self.applies and (found := self._that_count()):
            yield Rule(self.selector, found, self.applies, self.nested)

    def _that_count(self) -> dict[str, str]:
        found = parse_declarations(";".join(self.declarations))
        if self.applies is not Applies.ON_PHONES:
            return found
        # What a mail hides on small screens, it shows on large ones.
        return {name: value for name, value in found.items() if not _HIDING.match(value)}


def _open(outer: _Block, prelude: str) -> _Block:
    nested = bool(outer.selector) or outer.nested
    if not prelude.startswith("@"):
        return _Block(outer.applies, prelude or "&", nested)
    name, _space, condition = prelude[1:].partition(" ")
    name, paren, rest = name.partition("(")
    if name == "media":
        applies = _applies(paren + rest + " " + condition)
    elif name in {"supports", "layer", "container", "document", "-moz-document", "scope"}:
        applies = Applies.PERHAPS
    else:  # fonts, pages, animations
        applies = Applies.NEVER
    return _Block(min(outer.applies, applies), nested=nested)


# The screens that rules are judged for: a desktop's, and a phone's. CSS pixels.
_DESKTOP = {"width": 1280, "height": 800}
_PHONE = {"width": 375, "height": 667}
_NOT_SCREENS = {
    *("print speech aural braille embossed handheld projection tty tv".split()),
}
_SIZE = re.compile(
    r"\(\s*(min|max)-(?:device-)?(width|height)\s*:\s*(\d{0,6}\.?\d{0,3})\s*(px|r?em)?\s*\)"
)


def _applies(media: str) -> Applies:
    return max(map(_query_applies, media.lower().split(",")[:50]))


def _query_applies(query: str) -> Applies:
    query = " ".join(query.split())
    bare = query.removeprefix("not ").removeprefix("only ")
    found = min(map(_feature_applies, bare.split(" and ")[:50]))
    if query.startswith("not "):
        return {Applies.ALWAYS: Applies.NEVER, Applies.NEVER: Applies.ALWAYS}.get(
            found, Applies.PERHAPS
        )
    return found


def _feature_applies(feature: str) -> Applies:
    if feature in {"", "all", "screen"}:
        return Applies.ALWAYS
    if feature in _NOT_SCREENS:
        return Applies.NEVER
    size = _SIZE.fullmatch(feature)
    if size is None or size[3] in {"", "."}:
        return Applies.PERHAPS
    pixels = float(size[3]) * (16 if size[4] in {"em", "rem"} else 1)
    sign = 1 if size[1] == "min" else -1
    if (_DESKTOP[size[2]] - pixels) * sign >= 0:
        return Applies.ALWAYS
    return Applies.ON_PHONES if (_PHONE[size[2]] - pixels) * sign >= 0 else Applies.NEVER
