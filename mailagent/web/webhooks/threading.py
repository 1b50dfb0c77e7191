"""Finds the conversation of an inbound mail, and decides whether the mail gets an answer.

We find a conversation by reply token, else by In-Reply-To and References, never by subject. Only its customer
can write into it, and only the team can answer in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.mime.dmarc import registered_domain
from mailagent.domain.mail.conversation import DAY, HOUR, Conversation
from mailagent.domain.mail.message import (
    AddressedToken,
    Door,
    Identity,
    MailKind,
    ParsedMail,
    find_confirmed,
    find_token,
)
from mailagent.domain.operations.access import Permission, permissions_of
from mailagent.domain.refunds.escalation import ApprovalRequest
from mailagent.domain.shop import rate_limit_key
from mailagent.store.mail import arrivals, conversations, inbound, throttled
from mailagent.store.refunds import approvals

NOT_PROVABLY_TEAM = "sent to the team's address of a case, but not provably by the team"
CAME_BEFORE = "came to another of our addresses, too"


@dataclass(frozen=True, slots=True)
class Place:
    """The conversation of a mail, and why it gets no answer. Without a `no_answer_reason`, a run is enqueued.

    `throttled`: the reason is temporary. `confirms`: the ids of the earlier mails that this mail proves by the
    code of a confirm mail.
    """

    mail: ParsedMail
    conversation: Conversation | None = None
    no_answer_reason: str | None = None
    throttled: bool = False
    confirms: tuple[str, ...] = ()

    @property
    def proves_mailbox(self) -> bool:
        return bool(self.confirms)

    @property
    def opens_new(self) -> bool:
        return self.conversation is None and self.mail.kind is MailKind.CUSTOMER

    @property
    def reopens(self) -> bool:
        return self.mail.kind is MailKind.CUSTOMER and self.no_answer_reason != CAME_BEFORE

    @property
    def conversation_id(self) -> str | None:
        return self.conversation.conversation_id if self.conversation else None

    def in_conversation(self, conversation: Conversation) -> Place:
        return replace(self, conversation=conversation)


def find_place(connection: sa.Connection, mail: ParsedMail, now: datetime) -> Place:
    """Return the place of a mail. Record nothing."""
    token = find_token(mail.envelope_to, services.current().shop.reply_domain)
    if token is not None and token.door is Door.APPROVAL:
        return _place_of_manager(mail)
    if token is not None and token.door is Door.TEST:
        if services.current().links.verify_test_mail(token.token):
            return Place(replace(mail, kind=MailKind.TEST, bounce=None), None, "our own test mail")
        token = None
    conversation = conversations.find_by_token(connection, token) if token else None
    if token is not None and token.door is Door.TEAM and mail.kind is MailKind.CUSTOMER:
        return _place_of_team(mail, conversation)
    own = conversation is not None and conversation.customer_email == mail.from_address
    if not own and find_request(connection, mail):
        return _place_of_manager(mail)
    if conversation is None:
        referred = (*mail.references, *mail.in_reply_to)
        conversation = conversations.find_by_message_ids(connection, referred, mail.from_address)
    if mail.kind is not MailKind.CUSTOMER:
        return Place(mail, conversation, mail.kind_reason or mail.kind.value)
    if conversation is not None and not _goes_on(conversation, mail, now):
        conversation = None
    place = Place(mail, conversation)
    if conversation is not None and token == AddressedToken(
        Door.CONFIRM, conversation.confirm_token
    ):
        place = replace(place, confirms=_find_confirmed(connection, conversation, mail))
    proven = mail.identity.proven or place.proves_mailbox
    why_throttled = _why_throttled(connection, mail, proven, now)
    with_people = place.conversation is not None and place.conversation.with_people
    if not why_throttled and not (proven or own or with_people):
        why_throttled = _why_unconfirmed(connection, mail, now)
    if why_throttled is None:
        return place
    return replace(place, no_answer_reason=why_throttled, throttled=True)


def find_place_locked(connection: sa.Connection, mail: ParsedMail, now: datetime) -> Place:
    """Return the place of a mail, with its conversation locked until the commit.

    If the customer was erased, or another mail with the code came, before we had the lock, search again.
    """
    place = find_place(connection, mail, now)
    found = place.conversation
    if found is None:
        return place
    now_there = conversations.lock(connection, found.conversation_id)
    if _tokens_of(now_there) == _tokens_of(found):
        return place
    return find_place(connection, mail, now)


def answer_once(connection: sa.Connection, place: Place, proven: bool) -> Place:
    """Give no answer to a mail that came to another of our addresses, too, so that it is in its locked
    conversation already. A mail that proves the mailbox is still needed, so its throttled copy gets no answer.

    `proven`: whether the mail, taken for itself, proves its sender. Then the earlier copy must be proven, too:
    a forger who knows a mail must not silence it. If this mail is let in and the copy, stored as proven no
    better, is throttled, the copy gets no answer instead.
    """
    found, mail = place.conversation, place.mail
    if found is None or mail.kind is not MailKind.CUSTOMER:
        return place
    copies = inbound.list_copies(connection, found.conversation_id, mail)
    closed: list[str] = []
    if place.no_answer_reason is None or place.proves_mailbox:
        stored_proven = mail.identity.proven or place.proves_mailbox
        no_better = [each.mail_id for each in copies if stored_proven or not each.identity.proven]
        closed = throttled.close(connection, no_better, CAME_BEFORE)
    left = [each for each in copies if each.mail_id not in closed]
    if place.proves_mailbox or not any(each.identity.proven or not proven for each in left):
        return place
    return replace(place, no_answer_reason=CAME_BEFORE, throttled=False)


def _tokens_of(conversation: Conversation) -> tuple[str, str]:
    return conversation.reply_token, conversation.confirm_token


def _find_confirmed(
    connection: sa.Connection, conversation: Conversation, mail: ParsedMail
) -> tuple[str, ...]:
    unproven = inbound.list_unproven(connection, conversation.conversation_id, mail.from_address)
    found = find_confirmed(unproven, mail.new_text, conversation.confirm_token)
    return tuple(each.mail_id for each in found)


def find_request(connection: sa.Connection, mail: ParsedMail) -> ApprovalRequest | None:
    """Return the approval request to which a manager's mail, proven by SPF or DKIM, replies, whatever address
    it was sent to. None for any other mail: managers may be customers, too.
    """
    if mail.from_address not in services.current().shop.manager_emails:
        return None
    if mail.identity not in (Identity.DKIM, Identity.SPF):
        return None
    referred = (*mail.references, *mail.in_reply_to)
    return approvals.find_request_by_message_ids(connection, referred, mail.from_address)


def _goes_on(conversation: Conversation, mail: ParsedMail, now: datetime) -> bool:
    """Return whether a mail continues a conversation: it is the customer's, and the last mail is not too
    old."""
    if mail.from_address != conversation.customer_email:
        return False
    old = timedelta(days=services.current().limits.old_thread_days)
    return conversation.last_mail_at is None or now - conversation.last_mail_at < old


def _place_of_manager(mail: ParsedMail) -> Place:
    """Keep a reply to an approval request out of all conversations; `approval_reply` handles it."""
    if mail.kind is not MailKind.CUSTOMER:
        return Place(mail, None, mail.kind_reason or mail.kind.value)
    return Place(replace(mail, kind=MailKind.MANAGER), None, "a manager's reply")


def _place_of_team(mail: ParsedMail, conversation: Conversation | None) -> Place:
    """Return the place of a mail to the team's reply address. It counts as the team's only from an address that
    may answer, with proof by SPF or DKIM."""
    may = permissions_of(mail.from_address, services.current().shop)
    from_team = Permission.ANSWER in may
    if conversation is None:
        return Place(replace(mail, kind=MailKind.TEAM), None, "no conversation has this address")
    if not from_team or mail.identity not in (Identity.DKIM, Identity.SPF):
        return Place(replace(mail, kind=MailKind.TEAM), conversation, NOT_PROVABLY_TEAM)
    return Place(replace(mail, kind=MailKind.TEAM), conversation)


def _why_throttled(
    connection: sa.Connection, mail: ParsedMail, proven: bool, now: datetime
) -> str | None:
    live = services.current()
    of_sender, in_all = live.limits.mails_of_sender_per_hour, live.limits.mails_per_hour
    which = "" if proven else " that are not proven to be theirs"
    if arrivals.is_sender_limit_reached(
        connection, now - HOUR, of_sender, proven, mail.from_address
    ):
        return f"more than {of_sender} mails an hour from this sender{which}"
    key = rate_limit_key(mail.from_address, registered_domain)
    share = live.limits.mails_of_key_per_hour(key)
    if arrivals.is_share_used_up(connection, now - HOUR, share, proven, key):
        return f"more than {share} mails an hour from {key}{which}, its share of MAILS_PER_HOUR"
    if live.arrivals.is_limit_reached(connection, now, in_all, proven):
        return f"more than {in_all} mails an hour in all{which}"
    return None


def _why_unconfirmed(connection: sa.Connection, mail: ParsedMail, now: datetime) -> str | None:
    """Return why to throttle a mail of an unproven sender: we ask an address to confirm itself at most once a
    day, because a stranger could make us write there.

    Do not call it for mail to a reply address, which only readers of our own mail to that mailbox know.
    """
    asked = arrivals.where_unconfirmed(mail.from_address, now - DAY)
    return arrivals.UNCONFIRMED if connection.scalar(sa.select(asked)) else None
