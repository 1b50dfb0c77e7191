"""What a manager's or a team member's mail asks for: a decision, a note, a command.

Only unmistakable words count. Pure; whether the sender may do it is checked elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailagent.domain.mail.message import (
    INLINE_MIN_BYTES,
    PHOTO_MIN_BYTES,
    Attachment,
    is_photo,
    is_picture,
)
from mailagent.domain.text import without_controls

NOTE_MAX_LENGTH = 2000

_APPROVE = frozenset(
    {
        *("approve", "approved", "i approve"),
        *("genehmigt", "ich genehmige", "freigegeben"),
        *("approuvé", "j'approuve"),
        *("aprobado", "apruebo"),
    }
)
_REJECT = frozenset(
    {
        *("reject", "rejected", "i reject", "decline", "declined"),
        *("abgelehnt", "ich lehne ab"),
        *("refusé", "je refuse", "rejeté"),
        *("rechazado", "rechazo"),
    }
)
_OFFER = re.compile(
    r"(?:offer|i offer|angebot|ich biete|offre|j'offre|oferta|ofrezco) (\d{1,2}) ?(?:%|percent)?"
)
# A manager writes this line below the decision. The note that follows it goes to the customer.
FOR_CUSTOMER = frozenset(
    {
        *("for the customer", "to the customer"),
        *("für den kunden", "für die kundin", "an den kunden", "an die kundin"),
        *("pour le client", "pour la cliente", "au client", "à la cliente"),
        *("para el cliente", "para la clienta", "al cliente", "a la clienta"),
    }
)
# Characters around a word that change nothing. A question mark is not among them: it makes a question.
_AROUND = " \t\u00a0.!,;:*_\"“”„'«»"


@dataclass(frozen=True, slots=True)
class ManagersReply:
    """A manager's answer to an approval request. `approves`: None if it decides nothing. `note`: the other
    text. `note_shared`: the note goes to the customer. `blocked`: no answer by mail can decide on this request.
    `offer_percent`: offer the customer this part of the price instead; then `approves` is False."""

    approves: bool | None
    note: str | None
    note_shared: bool = False
    blocked: bool = False
    offer_percent: int | None = None


def read_reply(new_text: str, our_text: str) -> ManagersReply:
    """Parse a manager's answer. `new_text` is its text without quotations.

    The first line decides if it is only one of the known words. The rest is a note for us, or for the customer
    if it begins with a line "For the customer:". `our_text` is the approval request. If a line of it reads like
    a decision, perhaps in the customer's words, no answer decides: the line may be left from a quotation.
    """
    text = without_controls(new_text).strip()
    first, _, below = text.partition("\n")
    blocked = holds_word(our_text)
    approves = None if blocked else _read_line(first)
    note = (text if approves is None else below).strip()
    head, _, rest = note.partition("\n")
    shared = approves is not None and _plain(head) in FOR_CUSTOMER
    note = (rest if shared else note).strip()[:NOTE_MAX_LENGTH].strip()
    offered = _OFFER.fullmatch(_plain(first)) if approves is False else None
    percent = int(offered[1]) if offered else None
    return ManagersReply(approves, note or None, shared and bool(note), blocked, percent)


def holds_word(our_text: str) -> bool:
    """Return whether a line of an approval request reads like a decision; a customer may have written it."""
    return any(_read_line(line.lstrip("> ")) is not None for line in our_text.splitlines())


def _read_line(line: str) -> bool | None:
    words = _plain(line)
    if words in _APPROVE:
        return True
    return False if words in _REJECT or _OFFER.fullmatch(words) else None


def _plain(line: str) -> str:
    return " ".join(line.replace("’", "'").strip(_AROUND).split()).casefold()


# --- team -----------------------------------------------------------------------------------------


# A team member writes this line, with only a greeting below it, to give a conversation back to the agent.
BACK_TO_AGENT = frozenset({"agent", "@agent", "back to the agent", "back to agent"})
GREETING_MAX_LINES = 6
GREETING_MAX_WORDS = 6  # in one line: a longer line is a sentence
GREETING_MAX_LENGTH = 60  # of one line, for languages without spaces
SUBJECT_MIN_LENGTH = 8  # characters that must agree: programs cut subjects, people add to them

# Files that mail programs add by themselves: signatures, keys, visiting cards.
_ADDED_TYPES = frozenset(
    {
        *("application/pkcs7-signature", "application/x-pkcs7-signature"),
        *("application/pgp-signature", "application/pgp-keys"),
        *("text/vcard", "text/x-vcard", "text/directory"),
    }
)
# Exchange puts the text below a file, such as a disclaimer, into a file of its own.
_ADDED_NAME = re.compile(r"att\d+\.(?:txt|html?)", re.IGNORECASE)
# Outlook's winmail.dat: the format of the text. If it is larger, files may be in it.
_FORMATS = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})

# What mail programs put before the subject of an answer or a forwarded mail, and the tags of mail gateways.
_PREFIX = re.compile(
    r"(?:(?:re|ref|aw|antw|antwort|sv|vs|odp|rif|r|rép|tr|rv|res|enc|ynt|atb|fw|fwd|wg|回复|答复|转发|返信)"
    r"[ \u00a0]?(?:\[\d{1,3}\]|\(\d{1,3}\))?[ \u00a0]?[:：]|\[[^\[\]]{1,30}\])\s*"
)

# What programs write into plain text in place of a picture: Outlook `[cid:…]`, Gmail `[image: …]`.
_PICTURE = re.compile(r"\[(?:cid|image):[^\[\]\n]{1,300}\]", re.IGNORECASE)
_ENDS = (".", "?", "!", ":")  # of a sentence
_CONTACT = re.compile(r"\d{3}|@|www\.")  # in a signature, a line without an end may be long


class TeamCommand(StrEnum):
    """What a team member's mail does. A held mail goes nowhere until a person looks at it."""

    FOR_CUSTOMER = "for the customer"
    FOR_AGENT = "gave it back to the agent"
    HELD_FILES = "held: it has files, which do not go with an answer by mail"
    HELD_EMPTY = "held: it has no new text apart from what it quotes or forwards"
    HELD_AGENT = "held: gives it back to the agent, but says more"
    HELD_INSIDE = "held: it has words inside of what it quotes, or in place of a signature"
    HELD_SUBJECT = "held: its subject is not the subject of the case"


def decide_team_command(
    text: str,
    subject: str,
    case_subjects: Collection[str],
    files: Sequence[Attachment] = (),
    may_lose_words: bool = False,
    body: str = "",
    of_signature: Collection[Attachment] = (),
) -> TeamCommand:
    """Decide what a team member's mail does.

    `text` is the mail without quotations, empty if nothing in it is new. `case_subjects` are the subjects of
    the conversation and of our mails to the team about it. A mail with another subject is held: it may be an
    automatic answer without a mark. So is one with files, or a picture among its sentences: without them, its
    words may be wrong.
    `may_lose_words`: `text` may lack some that are meant for the customer. `body`: the mail with its signature,
    where a mark for a picture may stand. `of_signature`: those of the files that are probably of the sender's
    signature.
    """
    first, *below = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if first.strip(" .!*").lower() in BACK_TO_AGENT:
        return TeamCommand.FOR_AGENT if _is_greeting(below) else TeamCommand.HELD_AGENT
    if not any(_goes_on(_bare(subject), _bare(one)) for one in case_subjects):
        return TeamCommand.HELD_SUBJECT
    if any(map(is_sent_on_purpose, files)) or _shows_picture(text, body, files, of_signature):
        return TeamCommand.HELD_FILES
    if first and may_lose_words:
        return TeamCommand.HELD_INSIDE
    return TeamCommand.FOR_CUSTOMER if first else TeamCommand.HELD_EMPTY


def is_sent_on_purpose(file: Attachment) -> bool:
    """Return whether a file is more than what a mail program adds, or a picture of a signature."""
    if file.content_type in _ADDED_TYPES or _ADDED_NAME.fullmatch(file.name):
        return False
    if not is_picture(file) and file.content_type not in _FORMATS:
        return True
    return file.size_bytes >= (INLINE_MIN_BYTES if file.is_inline else PHOTO_MIN_BYTES)


def _shows_picture(
    text: str, body: str, files: Sequence[Attachment], of_signature: Collection[Attachment]
) -> bool:
    """Return whether a picture may be part of what a mail says: it is right below a sentence, or
    above all, or the mail has no mark for it. The logo of a signature is different: at least a name
    stands between it and the last sentence. So a picture that is probably of a signature counts
    only right below the end of a sentence."""
    shown = [file for file in files if is_photo(file) and file.is_inline]
    if not shown:
        return False
    is_logo = all(file in of_signature for file in shown)
    for mark in _PICTURE.finditer(text):
        above, below = (
            [line.strip() for line in _PICTURE.sub("", part).splitlines() if line.strip()]
            for part in (text[: mark.start()], text[mark.end() :])
        )
        if not above or (_tells(above[-1]) and (not is_logo or above[-1].endswith(_ENDS))):
            return True
        if not is_logo and any(map(_tells, below)) > any(map(_tells, above)):
            return True
    return not is_logo and not _PICTURE.search(f"{text}\n{body}")


def _tells(line: str) -> bool:
    ends = line.endswith(_ENDS)
    return line.endswith(":") or (_is_sentence(line) and (ends or not _CONTACT.search(line)))


def _is_greeting(lines: list[str]) -> bool:
    return len(lines) <= GREETING_MAX_LINES and not any(map(_is_sentence, lines))


def _is_sentence(line: str) -> bool:
    words = len(line.split())
    long = words > GREETING_MAX_WORDS or len(line) > GREETING_MAX_LENGTH
    return long or "?" in line or (line.endswith((".", "!", ":")) and words > 2)


def _bare(subject: str) -> str:
    bare = " ".join(subject.split()).casefold()
    while match := _PREFIX.match(bare):
        bare = bare[match.end() :]
    return bare


def _goes_on(subject: str, case: str) -> bool:
    shorter, longer = sorted((subject, case), key=len)
    return shorter == longer or (len(shorter) >= SUBJECT_MIN_LENGTH and longer.startswith(shorter))
