"""A breaker for each provider: after several failures in a row nobody asks it but one at a time. Pure."""

from __future__ import annotations

from enum import StrEnum


class Provider(StrEnum):
    """Whom we depend on over the network."""

    OPENAI = "openai"
    SENDGRID = "sendgrid"
    STRIPE = "stripe"
