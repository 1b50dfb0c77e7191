"""The round trip of `flask check --send-test-mail`: a mail to ourselves, and a question to the model."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import click

from mailagent import services
from mailagent.domain.mail.delivery import NotSent, OutcomeUnknown, Refused
from mailagent.domain.mail.message import Door, MailKind, OutboundMail, Purpose, token_address
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.provider import Provider
from mailagent.store import audit
from mailagent.store.mail import inbound
from mailagent.store.operations import circuit_breakers, incidents

_POLL_SECONDS = 0.5
_TOLD_EVERY_SECONDS = 10
_LONGEST_WAIT_FOR_EVENT = 60
_Found = TypeVar("_Found")
_TEXT = "mailagent tests with this mail that mail goes out and comes back. Nobody has to answer it."


def run(wait_seconds: int) -> bool:
    """Ask the model, send a test mail, wait until it is stored. Print the results; return whether all work."""
    # The model first: it answers within seconds.
    live = services.current()
    problems = [ask_model(live.model)]
    if problems == [None]:
        _works_again(live.providers.model, IncidentKind.OPENAI)
    problems += send_and_wait(wait_seconds)
    for problem in filter(None, problems):
        click.echo(f"problem: {problem}")
    return not any(problems)


def ask_model(model: services.Model) -> str | None:
    """Ask the model for one word. Returns what is wrong, or None."""
    items = [{"role": "user", "content": "Is anybody there?"}]
    answer = model.ask("Answer with the word: yes.", items, [], "check", "check")
    if answer["kind"] == "done":
        click.echo(f"ok: the model {answer['model']} answers")
        return None
    advice = "; try again in a minute" if answer["kind"] == "retry" else ""
    return f"the model does not answer: {answer['why']}{advice}"


def send_and_wait(wait_seconds: int) -> list[str | None]:
    """Send a test mail to an address of ours; wait for it and for an event. Returns what is wrong, or Nones."""
    live = services.current()
    mail, sent_at = _test_mail(), live.now()
    match live.sender.send(mail):
        case Refused(why, _):
            return [
                f"no mail can be sent: {why}. Correct {live.providers.mail.key_setting}, or verify the "
                f"domain of SUPPORT_ADDRESS ({live.shop.support_address}) at {live.providers.mail.title}"
            ]
        case NotSent(why, _):
            return [f"no mail can be sent now: {why}. Check the network, and try again"]
        case OutcomeUnknown(why):
            click.echo(f"note: it is unknown whether the test mail was sent ({why})")
        case _:
            click.echo(f"ok: {live.providers.mail.title} has taken the test mail")
            _works_again(live.providers.mail, IncidentKind.MAIL_PROVIDER)
    began = time.monotonic()
    kind = _wait_for_mail(mail, sent_at, wait_seconds)
    problem = _tell_mail(kind, round(time.monotonic() - began))
    if kind not in (None, MailKind.TEST):  # a process with another key verifies no event either
        return [problem]
    # An event comes sooner than the mail: if that did not come back, only look.
    return [
        problem,
        _wait_for_event(mail, min(wait_seconds, _LONGEST_WAIT_FOR_EVENT) if kind else 0),
    ]


def _works_again(provider: Provider, incident: IncidentKind) -> None:
    """Record what a call has just shown, so that the console stops to report an outage."""
    live = services.current()
    with live.database.transaction() as connection:
        circuit_breakers.record_success(connection, provider, True, live.now())
        incidents.close_incident(connection, live.now(), incident)


def _test_mail() -> OutboundMail:
    live = services.current()
    token = live.links.sign_test_mail()
    name = f"{Door.TEST}_{token}"  # no row has this id; events about it are in the audit log
    return OutboundMail(
        outbound_id=name,
        purpose=Purpose.NOTICE,
        to_address=token_address(Door.TEST, token, live.shop.reply_domain),
        from_address=live.shop.support_address,
        subject="mailagent test mail",
        text=_TEXT,
        html=None,
        message_id=f"{name}@{live.shop.reply_domain}",
        auto_submitted="auto-generated",
    )


def _wait_for_mail(mail: OutboundMail, since: datetime, seconds: int) -> MailKind | None:
    """Return the kind under which the mail was stored, or None if it did not come in time."""

    def find() -> MailKind | None:
        with services.current().database.snapshot() as connection:
            return inbound.find_kind(connection, mail.from_address, mail.to_address, since)

    return _wait_for(find, seconds, "it to come back")


def _wait_for_event(mail: OutboundMail, seconds: int) -> str | None:
    """Wait until the event webhook reports on the mail. Returns what is wrong, or None."""

    def find() -> datetime | None:
        with services.current().database.snapshot() as connection:
            return audit.latest_at(connection, mail.outbound_id, audit.TEST_REPORTED)

    if _wait_for(find, seconds, "a delivery event of it"):
        click.echo("ok: delivery events arrive")
        return None
    shop, provider = services.current().shop, services.current().mail_provider
    within = f" within {seconds} s" if seconds else ""
    return (
        f"no delivery event of the test mail came{within}. In the Event Webhook at {provider.title}, enter the "
        f"URL {shop.public_url}/webhooks/{provider.name}/events, tick Processed and Delivered, turn on "
        "Signature Verification and press Save. Then set "
        f"{provider.events_key_setting} to the verification key that it shows, and start the web process again"
    )


def _wait_for(find: Callable[[], _Found | None], seconds: int, what: str) -> _Found | None:
    """Return what is found, or None if nothing is found in time. It looks at least once."""
    began, told = time.monotonic(), 0
    while (found := find()) is None and (waited := time.monotonic() - began) < seconds:
        if waited >= told:
            click.echo(f"waiting for {what} ({waited:.0f} of {seconds} s) …")
            told += _TOLD_EVERY_SECONDS
        time.sleep(_POLL_SECONDS)
    return found


def _tell_mail(kind: MailKind | None, seconds: int) -> str | None:
    shop, provider = services.current().shop, services.current().mail_provider
    if kind is MailKind.TEST:
        click.echo(f"ok: it came back and was stored after {seconds} s; it starts no conversation")
        return None
    if kind is not None:
        return (
            "the test mail came back, but the process that took it has another SECRET_KEY: give all processes "
            "the same one"
        )
    return (
        f"the test mail did not come back within {seconds} s. Check that the MX record of "
        f"{shop.reply_domain} names {provider.title}, that inbound mail goes to "
        f"{shop.public_url}/webhooks/{provider.name}/inbound, "
        "and that the web process logs no event=signature_refused. Mail may also be slow: raise --wait"
    )
