"""Judges by the story what became of each mail: taken, stored once, and answered once, to whom it is due.
Pure."""

from __future__ import annotations

from collections import Counter

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import MailStatus, Purpose
from mailagent.store.mail.assignments import PEOPLE_ANSWER
from tests.programs.soak.evidence import Evidence, InboundMail
from tests.programs.soak.story import Damage, Found, Kind, Written

_OVERDUE = HandOverReason.LEFT_UNANSWERED.value
_ANSWERS = (Purpose.REPLY, Purpose.TEAM_REPLY)


def taken(seen: Evidence) -> Found:
    """Every mail that somebody wrote was thanked for."""
    story = seen.story
    if not story.written:
        yield Damage.LOST, "nobody wrote a mail"
    for mail in story.written:
        name = f"{mail.kind} {mail.message_id}"
        if mail.message_id in story.refused:
            status = story.refused[mail.message_id]
            yield Damage.LOST, f"{name} was answered {status}; SendGrid throws it away"
        elif mail.message_id not in story.accepted:
            yield Damage.LOST, f"{name} was never accepted"


def stored(seen: Evidence) -> Found:
    """What was thanked for is there once, and nothing else is."""
    rows = Counter(mail.message_id for mail in seen.inbound)
    written = {mail.message_id for mail in seen.story.written}
    for message_id in sorted(seen.story.accepted - rows.keys()):
        yield Damage.LOST, f"mail {message_id} was thanked for and is not stored"
    for message_id, count in rows.items():
        if count > 1:
            yield Damage.DOUBLED, f"mail {message_id} is stored {count} times"
        if message_id not in written:
            yield Damage.UNEXPLAINED, f"mail {message_id} is stored and nobody wrote it"


def answered(seen: Evidence) -> Found:
    """Each mail has one answer to the one it is due to, or was left to people who were told."""
    rows = {row.message_id: row for row in seen.inbound}
    for mail in seen.story.written:
        row = rows.get(mail.message_id)
        if row is None:
            continue  # `stored` says so
        if row.status == MailStatus.ANSWERED:
            yield from _answer_of(seen, mail, row)
        elif row.status != MailStatus.NO_ANSWER:
            yield Damage.LOST, f"{mail.kind} {row.mail_id} is {row.status}"
        elif row.reason not in _reasons_of(mail.kind):
            yield Damage.UNEXPLAINED, f"{mail.kind} {row.mail_id} has no answer: {row.reason}"
        elif not seen.team_has(row.conversation_id):
            yield Damage.LOST, f"{mail.kind} {row.mail_id} was left to people whom nobody told"
        if mail.kind is Kind.HAND_OVER and not seen.team_has(row.conversation_id):
            yield Damage.LOST, f"{mail.kind} {row.mail_id} was not handed over to the team"


def _answer_of(seen: Evidence, mail: Written, row: InboundMail) -> Found:
    answer = next((each for each in seen.ours if each.outbound_id == row.answered_by), None)
    due = Purpose.TEAM_REPLY if mail.kind is Kind.TEAM_REPLY else Purpose.REPLY
    if answer is None:
        yield Damage.LOST, f"the answer of mail {row.mail_id} does not exist"
    elif answer.purpose != due:
        yield Damage.UNEXPLAINED, f"{mail.kind} {row.mail_id} is answered by a {answer.purpose}"
    elif answer.to != mail.reader:
        yield Damage.UNEXPLAINED, f"the answer to {mail.reader} went to {answer.to}"


def _reasons_of(kind: Kind) -> tuple[str, ...]:
    """Return why a mail of this kind may stay without an answer of ours."""
    if kind is Kind.TEAM_REPLY:
        return ()
    return (_OVERDUE, PEOPLE_ANSWER) if kind is Kind.NEVER_MIND else (_OVERDUE,)


def addressed(seen: Evidence) -> Found:
    """Each answer answers a mail, and whatever left went to its reader and to nobody else."""
    answers = {row.answered_by for row in seen.inbound}
    customers = frozenset(mail.reader for mail in seen.story.written)
    readers = {
        Purpose.APPROVAL_REQUEST: seen.managers,
        Purpose.HAND_OVER: seen.team,
        Purpose.NOTICE: seen.team | seen.managers,
    }
    to_address = {mail.outbound_id: mail.to for mail in seen.ours}
    for mail in seen.ours:
        if mail.purpose in _ANSWERS and mail.outbound_id not in answers:
            yield Damage.DOUBLED, f"{mail.purpose} {mail.outbound_id} answers no mail"
        if mail.to not in readers.get(Purpose(mail.purpose), customers):
            yield Damage.UNEXPLAINED, f"{mail.purpose} {mail.outbound_id} is for {mail.to}"
    for each in seen.arrived:
        if each.to != to_address.get(each.outbound_id, each.to):
            yield Damage.UNEXPLAINED, f"{each.outbound_id} was sent to {each.to}"
