"""Colours of CSS (Color Module 4, section 4), as far as mails use them."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Mapping
from functools import cache, lru_cache

NUMBER = r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})"
FUNCTION = re.compile(r"([a-z0-9]{1,20})\(([^()]*)\)")

Colour = tuple[float, float, float, float]  # red, green, blue: 0 to 255; alpha: 0 to 1

_HEX = re.compile(r"[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8}")
_ARGUMENT = re.compile(rf"({NUMBER})(%|deg|turn|grad|rad)?|none")
_SYSTEM_COLOURS = {
    **dict.fromkeys(("canvas", "window", "field"), "#fff"),
    **dict.fromkeys(("canvastext", "windowtext", "fieldtext", "buttontext", "initial"), "#000"),
    "transparent": "#0000",
}


def blended(colour: Colour, behind: Colour) -> Colour:
    """Return what a colour looks like before another."""
    alpha = colour[3]
    red, green, blue = (
        one * alpha + other * (1 - alpha) for one, other in zip(colour[:3], behind[:3], strict=True)
    )
    return red, green, blue, 1


def attribute_colour(value: str) -> Colour | None:
    """Return the colour of an HTML attribute, whose hash sign may be missing."""
    value = value.strip()
    return parse_colour(value) or parse_colour(f"#{value}")


@lru_cache(maxsize=1_000)
def parse_colour(value: str) -> Colour | None:
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
    function = FUNCTION.fullmatch(value)
    if function is None:
        return None
    arguments = [(float(number or 0), unit) for number, unit in _ARGUMENT.findall(function[2])]
    if len(arguments) not in {3, 4}:
        return None
    alpha = 1.0 if len(arguments) == 3 else arguments[3][0] / (100 if arguments[3][1] else 1)
    convert = {"rgb": _rgb, "hsl": _hsl}.get(function[1].removesuffix("a"))
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


def _hue(number: float, unit: str) -> float:
    turns = {"turn": 1.0, "grad": 400.0, "rad": 6.2832}.get(unit, 360.0)
    return number / turns % 1


@cache
def _colour_names() -> Mapping[str, str]:
    from PIL import ImageColor  # loaded with the first HTML mail

    # Not the values of the map: Pillow puts tuples there for the names that it was asked for.
    known = {name: ImageColor.getrgb(name)[:3] for name in list(ImageColor.colormap)}
    return {name: "#{:02x}{:02x}{:02x}".format(*rgb) for name, rgb in known.items()}
