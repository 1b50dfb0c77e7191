"""The `shadow` workflow: asks a second configuration about a share of the mail that the agent has answered.

It reads answered mail and writes comparisons, and nothing else, so whatever happens to it, live mail goes on.
It has a budget of its own. With the agent's key it shares the provider's rate limits, so it makes no call while
a mail waits; and when its provider fails, it asks nothing more until the next run.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from dbos import DBOS

from mailagent import engine, mailers, services
from mailagent.backtest.asking import Answer, Configuration, ask
from mailagent.backtest.past import find_past, list_answered, read_past
from mailagent.backtest.report import compare, sum_up
from mailagent.domain.operations.model_cost import day_begins_at
from mailagent.store.mail import inbound, outbound
from mailagent.store.operations import comparisons
from mailagent.store.operations.comparisons import Differs, Source
from mailagent.workflows.steps.conversation.model_call import standing_instructions
from mailagent.workflows.steps.recording import step

EVERY_FIVE_MINUTES = "*/5 * * * *"
DAY = timedelta(days=1)
MAILS_AT_ONCE, MAILS_LOOKED_AT = 10, 500
# With these outcomes the run ends, and the next run goes on with the next mail.
STOPS = (Differs.UNKNOWN.value, "over the budget")


@DBOS.workflow(name=engine.SHADOW)
def shadow(_scheduled_at: datetime, _context: Any) -> None:
    """Compare the mails that were answered lately, and report on yesterday."""
    report_on_yesterday()
    for mail_id in choose_mails():
        if compare_mail(mail_id) in STOPS:
            break


def is_in_share(conversation_id: str, percent: int) -> bool:
    """Return whether a conversation belongs to the share; always the same for the same conversation."""
    number = int.from_bytes(hashlib.sha256(conversation_id.encode()).digest()[:8])
    return number % 100 < percent


@step
def choose_mails() -> list[str]:
    """Return the newest mails of each answer that is to be compared now."""
    live = services.current()
    chosen = live.shadow
    if chosen is None or not may_ask():
        return []
    with live.database.snapshot() as connection:
        answered = list_answered(connection, MAILS_LOOKED_AT, live.now() - DAY)
        share = [each for each in answered if is_in_share(each[-1].conversation_id, chosen.percent)]
        newest = [each[-1].mail_id for each in share]
        done = comparisons.list_compared(connection, Source.SHADOW, newest)
        on_record = (
            mail_id
            for mail_id, mails in zip(newest, share, strict=True)
            if mail_id not in done and read_past(connection, mails) is not None
        )
        return list(islice(on_record, MAILS_AT_ONCE))


def may_ask() -> bool:
    """Return whether the shadow may call its model now: live mail goes first where both have the same key."""
    live = services.current()
    if live.shadow is None or live.shadow.has_own_key:
        return live.shadow is not None
    with live.database.snapshot() as connection:
        return not inbound.is_any_waiting(connection)


@step
def compare_mail(mail_id: str) -> str:
    """Ask the second configuration about a mail, and record what it says; return what differs. Over the day's
    budget nothing is asked. A mail is claimed first, so that two runs do not both ask about it; one whose run
    died is not asked about again."""
    live = services.current()
    chosen = live.shadow
    with live.database.snapshot() as connection:
        past = find_past(connection, mail_id)
        spent = comparisons.spent_since(connection, Source.SHADOW, day_begins_at(live.now()))
    if chosen is None or past is None:
        return "gone"
    if spent >= chosen.budget_usd * 1_000_000:
        return "over the budget"
    told = standing_instructions(lead=chosen.prompt)
    configuration = Configuration(chosen.model, told, chosen.name, chosen.prices, tries=1)
    claim = compare(past, Answer(error="has not ended"), Source.SHADOW, configuration)
    with live.database.transaction() as connection:
        if not comparisons.record(connection, claim):
            return "compared before"
    found = compare(past, ask(past, configuration, may_ask), Source.SHADOW, configuration)
    with live.database.transaction() as connection:
        comparisons.update(connection, found)
    return found.differs.value


@step
def report_on_yesterday() -> int:
    """Mail operators what yesterday's comparisons come to, once; return to how many."""
    live = services.current()
    today = day_begins_at(live.now())
    key = f"shadow:{today - DAY:%Y-%m-%d}"
    addresses = live.shop.ops_emails
    keys = [f"{key}:{address}" for address in addresses]
    with live.database.transaction() as connection:
        found = comparisons.list_of(connection, Source.SHADOW, today - DAY, today)
        if not found or outbound.list_recorded(connection, keys):
            return 0
        notice = mailers.Notice(
            key,
            f"The shadow on {today - DAY:%-d %B %Y}",
            list(sum_up(found)),
            ("See the differences", f"{live.shop.public_url}/ops/comparisons?source=shadow"),
        )
        written = mailers.write_notice(connection, notice, addresses)
        live.workflow_client.queue.enqueue_deliveries(connection, written)
    return len(written)
