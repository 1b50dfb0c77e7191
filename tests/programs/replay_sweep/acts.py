"""What the people of a story do: customers write, managers decide, the team sends drafts. Each customer
has an order and a thread of their own, so that many stories go on beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.demo.fakes.openai import answer_to
from mailagent.demo.scripted_model import Call
from mailagent.domain.operations.incident import IncidentKind
from mailagent.store import schema
from mailagent.store.operations import incidents
from tests.cast import MONA, TESS, big_order, order
from tests.harness import Harness, post_form, wait_until
from tests.programs.replay_sweep.rest import list_busy, wake_again
from tests.round_trips.approvals import decide, link_in

PATIENCE_SECONDS = 120.0  # long, for machines that do much else


@dataclass(frozen=True, slots=True)
class Customer:
    """Somebody with one order."""

    number: int

    @property
    def email(self) -> str:
        return f"customer{self.number}@example.com"

    @property
    def order_id(self) -> str:
        return f"W{self.number + 10_000}"


def customer_of(order_id: str) -> Customer:
    """Return whose order that is."""
    return Customer(int(order_id.removeprefix("W")) - 10_000)


Act = Callable[[Harness, Customer], None]


def stock(harness: Harness, customer: Customer, dear: bool, changes: Mapping[str, Any]) -> None:
    """Put the customer's order on the books."""
    make = big_order if dear else order
    owner = {"email": customer.email, "name": "A Customer"}
    made = make(customer.order_id, customer=owner, **changes)
    system = harness.shopify or harness.order_server
    if system is not None:
        system.stock(made)
    else:
        harness.stock(made)


def writes(text: str) -> Act:
    """The customer writes; `{order}` stands for the number of their order."""

    def act(harness: Harness, customer: Customer) -> None:
        harness.write(text.format(order=customer.order_id), from_address=customer.email)

    return act


def model_names_the_parts(wish: str, **parts: str) -> Act:
    """Have the model ask for the new address by its parts, which the demo's model does not name."""

    def act(harness: Harness, customer: Customer) -> None:
        nothing = dict.fromkeys(("name", "street", "extra", "zip", "city", "province", "country"))
        asked: dict[str, Any] = {"kind": "change_address", "items": [], "reason": "other"}
        asked |= {"wish": wish, "order_id": customer.order_id, "address": nothing | parts}
        call = Call("request_change", asked)
        answer = answer_to({"model": "scripted"}, call, customer.email.encode())
        harness.faults.openai.append(lambda: Answer(200, answer))

    return act


def sweep_comes(_harness: Harness, _customer: Customer) -> None:
    """Have the sweep ask for the changes of addresses, as it does each minute."""
    wake_again()


def answers(text: str) -> Act:
    """The customer answers the newest mail that they have."""

    def act(harness: Harness, customer: Customer) -> None:
        last = harness.mails_to(customer.email)[-1]
        harness.write(
            text, from_address=customer.email, to=last.reply_to, in_reply_to=last.message_id
        )

    return act


def comes_to_rest(harness: Harness, customer: Customer) -> None:
    """Wait until no run is at work, so that those that wait have come to the same step."""
    _wait(lambda: not list_busy(harness), f"the runs of {customer.email} to wait")


def _remedy_of(harness: Harness, customer: Customer) -> str:
    query = "SELECT remedy_id FROM remedies WHERE order_id = :o"
    (row,) = harness.rows(query, o=customer.order_id)
    return str(row.remedy_id)


def team_says(button: str) -> Act:
    """Tess presses a button at the customer's task."""

    def act(harness: Harness, customer: Customer) -> None:
        path = f"/ops/tasks/{_remedy_of(harness, customer)}"
        done = post_form(harness.log_in(TESS), path, "/ops", **{button: "yes"})
        assert done.status_code == 303, done.text

    return act


def chooses_credit(harness: Harness, customer: Customer) -> None:
    """The customer chooses store credit, which our mail has offered."""
    answers("I take the store credit, please.")(harness, customer)
    query = "SELECT 1 FROM refunds WHERE order_id = :o AND credit_bonus IS NOT NULL"
    _wait(lambda: bool(harness.rows(query, o=customer.order_id)), "store credit to be chosen")


def gets_mails(count: int) -> Act:
    def act(harness: Harness, customer: Customer) -> None:
        harness.wait_for_mails(customer.email, count, PATIENCE_SECONDS)

    return act


def no_breaker_opens(harness: Harness, customer: Customer) -> None:
    """Wait for the customer's mail, and forget that its provider has failed: not what this is about."""
    gets_mails(1)(harness, customer)
    _forget_failures(harness)


def writes_first(text: str) -> Act:
    """The customer writes as if they were the first: with the model's breaker or incident open, their run would
    not fail but be put off. Both are open when the first replay comes, as the last of them has left them."""

    def act(harness: Harness, customer: Customer) -> None:
        _forget_failures(harness)
        writes(text)(harness, customer)

    return act


def run_fails(harness: Harness, customer: Customer) -> None:
    """Wait for the run of the customer's mail to fail."""

    query = "SELECT run_id FROM inbound_mails WHERE from_address = :e"
    (mail,) = harness.rows(query, e=customer.email)
    _wait_until_failed(harness, mail.run_id)


def _wait_until_failed(harness: Harness, run_id: str) -> None:
    def has_failed() -> bool:
        run = harness.live.workflow_client.runs.find_run(run_id)
        return run is not None and run.has_failed

    _wait(has_failed, f"run {run_id} to fail")


def _forget_failures(harness: Harness) -> None:
    with harness.live.database.transaction() as connection:
        connection.execute(schema.breakers.delete())
        incidents.close_incident(connection, harness.live.now(), IncidentKind.OPENAI)


def forget_absences(harness: Harness) -> None:
    """Ask Mona first again. While a run stands still, what became of its mail to her may stay unknown; then
    she is not asked for a day."""
    with harness.live.database.transaction() as connection:
        connection.execute(schema.manager_absences.delete())


def one_by_one(*acts: Act) -> Act:
    """Let each customer do all of this before the next one begins."""

    def act(harness: Harness, customer: Customer) -> None:
        for each in acts:
            each(harness, customer)

    return act


def refund_is(status: str) -> Act:
    def act(harness: Harness, customer: Customer) -> None:
        _wait(
            lambda: statuses_of(harness, customer) == [status],
            f"the refund of {customer.email} to be {status}",
        )

    return act


def statuses_of(harness: Harness, customer: Customer) -> list[str]:
    rows = harness.rows("SELECT status FROM refunds WHERE order_id = :o", o=customer.order_id)
    return [row.status for row in rows]


def request_of(harness: Harness, customer: Customer) -> SentMail:
    """Return the mail that asks Mona about the customer's order; the first, if there are more."""

    def asked() -> list[SentMail]:
        return [mail for mail in harness.mails_to(MONA) if customer.order_id in mail.text]

    _wait(lambda: bool(asked()), f"Mona to be asked about {customer.order_id}")
    return asked()[0]


def is_asked(harness: Harness, customer: Customer) -> None:
    request_of(harness, customer)


def fails_when_woken(harness: Harness, customer: Customer) -> None:
    """Enqueue the customer's refund, and wait for its run to fail."""
    query = "SELECT refund_id, run_id FROM refunds WHERE order_id = :o"
    (refund,) = harness.rows(query, o=customer.order_id)
    with harness.live.database.transaction() as connection:
        harness.live.workflow_client.queue.enqueue_refund(
            connection, refund.refund_id, refund.run_id
        )
    _wait_until_failed(harness, refund.run_id)


def manager_says(decision: str, **form: str) -> Act:
    """Mona decides by the first link that she got, however often the run was replayed since."""

    def act(harness: Harness, customer: Customer) -> None:
        decide(harness, link_in(request_of(harness, customer).text), decision, **form)

    return act


def credit_is_given(harness: Harness, customer: Customer) -> None:
    """A manager gives the store credit, and enters its code."""
    query = "SELECT idempotency_key AS id FROM ledger_entries WHERE order_id = :o"
    _wait(lambda: bool(harness.rows(query, o=customer.order_id)), "the store credit to be recorded")
    (entry,) = harness.rows(query, o=customer.order_id)
    path = f"/ops/settlements/{entry.id}"
    post_form(harness.log_in(MONA), path, "/ops/settlements", settle="yes", reference="GIFT-1234")


def drafts_of(harness: Harness, customer: Customer) -> list[str]:
    rows = harness.rows(
        "SELECT draft_id FROM drafts JOIN conversations USING (conversation_id)"
        " WHERE customer_email = :e AND drafts.state = 'waiting'",
        e=customer.email,
    )
    return [row.draft_id for row in rows]


def has_draft(harness: Harness, customer: Customer) -> None:
    _wait(lambda: len(drafts_of(harness, customer)) == 1, f"a draft to {customer.email}")


def team_sends_draft(harness: Harness, customer: Customer) -> None:
    (draft_id,) = drafts_of(harness, customer)
    client = harness.log_in(TESS)
    post_form(client, f"/ops/drafts/{draft_id}", action="send")


def _wait(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, PATIENCE_SECONDS, what)
