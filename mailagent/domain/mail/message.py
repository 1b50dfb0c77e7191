"""Mail as values: inbound, outbound, attachments, and the headers that tie them into threads."""

from __future__ import annotations

import hashlib
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from mailagent.domain.mail.delivery import Bounce
from mailagent.domain.mail.outgoing_file import OutgoingFile


class Identity(StrEnum):
    """How we know who wrote a mail."""

    DKIM = "dkim"  # a passing signature of the From address's own domain
    SPF = "spf"  # SPF passed for an envelope sender of the From address's own domain
    MAILBOX = "mailbox"  # answered a mail that only that mailbox got
    NONE = "none"

    @property
    def proven(self) -> bool:
        """Whether this sender may see order data and ask for refunds."""
        return self is not Identity.NONE


class MailKind(StrEnum):
    """What sort of mail came in; only CUSTOMER is answered.

    The parser does not know who writes: mail of the team and of managers is CUSTOMER, too, until it is found
    which thread or request it answers.
    """

    CUSTOMER = "customer"
    AUTO_REPLY = "auto_reply"
    BOUNCE = "bounce"
    COMPLAINT = "complaint"
    LIST = "list"
    NO_REPLY = "no_reply"
    OWN = "own"  # our own mail coming back
    TEAM = "team"  # the support team's answer, to be passed on to the customer
    MANAGER = "manager"  # a manager's answer to the question whether to refund
    TEST = "test"  # the mail of `flask check --send-test-mail`
    MALFORMED = "malformed"  # kept whole, could not be read as a mail


class MailStatus(StrEnum):
    UNANSWERED = "unanswered"
    ANSWERED = "answered"
    NO_ANSWER = "no_answer"  # never will be; the reason is on the row
    THROTTLED = "throttled"  # above a limit of mails: waits, and is let in later


class OutboundStatus(StrEnum):
    QUEUED = "queued"
    SENDING = "sending"  # written before the vendor is called: after a crash, look it up
    SENT = "sent"
    FAILED = "failed"  # not sent, and will not be: such as refused, suppressed or too old
    UNKNOWN = "unknown"  # it cannot be found out any more; a person was told
    UNDELIVERED = "undelivered"  # the vendor took it, its recipient did not get it

    @property
    def lost(self) -> bool:
        """Whether the mail was perhaps never read, so that a person must hear of it."""
        return self in (OutboundStatus.FAILED, OutboundStatus.UNKNOWN, OutboundStatus.UNDELIVERED)


class Purpose(StrEnum):
    """Why we wrote a mail."""

    REPLY = "reply"
    RECEIPT = "receipt"
    REFUND_OUTCOME = "refund_outcome"
    REMEDY = "remedy"
    APPROVAL_REQUEST = "approval_request"
    HAND_OVER = "hand_over"
    TEAM_REPLY = "team_reply"
    NOTICE = "notice"
    LOGIN = "login"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a mail; its bytes stay in the raw mail. `is_inline`: the mail's HTML shows it."""

    name: str
    content_type: str
    size_bytes: int
    is_inline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedMail:
    """One inbound mail, as far as we could read it. Unreadable bytes give a MALFORMED mail, not an exception.

    Message-IDs are without angle brackets. Trust only `envelope_to` as the recipient. `body` is all of the
    text; `new_text` leaves out quotations and signatures, and is empty if the mail shows no text at all (see
    `body_of_hidden`). `flags` are oddities for people to see, such as `hidden_text` or `several_from`.
    `identity_unsigned`: the identity without DKIM. `known_by_date`: only a signature that does not cover the
    Message-ID proves the mail, so that we recognise a repeated one by author and Date.
    """

    kind: MailKind
    kind_reason: str | None = None
    dedup_key: str
    from_address: str = ""
    from_name: str = ""
    envelope_from: str | None = None
    envelope_to: tuple[str, ...] = ()
    subject: str = ""
    message_id: str | None = None
    in_reply_to: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    sent_at: datetime | None = None
    body: str = ""
    new_text: str = ""
    identity: Identity = Identity.NONE
    attachments: tuple[Attachment, ...] = ()
    flags: tuple[str, ...] = ()
    bounce: Bounce | None = None
    identity_unsigned: Identity = Identity.NONE
    known_by_date: bool = False

    def without_signatures(self, why: str) -> ParsedMail:
        """Return this mail without DKIM as a proof of its sender, with `why` added to the flags."""
        return replace(self, identity=self.identity_unsigned, flags=(*self.flags, why))


@dataclass(frozen=True, slots=True)
class InboundMail:
    """A stored inbound mail."""

    mail_id: str
    conversation_id: str | None
    from_address: str
    from_name: str
    subject: str
    message_id: str | None
    references: tuple[str, ...]
    body: str
    new_text: str
    identity: Identity
    kind: MailKind
    status: MailStatus
    received_at: datetime
    attachments: tuple[Attachment, ...] = ()
    no_answer_reason: str | None = None
    answered_by: str | None = None
    draft_id: str | None = None  # of the draft that answers it once a person has sent it

    @property
    def awaits_agent(self) -> bool:
        """Whether the agent has to answer it: it is unanswered, and no draft of an answer waits."""
        return self.status is MailStatus.UNANSWERED and self.draft_id is None


@dataclass(frozen=True, slots=True)
class OutboundMail:
    """A mail of ours. It becomes a row before it is sent. Addresses have no display name, and Message-IDs no
    angle brackets. `files` are loaded only to send it."""

    outbound_id: str
    purpose: Purpose
    to_address: str
    from_address: str
    subject: str
    text: str
    html: str | None
    message_id: str
    reply_to: str | None = None
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()
    conversation_id: str | None = None
    refund_id: str | None = None
    auto_submitted: str = "auto-replied"
    sources: tuple[str, ...] = ()
    files: tuple[OutgoingFile, ...] = ()
    status: OutboundStatus = OutboundStatus.QUEUED
    attempts: int = 0
    created_at: datetime | None = None  # None until it is a row
    written_from: str | None = None  # JSON: the facts to write it again from, if it is sent late


@dataclass(frozen=True, slots=True)
class ThreadHeaders:
    """The headers by which mail programs show an answer in the customer's thread."""

    subject: str
    in_reply_to: str | None = None
    references: tuple[str, ...] = field(default=())


_REPLY_PREFIX = re.compile(r"re\s*(\[\d+\])?\s*:", re.IGNORECASE)


def answer_headers(mail: InboundMail) -> ThreadHeaders:
    """Return the thread headers of an answer to `mail`.

    RFC 5322 section 3.6.4: In-Reply-To is the parent's Message-ID; References are the parent's plus that id.
    Of a long chain, only the first and the last ten ids are kept. The subject does not change, except for
    "Re:", because Gmail threads only mails with the same subject.
    """
    subject = mail.subject or "Your message"
    if not _REPLY_PREFIX.match(subject):
        subject = f"Re: {subject}"
    if mail.message_id is None:
        return ThreadHeaders(subject)
    chain = (*(ref for ref in mail.references if ref != mail.message_id), mail.message_id)
    if len(chain) > 11:
        chain = (chain[0], *chain[-10:])
    return ThreadHeaders(subject, mail.message_id, chain)


class Door(StrEnum):
    """The kinds of our reply addresses. Each has a token of its own. Mail to the first three belongs to a
    conversation."""

    CASE = "case"  # the customer's answers
    CONFIRM = "confirm"  # an answer to it proves the mailbox
    TEAM = "team"  # the support team's answers
    APPROVAL = "approval"  # a manager's answer to the question whether to refund
    TEST = "test"  # our own test mail; its token is signed


# Six digits that are no part of a longer number, as people copy them: 482716, 482 716, 482-716.
_CODE = re.compile(r"(?<!\d)[0-9](?:[ \u00a0.-]?[0-9]){5}(?!\d)")
# How our mails (templates/mail) ask for the code in each language, also if a mail program quoted or wrapped it.
_ASKED = re.compile(
    r"(?:(?:answer|mail)[\W_]{1,9}(?:this[\W_]{1,9}mail[\W_]{1,9})?with[\W_]{1,9}the[\W_]{1,9}code"
    r"|mail[\W_]{1,9}mit[\W_]{1,9}dem[\W_]{1,9}code"
    r"|mail[\W_]{1,9}avec[\W_]{1,9}le[\W_]{1,9}code"
    r"|correo[\W_]{1,9}con[\W_]{1,9}el[\W_]{1,9}código"
    r"|mail[\W_]{1,9}con[\W_]{1,9}il[\W_]{1,9}codice"
    r"|mail[\W_]{1,9}met[\W_]{1,9}de[\W_]{1,9}code"
    r"|mail[\W_]{1,9}com[\W_]{1,9}o[\W_]{1,9}código"
    r"|podając[\W_]{1,9}kod)"
    r"[\W_]{1,9}[0-9]{6}(?![0-9])",
    re.IGNORECASE,
)
# A confirm mail names this many of a thread's unproven mails, the newest ones. No honest thread has more.
_NAMED_MAX = 5
_PLAIN_WORD = re.compile(r"[^\W\d_]{1,20}(?:['’-][^\W\d_]{1,20})?[,.;:!?]{0,3}")
_LEFT_OUT = "…"
_TOKEN_ADDRESS = re.compile(
    r"(case|confirm|team|approval|test)\+([a-z2-7]{16,32})@(.+)",
    re.IGNORECASE | re.ASCII,  # without ASCII, a long s (ſ) would be an s
)


@dataclass(frozen=True, slots=True)
class AddressedToken:
    """A token found in an envelope recipient."""

    door: Door
    token: str


def token_address(door: Door, token: str, reply_domain: str) -> str:
    """Return the reply address of a conversation, an approval request or a test mail."""
    return f"{door.value}+{token}@{reply_domain}"


def are_proven(mails: Sequence[InboundMail]) -> bool:
    """Return whether all senders of these mails are proven; False without mails."""
    return bool(mails) and all(mail.identity.proven for mail in mails)


def first_received_at(mails: Sequence[InboundMail], since: datetime | None) -> datetime | None:
    """Return when the first of these mails came since a time, else when the newest did; None without mails."""
    later = [mail.received_at for mail in mails if since is None or mail.received_at >= since]
    return min(later, default=max((mail.received_at for mail in mails), default=None))


HIDDEN_TEXT = "[This mail shows no text to its reader. What its HTML hides:]"


def body_of_hidden(text: str) -> str:
    """Return the body to store for a mail whose HTML hides all of its text. The model gets no `new_text`."""
    return f"{HIDDEN_TEXT}\n{text}"


def shows_nothing(body: str) -> bool:
    """Return whether a body is nothing but hidden text."""
    return body.startswith(HIDDEN_TEXT)


def confirm_code(token: str, mail_id: str, last_only: bool = False) -> str:
    """Return the six digits that the recipient of a confirm mail sends back to prove the mailbox.

    `token` is the conversation's confirm token; `mail_id` is the newest mail that the confirm mail answers.
    `last_only`: return the code that proves only that mail. The address alone proves nothing, because an
    automatic answer, or "that was not me", also goes there.
    """
    which = "last " if last_only else ""
    digest = hashlib.sha256(f"confirm {which}{token} {mail_id}".encode()).digest()
    return f"{int.from_bytes(digest[:8]) % 10**6:06}"


def holds_code(text: str, code: str) -> bool:
    """Return whether a text has the code of a confirm mail, in groups of digits or not.

    A code inside our own question does not count: ticket systems quote it in automatic answers.
    """
    plain = _ASKED.sub(" ", unicodedata.normalize("NFKC", text))
    return code in (re.sub(r"\D", "", found) for found in _CODE.findall(plain))


def find_confirmed(
    unproven: Sequence[InboundMail], text: str, token: str
) -> tuple[InboundMail, ...]:
    """Return the mails that a text proves by the code of a confirm mail; none without a code.

    `unproven`: the thread's answered mails of unproven senders, in the order of our answers. `token`: the
    conversation's confirm token.
    """
    for outbound_id in {mail.answered_by: None for mail in unproven}:
        told = [mail for mail in unproven if (mail.answered_by or "") <= (outbound_id or "")]
        last = told[-1]
        if holds_code(text, confirm_code(token, last.mail_id)):
            return named_to_confirm(told)
        if holds_code(text, confirm_code(token, last.mail_id, last_only=True)):
            return (last,)
    return ()


def named_to_confirm(unproven: Sequence[InboundMail]) -> tuple[InboundMail, ...]:
    """Return the mails that a confirm mail names. Its code proves these."""
    return tuple(unproven[-_NAMED_MAX:])


def first_words(text: str) -> str:
    """Return the first words of a mail, at most 60 characters, for the confirm mail to the address that it
    claims to come from; empty if no word can be shown. An ellipsis marks what is left out.

    Only words of letters are shown: a stranger must not make us mail a link, an address or a number.
    """
    words = " ".join(
        word if _PLAIN_WORD.fullmatch(word) else _LEFT_OUT for word in text[:500].split()
    )
    end = f" {_LEFT_OUT}"
    # Join the ellipses of several words in a row: they would use up the 60 characters.
    words = re.sub(f"{_LEFT_OUT}(?:{end})+", _LEFT_OUT, words)
    short = textwrap.shorten(words, 60, placeholder=end, break_on_hyphens=False)
    return "" if words == _LEFT_OUT else short.replace(2 * end, end)


def find_token(envelope_to: tuple[str, ...], reply_domain: str) -> AddressedToken | None:
    """Return the reply token that a mail was addressed to, or None.

    Tokens are base32 and are compared without case, because mail programs change the case of local parts.
    """
    for address in envelope_to:
        match = _TOKEN_ADDRESS.fullmatch(address.strip())
        if match and match[3].lower() == reply_domain.lower():
            return AddressedToken(Door(match[1].lower()), match[2].lower())
    return None


# --- photo ----------------------------------------------------------------------------------------


# Some mail programs send a picture as application/octet-stream; then we go by its name.
_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".heic", ".heif", ".gif", ".bmp", ".tif", ".tiff")

# Logos in signatures and tracking pixels are smaller than any photo.
PHOTO_MIN_BYTES = 10_000
# Logos and banners of signatures are smaller. Most photos and screenshots between lines of text are larger.
INLINE_MIN_BYTES = 100_000
PREVIEWS_OF_MAIL_MAX = 20


def is_photo(file: Attachment) -> bool:
    """Return whether a file may be a photo: a picture of at least PHOTO_MIN_BYTES that is not drawn."""
    is_drawn = _kind(file) == "image/svg+xml"
    return is_picture(file) and not is_drawn and file.size_bytes >= PHOTO_MIN_BYTES


def may_be_logo(file: Attachment) -> bool:
    """Return whether a photo may be the logo of a signature: the HTML shows it, and it is small.

    Customers paste photos into the text, too: Outlook and phones then make some smaller than INLINE_MIN_BYTES.
    With a lower limit, large banners would pass for photos; with a higher one, managers would be asked about
    more photos that are plain to see. So do not take such a picture for a photo, and do not say that none came.
    """
    return is_photo(file) and file.is_inline and file.size_bytes < INLINE_MIN_BYTES


def is_picture(file: Attachment) -> bool:
    """Return whether a file is a picture by its type or name."""
    is_named = _kind(file) in ("", "application/octet-stream")
    return _kind(file).startswith("image/") or (is_named and file.name.lower().endswith(_ENDINGS))


def _kind(file: Attachment) -> str:
    return file.content_type.partition(";")[0].strip().lower()
