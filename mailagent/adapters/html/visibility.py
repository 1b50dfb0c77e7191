"""How an HTML element looks, as far as it decides whether its text can be read.

Not a browser: nothing is laid out. Judged for a wide, light screen; what is in doubt says so.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, lru_cache

Style = Mapping[str, str]
Colour = tuple[float, float, float, float]  # red, green, blue: 0 to 255; alpha: 0 to 1


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
_ATTRIBUTES = {"hidden", "popover", "bgcolor", "background", "color", "text", "link"}


def look_of(parent: Look, name: str, attributes: Mapping[str, str], style: Style) -> Look:
    """Return how an element looks inside `parent`, given the declarations that hold for it."""
    if parent.gone:
        return parent
    plain = not style and name not in _SPECIAL and _ATTRIBUTES.isdisjoint(attributes)
    if plain and not parent.closed:
        return parent
    font_pixels = _font_pixels(style.get("font-size", ""), parent.font_pixels)
    if _has_no_box(parent, name, attributes, style) or _is_cut_away(style, font_pixels):
        return replace(parent, gone=True)
    background, over_image = _background(parent, attributes, style)
    return Look(
        closed=name == "details" and "open" not in attributes,
        unseen=_unseen(style.get("visibility", ""), parent.unseen),
        doubtful=parent.doubtful or name in _FALLBACKS or _is_doubtful(style),
        font_pixels=font_pixels,
        opacity=parent.opacity * _opacity(style),
        colour=_text_colour(parent, name, attributes, style),
        link_colour=_attribute_colour(attributes.get("link", "")) or parent.link_colour,
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

_NUMBER = r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})"
_LENGTH = re.compile(rf"({_NUMBER})([a-z]{{1,4}}|%)?")
_PIXELS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "q": 0.945}
_PIXELS |= {"rem": 16.0, "vw": 12.8, "vh": 8.0, "vmin": 8.0, "vmax": 12.8}
_FONT_SIZES = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0}
_FONT_SIZES |= {"x-large": 24.0, "xx-large": 32.0, "initial": 16.0}
_CALCULATED = re.compile(
    r"(?:var|calc|min|max|clamp|env|attr|color-mix|light-dark|color|o?k?l[ac][bh])\("
)
_CALCULATED_INCIDENTS = {
    *"display visibility opacity color text-fill-color font-size height max-height".split(),
    *"left top text-indent clip-path transform translate scale zoom".split(),
}
_FUNCTION = re.compile(r"([a-z0-9]{1,20})\(([^()]*)\)")
_OFF_LEFT, _OFF_RIGHT, _OFF_TOP = -500, 3_000, -500
_WIDTH, _HEIGHT = 1280, 800
_FAR = re.compile(r"\d\d|(?:em|vw|vh|vmin|vmax|in|%)\b")  # nothing below 10 pixels is far


def _pixels(value: str, font_pixels: float, whole: float | None = None) -> float | None:
    """Return a length in pixels; None if it is none. Without `whole`, percents are unknown."""
    if not value:
        return None
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
    pixels = _FONT_SIZES.get(size) or _pixels(size, parent, parent)
    return parent if pixels is None or pixels < 0 else pixels


def _opacity(style: Style) -> float:
    if "opacity" not in style and "filter" not in style:
        return 1
    opacity = _ratio(style.get("opacity", ""), 1.0)
    for name, value in _FUNCTION.findall(style.get("filter", "")):
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


def _is_cut_away(style: Style, font_pixels: float) -> bool:
    """Whether nothing is left of an element's box, or it lies outside of the page."""
    if _BOX.isdisjoint(style):
        return False
    if style.get("content-visibility") == "hidden" or _pixels(style.get("zoom", ""), 16) == 0:
        return True
    return (
        _is_collapsed(style, font_pixels)
        or _is_clipped(style)
        or _is_transformed_away(style, font_pixels)
        or _is_off_screen(style, font_pixels)
    )


_BOX = {
    *"content-visibility zoom overflow max-height clip clip-path position scale transform".split(),
    *"translate text-indent margin-left margin-top".split(),
}


def _is_collapsed(style: Style, font_pixels: float) -> bool:
    cuts = style.get("overflow", "visible").split()[0] != "visible"
    if not cuts and "max-height" not in style:
        return False
    for side in ("height", "width"):
        least = _pixels(style.get(f"min-{side}", ""), font_pixels) or 0
        most = _pixels(style.get(f"max-{side}", ""), font_pixels)
        sizes = [most, _pixels(style.get(side, ""), font_pixels)]
        if least < 2 and cuts and any(size is not None and 0 <= size < 2 for size in sizes):
            return True
        if side == "height" and least < 2 and most == 0:
            return True
    return False


def _is_clipped(style: Style) -> bool:
    if style.get("position") in {"absolute", "fixed"}:
        edges = _lengths(style.get("clip", "").removeprefix("rect(").rstrip(") "))
        if len(edges) == 4 and None not in edges:
            top, right, bottom, left = (edge or 0 for edge in edges)
            return right - left < 2 or bottom - top < 2
    for name, value in _FUNCTION.findall(style.get("clip-path", "")):
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
    for name, value in _FUNCTION.findall(style.get("transform", "")):
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
            if _is_external(x, y, font_pixels):
                return True
    return any(abs(scale) < 0.05 for scale in scales) or _is_external(
        *_two(style.get("translate", "")), font_pixels
    )


def _is_off_screen(style: Style, font_pixels: float) -> bool:
    x = [style.get("text-indent", ""), style.get("margin-left", "")]
    y = [style.get("margin-top", "")]
    if style.get("position", "static") not in {"static", "initial"}:
        x += [style.get("left", ""), _negated(style.get("right", ""))]
        y += [style.get("top", ""), _negated(style.get("bottom", ""))]
    return any(one and _is_external(one, "", font_pixels) for one in x) or any(
        one and _is_external("", one, font_pixels) for one in y
    )


def _is_external(x: str, y: str, font_pixels: float) -> bool:
    if not _FAR.search(x + " " + y):
        return False
    right = _pixels(x, font_pixels, _WIDTH) or 0
    down = _pixels(y, font_pixels, _HEIGHT) or 0
    return right <= _OFF_LEFT or right >= _OFF_RIGHT or down <= _OFF_TOP


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


def _is_doubtful(style: Style) -> bool:
    if style.get("background-clip") == "text":
        return True
    return any(
        "(" in value and name in _CALCULATED_INCIDENTS and _CALCULATED.search(value) is not None
        for name, value in style.items()
    )


# --- Colours

_HEX = re.compile(r"[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8}")
_ARGUMENT = re.compile(rf"({_NUMBER})(%|deg|turn|grad|rad)?|none")
_INHERITED = {"", "inherit", "currentcolor", "unset", "revert"}
_SYSTEM_COLOURS = {
    **dict.fromkeys(("canvas", "window", "field"), "#fff"),
    **dict.fromkeys(("canvastext", "windowtext", "fieldtext", "buttontext", "initial"), "#000"),
    "transparent": "#0000",
}


def _text_colour(parent: Look, name: str, attributes: Mapping[str, str], style: Style) -> Colour:
    fill = style.get("text-fill-color", "")
    if fill not in _INHERITED and style.get("background-clip") != "text":
        return _parse_colour(fill) or parent.colour
    if (colour := style.get("color", "")) not in _INHERITED:
        return _parse_colour(colour) or parent.colour
    attribute = attributes.get("color") or (attributes.get("text") if name == "body" else None)
    if attribute and (found := _attribute_colour(attribute)):
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
    found = _parse_colour(value) if value else _attribute_colour(attributes.get("bgcolor", ""))
    if found is None:
        unknown = value and value not in _INHERITED
        return parent.background, parent.over_image or image == "image" or bool(unknown)
    if found[3] == 0:
        return parent.background, parent.over_image or image == "image"
    return _blended(found, parent.background), image == "image"


def _blended(colour: Colour, behind: Colour) -> Colour:
    alpha = colour[3]
    red, green, blue = (
        one * alpha + other * (1 - alpha) for one, other in zip(colour[:3], behind[:3], strict=True)
    )
    return red, green, blue, 1


def _attribute_colour(value: str) -> Colour | None:
    value = value.strip()
    return _parse_colour(value) or _parse_colour(f"#{value}")


@lru_cache(maxsize=1_000)
def _parse_colour(value: str) -> Colour | None:
    """Return a colour of CSS (Color Module 4, section 4); None if we do not know it."""
    value = _SYSTEM_COLOURS.get(value) or _colour_names().get(value, value)
    if value.startswith("#"):
        digits = value[1:]
        if not _HEX.fullmatch(digits):
            return None
        if len(digits) < 6:
            digits = "".join(digit * 2 for digit in digits)
        red, green, blue, opaque = (int(digits[at : at + 2] or "ff", 16) for at in (0, 2, 4, 6))
        return red, green, blue, opaque / 255
    function = _FUNCTION.fullmatch(value)
    if function is None:
        return None
    arguments = [(float(number or 0), unit) for number, unit in _ARGUMENT.findall(function[2])]
    if len(arguments) not in {3, 4}:
        return None
    alpha = 1.0 if len(arguments) == 3 else arguments[3][0] / (100 if arguments[3][1] else 1)
    convert = {"rgb": _rgb, "hsl": _hsl, "hwb": _hwb}.get(function[1].removesuffix("a"))
    return (*convert(arguments[:3]), max(0, min(1, alpha))) if convert else None


Arguments = list[tuple[float, str]]
Triple = tuple[float, float, float]


def _rgb(arguments: Arguments) -> Triple:
    red, green, blue = (
        max(0, min(255, number * (2.55 if unit else 1))) for number, unit in arguments
    )
    return red, green, blue


def _hsl(arguments: Arguments) -> Triple:
    saturation, lightness = (max(0, min(1, number / 100)) for number, _unit in arguments[1:])
    red, green, blue = colorsys.hls_to_rgb(_hue(*arguments[0]), lightness, saturation)
    return red * 255, green * 255, blue * 255


def _hwb(arguments: Arguments) -> Triple:
    white, black = (max(0, min(1, number / 100)) for number, _unit in arguments[1:])
    if white + black > 1:
        white, black = white / (white + black), black / (white + black)
    pure = colorsys.hls_to_rgb(_hue(*arguments[0]), 0.5, 1)
    red, green, blue = ((one * (1 - white - black) + white) * 255 for one in pure)
    return red, green, blue


def _hue(number: float, unit: str) -> float:
    turns = {"turn": 1.0, "grad": 400.0, "rad": 6.2832}.get(unit, 360.0)
    return number / turns % 1


@cache
def _colour_names() -> Mapping[str, str]:
    from PIL import ImageColor  # loaded with the first HTML mail

    # Not the values of the map: Pillow puts tuples there for the names that it was asked for.
    known = {name: ImageColor.getrgb(name)[:3] for name in list(ImageColor.colormap)}
    return {name: "#{:02x}{:02x}{:02x}".format(*rgb) for name, rgb in known.items()}
