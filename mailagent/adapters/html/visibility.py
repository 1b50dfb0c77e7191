"""How an HTML element looks, as far as it decides whether its text can be read.

Not a browser: nothing is laid out. Judged for a wide, light screen; what is in doubt says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    flex: bool = False  # or a grid: what stands directly in it is sized like a block

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
        doubtful=parent.doubtful
        or name in _FALLBACKS
        or _is_doubtful(style, font_pixels, sized or parent.flex),
        font_pixels=font_pixels,
        opacity=parent.opacity * _opacity(style),
        colour=_text_colour(parent, name, attributes, style),
        link_colour=attribute_colour(attributes.get("link", "")) or parent.link_colour,
        background=background,
        over_image=over_image,
        flex=style.get("display", "").endswith(("flex", "grid")),
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
FONT_SIZES |= {"x-large": 24.0, "xx-large": 32.0, "xxx-large": 48.0, "initial": 16.0}
CALCULATED = re.compile(
    r"(?:var|calc|min|max|clamp|env|attr|color-mix|light-dark|color|o?k?l[ac][bh]|hwb)\("
)
_WHERE_CALCULATED = {
    *"display visibility opacity color text-fill-color font-size height max-height".split(),
    *"left top text-indent clip-path transform translate scale zoom".split(),
}
_OFF_LEFT, _OFF_RIGHT, _OFF_TOP, _TOO_LOW = -1_000, 3_000, -1_000, 3_000
_WHOLE = 300  # percents are of boxes whose size we do not know
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
    return (
        style.get("content-visibility") == "hidden"
        or (sized and _cuts(style) and _is_smaller(style, font_pixels, 2))
        or _is_clipped(style)
        or _least_scale(style) < 0.05
        or _is_off(style, font_pixels)
    )


_BOX = {
    *"content-visibility zoom overflow max-height clip clip-path position scale transform".split(),
    *"translate text-indent margin-left margin-top padding-left padding-top".split(),
}


_SIZED = BLOCKS - TABLE_PARTS | {"", "button", "dialog", "legend", "marquee", "menu"}


def _can_collapse(name: str, style: Style) -> bool:
    """Whether width and height hold: neither for what stands in a line nor for cells, which grow."""
    if style.get("position") in {"absolute", "fixed"} or style.get("float", "none") != "none":
        return True
    display = style.get("display", "")
    if display:
        return display not in {"inline", "contents"} and not display.startswith("table")
    return name in _SIZED


def _cuts(style: Style) -> bool:
    return style.get("overflow", "visible").split()[0] != "visible"


def _is_smaller(style: Style, font_pixels: float, limit: float) -> bool:
    for side in ("height", "width"):
        least = _pixels(style.get(f"min-{side}", ""), font_pixels, _WHOLE) or 0
        most = (_pixels(style.get(f"{max_}{side}", ""), font_pixels) for max_ in ("max-", ""))
        if least < limit and any(size is not None and 0 <= size < limit for size in most):
            return True
    return False


def _is_clipped(style: Style) -> bool:
    if style.get("position") in {"absolute", "fixed"}:
        edges = _lengths(style.get("clip", "").removeprefix("rect(").rstrip(") "))
        if len(edges) == 4 and None not in edges:
            top, right, bottom, left = (edge or 0 for edge in edges)
            return right - left < 2 or bottom - top < 2
    for name, value in FUNCTION.findall(style.get("clip-path", "")):
        if name == "inset" and "%" in value:
            return all(side is not None and side >= 50 for side in _lengths(value, 100))
        if name in {"circle", "ellipse", "polygon"}:
            return re.search(r"[1-9]", value.partition(" at ")[0]) is None
    return False


def _least_scale(style: Style) -> float:
    scales = _ratios(style.get("scale", "")) + _ratios(style.get("zoom", ""))
    for name, value in FUNCTION.findall(style.get("transform", "")):
        numbers = _ratios(value)
        if name.startswith("scale"):
            scales += numbers[:2]
        elif name == "matrix" and len(numbers) == 6:
            scales.append(numbers[0] * numbers[3] - numbers[1] * numbers[2])
        elif name in {"rotatex", "rotatey"} and value.strip() in {"90deg", "-90deg"}:
            scales.append(0)
    return min(map(abs, scales), default=1)


def _moves(style: Style) -> Iterator[tuple[str, str]]:
    """Yield how far to the right and down an element is moved, one property at a time."""
    yield style.get("text-indent", ""), ""
    for place in ("margin", "padding"):
        yield style.get(f"{place}-left", ""), style.get(f"{place}-top", "")
    if style.get("position", "static") not in {"static", "initial"}:
        yield style.get("left", ""), style.get("top", "")
        yield _negated(style.get("right", "")), _negated(style.get("bottom", ""))
    yield _two(style.get("translate", ""))
    for name, value in FUNCTION.findall(style.get("transform", "")):
        if name == "matrix":
            yield _two(" ".join(value.replace(",", " ").split()[4:]))
        elif name.startswith("translate") and name != "translatez":
            yield _two(value, vertical=name == "translatey")


def _is_off(style: Style, font_pixels: float, nearer: float = 1) -> bool:
    for x, y in _moves(style):
        if not _FAR.search(f"{x} {y}"):
            continue
        right = (_pixels(x, font_pixels, _WHOLE) or 0) * nearer
        down = (_pixels(y, font_pixels, _WHOLE) or 0) * nearer
        if right <= _OFF_LEFT or right >= _OFF_RIGHT or down <= _OFF_TOP:
            return True
        if nearer > 1 and down >= _TOO_LOW * nearer:  # people may scroll there
            return True
    return False


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


_UNLESS_NONE = r"(?!(?:none|normal|initial|unset|inherit)\Z)"
# Values that may make a text unreadable in ways that we do not follow.
MAY_HIDE = {
    **dict.fromkeys(
        "mask mask-image mask-border mask-box-image animation animation-name offset offset-path"
        " font-size-adjust text-security mso-hide".split(),
        re.compile(_UNLESS_NONE),
    ),
    "background-clip": re.compile(r"text"),
    "clip-path": re.compile(_UNLESS_NONE + r"(?!inset\((?:\s*\d{1,2}(?!\d)(?:%|px)?){1,4}\s*\)\Z)"),
    "filter": re.compile(r".*(?:blur|brightness|contrast|invert|url)\("),
    "rotate": re.compile(r"[xy]|\d\s+\S+\s+\S"),  # about another axis than that to the reader
    "transform": re.compile(r".*(?:rotate(?:3d|x|y)|skew|matrix3d|perspective|translate(?:z|3d))"),
    "z-index": re.compile(r"-"),
}
_LINES_MIN = 8  # pixels: less shows parts of letters only


def _is_doubtful(style: Style, font_pixels: float, sized: bool) -> bool:
    for name, value in style.items():
        if name in MAY_HIDE and MAY_HIDE[name].match(value):
            return True
        if "(" in value and name in _WHERE_CALCULATED and CALCULATED.search(value):
            return True
    if _BOX.isdisjoint(style):
        return _is_squeezed(style, font_pixels)
    cuts = _cuts(style) or _pixels(style.get("max-height", ""), font_pixels) == 0
    return (
        (sized and cuts and _is_smaller(style, font_pixels, _LINES_MIN))
        or _least_scale(style) < 0.3
        or _is_off(style, font_pixels, nearer=4)
        or _is_squeezed(style, font_pixels)
    )


def _is_squeezed(style: Style, font_pixels: float) -> bool:
    spacing = _pixels(style.get("letter-spacing", ""), font_pixels) or 0
    if spacing >= 100 or spacing * -3 >= max(font_pixels, 1):
        return True
    line = style.get("line-height", "")
    if not line or not _cuts(style):
        return False
    unit = "em" if line.replace(".", "").isdigit() else ""
    high = _pixels(line + unit, font_pixels, font_pixels)
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
