"""What a DKIM signature proves of a mail (RFC 6376): which fields it covers, and when that is enough.

Pure. Whether a signature is sound is for the server that received the mail to say; finding header fields is
for the adapters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mailagent.domain.mail.sender import ascii_domain

# Mail servers give up after five days (RFC 5321 section 4.5.4.1), and SendGrid may post a mail again
# for some of them. Only a mail that is sent again arrives later.
NEW_MAIL_DAYS = 7
CLOCK_ERROR = timedelta(days=1)  # wrong clocks, and a Date without its zone

# How old a mail may be whose signature does not say to whom it was written.
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
        """Return whether it signs a field of which the mail has `count`.

        Also where the mail has none: else it can be taken out of an old mail or put in. It signs the
        lowest of several, one for each time it names the field (section 5.4.2).
        """
        return self.fields.count(name) >= max(1, count)


@dataclass(frozen=True, slots=True)
class SignedMail:
    """What signatures are held against. `counts`: how many fields of each name the mail has.

    `naming_us`: which of `to` and `cc` name the address that it was delivered to, or us. `begins`: it
    was delivered to no reply address, and refers to no mail of ours. `multipart`: its text does not
    depend on a Content-Transfer-Encoding in the header.
    """

    counts: Mapping[str, int]
    naming_us: Collection[str]
    begins: bool
    multipart: bool
    sent_at: datetime | None
    received_at: datetime


def parse_signature(value: str) -> Signature | None:
    """Return the signature of a DKIM-Signature field on one line, or None if it is none (section 3.2).

    One odd character, or a tag that stands twice, makes it none: a verifier may read something else.
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
    """Return whether a signature covers all that is shown of a mail or used, or what stands in for it.

    What it leaves out, anybody can change in an old mail. docs/decisions/0053 says what stands in for
    a recipient that is not signed. A Message-ID may be left out: see `covers_message_id`.
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
    """Return whether a signature covers the Message-ID. If not, a mail is told from another by its author
    and Date, which are signed."""
    return signature.covers("message-id", mail.counts.get("message-id", 0))


def is_of_now(signatures: Sequence[Signature], mail: SignedMail) -> bool:
    """Return whether a mail, by its Date and by the times in its signatures, was written just now or
    was under way for no longer than servers try."""
    oldest = mail.received_at - timedelta(days=NEW_MAIL_DAYS)
    return (
        mail.sent_at is not None
        and is_new(mail.sent_at, mail.received_at)
        and all(one.signed_at is None or one.signed_at >= oldest for one in signatures)
        and all(one.expires_at is None or one.expires_at >= mail.received_at for one in signatures)
    )


def is_new(sent_at: datetime, received_at: datetime) -> bool:
    """Return whether a Date is near enough to the time of reception for a mail just written."""
    return -timedelta(days=NEW_MAIL_DAYS) <= sent_at - received_at <= CLOCK_ERROR


def _is_just_written(mail: SignedMail) -> bool:
    if mail.sent_at is None:
        return False
    age = mail.received_at - mail.sent_at
    return -_SERVER_CLOCK_ERROR <= age <= timedelta(minutes=JUST_WRITTEN_MINUTES)
