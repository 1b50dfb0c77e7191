"""The six promises, checked after a story in rows, mailboxes and the gateway's books."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from mailagent.adapters.platforms.records import key_in
from mailagent.engine import SCHEDULED
from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.cast import GRACE, MAX, MONA
from tests.platforms.shopify_server import minor_of
from tests.programs.crash_sweep import people
from tests.programs.crash_sweep.shop import SweptShop
from tests.programs.crash_sweep.story import Story, fewest, most_of


class PromiseBroken(AssertionError):
    """A promise did not hold after a crash; the text says which, and what was found."""


def check(shop: SweptShop, story: Story) -> None:
    """Raise PromiseBroken unless everything is as if nothing had happened."""
    for promise, look in CHECKS.items():
        try:
            look(shop, story)
        except AssertionError as problem:
            raise PromiseBroken(f"{promise}: {problem}") from problem


def _stored(shop: SweptShop, story: Story) -> None:
    """Each mail that was thanked for is one row, and whole; each mail of ours is reported on."""
    found = Counter(row.message_id for row in shop.rows("SELECT message_id FROM inbound_mails"))
    letters = Counter(letter.message_id for letter in shop.mailboxes.letters())
    assert found == letters, f"of the letters {letters} there are {found}"
    kept = shop.scalar("SELECT count(*) FROM raw_mails")
    assert kept == len(letters) - story.raw_mails_purged, f"{kept} raw mails of {len(letters)}"
    told = shop.rows("SELECT outbound_id, event FROM delivery_events WHERE event = 'delivered'")
    sent = {mail.custom_args["outbound_id"] for mail in shop.mailboxes.sent()}
    assert {row.outbound_id for row in told} == sent, (
        "a delivery that was reported is not on record"
    )


def _answered_once(shop: SweptShop, story: Story) -> None:
    """Nobody gets a mail twice or one too many; each mail has an answer that went out, or a reason."""
    got = Counter(mail.custom_args["outbound_id"] for mail in shop.mailboxes.sent())
    assert not [each for each, count in got.items() if count > 1], f"a mail went out twice: {got}"
    for person in {mail.to for mail in shop.mailboxes.sent()} | story.mails.keys():
        subjects = [mail.subject for mail in shop.mails_to(person)]
        least, most = fewest(story.mails.get(person, 0)), most_of(story.mails.get(person, 0))
        if person == GRACE and shop.traded:
            least, most = least + 1, most + 1
        assert least <= len(subjects) <= most, f"{person} got {subjects}, not {least} to {most}"
    for mail in shop.rows("SELECT * FROM inbound_mails WHERE kind = 'customer'"):
        told = mail.no_answer_reason if mail.status == "no_answer" else mail.answered_by in got
        assert told, f"{mail.mail_id} of {mail.from_address} is {mail.status}, without an answer"


def _paid_once(shop: SweptShop, story: Story) -> None:
    """The gateway's books have each paid refund once, and the orders hold as much."""
    refunds = shop.rows("SELECT * FROM refunds ORDER BY refund_id")
    found = tuple(refund.status for refund in refunds)
    assert found == story.refunds, f"the refunds are {found}"
    paid = {each.refund_id: each.amount_minor for each in refunds if each.status == "paid"}
    books = _books(shop)
    assert books == sorted(paid.items()), f"{paid} are paid, and the gateway has {books}"
    held = shop.scalar("SELECT sum(held_minor) FROM orders")
    assert held == sum(paid.values()), f"the orders hold {held} for {paid}"


def _books(shop: SweptShop) -> list[tuple[str, int]]:
    if shop.stripe is not None:
        made = shop.stripe.refunds
        return sorted((each["metadata"]["refund_id"], each["amount"]) for each in made)
    if shop.shopify is not None:
        books = [(each["note"], each["transactions"].all) for each in shop.shopify.refunds]
        return sorted(
            (str(key_in(note)), minor_of(made)) for note, moved in books for made in moved
        )
    entries = shop.rows("SELECT refund_id, amount_minor FROM ledger_entries")
    return sorted((entry.refund_id, entry.amount_minor) for entry in entries)


_DECIDED = (
    "SELECT decided_by, decision, decided_at FROM decisions"
    " UNION ALL SELECT decided_by, decision, decided_at FROM countersignatures ORDER BY decided_at"
)


def _decided_by_who_may(shop: SweptShop, story: Story) -> None:
    """Those decided who pressed, and nobody else; opening every link once more changes nothing."""
    decided = [row.decided_by for row in shop.rows(_DECIDED)]
    assert decided == list(story.deciders), f"{decided} decided, not {story.deciders}"
    assert set(decided) <= {MONA, MAX}
    before = _state(shop)
    for mail in shop.mailboxes.sent():
        for link in re.findall(rf"{re.escape(shop.url)}/approvals/\S+", mail.text):
            shop.wait(lambda link=link: people.open_page(link) is not None, "a page")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
    assert _state(shop) == before, "opening a link has changed something"


def _state(shop: SweptShop) -> list[Any]:
    asked = "SELECT refund_id, status, decided_by, note FROM refunds ORDER BY refund_id"
    return [shop.rows(_DECIDED), shop.rows(asked), shop.scalar("SELECT count(*) FROM audit")]


def _true(shop: SweptShop, _story: Story) -> None:
    """Receipts say what the rows say, in what the customer got; no other mail has a reference."""
    paid = shop.rows(
        "SELECT r.refund_id, r.amount_minor, COALESCE(s.bank_reference, r.gateway_reference) AS reference"
        " FROM refunds r LEFT JOIN ledger_settlements s ON s.refund_id = r.refund_id"
        " WHERE r.status = 'paid'"
    )
    for mail in shop.mailboxes.sent():
        (row,) = shop.rows(
            "SELECT * FROM outbound_mails WHERE outbound_id = :id",
            id=mail.custom_args["outbound_id"],
        )
        named = [refund for refund in paid if refund.reference in mail.text]
        if row.purpose != "receipt":
            assert not named, f"{mail.subject} to {mail.to} tells of a payment"
            continue
        assert [refund.refund_id for refund in named] == [row.refund_id], "another reference"
        amount = f"{named[0].amount_minor / 100:,.2f}"
        assert amount in mail.text, f"the receipt does not say {amount}: {mail.text}"
    receipts = shop.scalar("SELECT count(*) FROM outbound_mails WHERE purpose = 'receipt'")
    assert receipts == len(paid), f"{receipts} receipts for {len(paid)} paid refunds"


def _nothing_waits(shop: SweptShop, story: Story) -> None:
    """No run failed or is at work, no row waits for anybody, and none had to wait for the sweep."""
    scheduled = ", ".join(f"'{name}'" for name in SCHEDULED)
    runs = shop.rows(
        f"SELECT workflow_uuid, status, error FROM {shop.dbos}workflow_status"
        f" WHERE status <> 'SUCCESS' AND name NOT IN ({scheduled})"
    )
    assert not runs, f"runs that did not end well: {runs}"
    # A scheduled run may have begun just now, but must not fail.
    failed = shop.rows(f"SELECT * FROM {shop.dbos}workflow_status WHERE status = 'ERROR'")
    assert not failed, f"a scheduled run failed: {failed}"
    for table, column, states in _WAITING:
        rows = shop.rows(f"SELECT * FROM {table} WHERE {column} IN ({states})")
        assert not rows, f"{table} that wait: {rows}"
    if not story.wakes_sweep:
        assert CRASH_POINTS.keys() >= _WAKING, "a step of the sweep has another name now"
        names = ", ".join(f"'{name}'" for name in sorted(_WAKING))
        woken = shop.rows(
            f"SELECT function_name, output FROM {shop.dbos}operation_outputs"
            f" WHERE function_name IN ({names}) AND output <> '0'"
        )
        assert not woken, f"the sweep had to wake: {woken}"


# Steps of the sweep that return how many rows they had to wake for.
_WAKING = {"enqueue_mail", "enqueue_refunds", "enqueue_deliveries"}
_WAITING = (
    ("inbound_mails", "status", "'unanswered', 'throttled'"),
    ("outbound_mails", "status", "'queued', 'sending', 'failed', 'unknown'"),
    ("refunds", "status", "'awaiting_approval', 'approved', 'failed'"),
    ("drafts", "state", "'waiting'"),
)

CHECKS: Mapping[str, Callable[[SweptShop, Story], None]] = {
    "stored before 200": _stored,
    "answered once": _answered_once,
    "paid once": _paid_once,
    "decided by who may": _decided_by_who_may,
    "true": _true,
    "nothing waits for ever": _nothing_waits,
}
