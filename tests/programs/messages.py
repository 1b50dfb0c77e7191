"""Lists the messages of the pages for translators: `python -m tests.programs.messages > messages.pot`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import write_po

from mailagent.adapters import gateways
from mailagent.adapters.templates.catalogue import PAGES_FOLDER, MessageId
from mailagent.domain.mail import (
    auto_response,
    conversation,
    draft,
    message,
    reply_commands,
    saved_reply,
)
from mailagent.domain.operations import circuit_breaker, incident, replay, report
from mailagent.domain.orders.shipment import ShipmentStatus
from mailagent.domain.refunds import labels as refund_labels
from mailagent.domain.refunds import offer, order, refund
from mailagent.domain.remedies import labels as remedy_labels
from mailagent.domain.remedies.remedy import TaskStop
from mailagent.engine import run
from mailagent.store import audit
from mailagent.store.mail import arrivals, assignments, throttled
from mailagent.store.privacy import erasure_scope
from mailagent.store.refunds import stops
from mailagent.web import errors
from mailagent.web.approvals import attachments, review_facts
from mailagent.web.console import inbox, labels, refunds, runs
from mailagent.web.console.conversations import beside, lists, organise, refunding
from mailagent.web.owners import report as report_page
from mailagent.web.webhooks import threading
from mailagent.workflows.steps.refund import order_check

ROOT = PAGES_FOLDER.parents[1]
_METHODS = [
    *(
        (f"templates/{each}*.html", "jinja2.ext:babel_extract")
        for each in ("", "ops/", "approvals/")
    ),
    ("mailagent/web/**.py", "python"),
    ("mailagent/domain/**.py", "python"),
    ("mailagent/adapters/settlement_file.py", "python"),
]
_KEYWORDS = {"_": None, "sentence": None, "TaskProblem": None, "gettext": None, "ngettext": (1, 2)}
_OPTIONS = {"**.html": {"trimmed": "true", "newstyle_gettext": "true", "silent": "false"}}

# Labels that code looks up and pages translate.
TABLES: tuple[Any, ...] = (
    labels.DRAFT_STATES,
    labels.IDENTITIES,
    labels.PURPOSES,
    labels.WORKFLOWS,
    labels.FAILED_WORKFLOWS,
    [words for words, _ in labels.RUN_STATES.values()],
    [words for words, _ in labels.LINE_STATES.values()],
    [words for words, _ in labels.STOPPED_RUN_OF_MAIL.values()],
    [words for words, _ in labels.PAYMENT_STATES.values()],
    (labels.REFUSALS, [each.failure_codes for each in gateways.list_providers()]),
    labels.ACTIONS,
    (labels.DETAILS, labels.SHOP_ONLY),
    run.FAILURES,
    audit.ACTORS,
    refund_labels.REFUND_REASONS,
    refund_labels.DECLINE_REASONS,
    refund_labels.MANAGER_REASONS,
    refund_labels.REFUND_STATES,
    (remedy_labels.REMEDY_KINDS, remedy_labels.REMEDY_STATES),
    remedy_labels.DONE_BEFORE_APPROVAL,
    (stops.STOPS, order_check.STOPS, [each.value for each in TaskStop]),
    (review_facts.STATE_SENTENCES, review_facts.CONDITIONS),
    (attachments.NOT_KEPT, attachments.TOO_LARGE, attachments.OURS, attachments.MAIL),
    [each.value for each in (*conversation.HandOverReason, *reply_commands.TeamCommand)],
    auto_response.REASONS,
    (assignments.PEOPLE_ANSWER, throttled.SUMMED_UP, arrivals.UNCONFIRMED),
    (threading.NOT_PROVABLY_TEAM, threading.CAME_BEFORE),
    draft.DRAFT_TOPICS,
    saved_reply.PLACEHOLDERS,
    circuit_breaker.MEANS,
    incident.INCIDENTS,
    (replay.EFFECTS, replay.UNKNOWN, replay.REACHED, replay.REFUNDS, replay.UNCHANGED),
    (replay.STOPPED, replay.ASKED_STOPPED, replay.HELD_UP_STOPPED, replay.ASKS_AGAIN),
    (replay.ASKED, replay.TO_PAY, replay.HELD_UP, replay.TO_APPROVE, replay.TO_REJECT),
    (replay.TO_CANCEL, replay.MAILS, replay.MAIL_STATES, replay.NOT_SENT),
    [each.value for each in replay.Reach],
    ([name for _, name in report.SPANS], report.LONGER),
    (report_page.BY, report.DECISIONS),
    (errors.TEXTS, errors.DATABASE_AWAY, errors.AWAY, errors.FOR_OPERATORS),
    (inbox.YOURS, inbox.TO_PAY, inbox.TITLES, inbox.MEANINGS, lists.TITLES, organise.READ_FIRST),
    [words for words, _ in beside.SNOOZES.values()],
    (refunds.AMOUNTS, refunds.GRANTED, runs.DONE, refunding.NO_MANAGER),
    (erasure_scope.REFUNDS, erasure_scope.MAILS, erasure_scope.TASKS),
    (erasure_scope.UNSENT_DRAFTS, erasure_scope.OURS),
    (
        "conversations",
        "mails received",
        "raw mails with their files",
        "mails sent",
        "drafts",
        "runs",
    ),
    ("It is yours now", "Your answer"),
    [
        each.value.replace("_", " ")
        for kind in (
            message.MailKind,
            message.MailStatus,
            offer.OfferStatus,
            order.OrderStatus,
            refund.RefundStatus,
            ShipmentStatus,
        )
        for each in kind
    ],
)


def list_messages() -> dict[MessageId, str]:
    """Return the messages of all pages, each with the place where it first stands."""
    found: dict[MessageId, str] = {}
    for path, line, text, _comments, _context in extract_from_dir(
        ROOT, _METHODS, _OPTIONS, _KEYWORDS, directory_filter=_is_searched
    ):
        message_id = text if isinstance(text, str) else (text[0], text[1])
        found.setdefault(message_id, f"{path}:{line}")
    for text in _texts_of(TABLES):
        found.setdefault(text, "labels")
    return found


def _is_searched(folder: str | Any) -> bool:
    names = str(folder).removeprefix(str(ROOT)).split("/")[1:]
    return not names or names[0] in ("mailagent", "templates")


def _texts_of(table: Any) -> Iterator[str]:
    if isinstance(table, str):
        yield from [table] if table else []
        return
    values = table.values() if isinstance(table, Mapping) else table
    if isinstance(table, (errors.ErrorText, incident.IncidentText)):
        values = astuple(table)
    for each in values:
        yield from _texts_of(each)


def make_template() -> Catalog:
    catalogue = Catalog(project="mailagent", fuzzy=False)
    for message_id, place in list_messages().items():
        path, _, line = place.partition(":")
        catalogue.add(message_id, locations=[(path, int(line or 0))])
    return catalogue


if __name__ == "__main__":
    write_po(sys.stdout.buffer, make_template(), omit_header=True, width=0)
