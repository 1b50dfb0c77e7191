"""The guides state figures of the code as they are."""

from __future__ import annotations

import csv
import inspect
from datetime import timedelta
from math import floor, log2
from pathlib import Path

import pytest

from mailagent import buffering
from mailagent.adapters.http import SHARE
from mailagent.adapters.openai.client import MAX_OUTPUT_TOKENS, ChatModel
from mailagent.adapters.order_files import export
from mailagent.adapters.order_sources import json_client
from mailagent.adapters.sendgrid.sender import MailSender
from mailagent.adapters.shopify import source as shopify
from mailagent.adapters.stripe.gateway import LOOK_AGAIN_SECONDS, StripeGateway
from mailagent.adapters.woocommerce import source as woocommerce
from mailagent.agent import prompt
from mailagent.cli import orders, worker
from mailagent.domain import knowledge, shop
from mailagent.domain.mail import message, webhook
from mailagent.domain.mail.conversation import AnswerLimits, Limits
from mailagent.domain.operations import circuit_breaker, rate_limit, retry
from mailagent.domain.orders import freshness, shipment, source
from mailagent.domain.refunds import goodwill
from mailagent.store import clock, migration
from mailagent.store.console import search, sessions
from mailagent.store.operations import workers
from mailagent.web import api, metrics
from mailagent.web.console import replays
from mailagent.web.owners import report
from mailagent.workflows import recovery
from mailagent.workflows.steps import recording
from mailagent.workflows.steps.delivery import send
from mailagent.workflows.steps.maintenance import (
    address_changes,
    flood,
    housekeeping,
    sweep,
    unfinished,
)
from mailagent.workflows.steps.refund import condition, decision

ROOT = Path(__file__).parent.parent
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 8: "eight", 10: "ten"} | {
    20: "twenty",
    100: "hundred",
    1000: "thousand",
}


def word(number: float) -> str:
    return WORDS[round(number)]


def default(function: type, name: str = "timeout_seconds") -> float:
    """Return what a constructor takes if nothing is said."""
    value: float = inspect.signature(function).parameters[name].default
    return value


CODE_LENGTH = goodwill.CODE_GROUPS * goodwill.CODE_GROUP_LENGTH
CODE_BITS = floor(CODE_LENGTH * log2(len(goodwill.CODE_ALPHABET)))
PER_ANSWER, LIMITS = AnswerLimits(), Limits()
PAUSES = [recording.FIRST_PAUSE_SECONDS * 2**n for n in range(recording.MOST_TRIES - 1)]
OPENAI, SENDGRID, STRIPE = map(default, (ChatModel, MailSender, StripeGateway))
# For seven questions to three refunds, which have a run more.
MAILS_AN_HOUR, RUNS_OF_A_MAIL, CALLS_OF_A_MAIL = 1000 * 60, 1.3, 0.7 * 2 + 0.3 * 3

FIGURES = {
    "deploy": (
        f"limits it to {buffering.UNFINISHED_PER_ADDRESS} unfinished requests",
        f"{buffering.HEAD_SECONDS:.0f} s for a head; {buffering.BODY_SECONDS:.0f} s for a body, and a second"
        f" more for each {buffering.BODY_BYTES_PER_SECOND >> 10} KiB",
        f"{buffering.BUFFERED_BYTES >> 20} MiB of unfinished bodies",
    ),
    "goodwill": (f"{CODE_LENGTH} unambiguous letters and digits, {CODE_BITS} random bits",),
    "knowledge": (
        f"at most {knowledge.PASSAGE_MAX_LENGTH:,} characters",
        f"about {prompt.KNOWLEDGE_MAX_TOKENS:,} tokens",
    ),
    "money": (
        f"After {retry.PAYMENT_NEEDS_OPERATOR_AFTER} attempts",
        f"or {word(retry.PENDING_NEEDS_OPERATOR_AFTER * LOOK_AGAIN_SECONDS / (7 * 86_400))} weeks of `Pending`",
        f"it looks every {word(decision.LONGEST_SLEEP_SECONDS / 3600)} hours",
    ),
    "monitoring": (
        f"the history is cut to about {prompt.HISTORY_MAX_TOKENS:,} tokens, the mails that wait to"
        f" {prompt.MAILS_MAX_TOKENS:,}",
        f"after {PER_ANSWER.model_turns} turns, {PER_ANSWER.tool_calls} tool calls or"
        f" {PER_ANSWER.tokens:,} tokens",
        f"the longest possible answer ({MAX_OUTPUT_TOKENS:,} tokens)",
        f"{rate_limit.TOKENS_OF_A_MAIL:,} a mail",
        f"more than {rate_limit.LONGEST_FIRST_WAIT_SECONDS:.0f} seconds before its first call",
        f"Beyond {report.MOST_COUNTED_NOW} mails in two days",
    ),
    "operate": (
        f"at most {word(retry.MOST_WAKE_UPS)} times",
        f"after {word(condition.LOOK_AGAIN_SECONDS / 3600)} hours of silence",
        f"after {address_changes.GIVEN_TO_PEOPLE_AFTER.seconds // 60} minutes: `task`",
        f"it fails after {word(retry.MAIL_IS_STALE_AFTER / DAY)} days",
        f"{LIMITS.mails_of_sender_per_hour} mails an hour of one sender",
        f"after {word(LIMITS.answers_per_hour)} automatic answers in one conversation within an hour, or"
        f" {word(LIMITS.answers_to_sender_per_hour)} to one address",
        f"beyond {word(flood.CASES_PER_HOUR)} cases an hour",
        f"signed more than {webhook.USUAL_HOURS} hours ago",
        f"it replays up to {replays.RUNS_AT_ONCE}, the oldest",
        f"After {word(sessions.WRONG_CODES)} wrong codes",
    ),
    "orders": (
        f"{orders.LARGEST_FILE_BYTES >> 20} MiB a file, {csv.field_size_limit():,} characters a cell,"
        f" {export.MOST_ROWS_OF_ORDER:,} rows an exported order",
        f"at most {api.LARGEST_ORDER_BYTES >> 20} MiB",
        f"at most {source.MOST_ORDERS_A_PAGE} |",
        f"within {json_client.DEADLINE_SECONDS:.0f} seconds, in at most {json_client.MOST_BYTES >> 20} MiB",
        f"up to {source.MOST_ORDERS} newest orders",
        f"or was expected (at most {shipment.EXPECTED_WITHIN.days} days later)",
    ),
    "outages": (
        f"opens after {word(circuit_breaker.FAILURES_TO_OPEN)} failures in a row",
        f"a pause of more than {word(circuit_breaker.LONGEST_WAIT_AT_WORK_SECONDS / 60)} minutes",
        f"after {circuit_breaker.FIRST_PAUSE_SECONDS:.0f} seconds, then",
        f"(at most {circuit_breaker.LONGEST_WISH_SECONDS / 60:.0f} minutes)",
        f"then up to {sweep.BROUGHT_BACK_AT_ONCE} a minute",
        f"wakes a {word(send.TAKEN_UP_AT_ONCE)} others, each sweep a"
        f" {word(unfinished.TAKEN_UP_BY_SWEEP)} more",
        f"Given up after {word(retry.MAIL_IS_STALE_AFTER / DAY)} days",
        f"After {retry.PAYMENT_IS_STUCK_AFTER // HOUR} hours the run fails",
        f"{OPENAI} seconds without a byte from OpenAI, {SENDGRID} from SendGrid, {STRIPE} from Stripe",
        f"may take {OPENAI * SHARE:.0f} seconds from OpenAI and {SENDGRID * SHARE:.0f} from SendGrid",
        f"asks again, {word(PER_ANSWER.provider_retries)} times; then the mail waits",
        f"If {word(retry.RECIPIENTS_OF_AN_OUTAGE)} addresses in a row are refused",
        f"{word(recording.MOST_TRIES)} times in about {word(sum(PAUSES) / 60)} minutes",
        f"after {word(metrics.STATEMENT_SECONDS)} seconds for each statement",
        f"more than {word(clock.SKEW_WORTH_A_WORD.seconds)} seconds logs it",
    ),
    "retention": (
        f"looks back only {housekeeping.LOOKS_BACK.days} days",
        f"| {shop.SCHEDULED_RUN_DAYS} days; failed ones as other runs |",
        f"| {shop.LOGIN_DAYS} days after they expired or were made |",
        f"past absences of managers | {shop.PRESENCE_DAYS} days |",
        f"with tokens | {shop.MODEL_CALL_DAYS} days |",
        f"{sweep.RAW_SECONDS:.0f} s of each minute | {MAILS_AN_HOUR / 60 / sweep.RAW_SECONDS:.0f} |",
        f"{housekeeping.STEP_SECONDS / 60:.0f} minutes of each hour"
        f" | {MAILS_AN_HOUR * RUNS_OF_A_MAIL / housekeeping.STEP_SECONDS:.0f} |",
        f"{housekeeping.STEP_SECONDS / 60:.0f} minutes of each hour"
        f" | {MAILS_AN_HOUR / housekeeping.STEP_SECONDS:.0f} |",
        f"together | {MAILS_AN_HOUR * CALLS_OF_A_MAIL / housekeeping.STEP_SECONDS:.0f} |",
    ),
    "upgrades": (
        f"lock_milliseconds={migration.Patience().lock_milliseconds} ",
        f"-x seconds={migration.Patience().seconds:.0f}",
    ),
    "platforms": (
        f"within {word(freshness.FRESH_FOR.seconds / 60)} minutes",
        f"newest orders (Shopify: {shopify.ORDERS_A_PAGE * source.MOST_PAGES},"
        f" WooCommerce: {woocommerce.ORDERS_A_PAGE * source.MOST_PAGES})",
    ),
    "policy": (f"at least {message.PHOTO_MIN_BYTES // 1000} kB",),
    "benchmarks": (f"longer than {word(search.MOST_SECONDS)} seconds",),
    "reliability": (
        f"every {word(recovery.BEAT_SECONDS[0])} to {word(recovery.BEAT_SECONDS[1])} seconds",
        f"when a lease is {workers.LEASE_SECONDS:.0f} seconds old",
        f"running steps get {worker.DRAIN_SECONDS} seconds",
        f"after {worker.DRAIN_SECONDS} seconds the step is cut off",
    ),
}


@pytest.mark.parametrize(
    ("guide", "figure"), [(guide, each) for guide, figures in FIGURES.items() for each in figures]
)
def test_a_guide_states_the_figure_of_the_code(guide: str, figure: str) -> None:
    assert figure in (ROOT / "docs" / f"{guide}.md").read_text("utf-8")
