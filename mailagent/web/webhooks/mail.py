"""The mail provider's webhooks: inbound mail and delivery events.

One transaction stores the raw bytes, the parsed mail, its conversation and the enqueued run; then we respond
200. We never respond 3xx or 4xx to a mail, because the provider would discard it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cache

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import mailers, services
from mailagent.adapters.mail_providers import MailProvider
from mailagent.adapters.mime.dmarc import registered_domain
from mailagent.adapters.mime.reply_text import new_text
from mailagent.domain.mail.auto_response import REWRITTEN_BY_LIST
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.language import find_language
from mailagent.domain.mail.message import MailKind, ParsedMail, find_token, shows_nothing
from mailagent.domain.mail.redaction import inert, inert_address, without_keys
from mailagent.domain.operations.run_about import RunAbout
from mailagent.domain.shop import ShopAddresses, rate_limit_key
from mailagent.engine import CONVERSATION, run_id_of
from mailagent.store.console import sessions
from mailagent.store.mail import arrivals, conversations, inbound, outbound
from mailagent.store.mail.arrivals import Known
from mailagent.store.mail.inbound import Filing
from mailagent.store.mail.raw_mail import RawMail
from mailagent.web.guard import signed_webhook
from mailagent.web.webhooks import approval_reply, threading
from mailagent.web.webhooks.body import HttpRefusal, answer
from mailagent.web.webhooks.deliveries import record_bounce, record_events
from mailagent.web.webhooks.signature import SignatureDoor

logger = logging.getLogger(__name__)

_OF_LIST = (
    "A mailing list of yours, such as a Google Group, passes mail on to us with its own address in From. "
    "So the agent cannot answer it.",
    "To read this mail and answer it yourself: flask mails list --kind list.",
    "Let mail to your support address reach us without the list: docs/configure.md, step 6.",
)


def make_blueprint(provider: MailProvider) -> Blueprint:
    """Return the routes of a mail provider, below `/webhooks/` and its name."""
    blueprint = Blueprint(provider.name, __name__)
    inbound_door = SignatureDoor(provider, "inbound")
    events_door = SignatureDoor(provider, "events")

    @blueprint.post(f"/webhooks/{provider.name}/inbound")
    @signed_webhook
    def receive_mail() -> Response:
        """Receive one inbound mail."""

        def store() -> str:
            with inbound_door.receive(request, services.current().inbound_keys) as body:
                return _store_mail(provider, request.headers.get("Content-Type", ""), body)

        return answer("inbound", provider.title, store)

    @blueprint.post(f"/webhooks/{provider.name}/events")
    @signed_webhook
    def receive_events() -> Response:
        """Receive a batch of delivery events. After any response but 2xx the provider sends the batch again."""

        def store() -> str:
            with events_door.receive(request, services.current().events_keys) as body:
                return _store_events(provider, body)

        return answer("events", provider.title, store)

    return blueprint


def _store_events(provider: MailProvider, body: bytes) -> str:
    try:
        events = provider.parse_events(body)
    except ValueError as problem:
        logger.error("webhook=events event=unreadable: answered 400: %s", problem)
        raise HttpRefusal(f"{problem}\n", 400) from problem
    record_events(events)
    return "stored\n"


def _store_mail(provider: MailProvider, content_type: str, body: bytes) -> str:
    live = services.current()
    shop = live.shop
    addresses = ShopAddresses(shop.support_address, shop.reply_domain, shop.form_senders)
    mail = provider.parse_mail(content_type, body, addresses, live.now())
    raw = RawMail(content_type, body)
    with live.database.transaction() as connection:
        now = live.now()
        known = arrivals.look_up(connection, mail)
        if known.stored:
            return "known already\n"
        mail_id = _record(connection, mail, known, raw, now)
    if mail_id is None:
        return "known already\n"
    if mail.kind is MailKind.MALFORMED:
        logger.error(
            "webhook=inbound event=malformed: kept as mail %s, but it cannot be read: %s",
            mail_id,
            mail.kind_reason,
        )
    return "stored\n"


def _record(
    connection: sa.Connection, mail: ParsedMail, known: Known, raw: RawMail, now: datetime
) -> str | None:
    proven = mail.identity.proven
    mail = _without_replays(_without_secrets(connection, mail, now), known)
    place = threading.find_place_locked(connection, mail, now)
    place = threading.answer_once(connection, place, proven)
    opens_new = place.opens_new
    if opens_new:
        language = find_language(mail.new_text) if mail.kind is MailKind.CUSTOMER else None
        opened = conversations.open_new(
            connection, mail.from_address, mail.subject, now, language, mail.from_name
        )
        place = place.in_conversation(opened)
    mail = place.mail
    filed = Filing(
        throttled=place.throttled,
        same_message_id=known.same_message_id,
        raw=raw,
        rate_limit_key=(
            rate_limit_key(mail.from_address, registered_domain)
            if mail.kind is MailKind.CUSTOMER
            else None
        ),
    )
    if _is_enqueued_for(place):
        filed = replace(filed, run_id=run_id_of(CONVERSATION, filed.mail_id))
    mail_id = inbound.record(
        connection, mail, place.conversation_id, place.no_answer_reason, now, filed
    )
    if mail_id is None:
        connection.rollback()  # another request has stored the same mail
        return None
    if place.conversation is not None:
        if not opens_new:
            conversations.touch(connection, place.conversation, now, place.reopens)
        if place.proves_mailbox:
            inbound.prove_mailbox(connection, (*place.confirms, mail_id))
            conversations.renew_confirm_token(connection, place.conversation.conversation_id)
        if _is_enqueued_for(place):
            _enqueue(connection, place, place.conversation, mail_id)
    if mail.bounce is not None:
        record_bounce(connection, mail, mail.bounce, now)
    if mail.kind_reason == REWRITTEN_BY_LIST:
        _tell_team_once(connection, _about_list(now))
    if place.conversation is not None and place.no_answer_reason == threading.NOT_PROVABLY_TEAM:
        notice = _about_unproven_answer(mail, place.conversation, now)
        _tell_team_once(connection, notice, place.conversation_id)
    approval_reply.receive(connection, mail, mail_id, now)
    return mail_id


def _without_secrets(connection: sa.Connection, mail: ParsedMail, now: datetime) -> ParsedMail:
    """Return a mail without secrets of logins and approvals, and without quotations of our own mails. So a code
    of ours in quoted text does not count as the customer's answer."""
    return _without_our_words(connection, _without_keys(mail, _login_secrets(connection, now)))


def _without_replays(mail: ParsedMail, known: Known) -> ParsedMail:
    """Return the mail; if it repeats a known one, with signatures that prove nothing: a sender replays an old
    mail."""
    if known.message_id:
        # It is the customer's own mail, but perhaps changed where the signature does not cover it.
        return mail.without_signatures("known_message_id")
    return mail.without_signatures("known_date") if known.signed_date else mail


def _about_list(now: datetime) -> mailers.Notice:
    """Say, once a day, that we cannot answer customers whose address a mailing list has replaced."""
    title = "Customers who write to your mailing list get no answer"
    return mailers.Notice(f"rewritten-by-list:{now:%Y-%m-%d}", title, _OF_LIST)


def _about_unproven_answer(
    mail: ParsedMail, conversation: Conversation, now: datetime
) -> mailers.Notice:
    """Say, once an hour for each conversation, that an answer to a case came without proof that the team wrote
    it."""
    conversation_id = conversation.conversation_id
    page = f"{services.current().shop.public_url}/ops/conversations/{conversation_id}"
    lines = [
        f"Conversation: {conversation_id}, {inert(conversation.subject)}",
        f"The answer says that it is from {inert_address(mail.from_address)}. It came without proof, by SPF or"
        " DKIM, that a person in TEAM_EMAILS or OPS_EMAILS wrote it.",
        "If it was yours, answer from your address of the shop. If you did, have DKIM set up for its domain.",
        f"To answer the customer now: {page}",
        "You get this mail at most once an hour for each conversation.",
    ]
    title = "An answer to a case did not go to the customer"
    return mailers.Notice(f"unproven-answer:{conversation_id}:{now:%Y-%m-%dT%H}", title, lines)


def _tell_team_once(
    connection: sa.Connection, notice: mailers.Notice, conversation_id: str | None = None
) -> None:
    """Mail a notice to the team, unless it has got one with this key."""
    live = services.current()
    if outbound.is_recorded(connection, f"{notice.key}:{live.shop.team_emails[0]}"):
        return
    written = mailers.write_notice(connection, notice, live.shop.team_emails, conversation_id)
    live.workflow_client.queue.enqueue_deliveries(connection, written)


def _is_enqueued_for(place: threading.Place) -> bool:
    return place.conversation is not None and place.no_answer_reason is None


def _enqueue(
    connection: sa.Connection, place: threading.Place, conversation: Conversation, mail_id: str
) -> None:
    services.current().workflow_client.queue.enqueue_conversation(
        connection,
        conversation.conversation_id,
        mail_id,
        about=RunAbout(conversation.conversation_id, customer_email=conversation.customer_email),
        proven=place.mail.identity.proven or place.proves_mailbox,
    )


def _without_our_words(connection: sa.Connection, mail: ParsedMail) -> ParsedMail:
    """Remove quotations of our own mails from the new text."""
    if shows_nothing(mail.body):
        return mail
    referred = [*mail.references, *mail.in_reply_to]
    if not referred and find_token(mail.envelope_to, services.current().shop.reply_domain) is None:
        return mail
    ours = outbound.list_texts_to(connection, mail.from_address)
    return replace(mail, new_text=new_text(mail.body, ours, mail.subject)) if ours else mail


def _login_secrets(connection: sa.Connection, now: datetime) -> Callable[[str], bool]:
    """Return a function that says whether a word is the secret of a login link that still works. It reads the
    links only if it is called, because few mails have a word of that length."""
    find_live = cache(lambda: sessions.find_live(connection, now))
    return lambda word: bool((is_secret := find_live()) and is_secret(word))


def _without_keys(mail: ParsedMail, logs_in: Callable[[str], bool]) -> ParsedMail:
    """Remove secrets by which a reader of the stored mail could decide on a refund or log in.

    `logs_in`: says whether a word is the secret of a login link.
    """
    return replace(
        mail,
        subject=without_keys(mail.subject, logs_in),
        body=without_keys(mail.body, logs_in),
        new_text=without_keys(mail.new_text, logs_in),
    )
