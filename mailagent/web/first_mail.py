"""The short way of a mail that refers to nothing: one statement stores it, opens its thread and rings.

It decides nothing by itself. Whatever the long way (`sendgrid`) would ask about such a mail is a condition of
that statement; where one does not hold, nothing is stored, and the mail goes the long way.
"""

from __future__ import annotations

from datetime import datetime

from mailagent import services
from mailagent.adapters.organisational_domain import registered_domain
from mailagent.agent.languages import find_language
from mailagent.domain.mail import MailKind, ParsedMail, find_token
from mailagent.domain.run_about import RunAbout
from mailagent.domain.shop import rate_limit_key
from mailagent.doorbell import CONVERSATION, run_id_of
from mailagent.store import conversations, first_mail, on_arrival
from mailagent.store.filing import Filing, RawMail
from mailagent.store.ids import new_id
from mailagent.telemetry import log_ids, spans


def refers_to_nothing(mail: ParsedMail) -> bool:
    """Return whether a mail is a customer's, to no reply address of ours, and names no mail before it."""
    referred = (*mail.references, *mail.in_reply_to)
    token = find_token(mail.envelope_to, services.current().shop.reply_domain)
    return mail.kind is MailKind.CUSTOMER and not referred and token is None


def store(mail: ParsedMail, raw: RawMail, now: datetime) -> bool:
    """Store a mail that refers to nothing, keys cut out of it as where no link logs anybody in. Return whether
    it was stored."""
    live = services.current()
    if not live.doorbell.rings_in_statements:
        return False
    if not live.arrivals.has_room(now, live.limits.mails_per_hour, mail.identity.proven):
        return False
    language = find_language(mail.new_text)
    thread = conversations.make_new(mail.from_address, mail.subject, now, language)
    mail_id = new_id("mail")
    key = rate_limit_key(mail.from_address, registered_domain)
    filed = Filing(mail_id, run_id=run_id_of(CONVERSATION, mail_id), rate_limit_key=key)
    about = RunAbout(thread.conversation_id, customer_email=thread.customer_email)
    known = on_arrival.values_of(mail, now, live.limits.mails_of_sender_per_hour)
    known |= {"share_key": key, "let_in_before": live.limits.mails_of_key_per_hour(key) - 1}
    with (
        live.doorbell.bell_of_conversation(
            thread.conversation_id, mail_id, about, mail.identity.proven
        ) as bell,
        live.database.statement() as connection,
    ):
        stored = first_mail.store(
            connection, mail, thread, raw, filed, bell.call, {**known, **bell.values}
        )
        if stored:
            log_ids.note(thread.conversation_id)
            spans.note_ids()
        else:
            spans.note_silent_bell()
    return stored
