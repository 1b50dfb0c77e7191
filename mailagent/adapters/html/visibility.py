"""How an HTML element looks, as far as it decides whether its text can be read.

Not a browser: nothing is laid out. Judged for a wide, light screen; what is in doubt says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from mailagent.adapters.html.colours import (
    FUNCTION,
    NUMBER,
    Colour,
    attribute_colour,
    blended,
    parse_colour,
)
from mailagent.adapters.html.tree import BLOCKS, TABLE_PARTS

Style = Mapping[str, str]


class Seen(Enum):
    """Whether a person sees a text."""

    YES = "yes"
    PERHAPS = "perhaps"
    NO = "no"
    GONE = "gone"  # neither is it seen nor does it take room

    def joined(self, other: Seen) -> Seen:
        """Return what is true for two readers, one of whom sees this and the other that."""
        if self is other:
            return self
        return Seen.NO if {self, other} == {Seen.NO, Seen.GONE} else Seen.PERHAPS


@dataclass(frozen=True, slots=True)
class Look:
    """What a text inherits."""

    gone: bool = False
    closed: bool = False  # of a <details>, only the <summary> is shown
    unseen: bool = False  # visibility, which a child may take back
    doubtful: bool = False
    font_pixels: float = 16
    opacity: float = 1
    colour: Colour = (0, 0, 0, 1)
    link_colour: Colour = (0, 0, 238, 1)
    background: Colour = (255, 255, 255, 1)
    over_image: bool = False  # or over something else that covers `background`

    @property
    def seen(self) -> Seen:
        if self.gone:
            return Seen.GONE
        opacity = self.colour[3] * self.opacity
        if self.closed or self.unseen or self.font_pixels < 2 or opacity < 0.05:
            return Seen.NO
        pairs = zip(self.colour[:3], self.background[:3], strict=True)
        contrast = opacity * max(abs(one - other) for one, other in pairs)
        if contrast <= _SAME_COLOUR and not self.over_image:
            return Seen.NO
        if contrast <= (_SAME_COLOUR if self.over_image else _FAINT):
            return Seen.PERHAPS
        return Seen.PERHAPS if self.doubtful or self.font_pixels < 4 else Seen.YES


# The greatest difference in red, green or blue.
_SAME_COLOUR = 16
_FAINT = 32

# Shown only by programs that cannot do better.
_FALLBACKS = {*"noscript noembed noframes iframe audio video canvas object datalist".split()}
_SPECIAL = {*_FALLBACKS, "a", "details", "dialog", "summary", "template"}
_ATTRIBUTES = {"hidden", "popover", "bgcolor", "background", "color", "text", "link", "size"}


def look_of(parent: Look, name: str, attributes: Mapping[str, str], style: Style) -> Look:
    """Return how an element looks inside `parent`, given the declarations that hold for it."""
    if parent.gone:
        return parent
    plain = not style and name not in _SPECIAL and _ATTRIBUTES.isdisjoint(attributes)
    if plain and not parent.closed:
        return parent
    font_pixels = _font_pixels(style.get("font-size", ""), parent.font_pixels)
    if name == "font" and "size" in attributes and "font-size" not in style:
        font_pixels = max(font_pixels, FONT_SIZES["x-small"])  # <font> knows no smaller size
    sized = _can_collapse(name, style)
    if _has_no_box(parent, name, attributes, style) or _is_cut_away(style, font_pixels, sized):
        return replace(parent, gone=True)
    background, over_image = _background(parent, attributes, style)
    return Look(
        closed=name == "details" and "open" not in attributes,
        unseen=_unseen(style.get("visibility", ""), parent.unseen),
        doubtful=parent.doubtful or name in _FALLBACKS or _is_doubtful(style, font_pixels, sized),
        font_pixels=font_pixels,
        opacity=parent.opacity * _opacity(style),
        colour=_text_colour(parent, name, attributes, style),
        link_colour=attribute_colour(attributes.get("link", "")) or parent.link_colour,
        background=background,
        over_image=over_image,
    )


def hides(style: Style) -> bool:
    """Whether these declarations alone may make a text unseen."""
    return look_of(Look(), "", {}, style).seen is not Seen.YES


def _has_no_box(parent: Look, name: str, attributes: Mapping[str, str], style: Style) -> bool:
    display = style.get("display", "")
    if display == "none" or (parent.closed and name != "summary"):
        return True
    if display:
        return False
    closed_dialog = name == "dialog" and "open" not in attributes
    return closed_dialog or name == "template" or not {"hidden", "popover"}.isdisjoint(attributes)


def _unseen(visibility: str, inherited: bool) -> bool:
    if visibility in {"visible", "initial"}:
        return False
    return visibility in {"hidden", "collapse"} or inherited


# --- Sizes and places

_LENGTH = re.compile(rf"({NUMBER})([a-z]{{1,4}}|%)?")
_PIXELS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "q": 0.945}
_PIXELS |= {"rem": 16.0, "vw": 12.8, "vh": 8.0, "vmin": 8.0, "vmax": 12.8}
FONT_SIZES = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0}
FONT_SIZES |= {"x-large": 24.0, "xx-large": 32.0, "initial": 16.0}
_CALCULATED = re.compile(
    r"(?:var|calc|min|max|clamp|env|attr|color-mix|light-dark|color|o?k?l[ac][bh])\("
)
_WHERE_CALCULATED = {
    *"display visibility opacity color text-fill-color font-size height max-height".split(),
    *"left top text-indent clip-path transform translate scale zoom".split(),
}
_OFF_LEFT, _OFF_RIGHT, _OFF_TOP = -500, 3_000, -500
_WIDTH, _HEIGHT = 1280, 800
_FAR = re.compile(r"\d\d|(?:em|vw|vh|vmin|vmax|in|%)\b")  # nothing below 10 pixels is far


def _pixels(value: str, font_pixels: float, whole: float | None = None) -> float | None:
    """Return a length in pixels; None if it is none. Without `whole`, percents are unknown."""
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
    if size in {"smaller", "larger"}:
        return parent * (0.83 if size == "smaller" else 1.2)
    pixels = FONT_SIZES.get(size) or _pixels(size, parent, parent)
    return parent if pixels is None or pixels < 0 else pixels


def _opacity(style: Style) -> float:
    opacity = _ratio(style.get("opacity", ""), 1.0)
    for name, value in FUNCTION.findall(style.get("filter", "")):
        if name == "opacity":
            opacity *= _ratio(value.strip(), 1)
        elif name == "alpha":  # of old Internet Explorers, in percent
            opacity *= _ratio(value.partition("opacity=")[2].strip(), 100) / 100
    return max(0.0, min(1.0, opacity))


def _ratio(value: str, default: float) -> float:
    match = _LENGTH.fullmatch(value)
    if match is None or match[2] not in {None, "%"}:
        return default
    return float(match[1]) / (100 if match[2] else 1)


def _is_cut_away(style: Style, font_pixels: float, sized: bool) -> bool:
    """Whether nothing is left of an element's box, or it lies outside of the page."""
    if _BOX.isdisjoint(style):
        return False
    if style.get("content-visibility") == "hidden" or _pixels(style.get("zoom", ""), 16) == 0:
        return True
    return (
        (sized and _is_collapsed(style, font_pixels, 2))
        or _is_clipped(style)
        or _is_transformed_away(style, font_pixels)
        or _is_off_screen(style, font_pixels)
    )


_BOX = {
    *"content-visibility zoom overflow max-height clip clip-path position scale transform".split(),
    *"translate text-indent margin-left margin-top".split(),
}


def _can_collapse(name: str, style: Style) -> bool:
    """Whether width and height hold: neither for what stands in a line nor for cells, which grow."""
    if style.get("position") in {"absolute", "fixed"} or style.get("float", "none") != "none":
        return True
    display = style.get("display", "")
    if display:
        return display not in {"inline", "contents"} and not display.startswith("table")
    return name in BLOCKS - TABLE_PARTS or not name


def _is_collapsed(style: Style, font_pixels: float, limit: float) -> bool:
    cuts = style.get("overflow", "visible").split()[0] != "visible"
    if not cuts and "max-height" not in style:
        return False
    for side, whole in (("height", None), ("width", _WIDTH)):
        least = _pixels(style.get(f"min-{side}", ""), font_pixels, whole) or 0
        most = _pixels(style.get(f"max-{side}", ""), font_pixels)
        sizes = [most, _pixels(style.get(side, ""), font_pixels)]
        if least < limit and cuts and any(size is not None and 0 <= size < limit for size in sizes):
            return True
        if side == "height" and least < limit and most == 0:
            return True
    return False


def _is_clipped(style: Style) -> bool:
    if style.get("position") in {"absolute", "fixed"}:
        edges = _lengths(style.get("clip", "").removeprefix("rect(").rstrip(") "))
        if len(edges) == 4 and None not in edges:
            top, right, bottom, left = (edge or 0 for edge in edges)
            return right - left < 2 or bottom - top < 2
    for name, value in FUNCTION.findall(style.get("clip-path", "")):
        sides = _lengths(value.partition("round")[0], 100)
        if name == "inset" and sides and "%" in value:
            top, right = sides[0] or 0, sides[1 % len(sides)] or 0
            bottom = sides[2] or 0 if len(sides) > 2 else top
            left = sides[3] or 0 if len(sides) > 3 else right
            return top + bottom >= 99 or left + right >= 99
        if name in {"circle", "ellipse"} and sides and sides[0] is not None:
            return sides[0] < 2
        if name == "polygon":
            points = {tuple(_lengths(point, 100)) for point in value.split(",")}
            return len(points) < 3
    return False


def _is_transformed_away(style: Style, font_pixels: float) -> bool:
    if {"scale", "transform", "translate"}.isdisjoint(style):
        return False
    scales = _ratios(style.get("scale", ""))
    for name, value in FUNCTION.findall(style.get("transform", "")):
        if name.startswith("scale"):
            scales += _ratios(value)[:2]
        elif name in {"rotatex", "rotatey"}:
            angle = _LENGTH.fullmatch(value.strip())
            if angle and angle[2] == "deg" and abs(float(angle[1]) % 180 - 90) < 1:
                return True
        elif name == "matrix" and len(found := _ratios(value)) == 6:
            if abs(found[0] * found[3] - found[1] * found[2]) < 0.01:
                return True
            if found[4] <= _OFF_LEFT or found[4] >= _OFF_RIGHT or found[5] <= _OFF_TOP:
                return True
        elif name.startswith("translate") and name != "translatez":
            x, y = _two(value, vertical=name == "translatey")
            if _is_off(x, y, font_pixels, _OWN_SIZE, _OWN_SIZE):
                return True
    x, y = _two(style.get("translate", ""))
    moved = _is_off(x, y, font_pixels, _OWN_SIZE, _OWN_SIZE)
    return moved or any(abs(scale) < 0.05 for scale in scales)


def _is_off_screen(style: Style, font_pixels: float) -> bool:
    x = [style.get("text-indent", ""), style.get("margin-left", "")]
    y = [style.get("margin-top", "")]
    if style.get("position", "static") not in {"static", "initial"}:
        x += [style.get("left", ""), _negated(style.get("right", ""))]
        y += [style.get("top", ""), _negated(style.get("bottom", ""))]
    return any(one and _is_off(one, "", font_pixels) for one in x) or any(
        one and _is_off("", one, font_pixels) for one in y
    )


def _is_off(
    x: str, y: str, font_pixels: float, wide: float = _WIDTH, high: float = _HEIGHT
) -> bool:
    if not _FAR.search(x + " " + y):
        return False
    right = _pixels(x, font_pixels, wide) or 0
    down = _pixels(y, font_pixels, high) or 0
    return right <= _OFF_LEFT or right >= _OFF_RIGHT or down <= _OFF_TOP


# Percents of a translation are of the element itself, whose size we do not know: a line or two of text.
_OWN_SIZE = 100


def _negated(length: str) -> str:
    if not length:
        return ""
    return length[1:] if length.startswith("-") else f"-{length}"


def _two(value: str, vertical: bool = False) -> tuple[str, str]:
    words = [*value.replace(",", " ").split(), "", ""]
    return ("", words[0]) if vertical else (words[0], words[1])


def _lengths(value: str, whole: float | None = None) -> list[float | None]:
    return [_pixels(word, 16, whole) for word in value.replace(",", " ").split()[:20]]


def _ratios(value: str) -> list[float]:
    return [_ratio(word, 1) for word in value.replace(",", " ").split()[:20]]


# Any other value may make a text unreadable in ways that we do not follow.
_HARMLESS = {"", "none", "normal", "initial", "unset", "inherit"}
_UNFOLLOWED = ("mask-image", "animation-name", "text-security", "mso-hide")
_TURNS = re.compile(r"[xy]|\d\s+\S+\s+\S")  # `rotate` about another axis than that to the reader
_UNFOLLOWED_TRANSFORMS = re.compile(r"rotate(?:3d|x|y)|skew|matrix3d|perspective|-\d{3,}%")
_TOO_LOW = 3_000  # pixels that nobody scrolls
_LINES_MIN = 8  # pixels: less shows parts of letters only


def _is_doubtful(style: Style, font_pixels: float, sized: bool) -> bool:
    moves = f"{style.get('transform', '')} {style.get('translate', '')}"
    if (
        style.get("background-clip") == "text"
        or any(style.get(name, "") not in _HARMLESS for name in _UNFOLLOWED)
        or _UNFOLLOWED_TRANSFORMS.search(moves)
        or _TURNS.search(style.get("rotate", ""))
        or _is_moved_or_squeezed(style, font_pixels)
        or (sized and _is_collapsed(style, font_pixels, _LINES_MIN))
    ):
        return True
    return any(
        "(" in value and name in _WHERE_CALCULATED and _CALCULATED.search(value) is not None
        for name, value in style.items()
    )


def _is_moved_or_squeezed(style: Style, font_pixels: float) -> bool:
    places = ("top", "margin-top", "padding-left")
    if any((_pixels(style.get(place, ""), font_pixels) or 0) >= _TOO_LOW for place in places):
        return True
    if style.get("z-index", "").startswith("-") and "position" in style:
        return True
    spacing = _pixels(style.get("letter-spacing", ""), font_pixels) or 0
    if spacing >= 100 or spacing * -3 >= max(font_pixels, 1):
        return True
    if style.get("overflow", "visible") == "visible":
        return False
    line = style.get("line-height", "")
    high = _pixels(
        f"{line}em" if line.replace(".", "").isdigit() else line, font_pixels, font_pixels
    )
    return high is not None and high < font_pixels / 4 and font_pixels >= 4


# --- Colours

_INHERITED = {"", "inherit", "currentcolor", "unset", "revert"}


def _text_colour(parent: Look, name: str, attributes: Mapping[str, str], style: Style) -> Colour:
    fill = style.get("text-fill-color", "")
    if fill not in _INHERITED and style.get("background-clip") != "text":
        return parse_colour(fill) or parent.colour
    if (colour := style.get("color", "")) not in _INHERITED:
        return parse_colour(colour) or parent.colour
    attribute = attributes.get("color") or (attributes.get("text") if name == "body" else None)
    if attribute and (found := attribute_colour(attribute)):
        return found
    if name == "a" and "href" in attributes and not colour:
        return parent.link_colour
    return parent.colour


def _background(parent: Look, attributes: Mapping[str, str], style: Style) -> tuple[Colour, bool]:
    """Return the colour behind a text, and whether something else may cover it."""
    image = style.get("background-image", "none")
    value = style.get("background-color", "")
    if image == "none" and attributes.get("background"):
        image = "image"
    if image not in {"none", "image"}:
        value, image = image, "none"  # the first colour of a gradient
    found = parse_colour(value) if value else attribute_colour(attributes.get("bgcolor", ""))
    if found is None:
        unknown = value and value not in _INHERITED
        return parent.background, parent.over_image or image == "image" or bool(unknown)
    if found[3] == 0:
        return parent.background, parent.over_image or image == "image"
    return blended(found, parent.background), image == "image"
