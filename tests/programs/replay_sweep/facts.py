"""What must not change by a replay, customer by customer; and what must hold however a story went."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from tests.cast import OLGA
from tests.harness import Harness
from tests.platforms.shopify_server import minor_of
from tests.programs.replay_sweep.acts import Customer, customer_of, request_of
from tests.programs.replay_sweep.stories import Kind, Story
from tests.round_trips.approvals import link_in

# Each by the conversation that it belongs to. A reply's text is the model's, and may not change either.
_ROWS = (
    "SELECT conversation_id, refund_id, status, amount_minor, decided_by, gateway_reference FROM refunds",
    "SELECT conversation_id, mail_id, status, answered_by FROM inbound_mails",
    "SELECT conversation_id, draft_id, state FROM drafts",
    "SELECT r.conversation_id, e.* FROM ledger_entries e JOIN refunds r USING (refund_id)",
    "SELECT r.conversation_id, d.* FROM decisions d JOIN approvals a USING (approval_id)"
    " JOIN refunds r USING (refund_id)",
    "SELECT conversation_id, status FROM conversations",
    "SELECT conversation_id, remedy_id, status, decided_by, due_at, reminded_at FROM remedies",
    "SELECT conversation_id, offer_id, status, refund_id FROM offers",
)

# Mails to the shop's own people belong to no conversation, but to the order whose refund they are about.
_MAILS = (
    "SELECT m.*, c.customer_email, f.order_id FROM outbound_mails m"
    " LEFT JOIN conversations c ON c.conversation_id = m.conversation_id"
    " LEFT JOIN refunds f ON f.refund_id = m.refund_id"
)
# Whom mails belong to that are about no customer, or that no row tells of.
NOBODY = ""

Facts = dict[str, list[tuple[Any, ...]]]


class PromiseBroken(AssertionError):
    """A promise did not hold after a replay; the text says which."""


def read_facts(harness: Harness) -> Facts:
    """Return the facts of each customer, by address: rows, and how often each mail was sent, whomever to.
    Mails that are about no customer are those of NOBODY."""
    owners = _owners(harness)
    facts: Facts = defaultdict(list)
    for number, query in enumerate(_ROWS):
        for row in sorted(harness.rows(query), key=repr):
            owner = owners.get(row.conversation_id)
            if owner is not None:
                facts[owner].append((number, *row))
    for order in harness.shopify.orders.values() if harness.shopify else ():
        moved = [str(made["id"]) for made in _moved(harness, order["name"])]
        facts[order["email"]].append(("moved", *moved))
        facts[order["email"]].append(("goes to", str(order["shippingAddress"])))
    sent = _times_sent(harness)
    for mail in _mails(harness):
        times = sent.pop(mail.outbound_id, 0)
        facts[_owner_of(mail)].append(
            ("mail", mail.outbound_id, mail.to_address, mail.purpose, mail.status, mail.text, times)
        )
    facts[NOBODY] += [("sent, and written nowhere", *each) for each in sent.items()]
    return facts


def _owners(harness: Harness) -> dict[str, str]:
    rows = harness.rows("SELECT conversation_id, customer_email FROM conversations")
    return {row.conversation_id: row.customer_email for row in rows}


def _times_sent(harness: Harness) -> Counter[str]:
    """Return how often each mail has come to a mailbox, by its id; all mailboxes there are."""
    return Counter(mail.custom_args["outbound_id"] for mail in harness.mailboxes.sent())


def _mails(harness: Harness) -> list[Any]:
    return sorted(harness.rows(_MAILS), key=lambda row: str(row.outbound_id))


def _owner_of(mail: Any) -> str:
    """Return the address of the customer whom a mail is about, or NOBODY."""
    if mail.customer_email or not mail.order_id:
        return mail.customer_email or NOBODY
    return customer_of(mail.order_id).email


def check_end(harness: Harness, story: Story, customer: Customer) -> None:
    """Raise PromiseBroken unless the customer's story ended as it should: paid once, written once, the
    old link shows what was decided."""
    _check_money(harness, story, customer)
    _check_units(harness, story, customer)
    _check_cancelled(harness, customer)
    _check_mails(harness, story, customer)
    waiting = harness.rows(
        "SELECT 1 FROM inbound_mails WHERE from_address = :e AND status = 'unanswered'",
        e=customer.email,
    )
    if waiting:
        raise PromiseBroken("a mail is unanswered")
    if story.has_link:
        _check_link(harness, customer)


def _check_mails(harness: Harness, story: Story, customer: Customer) -> None:
    """Check what the customer was sent, and what the shop's people were sent about it."""
    got = len(harness.mails_to(customer.email))
    if got != story.end.mails:
        written = harness.rows(
            "SELECT purpose, text FROM outbound_mails WHERE to_address = :to ORDER BY outbound_id",
            to=customer.email,
        )
        words = "\n".join(f"    {row.purpose}: {row.text[:300]}" for row in written)
        raise PromiseBroken(f"the customer has {got} mails, not {story.end.mails}\n{words}")
    theirs = [mail for mail in _mails(harness) if _owner_of(mail) == customer.email]
    sent = _times_sent(harness)
    for mail in theirs:
        if sent[mail.outbound_id] != 1:
            times = sent[mail.outbound_id]
            raise PromiseBroken(f"{mail.purpose} to {mail.to_address} was sent {times} times")
    told = Counter(
        (mail.purpose, mail.to_address) for mail in theirs if mail.to_address != customer.email
    )
    if set(told.values()) - {1}:
        raise PromiseBroken(f"somebody of the shop was told more than once: {told}")


def _check_money(harness: Harness, story: Story, customer: Customer) -> None:
    where = "WHERE order_id = :o"
    refunds = harness.rows(f"SELECT status, amount_minor FROM refunds {where}", o=customer.order_id)
    entries = harness.rows(f"SELECT amount_minor FROM ledger_entries {where}", o=customer.order_id)
    given = [entry.amount_minor for entry in entries]
    given += map(minor_of, _moved(harness, customer.order_id))
    held = harness.rows(f"SELECT held_minor FROM orders {where}", o=customer.order_id)
    expected = story.end.refund.split(", ") if story.end.refund else []
    if sorted(refund.status for refund in refunds) != expected:
        raise PromiseBroken(f"the refunds are {refunds}, not {expected}")
    paid = [refund.amount_minor for refund in refunds if refund.status == "paid"]
    if given != paid:
        raise PromiseBroken(f"the gateway has {given} for what was paid: {paid}")
    if [row.held_minor for row in held] != [sum(paid)]:
        raise PromiseBroken(f"the order holds {held}, and {paid} was paid")


def _check_units(harness: Harness, story: Story, customer: Customer) -> None:
    """Check how many units Shopify took back."""
    if harness.shopify is not None:
        lines = harness.shopify.named(customer.order_id)["lineItems"].all
        gone = sum(each["quantity"] - each["currentQuantity"] for each in lines)
        if gone != story.end.taken_back:
            raise PromiseBroken(f"{gone} units were taken back, not {story.end.taken_back}")


def _check_cancelled(harness: Harness, customer: Customer) -> None:
    """Check that the shop's own system cancelled the order under one key."""
    if harness.order_server is not None:
        times = harness.order_server.count_cancelled(customer.order_id)
        if times != 1:
            raise PromiseBroken(f"the order was cancelled under {times} keys")


def _moved(harness: Harness, order_id: str) -> list[dict[str, Any]]:
    """Return what Shopify gave back of an order; nothing if it has no orders here."""
    if harness.shopify is None:
        return []
    made = harness.shopify.named(order_id)["transactions"].all
    return [each for each in made if each["kind"] == "REFUND"]


def _check_link(harness: Harness, customer: Customer) -> None:
    path = link_in(request_of(harness, customer).text).replace(harness.live.shop.public_url, "")
    page = harness.client.get(path)
    if page.status_code != 200 or 'name="decision"' in page.text:
        raise PromiseBroken(f"the old link answers {page.status_code}, or asks again")


def find_change(story: Story, before: Facts, after: Facts, customer: Customer) -> str | None:
    """Return what a replay changed that it must not, or None. Of a failed run it brings the end on."""
    if story.kind is Kind.FAILED or before[customer.email] == after[customer.email]:
        return None
    old, new = set(before[customer.email]), set(after[customer.email])
    return _told(old, new)


def find_stray(before: Facts, after: Facts) -> str | None:
    """Return which mails that are about no customer a replay brought, or None. The minute's mail to the
    operators that tells which runs have failed is none: it comes when the clock says so."""
    old, new = (
        {fact for fact in facts[NOBODY] if not _tells_of_failed_runs(fact)}
        for facts in (before, after)
    )
    return None if old == new else _told(old, new)


def _tells_of_failed_runs(fact: tuple[Any, ...]) -> bool:
    if fact[0] != "mail":
        return False
    _, _, to_address, purpose, _, text, times = fact
    told = (to_address, purpose) == (OLGA, "notice") and times <= 1
    return told and bool(re.match(r"(Run \S+ has|\d+ runs have) failed", text))


def _told(old: set[tuple[Any, ...]], new: set[tuple[Any, ...]]) -> str:
    return f"changed from {sorted(old - new, key=repr)} to {sorted(new - old, key=repr)}"
