"""The real model client, and what it was asked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from mailagent.services import Model


@dataclass
class WatchedModel:
    """Asks `model`, and keeps when, and each request in the order in which the provider reads it: what
    stands first is cached."""

    model: Model
    asked: list[tuple[list[dict[str, Any]], str, list[dict[str, Any]], str]] = field(
        default_factory=list
    )

    asked_at: list[float] = field(default_factory=list)
    formats: list[dict[str, Any] | None] = field(default_factory=list)

    def ask(
        self,
        instructions: str,
        items: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        cache_key: str,
        customer_hash: str,
        text: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        self.asked_at.append(time.monotonic())
        self.formats.append(text)
        self.asked.append((tools, instructions, items, cache_key))
        return self.model.ask(instructions, items, tools, cache_key, customer_hash, text)
