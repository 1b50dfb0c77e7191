"""A fact that a reply may name: what is not on record has no fact, so it cannot be said.

An id is a kind, and for most kinds an order's number: `refund/W1001`. `templates/mail/_fact.txt` has the
sentence of each kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mailagent import services
from mailagent.mailers.values import Values


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact as it was read. `order_id`: the order that it is about, for the record below the reply.
    `source`: the passage of the shop's knowledge that it quotes, and its version."""

    kind: str
    values: Mapping[str, Any]
    order_id: str | None = None
    source: str | None = None

    def plain(self) -> Values:
        """Return what the template takes."""
        return {"kind": self.kind, **self.values}


def quote(passage_id: str) -> Fact | None:
    """Return a passage of the shop's knowledge, word for word, as a fact; None if there is none with this
    id."""
    passage = services.current().knowledge.by_id.get(passage_id)
    if passage is None:
        return None
    source = f"{passage.passage_id}@{passage.version}"
    return Fact("knowledge", {"text": passage.text}, source=source)


def sentence(fact: Fact, locale: str = "en") -> str:
    """Return the text of a fact in the language of a locale, as its template has it."""
    return services.current().templates.fragment("_fact.txt", {"fact": fact.plain()}, locale)
