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
from mailagent.adapters.html.visibility import CALCULATED, FONT_SIZES, MAY_HIDE

# Of all style sheets of a mail. Beyond them, text is kept and flagged.
SHEETS_MAX_LENGTH = 100_000
STATEMENTS_MAX = 10_000
RULES_MAX = 2_000
DECLARATIONS_MAX = 100

IMPORTANT = " !important"

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
_HIDING = re.compile(r"none|hidden|collapse|0")
# Of what programs still read with a prefix.
_PREFIX = re.compile(
    r"-webkit-(?=(?:text-|mask|animation|transform|filter|clip-path|background-clip|opacity))"
)

_PLACES = "left top right bottom text-indent margin-left margin-top padding-left padding-top"
_SIZES = "width height max-width max-height min-width min-height"
_KEPT = {
    *MAY_HIDE,
    *("display visibility content-visibility opacity color text-fill-color".split()),
    *("overflow font-size background-color background-image".split()),
    *_SIZES.split(),
    *_PLACES.split(),
    *("position clip translate scale zoom letter-spacing line-height float".split()),
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


_NUM = r"(?:\d++(?:\.\d*+)?+|\.\d++)"
_UNIT = r"(?:px|p[tc]|in|[cm]m|q|r?em|r?ex|r?ch|r?lh|[sld]?v(?:w|h|min|max|i|b)|%)"
_SIZE_WORD = (
    r"auto|none|normal|contain|(?:-webkit-|-moz-)?(?:(?:max|min|fit)-content|(?:fill-)?available)"
)
_EDGE = r"(?:visible|hidden|clip|scroll|auto|overlay)"


def _functions(names: str) -> str:
    return rf"none|auto|(?:(?:{names})\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)\s*+)+"


_VALID = {
    "display": r"none|block|(?:-webkit-)?(?:inline-)?(?:flex|box)|inline(?:-block|-grid|-table)?|grid"
    r"|table(?:-(?:row|cell|column|caption)|-(?:row|header|footer|column)-group)?|contents|list-item"
    r"|flow(?:-root)?|run-in|ruby|math|(?:block|inline)\s+(?:flow|flow-root|table|flex|grid)",
    "visibility": r"visible|hidden|collapse",
    "content-visibility": r"visible|auto|hidden",
    "position": r"static|relative|absolute|fixed|(?:-webkit-)?sticky",
    "overflow": rf"{_EDGE}(?:\s+{_EDGE})?",
    "opacity": rf"[+-]?{_NUM}%?",
    "zoom": rf"{_NUM}%?|normal|reset",
    "font-size": rf"{_NUM}{_UNIT}?|{'|'.join(FONT_SIZES)}|smaller|larger",
    "line-height": rf"{_NUM}{_UNIT}?|normal",
    "rotate": rf"none|(?:[xyz]\s+|(?:[+-]?{_NUM}\s+){{3}})?[+-]?{_NUM}(?:deg|turn|grad|rad)?",
    "transform": _functions(
        r"(?:matrix|translate|scale|rotate)(?:3d|[xyz])?|skew[xy]?|perspective"
    ),
    "clip": _functions("rect"),
    "clip-path": _functions("inset|circle|ellipse|polygon|path|rect|xywh|shape|url"),
    "filter": _functions(
        r"opacity|alpha|blur|brightness|contrast|invert|url|drop-shadow|grayscale|sepia|saturate"
        r"|hue-rotate|progid:[\w.]+"
    ),
    **dict.fromkeys(("scale", "translate"), rf"none|(?:[+-]?{_NUM}{_UNIT}?\s*+){{1,3}}"),
    **dict.fromkeys([*_PLACES.split(), "letter-spacing"], rf"[+-]?{_NUM}{_UNIT}?|{_SIZE_WORD}"),
    **dict.fromkeys(_SIZES.split(), rf"{_NUM}{_UNIT}?|{_SIZE_WORD}"),
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _VALID.items()}
_GLOBAL = {"inherit", "initial", "unset", "revert", "revert-layer"}
_COLOURS = {"color", "background-color", "text-fill-color"}
_WITHOUT_UNIT = re.compile(r"[+-]?0*[1-9][\d.]*")
_NEEDS_NO_UNIT = {"opacity", "zoom", "line-height", "scale", "z-index"}


def _is_valid(name: str, value: str, again: bool) -> bool:
    """Whether a program would take a value for a property (CSS Syntax, section 8.2); of those that we do
    not check, any. Only old documents may leave out units: that takes nothing back."""
    if value in _GLOBAL or value == "currentcolor" or CALCULATED.search(value):
        return True
    if name in _COLOURS:
        return parse_colour(value) is not None
    if again and name not in _NEEDS_NO_UNIT and _WITHOUT_UNIT.fullmatch(value):
        return False
    return name not in _PATTERNS or _PATTERNS[name].fullmatch(value) is not None


def parse_declarations(style: str) -> dict[str, str]:
    """Return the declarations of a style attribute or a rule that decide what is seen.

    Names and values are lower-case longhands; what is important ends in `IMPORTANT`.
    """
    found: dict[str, str] = {}
    for name, value, important in _declarations(_without_comments(style.lower())):
        if name not in _KEPT or not _PLAIN_VALUE.match(value):
            continue
        if not _is_valid(name, value, name in found):
            continue  # programs pass over what they cannot read, and keep what stood before
        if important or not found.get(name, "").endswith(IMPORTANT):
            found[name] = value + IMPORTANT * important
    return found


def _declarations(style: str) -> Iterator[tuple[str, str, bool]]:
    for declaration in _DECLARATION.findall(style)[:DECLARATIONS_MAX]:
        name, _colon, value = declaration.partition(":")
        value, bang, _important = _QUOTED.sub("x", _unescaped(value)).partition("!")
        for longhand, one in _longhands(_PREFIX.sub("", _unescaped(name).strip()), value.strip()):
            yield longhand, one.strip(), bool(bang)


def _longhands(name: str, value: str) -> Iterator[tuple[str, str]]:
    if name == "font":
        yield "font-size", _font_size(value)
    elif name in {"background", "background-image"}:
        yield "background-image", _image(value)
        if name == "background":
            yield "background-color", _colour_in(_URL.sub(" ", value.partition("gradient(")[0]))
    elif name in {"inset", "margin", "padding"}:
        words = value.split()
        words += words[1:2] if len(words) == 3 else []  # the left side is as the right one
        prefix = "" if name == "inset" else f"{name}-"
        for side, length in zip(("top", "right", "bottom", "left"), words * 4, strict=False):
            yield f"{prefix}{side}", length
    elif name == "contain" and re.search(r"paint|strict|content", value):
        yield "overflow", "hidden"
    elif (physical := _physical(name)) != name:
        yield physical, value.partition(" ")[0]
    else:
        yield name, value


# Of a page that is written from left to right (CSS Logical Properties).
_PHYSICAL = (
    *(
        ("inline-size", "width"),
        ("block-size", "height"),
        ("-start", ""),
        ("overflow-x", "overflow"),
    ),
    *(("overflow-y", "overflow"), ("-inline", "-left"), ("-block", "-top"), ("inset-", "")),
)


def _physical(name: str) -> str:
    for logical, physical in _PHYSICAL:
        name = name.replace(logical, physical)
    return name


def _font_size(font: str) -> str:
    for word in font.split()[:-1]:  # the family comes last
        size, slash, _line_height = word.partition("/")
        if (slash and size) or _FONT_SIZE.fullmatch(size):  # a number alone is the weight
            return size
    return ""


def _image(value: str) -> str:
    if "gradient(" in value:
        colours = set(_COLOUR.findall(value.partition("gradient(")[2])) - _NO_COLOURS
        return colours.pop() if len(colours) == 1 else "image"
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
