"""Who wrote an inbound mail: alignment, and the tricks by which senders pretend otherwise.

The rule of alignment is in `domain.sender`; here is what a mail must be like for it to count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mailagent.adapters.address_list import Mailbox, parse_addresses
from mailagent.adapters.mail_header import Headers
from mailagent.adapters.organisational_domain import organisational_domain
from mailagent.domain.mail import Identity
from mailagent.domain.sender import address_domain, ascii_domain, decide_identity

_SIGNING_DOMAIN = re.compile(r"(?:^|;)\s{0,20}d\s{0,20}=([^;]{0,300})")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the receiving server said of a mail. `tampered`: the sender may have written some of it."""

    spf: str
    dkim: str
    envelope_from: str | None
    envelope_to: Sequence[str]
    tampered: bool


def judge_author(
    authors: Sequence[Mailbox],
    headers: Headers,
    evidence: Evidence,
    our_addresses: Collection[str],
) -> tuple[Identity, tuple[str, ...]]:
    """Decide whether the author was proven, and name as flags what made us careful.

    `our_addresses` are those that customers write to; their whole domains count.
    """
    several = len(authors) > 1 or len(headers.get("from", ())) > 1
    unclear = any(not mailbox.plain for mailbox in authors)
    meant_for_us = _is_addressed_to_us(headers, evidence, our_addresses)
    flags = {
        "repeated_fields": evidence.tampered,
        "several_from": several,
        "unclear_from": unclear,
        "not_addressed_to_us": not meant_for_us,
    }
    named = tuple(flag for flag, raised in flags.items() if raised)
    if evidence.tampered or several or unclear:
        return Identity.NONE, named
    # An old mail of the customer's to somebody else, signed and sent again by a stranger, is signed
    # all the same. Where it was meant to go is part of what was signed.
    trusted = meant_for_us and _signing_domains_are_plain(headers)
    identity = decide_identity(
        [mailbox.address for mailbox in authors],
        evidence.envelope_from,
        evidence.spf,
        evidence.dkim if trusted else "",
        organisational_domain,
    )
    return identity, named


def _is_addressed_to_us(
    headers: Headers, evidence: Evidence, our_addresses: Collection[str]
) -> bool:
    domains = {address_domain(address) for address in our_addresses} - {None}
    fields = (*headers.get("to", ()), *headers.get("cc", ()))
    named = [mailbox.address for value in fields for mailbox in parse_addresses(value)]
    return any(one in evidence.envelope_to or address_domain(one) in domains for one in named)


def _signing_domains_are_plain(headers: Headers) -> bool:
    """Whether every signature names a host. SendGrid writes the names into its `dkim` field as they
    are: one such as `a.example : pass}{@b.example` would forge an entry there."""
    named = (
        match[1]
        for value in headers.get("dkim-signature", ())
        for match in _SIGNING_DOMAIN.finditer(value)
    )
    return all(ascii_domain("".join(name.split())) is not None for name in named)
