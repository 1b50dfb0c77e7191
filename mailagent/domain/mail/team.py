"""What a team member's mail in a case means: words for the customer, back to the agent, or neither.

Pure. Whatever is in doubt is held: what goes to a customer cannot be called back.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum

# What a team member writes, and nothing but a greeting below it, to give a conversation back.
BACK_TO_AGENT = frozenset({"agent", "@agent", "back to the agent", "back to agent"})
GREETING_MAX_LINES = 6
GREETING_MAX_WORDS = 6  # in one line: what is longer is a sentence
GREETING_MAX_LENGTH = 60  # of one line, for languages without spaces
SUBJECT_MIN_LENGTH = 8  # of the shorter one: mail programs cut subjects, and people add to them

# What mail programs put before the subject of an answer or a forwarded mail, and gateways as a tag.
_PREFIX = re.compile(
    r"(?:(?:re|ref|aw|antw|antwort|sv|vs|odp|rif|r|rép|tr|rv|res|enc|ynt|atb|fw|fwd|wg|回复|答复|转发|返信)"
    r"[ \u00a0]?(?:\[\d{1,3}\]|\(\d{1,3}\))?[ \u00a0]?[:：]|\[[^\[\]]{1,30}\])\s*"
)


class TeamWords(StrEnum):
    """What becomes of a team member's mail. Those that are held say why."""

    FOR_CUSTOMER = "for the customer"
    FOR_AGENT = "gave it back to the agent"
    HELD_AGENT = "held: gives it back to the agent, but says more"
    HELD_SUBJECT = "held: its subject is not the subject of the case"

    @property
    def held(self) -> bool:
        return self in (TeamWords.HELD_AGENT, TeamWords.HELD_SUBJECT)


def decide_team_words(text: str, subject: str, case_subjects: Collection[str]) -> TeamWords:
    """Decide what a team member's mail means.

    `text` is what they newly wrote, `case_subjects` are those of the conversation and of our mails
    to the team about it. An automatic answer that says so nowhere has a subject of its own.
    """
    first, *below = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if first.strip(" .!*").lower() in BACK_TO_AGENT:
        return TeamWords.FOR_AGENT if _is_greeting(below) else TeamWords.HELD_AGENT
    if not any(_goes_on(_bare(subject), _bare(one)) for one in case_subjects):
        return TeamWords.HELD_SUBJECT
    return TeamWords.FOR_CUSTOMER


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
