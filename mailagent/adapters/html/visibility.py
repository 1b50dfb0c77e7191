"""Whether a person can read the text of an HTML element, by the declarations that hold for it.

Not a browser: nothing is laid out. The usual ways of hiding text are understood. Text that may be hidden in
another way is kept, and the mail is flagged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from mailagent.adapters.html.tree import BLOCKS, TABLE_PARTS

Style = Mapping[str, str]
Colour = tuple[float, float, float, float]  # red, green, blue: 0 to 255; alpha: 0 to 1


class Seen(Enum):
    """Whether a person sees a text."""

    YES = "yes"
    PERHAPS = "perhaps"
    NO = "no"
    GONE = "gone"  # neither is it seen nor does it take room


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
    background: Colour = (255, 255, 255, 1)
    over_image: bool = False

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
        faint = contrast <= (_SAME_COLOUR if self.over_image else _FAINT)
        return Seen.PERHAPS if faint or self.doubtful or self.font_pixels < 4 else Seen.YES


# The greatest difference in red, green or blue.
_SAME_COLOUR = 16
_FAINT = 32

# Shown only by programs that cannot do better.
_FALLBACKS = {*"noscript noembed noframes iframe audio video canvas object datalist".split()}
_SPECIAL = {*_FALLBACKS, "a", "details", "dialog", "summary", "template"}
_ATTRIBUTES = {"hidden", "popover", "bgcolor", "background", "color", "text", "size"}
_LINK_COLOUR: Colour = (0, 0, 238, 1)


def look_of(parent: Look, name: str, attributes: Mapping[str, str], style: Style) -> Look:
    """Return how an element looks inside `parent`, given the declarations that hold for it."""
    if parent.gone:
        return parent
    plain = not style and name not in _SPECIAL and _ATTRIBUTES.isdisjoint(attributes)
    if plain and not parent.closed:
        return parent
    if _has_no_box(parent, name, attributes, style) or _is_cut_away(name, style):
        return replace(parent, gone=True)
    font_pixels = _font_pixels(style.get("font-size", ""), parent.font_pixels)
    if name == "font" and "size" in attributes and "font-size" not in style:
        font_pixels = max(font_pixels, 10)  # <font> knows no smaller size
    visibility = style.get("visibility", "")
    background, over_image = _background(parent, attributes, style)
    return Look(
        closed=name == "details" and "open" not in attributes,
        unseen=visibility in {"hidden", "collapse"}
        or (parent.unseen and visibility not in {"visible", "initial"}),
        doubtful=parent.doubtful or name in _FALLBACKS or _is_doubtful(style),
        font_pixels=font_pixels,
        opacity=parent.opacity * min(1.0, _ratio(style.get("opacity", ""))),
        colour=_text_colour(parent, name, attributes, style),
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


# --- sizes and places -----------------------------------------------------------------------------

_NUMBER = r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})"
_LENGTH = re.compile(rf"({_NUMBER})([a-z]{{1,4}}|%)?")
_PIXELS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "rem": 16.0}
_PIXELS |= {"vw": 12.8, "vh": 8.0}
_FONT_SIZES = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0}
_FONT_SIZES |= {"x-large": 24.0, "xx-large": 32.0, "xxx-large": 48.0, "initial": 16.0}

PLACES = {
    "text-indent", "translate", "left", "top", "right", "bottom", "inset",
    *(
        f"{box}{side}"
        for box in ("margin", "padding", "inset")
        for side in ("", "-left", "-top", "-inline", "-inline-start")
    ),
}  # fmt: skip
SIZES = {f"{limit}{side}" for limit in ("", "max-", "min-") for side in ("width", "height")}
_NEEDS_POSITION = {"left", "top", "right", "bottom", "inset", "clip"}
_READABLE_PIXELS = 8  # a box that cuts off more shows parts of letters only
_FAR_OFF = re.compile(r"(?<!\.)\d{4}|\d{3}(?:r?em|v[wh]|in|cm)\b")  # outside of the page
_SIZED = BLOCKS - TABLE_PARTS | {"", "button", "dialog", "legend", "marquee", "menu"}


def _pixels(value: str, font_pixels: float = 16, whole: float | None = None) -> float | None:
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
    pixels = _FONT_SIZES.get(size) or _pixels(size, parent, parent)
    return parent if pixels is None else pixels


def _ratio(value: str) -> float:
    match = _LENGTH.fullmatch(value)
    if match is None or match[2] not in {None, "%"}:
        return 1.0
    return float(match[1]) / (100 if match[2] else 1)


def _is_cut_away(name: str, style: Style) -> bool:
    """Whether nothing is left of an element's box, or it lies outside of the page."""
    for key, value in style.items():
        pattern = _FAR_OFF if key in PLACES else HIDES.get(key)
        if (
            (key not in _NEEDS_POSITION or "position" in style)
            and pattern
            and pattern.search(value)
        ):
            return True
    if style.get("overflow", "visible") == "visible" or not _has_a_size(name, style):
        return False
    sizes = (
        _pixels(style.get(f"{limit}{side}", ""))
        for side in ("width", "height")
        for limit in ("", "max-")
        if f"min-{side}" not in style
    )
    return any(size is not None and size < _READABLE_PIXELS for size in sizes)


def _has_a_size(name: str, style: Style) -> bool:
    """Whether width and height hold: neither for what stands in a line nor for cells, which grow."""
    if style.get("position") in {"absolute", "fixed"} or style.get("float", "none") != "none":
        return True
    display = style.get("display", "")
    if display:
        return display not in {"inline", "contents"} and not display.startswith("table")
    return name in _SIZED


# --- properties that hide -------------------------------------------------------------------------

_SCALED_AWAY = r"[+-]?(?:0+(?![.\d])|0*\.0)|\b[01]%"
# Values that make a text unreadable.
HIDES = {
    **dict.fromkeys(("scale", "zoom"), re.compile(_SCALED_AWAY)),
    "content-visibility": re.compile(r"hidden"),
    "clip": re.compile(r"rect\((?:[01](?:px)?[\s,]*){4}\)"),
    "clip-path": re.compile(
        r"inset\(\s*(?:[5-9]\d|\d{3})(?:\.\d+)?%|(?:circle|ellipse|polygon)\([^1-9]*(?: at .*)?\)"
    ),
    "filter": re.compile(r"opacity[(=]\s*(?:0*(?:\.0\d*)?|[0-4]%)\s*\)"),
    "transform": re.compile(
        rf"rotate[xy]\(\s*-?90deg|matrix\(\s*0\s*,|translate[xy]?\([^)]*(?:{_FAR_OFF.pattern})"
        rf"|scale\w*\((?:[^)]*,)?\s*(?:{_SCALED_AWAY})"
    ),
}
_UNLESS_NONE = r"^(?!(?:none|normal|initial|unset|inherit)\Z)"
# Values that may make a text unreadable in ways that we do not follow.
MAY_HIDE = {
    **dict.fromkeys(
        "mask mask-image mask-border mask-box-image animation animation-name offset offset-path"
        " font-size-adjust text-security mso-hide".split(),
        re.compile(_UNLESS_NONE),
    ),
    "background-clip": re.compile(r"text"),
    "clip-path": re.compile(_UNLESS_NONE + r"(?!inset\((?:\s*\d{1,2}(?!\d)(?:%|px)?){1,4}\s*\)\Z)"),
    "filter": re.compile(r"(?:blur|brightness|contrast|invert|url)\("),
    "letter-spacing": re.compile(r"^-?[1-9]\d|-(?:0?\.[3-9]|[1-9])[\d.]*em"),
    "rotate": re.compile(r"[xy]|\d\s+\S+\s+\S"),  # about another axis than that to the reader
    "transform": re.compile(r"rotate(?:3d|x|y)|skew|matrix|perspective|translate(?:z|3d)|\d{4}"),
    "z-index": re.compile(r"^-"),
}
_CALCULATED = re.compile(r"(?:var|calc|min|max|clamp|env|attr)\(")
_WHERE_CALCULATED = {
    *"display visibility opacity font-size height max-height left top text-indent".split()
}
_COLOURS = {"color", "background-color", "text-fill-color"}


def is_risky(name: str, value: str) -> bool:
    """Whether a value makes a text unreadable, or may."""
    return any(name in table and table[name].search(value) for table in (HIDES, MAY_HIDE))


def _is_doubtful(style: Style) -> bool:
    for name, value in style.items():
        if name in MAY_HIDE and MAY_HIDE[name].search(value):
            return True
        if "(" in value and (
            (name in _COLOURS and parse_colour(value) is None)
            or (name in _WHERE_CALCULATED and _CALCULATED.search(value))
        ):
            return True
    return False


_GLOBAL = {"inherit", "initial", "unset", "revert", "currentcolor", "windowtext"}
_VALID = {
    "display": re.compile(
        r"none|contents|list-item|flow-root|(?:-webkit-|inline-)?(?:block|flex|grid|box)|inline"
        r"|(?:inline-)?table(?:-(?:row|cell|column|caption|header|footer|group|-)+)?"
    ),
    "visibility": re.compile(r"visible|hidden|collapse"),
    "content-visibility": re.compile(r"visible|auto|hidden"),
    "opacity": re.compile(rf"{_NUMBER}%?"),
    **dict.fromkeys(SIZES, re.compile(r"auto|none|normal|[a-z-]*content|[\d.]+(?:[a-z]{1,4}|%)?")),
    **dict.fromkeys(PLACES, re.compile(r"auto|.*\d.*")),
}


def is_understood(name: str, value: str) -> bool:
    """Whether a browser understands a value, as far as we check. It passes over a declaration that it does
    not understand, and the one before it holds."""
    if value in _GLOBAL or _CALCULATED.search(value):
        return True
    if name in _COLOURS:
        unknown = "(" in value and not value.startswith(("rgb", "hsl"))
        return unknown or parse_colour(value) is not None
    if name == "font-size":
        pixels = _pixels(value, whole=16)
        return value in {*_FONT_SIZES, "smaller", "larger"} or (pixels is not None and pixels >= 0)
    return name not in _VALID or _VALID[name].fullmatch(value) is not None


# --- colours --------------------------------------------------------------------------------------

_COLOUR_FUNCTION = re.compile(r"(rgb|hsl)a?\(([^()]*)\)")


@lru_cache(maxsize=1_000)
def parse_colour(value: str) -> Colour | None:
    """Return a colour of CSS (Color Module 4, section 4), as far as Pillow knows it."""
    from PIL import ImageColor  # loaded with the first HTML mail

    if value == "transparent":
        return 0, 0, 0, 0
    alpha = 1.0
    if match := _COLOUR_FUNCTION.fullmatch(value):
        arguments = re.split(r"[\s,/]+", match[2].strip())
        value = f"{match[1]}({','.join(arguments[:3])})"
        alpha = _ratio("".join(arguments[3:4]))
    try:
        red, green, blue, *opaque = ImageColor.getrgb(value)
    except ValueError:
        return None
    return red, green, blue, opaque[0] / 255 if opaque else alpha


def _attribute_colour(value: str) -> Colour | None:
    """Return the colour of an HTML attribute, whose hash sign may be missing."""
    return parse_colour(value.strip()) or parse_colour(f"#{value.strip()}")


def _text_colour(parent: Look, name: str, attributes: Mapping[str, str], style: Style) -> Colour:
    for declared in (style.get("text-fill-color"), style.get("color")):
        if declared and (found := parse_colour(declared)):
            return found
    attribute = attributes.get("color") or (attributes.get("text") if name == "body" else None)
    if attribute and (found := _attribute_colour(attribute)):
        return found
    return (
        _LINK_COLOUR
        if name == "a" and "href" in attributes and "color" not in style
        else parent.colour
    )


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
