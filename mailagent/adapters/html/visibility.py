"""Decides whether a person can read the text of an HTML element, by its CSS declarations.

It is no browser: it computes no layout. It understands what mails use to hide text: `display`, `visibility`,
the `hidden` attribute, tiny letters, opacity, the colour of the background, boxes without size, and positions
outside the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

Style = Mapping[str, str]
Colour = tuple[float, float, float, float]  # red, green, blue: 0 to 255; alpha: 0 to 1


class Seen(Enum):
    """Whether a person can see a text."""

    YES = "yes"
    PERHAPS = "perhaps"
    NO = "no"
    GONE = "gone"  # hidden, and it takes no space on the page


@dataclass(frozen=True, slots=True)
class Look:
    """The properties that an element's text inherits."""

    gone: bool = False
    invisible: bool = False  # `visibility: hidden`, which a child may override
    font_pixels: float = 16
    opacity: float = 1
    colour: Colour = (0, 0, 0, 1)
    background: Colour = (255, 255, 255, 1)
    over_image: bool = False

    @property
    def seen(self) -> Seen:
        if self.gone:
            return Seen.GONE
        opacity = self.colour[3] * self.opacity
        if self.invisible or self.font_pixels < 2 or opacity < 0.05:
            return Seen.NO
        pairs = zip(self.colour[:3], self.background[:3], strict=True)
        if opacity * max(abs(one - other) for one, other in pairs) > _SAME_COLOUR:
            return Seen.YES
        return Seen.PERHAPS if self.over_image else Seen.NO


_SAME_COLOUR = 16  # two colours look the same up to this difference in red, green and blue
_ATTRIBUTES = {"hidden", "bgcolor", "background", "color", "text", "size"}
_LINK_COLOUR: Colour = (0, 0, 238, 1)


def look_of(parent: Look, name: str, attributes: Mapping[str, str], style: Style) -> Look:
    """Return the look of an element inside `parent`. `style`: the declarations that apply to it."""
    if parent.gone:
        return parent
    if _has_no_box(name, attributes, style):
        return replace(parent, gone=True)
    if not style and name != "a" and _ATTRIBUTES.isdisjoint(attributes):
        return parent
    font_pixels = _font_pixels(style.get("font-size", ""), parent.font_pixels)
    if name == "font" and "size" in attributes and "font-size" not in style:
        font_pixels = max(font_pixels, 10)  # the smallest size of <font>
    background, over_image = _background(parent, attributes, style)
    return Look(
        invisible=style.get("visibility", "hidden" if parent.invisible else "") in _INVISIBLE,
        font_pixels=font_pixels,
        opacity=parent.opacity * min(1.0, _number(style.get("opacity", ""), 1.0)),
        colour=_text_colour(parent, name, attributes, style),
        background=background,
        over_image=over_image,
    )


# --- boxes and places -----------------------------------------------------------------------------

_INVISIBLE = {"hidden", "collapse"}
_LENGTH = re.compile(r"([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))([a-z]{1,4}|%)?")
_PIXELS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "rem": 16.0}
_FONT_SIZES = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0}
_FONT_SIZES |= {"x-large": 24.0, "xx-large": 32.0, "xxx-large": 48.0, "initial": 16.0}
_READABLE_PIXELS = 8  # a lower box shows only parts of letters
_SIZES = {f"{limit}{side}" for limit in ("", "max-", "min-") for side in ("width", "height")}
# A size has no effect on inline elements; and tables and their parts grow with their text.
_WITHOUT_SIZE = set("a b em font i span strong u table tbody tr td th".split())

_FAR_OFF = r"(?<![.\d])\d{4}|\d{3}(?:r?em|v[wh]|in|cm)\b"  # outside of the page
_PLACES = (
    "text-indent translate left top right bottom inset margin margin-left margin-top"
    " margin-inline margin-inline-start padding padding-left padding-top inset-inline-start"
).split()
_NEEDS_POSITION = {"left", "top", "right", "bottom", "inset", "clip"}
_NO_SCALE = r"[+-]?(?:0+(?![.\d])|0*\.0)"
# Values of properties with which nothing of a text is visible.
HIDES = {
    "display": re.compile(r"none\Z"),
    **dict.fromkeys(_PLACES, re.compile(_FAR_OFF)),
    **dict.fromkeys(("scale", "zoom"), re.compile(_NO_SCALE)),
    "clip": re.compile(r"rect\((?:[01](?:px)?[\s,]*){4}\)"),
    "clip-path": re.compile(
        r"inset\(\s*(?:[5-9]\d|\d{3})(?:\.\d+)?%|(?:circle|ellipse|polygon)\([^1-9]*(?: at .*)?\)"
    ),
    "content-visibility": re.compile(r"hidden"),
    "filter": re.compile(r"opacity[(=]\s*0*(?:\.0\d*)?%?\s*\)"),
    "transform": re.compile(
        rf"scale\w*\((?:[^)]*,)?\s*{_NO_SCALE}|translate[xy]?\([^)]*(?:{_FAR_OFF})"
        r"|rotate[xy]\(\s*-?90deg|matrix\(\s*0\s*,"
    ),
}
READ = {*HIDES, *_SIZES, "visibility", "opacity", "font-size", "color", "background-color"}
READ |= {"background-image", "overflow", "position", "float"}


def is_understood(name: str, value: str) -> bool:
    """Return whether mail programs understand a value. They ignore others, so that the declaration before
    applies."""
    if name in {"color", "background-color"}:
        return parse_colour(value) is not None
    if name == "font-size":
        pixels = _FONT_SIZES.get(value) or _pixels(value, whole=16)
        return pixels is not None and pixels >= 0
    if name in HIDES and HIDES[name].search(value):
        return True
    return name not in _UNDERSTOOD or _UNDERSTOOD[name].fullmatch(value) is not None


# Only space separates two lengths: if a pattern can split a value in many ways, a mail could make us try all.
_ONE_LENGTH = r"-?[\d.]+(?:[a-z]{1,4}|%)?"
_LENGTHS = re.compile(rf"auto|none|normal|visible|{_ONE_LENGTH}(?:\s+{_ONE_LENGTH})*")
_UNDERSTOOD = {
    **dict.fromkeys((*HIDES, *_SIZES), _LENGTHS),
    "display": re.compile(
        r"(?:inline-)?(?:block|flex|grid|table)|inline|list-item|table-[a-z-]+|-webkit-box"
    ),
    "visibility": re.compile("visible|hidden|collapse"),
    "opacity": re.compile(r"[\d.]+%?"),
    "transform": re.compile(r"none|(?:\s?(?:scale|translate|rotate)[xy]?\([^()]*\))+"),
}


def _has_no_box(name: str, attributes: Mapping[str, str], style: Style) -> bool:
    """Return whether an element's box has no size, or is outside the page."""
    if "hidden" in attributes and "display" not in style:
        return True
    for key, value in style.items():
        placed = key not in _NEEDS_POSITION or "position" in style
        if key in HIDES and placed and HIDES[key].search(value):
            return True
    return style.get("overflow", "visible") != "visible" and _is_too_small(name, style)


def _is_too_small(name: str, style: Style) -> bool:
    if "display" not in style and "position" not in style and name in _WITHOUT_SIZE:
        return False
    sizes = (
        _pixels(style.get(f"{limit}{side}", ""))
        for side in ("width", "height")
        for limit in ("", "max-")
        if f"min-{side}" not in style
    )
    return any(size is not None and size < _READABLE_PIXELS for size in sizes)


def _pixels(value: str, font_pixels: float = 16, whole: float | None = None) -> float | None:
    """Return a CSS length in pixels; None if the value is no length. `whole`: what 100 % is, in pixels; without
    it, a percentage gives None."""
    match = _LENGTH.fullmatch(value)
    if match is None:
        return None
    number, unit = float(match[1]), match[2]
    if unit is None or number == 0:
        return number
    if unit == "%":
        return None if whole is None else number / 100 * whole
    if unit in {"em", "ex", "ch"}:
        return number * font_pixels * (1 if unit == "em" else 0.5)
    return number * _PIXELS[unit] if unit in _PIXELS else None


def _font_pixels(size: str, parent: float) -> float:
    pixels = _FONT_SIZES.get(size) or _pixels(size, parent, parent)
    return parent if pixels is None else pixels


def _number(value: str, otherwise: float) -> float:
    match = _LENGTH.fullmatch(value)
    if match is None or match[2] not in {None, "%"}:
        return otherwise
    return float(match[1]) / (100 if match[2] else 1)


# --- colours --------------------------------------------------------------------------------------

_COLOUR_FUNCTION = re.compile(r"(rgb|hsl)a?\(([^()]*)\)")


@lru_cache(maxsize=1_000)
def parse_colour(value: str) -> Colour | None:
    """Return a CSS colour (Color Module 4, section 4); None for one that Pillow does not know."""
    from PIL import ImageColor  # slow to import

    if value == "transparent":
        return 0, 0, 0, 0
    alpha = 1.0
    if match := _COLOUR_FUNCTION.fullmatch(value):
        arguments = re.split(r"[\s,/]+", match[2].strip())
        value = f"{match[1]}({','.join(arguments[:3])})"
        alpha = _number("".join(arguments[3:4]), 1.0)
    try:
        red, green, blue, *opaque = ImageColor.getrgb(value)
    except ValueError:
        return None
    return red, green, blue, opaque[0] / 255 if opaque else alpha


def _attribute_colour(value: str) -> Colour | None:
    """Return the colour in an HTML attribute. Its hash sign may be missing."""
    bare = value.strip().lower()
    return parse_colour(bare) or parse_colour(f"#{bare}")


def _text_colour(parent: Look, name: str, attributes: Mapping[str, str], style: Style) -> Colour:
    declared = parse_colour(style.get("color", ""))
    attribute = attributes.get("color") or (attributes.get("text", "") if name == "body" else "")
    if found := declared or _attribute_colour(attribute):
        return found
    is_link = name == "a" and "href" in attributes and "color" not in style
    return _LINK_COLOUR if is_link else parent.colour


def _background(parent: Look, attributes: Mapping[str, str], style: Style) -> tuple[Colour, bool]:
    """Return the colour behind a text, and whether an image may cover it."""
    image = style.get("background-image") == "image" or bool(attributes.get("background"))
    value = style.get("background-color", "")
    found = parse_colour(value) if value else _attribute_colour(attributes.get("bgcolor", ""))
    if found is None or found[3] == 0:
        return parent.background, parent.over_image or image
    alpha = found[3]
    red, green, blue = (
        one * alpha + other * (1 - alpha)
        for one, other in zip(found[:3], parent.background[:3], strict=True)
    )
    return (red, green, blue, 1), image
