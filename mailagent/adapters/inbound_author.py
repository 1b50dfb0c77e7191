"""Who wrote an inbound mail: alignment, and the tricks by which senders pretend otherwise.

The rule of alignment is in `domain.sender`; here is what a mail must be like for it to count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from mailagent.adapters.address_list import Mailbox, parse_addresses
from mailagent.adapters.mail_header import Headers, first, parse_date
from mailagent.adapters.organisational_domain import organisational_domain
from mailagent.domain.mail import Identity
from mailagent.domain.sender import address_domain, ascii_domain, decide_identity, is_new

_TAG = re.compile(r"(?:^|;)\s{0,20}([a-z]{1,10})\s{0,20}=([^;]{0,2000})")

# RFC 5322 section 3.6: each at most once, and so is From. A signature covers the lowest of several
# (RFC 6376 section 5.4.2) and people are shown the topmost: one more on top of an old mail leaves its
# signature sound.
SINGLE_FIELDS = ("sender", "date", "subject", "reply-to", "to", "cc", "message-id")

# What tells one mail from another sent again. Signed also where the mail has none: a field that is
# not signed can be taken out of an old mail as well as changed.
_FIELDS_OF_ONE_MAIL = frozenset({"date", "message-id"})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the receiving server said of a mail. `tampered`: the sender may have written some of it."""

    spf: str
    dkim: str
    envelope_from: str | None
    envelope_to: Sequence[str]
    tampered: bool
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether the author is proven, what is left of it without signatures, and flags that name what made
    us careful."""

    identity: Identity
    identity_unsigned: Identity
    flags: tuple[str, ...]


def judge_author(
    authors: Sequence[Mailbox],
    headers: Headers,
    evidence: Evidence,
    our_addresses: Collection[str],
) -> Judgement:
    """Decide whether the author was proven.

    `our_addresses` are those that customers write to; their whole domains count.
    """
    several = len(authors) > 1 or len(headers.get("from", ())) > 1
    repeated = any(len(headers.get(name, ())) > 1 for name in SINGLE_FIELDS)
    unclear = any(not mailbox.plain for mailbox in authors)
    meant_for_us = _is_addressed_to_us(headers, evidence, our_addresses)
    signed = [
        _signs_what_we_believe(tags, headers, evidence, our_addresses)
        for tags in _signed_tags(headers, authors)
    ]
    partly_signed = meant_for_us and not all(signed)
    doubtful_date = _is_date_doubtful(headers, evidence.received_at, bool(signed) and all(signed))
    flags = {
        "repeated_fields": evidence.tampered,
        "several_from": several,
        "repeated_headers": repeated,
        "unclear_from": unclear,
        "not_addressed_to_us": not meant_for_us,
        "partly_signed": partly_signed,
        "doubtful_date": doubtful_date,
    }
    named = tuple(flag for flag, raised in flags.items() if raised)
    if evidence.tampered or several or repeated or unclear:
        return Judgement(Identity.NONE, Identity.NONE, named)
    # An old mail of the customer's, signed and sent again by a stranger, is signed all the same. Where
    # it was meant to go, and when it was written, is part of what was signed. SPF is about who sends
    # it now.
    careful = meant_for_us and not partly_signed and not doubtful_date
    trusted = careful and _signing_domains_are_plain(headers)
    return Judgement(
        _decide(authors, evidence, evidence.dkim if trusted else ""),
        _decide(authors, evidence, ""),
        named,
    )


def _decide(authors: Sequence[Mailbox], evidence: Evidence, dkim: str) -> Identity:
    return decide_identity(
        [mailbox.address for mailbox in authors],
        evidence.envelope_from,
        evidence.spf,
        dkim,
        organisational_domain,
    )


def _is_date_doubtful(headers: Headers, received_at: datetime, vouched_for: bool) -> bool:
    """Whether a mail may have been written long ago; `vouched_for`: signatures cover what it says.

    Without any Date there is nothing to hold against it.
    """
    written = first(headers, "date")
    sent_at = parse_date(written)
    if sent_at is None:
        return bool(written) and not vouched_for
    return not is_new(sent_at, received_at)


def _is_addressed_to_us(
    headers: Headers, evidence: Evidence, our_addresses: Collection[str]
) -> bool:
    return any(_names_us(headers, name, evidence, our_addresses) for name in ("to", "cc"))


def _names_us(
    headers: Headers, field: str, evidence: Evidence, our_addresses: Collection[str]
) -> bool:
    domains = _domains_of(tuple(our_addresses))
    named = [one.address for value in headers.get(field, ()) for one in parse_addresses(value)]
    return any(one in evidence.envelope_to or address_domain(one) in domains for one in named)


@lru_cache(maxsize=16)  # they are settings
def _domains_of(addresses: tuple[str, ...]) -> frozenset[str | None]:
    return frozenset({address_domain(address) for address in addresses} - {None})


def _tags(headers: Headers) -> list[dict[str, str]]:
    """Return the tags of every signature (RFC 6376 section 3.5), without white space; a tag that stands
    twice, of which nobody knows the right one, as an empty text."""
    found: list[dict[str, str]] = []
    for value in headers.get("dkim-signature", ()):
        tags: dict[str, str] = {}
        for match in _TAG.finditer(value):
            tags[match[1]] = "" if match[1] in tags else "".join(match[2].split())
        found.append(tags)
    return found


def _signed_tags(headers: Headers, authors: Sequence[Mailbox]) -> list[dict[str, str]]:
    """Return the tags of the signatures that can prove the author: those of the author's domain.

    SendGrid names the domains that passed, not the signatures: so each of them must be in order.
    """
    domain = address_domain(authors[0].address) if authors else None
    organisation = organisational_domain(domain) if domain else None
    return [
        tags
        for tags in _tags(headers)
        if (name := ascii_domain(tags.get("d", ""))) is not None
        and (name == domain or (organisation and organisational_domain(name) == organisation))
    ]


def _signs_what_we_believe(
    tags: dict[str, str], headers: Headers, evidence: Evidence, our_addresses: Collection[str]
) -> bool:
    """Whether a signature covers what the mail says, to whom and when: what it leaves out, anybody can
    add to an old mail. A length (`l=`) leaves out the end of the text."""
    fields = {name.lower() for name in tags.get("h", "").split(":")}
    to_us = [name for name in ("to", "cc") if _names_us(headers, name, evidence, our_addresses)]
    subject = {"subject"} & headers.keys()
    return (
        "l" not in tags
        and fields >= {"from", *subject, *_FIELDS_OF_ONE_MAIL}
        and bool(fields.intersection(to_us))
    )


def _signing_domains_are_plain(headers: Headers) -> bool:
    """Whether every signature names a host. SendGrid writes the names into its `dkim` field as they
    are: one such as `a.example : pass}{@b.example` would forge an entry there."""
    return all(ascii_domain(tags["d"]) is not None for tags in _tags(headers) if "d" in tags)
