"""Where a text names an address, and naming another one there instead.

Pure. Only whole addresses count: `ada@example.com` is nothing of whoever has `da@example.com`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

# What goes on an address to its left. RFC 5322 allows more signs there (section 3.2.3), which people and
# machines also put around addresses: those count behind a letter or digit only (`o'ada@…`, but not
# `'ada@…'`). Those that links and returned mail put in front (`/`, `=`, `&`, `?`, `|`) never count.
_GOES_ON_BEFORE = r"(?<![\w.+-])(?<!\w[!#$%'*^`{}~])(?<!\w&#39;)(?<!\w\[\.\])"
# A full stop or hyphen goes on with an address only where letters follow.
_GOES_ON_BEHIND = r"(?![^\W_]|\.\w|\[\.\]\w|-+\w)"


class Mention:
    """One address, as it is stored, found whole in texts of others. Capitals make no difference in ASCII;
    in other scripts they do, as in `normalise_address`."""

    def __init__(self, email: str) -> None:
        in_html = html.escape(email).replace("&#x27;", "&#39;")  # as Jinja spells it
        # In our own mail the full stops of others' words stand in brackets (`inert`).
        spellings = {
            re.escape(spelt).replace(r"\.", r"(?:\.|\[\.\])") for spelt in (email, in_html)
        }
        # What stands in every text that names it, but for capitals: for a search that is only a first look.
        self.core = next(part for part in email.split(".") if "@" in part)
        either = "|".join(sorted(spellings, key=len, reverse=True))
        self._pattern = re.compile(f"{_GOES_ON_BEFORE}(?ai:{either}){_GOES_ON_BEHIND}")

    def is_in(self, *texts: str | None) -> bool:
        """Return whether any of the texts names the address."""
        return any(self._pattern.search(text) for text in texts if text)

    def replaced(self, text: str, alias: str) -> str:
        """Return a text with another address in its place."""
        return self._pattern.sub(alias, text)

    def replaced_within(self, value: Any, alias: str) -> Any:
        """Return what JSON can hold with another address in its place, in keys, too."""
        if isinstance(value, str):
            return self.replaced(value, alias)
        if isinstance(value, Mapping):
            return {
                self.replaced(key, alias): self.replaced_within(each, alias)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.replaced_within(each, alias) for each in value]
        return value
