"""Who wrote a mail: the From address judged by SPF and DKIM alignment (RFC 7489).

Pure. Parsing headers and the public suffix list belong to the adapters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from mailagent.domain.mail.message import Identity

ADDRESS_MAX_LENGTH = 320  # RFC 3696 erratum 1690 says 254; old systems allow 64 + 1 + 255

# The last label may not be a number: an IP address has no organisation.
_HOST = re.compile(r"(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)*(?!-|\d+\Z)[a-z0-9_-]{1,63}(?<!-)")
_LOCAL_PART = re.compile(r'[^\s@<>()\[\]\\,;:"\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]+')
# SendGrid's own notation, not JSON: `{@a.example : pass}`, several with commas, or several braces.
_DKIM_ENTRY = re.compile(r"@([a-z0-9._-]{1,253})\s*:\s*([a-z]{1,20})")
_DKIM_GROUP = re.compile(r"\{([^{}]*)\}")
_DKIM_FIELD_MAX_LENGTH = 4_000
# BATV: a server signs the return path of its own mail (draft-levine-smtp-batv).
_BATV_TAG = re.compile(r"prvs=[^=@]{1,20}=")
# IDNA 2003 turns these into other letters; IDNA 2008, which registries use, keeps them apart.
_IDNA_DEVIATIONS = re.compile("[ß\u03c2\u200c\u200d]")


def decide_identity(
    from_addresses: Sequence[str],
    envelope_from: str | None,
    spf: str,
    dkim_field: str,
    organisational_domain: Callable[[str], str | None],
) -> Identity:
    """Decide whether the From address was proven, DMARC-like with relaxed alignment.

    `from_addresses` are all addresses of all From fields: more than one proves nothing. `spf` is the result
    for `envelope_from`; `dkim_field` is SendGrid's list of the domains that signed. Neither proves From
    without alignment (RFC 7489 section 3.1). `covers_what_is_used` checks which fields a signature covers.
    `organisational_domain` returns the registrable domain, or None for a public suffix. A value that we
    cannot read counts as not passed.

    For SPF the local part must be the author's, too: a forwarder puts an address of its own domain into
    the envelope, so that SPF passes for everybody with a mailbox there.
    """
    if len(from_addresses) != 1:
        return Identity.NONE
    author = address_domain(from_addresses[0])
    if author is None:
        return Identity.NONE

    def aligned(domain: str | None) -> bool:
        return domain is not None and is_aligned(author, domain, organisational_domain)

    if any(result == "pass" and aligned(domain) for domain, result in parse_dkim(dkim_field)):
        return Identity.DKIM
    sender = envelope_from or ""
    is_same = _local_part(sender) == _local_part(from_addresses[0])
    if spf.strip().lower() == "pass" and is_same and aligned(address_domain(sender)):
        return Identity.SPF
    return Identity.NONE


def _local_part(address: str) -> str:
    local = _ascii_lower(address.strip().rpartition("@")[0])
    return _BATV_TAG.sub("", local, count=1) if local.startswith("prvs=") else local


def is_aligned(
    author: str, domain: str, organisational_domain: Callable[[str], str | None]
) -> bool:
    """Return whether `domain`, which signed or sent the mail, is aligned with `author`, the domain of From:
    the same organisational domain is enough (relaxed alignment, RFC 7489 section 3.1)."""
    if author == domain:
        return True
    organisation = organisational_domain(author)
    return organisation is not None and organisation == organisational_domain(domain)


def parse_dkim(field: str) -> tuple[tuple[str, str], ...]:
    """Return the (domain, result) pairs of SendGrid's `dkim` field.

    Return no pair at all if one entry does not fit: a half-understood field proves nothing.
    """
    text = field.strip().lower()
    if len(text) > _DKIM_FIELD_MAX_LENGTH or _DKIM_GROUP.sub("", text).strip(", \t\r\n"):
        return ()
    entries: list[tuple[str, str]] = []
    for group in _DKIM_GROUP.findall(text):
        for word in group.split(","):
            match = _DKIM_ENTRY.fullmatch(word.strip())
            domain = ascii_domain(match[1]) if match else None
            if match is None or domain is None:
                return ()
            entries.append((domain, match[2]))
    return tuple(entries)


def ascii_domain(domain: str) -> str | None:
    """Return a host name in lower-case A-label form (RFC 5890), or None if it is none.

    Look-alikes in other scripts thereby become visibly different `xn--` names.
    """
    return _ascii_domain(domain) if len(domain) <= 253 else None


# One mail asks for the same few names many times, and most mails come from a few providers.
@lru_cache(maxsize=1_000)
def _ascii_domain(domain: str) -> str | None:
    labels = re.split("[.\u3002\uff0e\uff61]", domain.removesuffix("."))
    if not all(labels):
        return None
    try:
        host = ".".join(_ascii_label(label) for label in labels)
    except UnicodeError:
        return None
    return host if len(host) <= 253 and _HOST.fullmatch(host) else None


def _ascii_label(label: str) -> str:
    if label.isascii():
        return label.lower()
    if len(label) > 63:
        raise UnicodeError("label too long")
    if _IDNA_DEVIATIONS.search(label):
        return "xn--" + label.lower().encode("punycode").decode("ascii")
    return label.encode("idna").decode("ascii").lower()


def normalise_address(address: str) -> str | None:
    """Return an address in the form that we compare and store, or None if the text is no address.

    The local part is lower-cased in ASCII only: Unicode rules would turn the Kelvin sign into `k`
    and so one person's address into another's.
    """
    local, at, domain = address.strip().rpartition("@")
    host = ascii_domain(domain)
    if not at or host is None or not _LOCAL_PART.fullmatch(local):
        return None
    if len(local) + 1 + len(host) > ADDRESS_MAX_LENGTH:
        return None
    return f"{_ascii_lower(local)}@{host}"


def address_domain(address: str) -> str | None:
    """Return the domain of an address in A-label form, or None."""
    return ascii_domain(address.strip().rpartition("@")[2]) if "@" in address else None


def _ascii_lower(text: str) -> str:
    if text.isascii():
        return text.lower()
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


# --- dkim -----------------------------------------------------------------------------------------


# Mail servers give up after five days (RFC 5321 section 4.5.4.1), and SendGrid may retry its webhook for some
# days more. A mail that arrives later was replayed.
NEW_MAIL_DAYS = 7
CLOCK_ERROR = timedelta(days=1)  # wrong clocks, and a Date without its zone

# How old a mail may be if its signature does not cover the recipient.
JUST_WRITTEN_MINUTES = 60
_SERVER_CLOCK_ERROR = timedelta(minutes=5)

_VALUE_MAX_LENGTH = 20_000
_TEXT = re.compile(r"[\t\x20-\x7e]*")
_TAG_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_SECONDS = re.compile(r"[0-9]{1,11}")
_REQUIRED = {"v", "a", "b", "bh", "d", "h", "s"}
_BLANKS = " \t"


@dataclass(frozen=True, slots=True)
class Signature:
    """A DKIM-Signature field. `fields`: the names that it signs, in lower case, with repetitions.

    `whole_body` is false with a length (`l=`), which leaves out the end of the text.
    """

    domain: str
    fields: tuple[str, ...]
    whole_body: bool
    signed_at: datetime | None
    expires_at: datetime | None

    def covers(self, name: str, count: int) -> bool:
        """Return whether the signature signs all `count` occurrences of a header field.

        If `count` is 0, it must still name the field once, or anyone could add the field later. Each time
        it names a field, it signs one more occurrence, from the bottom up (RFC 6376 section 5.4.2).
        """
        return self.fields.count(name) >= max(1, count)


@dataclass(frozen=True, slots=True)
class SignedMail:
    """The facts of a mail that its signatures must cover. `counts`: how many header fields of each name it has.

    `naming_us`: which of `to` and `cc` name the address that it was delivered to, or one of ours. `begins`: it
    begins a conversation; it was not sent to a reply address and refers to no mail of ours. `multipart`: its
    text does not depend on a Content-Transfer-Encoding in the header.
    """

    counts: Mapping[str, int]
    naming_us: Collection[str]
    begins: bool
    multipart: bool
    sent_at: datetime | None
    received_at: datetime


def parse_signature(value: str) -> Signature | None:
    """Return the signature in the value of a DKIM-Signature field, unfolded; None if it is not valid (RFC 6376
    section 3.2).

    An odd character or a repeated tag makes it invalid, because a verifier may read it in another way.
    """
    tags = _parse_tags(value)
    if tags is None or tags["v"] != "1":
        return None
    domain = ascii_domain(tags["d"])
    if domain is None or domain != tags["d"].lower():
        return None
    # Large providers fold it where RFC 6376 has no white space.
    agent = "".join(tags.get("i", domain).split()).rpartition("@")[2].lower()
    if agent != domain and not agent.endswith(f".{domain}"):
        return None
    times = [tags[name] for name in ("t", "x") if name in tags]
    if not all(_SECONDS.fullmatch(time) for time in times):
        return None
    return Signature(
        domain=domain,
        fields=tuple(name.strip(_BLANKS).lower() for name in tags["h"].split(":")),
        whole_body="l" not in tags,
        signed_at=_time(tags.get("t")),
        expires_at=_time(tags.get("x")),
    )


def _parse_tags(value: str) -> dict[str, str] | None:
    if len(value) > _VALUE_MAX_LENGTH or not _TEXT.fullmatch(value):
        return None
    tags: dict[str, str] = {}
    for tag in value.rstrip(_BLANKS).removesuffix(";").split(";"):
        name, equals, text = tag.partition("=")
        name = name.strip(_BLANKS)
        if not equals or not _TAG_NAME.fullmatch(name) or name in tags:
            return None
        tags[name] = text.strip(_BLANKS)
    return tags if tags.keys() >= _REQUIRED else None


def _time(seconds: str | None) -> datetime | None:
    if seconds is None:
        return None
    # Eleven digits reach the year 5138.
    return datetime.fromtimestamp(int(seconds), UTC)


def covers_what_is_used(signature: Signature, mail: SignedMail) -> bool:
    """Return whether a signature covers everything of the mail that we show or use.

    Anyone can change in an old mail what its signature does not cover. If the signature covers no recipient,
    the mail must meet the other conditions of docs/decisions/0008. It need not cover the Message-ID: see
    `covers_message_id`.
    """

    def covers(*names: str) -> bool:
        return all(signature.covers(name, mail.counts.get(name, 0)) for name in names)

    shown = ("from", "date", *({"subject"} & mail.counts.keys()))
    if not signature.whole_body or not covers(*shown):
        return False
    if any(covers(name) for name in mail.naming_us):
        return True
    names_nobody = not {"to", "cc"} & set(signature.fields)
    same_text = covers("content-type") and (mail.multipart or covers("content-transfer-encoding"))
    return (
        names_nobody
        and bool(mail.naming_us)
        and covers_message_id(signature, mail)
        and same_text
        and mail.begins
        and _is_just_written(mail)
    )


def covers_message_id(signature: Signature, mail: SignedMail) -> bool:
    """Return whether a signature covers the Message-ID. If not, we recognise a repeated mail by its author and
    Date, which are signed."""
    return signature.covers("message-id", mail.counts.get("message-id", 0))


def is_of_now(signatures: Sequence[Signature], mail: SignedMail) -> bool:
    """Return whether a mail is new, by its Date and by the times in its signatures: it took at most
    NEW_MAIL_DAYS to arrive. An older one was replayed."""
    oldest = mail.received_at - timedelta(days=NEW_MAIL_DAYS)
    return (
        mail.sent_at is not None
        and is_new(mail.sent_at, mail.received_at)
        and all(one.signed_at is None or one.signed_at >= oldest for one in signatures)
        and all(one.expires_at is None or one.expires_at >= mail.received_at for one in signatures)
    )


def is_new(sent_at: datetime, received_at: datetime) -> bool:
    """Return whether a Date is at most NEW_MAIL_DAYS before the time of reception, and at most CLOCK_ERROR
    after it."""
    return -timedelta(days=NEW_MAIL_DAYS) <= sent_at - received_at <= CLOCK_ERROR


def _is_just_written(mail: SignedMail) -> bool:
    if mail.sent_at is None:
        return False
    age = mail.received_at - mail.sent_at
    return -_SERVER_CLOCK_ERROR <= age <= timedelta(minutes=JUST_WRITTEN_MINUTES)
