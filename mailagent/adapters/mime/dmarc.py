"""Identifier alignment (RFC 7489): compares the author's domain with the domains that SPF and DKIM
authenticated.

`domain.mail.authentication` has the rule. This module reads from the mail what the rule needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from publicsuffixlist import PublicSuffixList

from mailagent.adapters.mime.address_list import Mailbox, parse_addresses
from mailagent.adapters.mime.headers import CUT_HEADERS, Headers, first, parse_date, parse_ids
from mailagent.domain.mail.authentication import (
    SignedMail,
    address_domain,
    covers_message_id,
    covers_what_is_used,
    decide_identity,
    is_aligned,
    is_of_now,
    parse_dkim,
    parse_signature,
)
from mailagent.domain.mail.message import Identity

# A mail may have each of these fields, and From, only once (RFC 5322 section 3.6). Of several, a signature
# covers the lowest (RFC 6376 section 5.4.2), but people see the topmost. So an attacker could add a field on
# top of an old mail without breaking its signature.
SINGLE_FIELDS = ("sender", "date", "subject", "reply-to", "to", "cc", "message-id")

# Mail servers add these fields to mail that they forward. The sender cannot remove them again.
_FORWARDED = (
    *("x-forwarded-to", "x-forwarded-for", "delivered-to", "x-original-to"),
    *("resent-from", "resent-sender", "resent-to", "list-id"),
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the receiving server reported about a mail. `reply_address`: the reply address of ours to which it
    was delivered; None for another address. `tampered`: the sender may have written some of this evidence.
    `header_flaw`: the flaw of the mail's header block (`headers.Block`). `by_form`: a contact form wrote the
    mail, and the author's address was typed into it (`find_form_author`)."""

    spf: str
    dkim: str
    envelope_from: str | None
    envelope_to: Sequence[str]
    reply_address: str | None
    tampered: bool
    header_flaw: str | None
    received_at: datetime
    by_form: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether the author is proven, with and without DKIM, and flags that name our doubts. `known_by_date`:
    only a signature that does not cover the Message-ID proves the author."""

    identity: Identity
    identity_unsigned: Identity
    flags: tuple[str, ...]
    known_by_date: bool = False


def judge_author(
    authors: Sequence[Mailbox], headers: Headers, evidence: Evidence, our_addresses: Collection[str]
) -> Judgement:
    """Decide whether the author is proven.

    `our_addresses`: the addresses that customers write to. Every address of their domains counts as ours.
    """
    several = len(authors) > 1 or len(headers.get("from", ())) > 1
    repeated = any(len(headers.get(name, ())) > 1 for name in SINGLE_FIELDS)
    unclear = any(not mailbox.plain for mailbox in authors)
    found = [parse_signature(value) for value in headers.get("dkim-signature", ())]
    own = [one for one in found if one is not None and _is_of_author(one.domain, authors)]
    mail = _signed_mail(headers, evidence, our_addresses)
    meant_for_us = bool(_naming(headers, evidence.envelope_to, our_addresses))
    cut = evidence.header_flaw == CUT_HEADERS
    doubts = {
        "not_addressed_to_us": not meant_for_us,
        "odd_signature": None in found,
        "unseen_signature": not _passed(evidence, authors) <= {one.domain for one in own},
        "partly_signed": meant_for_us and not all(covers_what_is_used(one, mail) for one in own),
        "doubtful_date": not is_of_now(own, mail) and (bool(own) or "date" in headers),
    }
    flags = {
        "repeated_fields": evidence.tampered,
        **({evidence.header_flaw: True} if evidence.header_flaw else {}),
        "several_from": several,
        "repeated_headers": repeated,
        "unclear_from": unclear,
        "contact_form": evidence.by_form,
        **doubts,
    }
    named = tuple(flag for flag, raised in flags.items() if raised)
    if evidence.tampered or evidence.by_form or cut or several or repeated or unclear:
        return Judgement(Identity.NONE, Identity.NONE, named)
    # If a stranger replays an old mail of the customer, its signature is still valid. So the signature must
    # cover the recipient and the date, which show the replay. SPF only says who sends or forwards the mail now.
    # The provider names the domains that passed, not the signatures: so we check all signatures of the author's
    # domain, and each must be good.
    proven = bool(own) and not any(doubts.values()) and evidence.header_flaw is None
    spf = "" if _is_forwarded(headers) else evidence.spf
    identity = _decide(authors, evidence, spf, evidence.dkim if proven else "")
    unsigned = _decide(authors, evidence, spf, "")
    signed_id = all(covers_message_id(one, mail) for one in own)
    by_signature = identity is Identity.DKIM and not unsigned.proven
    return Judgement(identity, unsigned, named, by_signature and not signed_id)


def find_form_author(
    headers: Headers, sender: Mailbox, form_senders: Collection[str]
) -> Mailbox | None:
    """Return who filled in a contact form, if a contact form sent the mail; None for other mail. Forms put the
    author into Reply-To."""
    fields = headers.get("reply-to", ())
    if sender.address not in form_senders or len(fields) != 1:
        return None
    authors = parse_addresses(fields[0])
    return authors[0] if len(authors) == 1 and authors[0].address else None


def _is_forwarded(headers: Headers) -> bool:
    """Return whether a mailbox or list has forwarded a mail. Then SPF is about the forwarding server."""
    return any(name in headers for name in _FORWARDED)


def _decide(authors: Sequence[Mailbox], evidence: Evidence, spf: str, dkim: str) -> Identity:
    return decide_identity(
        [mailbox.address for mailbox in authors],
        evidence.envelope_from,
        spf,
        dkim,
        organisational_domain,
    )


def _is_of_author(domain: str, authors: Sequence[Mailbox]) -> bool:
    author = address_domain(authors[0].address) if authors else None
    return author is not None and is_aligned(author, domain, organisational_domain)


def _passed(evidence: Evidence, authors: Sequence[Mailbox]) -> set[str]:
    """Return the domains of the author for which the provider reported a valid signature."""
    return {
        domain
        for domain, result in parse_dkim(evidence.dkim)
        if result == "pass" and _is_of_author(domain, authors)
    }


def _signed_mail(
    headers: Headers, evidence: Evidence, our_addresses: Collection[str]
) -> SignedMail:
    """Return the facts that the signatures of a mail must cover.

    A reply address shows that its writer has our mail. So for a mail to a reply address, that very address must
    be signed.
    """
    at = evidence.reply_address
    referred = (*parse_ids(headers, "references"), *parse_ids(headers, "in-reply-to"))
    return SignedMail(
        counts={name: len(values) for name, values in headers.items()},
        naming_us=_naming(headers, [at], ())
        if at
        else _naming(headers, evidence.envelope_to, our_addresses),
        begins=at is None
        and not any(address_domain(one) in _domains_of(tuple(our_addresses)) for one in referred),
        multipart=first(headers, "content-type").lower().startswith("multipart/"),
        sent_at=parse_date(first(headers, "date")),
        received_at=evidence.received_at,
    )


def _naming(
    headers: Headers, delivered_to: Collection[str], our_addresses: Collection[str]
) -> frozenset[str]:
    """Return which of the fields To and Cc name an address to which the mail was delivered, or one of our
    domains."""
    domains = _domains_of(tuple(our_addresses))
    return frozenset(
        field
        for field in ("to", "cc")
        for value in headers.get(field, ())
        for one in parse_addresses(value)
        if one.address in delivered_to or address_domain(one.address) in domains
    )


@lru_cache(maxsize=16)  # the addresses are settings
def _domains_of(addresses: tuple[str, ...]) -> frozenset[str]:
    return frozenset(filter(None, map(address_domain, addresses)))


# --- organisational domain ------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    # With private suffixes such as github.io and blogspot.com, whose customers are strangers to each other.
    return PublicSuffixList()


def organisational_domain(domain: str) -> str | None:
    """Return the registrable domain of a host name in A-label form; None for a public suffix."""
    return _suffixes().privatesuffix(domain)


@lru_cache(maxsize=1)
def _registries() -> PublicSuffixList:
    return PublicSuffixList(only_icann=True)


def registered_domain(domain: str) -> str | None:
    """Return the domain that a registry sold; None for a public suffix. Unlike `organisational_domain`, it
    treats all of `duckdns.org` or `github.io`, where names are free, as one domain."""
    return _registries().privatesuffix(domain)
