"""How an HTML element looks, as far as it decides whether its text can be read.

Not a browser: inline styles and the simple rules of style sheets. Where a look is not certain, text
counts as visible.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

SHEET_MAX_LENGTH = 100_000
RULES_MAX = 2_000

Declarations = Mapping[str, str]

_LENGTH = re.compile(r"(-?(?:\d{1,6}(?:\.\d{0,4})?|\.\d{1,4}))\s*(px|pt|em|rem|%)?\Z")
_SELECTOR = re.compile(r"[a-z][a-z0-9]*|(?:[a-z][a-z0-9]*)?[.#][\w-]{1,100}")
_RULE = re.compile(r"([^{}]{1,1000})\{([^{}]{0,5000}+)\}")
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.DOTALL)  # CSS Syntax, section 4.3.7
_CLIPPED = re.compile(r"inset\(\s*(?:100|[5-9]\d)(?:\.0{1,4})?%\s*\)|circle\(\s*0(?:px|%)?[\s)]")
_SHRUNK = re.compile(r"\bscale(?:3d|x|y)?\(\s*(?:0(?:\.0{1,4})?|\.0{1,4})\s*[,)]")
_RGB = re.compile(
    r"rgba?\(\s*(\d{1,3})[,\s]+(\d{1,3})[,\s]+(\d{1,3})(?:[,\s/]+(\d?(?:\.\d{1,4})?)%?)?\s*\)"
)
_HEX = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})\Z")
_COLOURS = {"white": (255, 255, 255), "black": (0, 0, 0)}
_SAME_COLOUR_DISTANCE = 12

Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Look:
    """What a text inherits. `background` is None where we cannot tell what is behind the text."""

    gone: bool = False  # the element and all in it takes no part in the page
    unseen: bool = False  # visibility, which a child may take back
    tiny: bool = False
    colour: Colour | None = (0, 0, 0)
    background: Colour | None = (255, 255, 255)

    @property
    def readable(self) -> bool:
        if self.gone or self.unseen or self.tiny or self.colour is None:
            return False
        if self.background is None:
            return True
        pairs = zip(self.colour, self.background, strict=True)
        return max(abs(one - other) for one, other in pairs) > _SAME_COLOUR_DISTANCE


def parse_declarations(style: str) -> dict[str, str]:
    """Return the declarations of a style attribute, lower-case."""
    found = {}
    for declaration in style.lower().split(";")[:100]:
        name, _colon, value = declaration.partition(":")
        found[_unescaped(name).strip()] = _unescaped(value).replace("!important", "").strip()
    return found


def _unescaped(css: str) -> str:
    return _ESCAPE.sub(_escaped_letter, css) if "\\" in css else css


def _escaped_letter(match: re.Match[str]) -> str:
    code = int(match[1] or "0", 16)
    return match[2] or (chr(code) if 0 < code <= 0x10FFFF else "\ufffd").lower()


def parse_sheet(css: str) -> dict[str, dict[str, str]]:
    """Return the declarations of each simple selector (`p`, `.x`, `#x`, `p.x`) of a style sheet.

    At-rules are left out: what a mail hides on small screens, it shows on large ones.
    """
    rules: dict[str, dict[str, str]] = {}
    for match in _RULE.finditer(
        _without_at_rules(_COMMENT.sub(" ", css[:SHEET_MAX_LENGTH].lower()))
    ):
        for selector in match[1].split(","):
            if _SELECTOR.fullmatch(selector.strip()) and len(rules) < RULES_MAX:
                rules.setdefault(selector.strip(), {}).update(parse_declarations(match[2]))
    return rules


def _without_at_rules(css: str) -> str:
    kept: list[str] = []
    depth, at_rule = 0, False
    for piece in re.split(r"([{}])", css):
        if piece == "{":
            depth += 1
        elif piece == "}":
            depth = max(0, depth - 1)
        elif depth == 0:
            # @import and @charset end in a semicolon.
            at_rule = piece.rpartition(";")[2].lstrip().startswith("@")
        if not at_rule:
            kept.append(piece)
    return "".join(kept)


def look_of(
    parent: Look,
    name: str,
    attributes: Mapping[str, str],
    sheet: Mapping[str, Declarations],
) -> Look:
    """Return how an element looks inside `parent`."""
    if not attributes and name not in sheet:
        return parent
    if parent.gone or "hidden" in attributes:
        return replace(parent, gone=True)
    classes = attributes.get("class", "").split()[:20]
    selectors = [name, *(f".{c}" for c in classes), *(f"{name}.{c}" for c in classes)]
    if identity := attributes.get("id"):
        selectors += [f"#{identity}", f"{name}#{identity}"]
    style: dict[str, str] = {}
    for selector in selectors:
        style.update(sheet.get(selector, {}))
    style.update(parse_declarations(attributes.get("style", "")))
    return Look(
        gone=_is_gone(style),
        unseen=_inherited(style, "visibility", parent.unseen, {"hidden", "collapse"}),
        tiny=_is_tiny(style, parent.tiny),
        colour=_colour(style.get("color") or attributes.get("color"), parent.colour),
        background=_background(style, attributes, parent.background, bool(sheet)),
    )


def _is_gone(style: Declarations) -> bool:
    if style.get("display") == "none" or style.get("clip", "").startswith("rect(0"):
        return True
    if _CLIPPED.match(style.get("clip-path", "")) or _SHRUNK.search(style.get("transform", "")):
        return True
    if (opacity := _number(style.get("opacity"))) is not None and opacity < 0.05:
        return True
    if style.get("overflow") == "hidden" or "max-height" in style:
        sizes = (_number(style.get(key)) for key in ("max-height", "height", "max-width", "width"))
        if style.get("overflow") == "hidden" and any(s is not None and s < 2 for s in sizes):
            return True
        if _number(style.get("max-height")) == 0:
            return True
    moved = ("left", "top", "text-indent", "margin-left")
    return any((_number(style.get(key)) or 0) <= -500 for key in moved)


def _inherited(style: Declarations, key: str, inherited: bool, hiding: set[str]) -> bool:
    return style[key] in hiding if style.get(key) else inherited


def _is_tiny(style: Declarations, inherited: bool) -> bool:
    size = style.get("font-size")
    if size is None:
        return inherited
    match = _LENGTH.match(size)
    if match is None:
        return False
    value = float(match[1])
    return value < 2 if match[2] in {"px", "pt"} else value == 0


def _number(value: str | None) -> float | None:
    match = _LENGTH.match(value or "")
    return float(match[1]) if match and match[2] != "%" else None


def _background(
    style: Declarations, attributes: Mapping[str, str], inherited: Colour | None, sheet: bool
) -> Colour | None:
    value = style.get("background-color") or style.get("background") or attributes.get("bgcolor")
    if value:
        return inherited if value in {"transparent", "none", "inherit"} else _colour(value, None)
    if "background-image" in style or (sheet and ("class" in attributes or "id" in attributes)):
        return None
    return inherited


def _colour(value: str | None, inherited: Colour | None) -> Colour | None:
    """Return a colour; None for one that is fully transparent or that we do not know."""
    if value is None or value in {"inherit", "currentcolor"}:
        return inherited
    if value in _COLOURS:
        return _COLOURS[value]
    if match := _RGB.match(value):
        transparent = match[4] and float(match[4]) == 0
        return None if transparent else (int(match[1]), int(match[2]), int(match[3]))
    if match := _HEX.match(value):
        digits = match[1] if len(match[1]) == 6 else "".join(c * 2 for c in match[1])
        return (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16))
    return None if value == "transparent" else inherited
