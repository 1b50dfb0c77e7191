"""Templates whose globals are a plain dictionary."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from jinja2 import Environment


class PlainGlobals(Environment):
    """An environment of which each template takes the globals as they are when it is loaded.

    Jinja lays its own over them as a `ChainMap`, for globals that are set later. Ours never are; and that map
    is asked for each of its names, in Python, whenever a template is rendered, included or imported from.
    """

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """Return the globals of a template that is loaded with `d` for its own."""
        common: Mapping[str, Any] = self.globals
        return {**common, **(d or {})}
