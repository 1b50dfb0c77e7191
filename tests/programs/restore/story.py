"""What is played: money moves and mail is answered in a minute that the database then forgets. After the steps
of docs/backup.md nothing is paid twice, the sums hold, and nobody is answered twice by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mailagent.demo.fakes.mailboxes import Mailboxes
from tests.cast import ADA, DESK_WISH, GRACE, JUERGEN, MONA, TESS, order
from tests.cli.commands import flask, process
from tests.databases import ROOT
from tests.harness import Harness, open_shop, running, wait_until
from tests.programs.restore.databases import BackedUp
from tests.round_trips.approvals import decide, link_in
from tests.stripe_server import StripeServer

DESK, LAMP = "pi_desk", "pi_lamp"
PATIENCE = 120.0  # seconds, for a busy machine


def play(folder: Path, database: BackedUp) -> str:
    """Play the whole story; return what came of it, in words. Raises AssertionError."""
    stripe, mailboxes = StripeServer({DESK: 149900, LAMP: 4999}), Mailboxes()
    try:
        with _shop(folder, database, stripe, mailboxes) as shop:
            _before(shop, database)
            _what_is_lost(shop)
            assert len(stripe.refunds) == 2
        database.restore()
        with _shop(folder, database, stripe, mailboxes) as shop:
            _check_that_it_is_lost(shop)
            _follow_the_steps(shop)
            _go_on(shop)
            return _check(shop, stripe)
    finally:
        stripe.stop()


@contextmanager
def _shop(
    folder: Path, database: BackedUp, stripe: StripeServer, mailboxes: Mailboxes
) -> Iterator[Harness]:
    settings = {
        "PAYMENT_GATEWAY": "stripe",
        "STRIPE_API_KEY": "sk_test_17",
        "STRIPE_API_BASE": stripe.url,
        "STRIPE_WEBHOOK_SECRET": "whsec_17",
    }
    with open_shop(folder, database.url, settings, mailboxes) as shop:
        yield shop


def _before(shop: Harness, database: BackedUp) -> None:
    """A manager is asked, a question waits; then comes the moment that will be restored."""
    grace = {"email": GRACE, "name": "Grace"}
    shop.stock(
        order(
            "W2001",
            items=[{"item_id": "D1", "name": "Desk", "quantity": 1, "unit_price": "1499.00"}],
            payments=[{"payment_id": DESK, "method": "card", "amount": "1499.00"}],
        ),
        order(
            "W3001",
            customer=grace,
            payments=[{"payment_id": LAMP, "method": "card", "amount": "49.99"}],
        ),
    )
    database.backup()
    with running(shop):
        shop.write(DESK_WISH)
        shop.wait_for_mails(MONA, 1, PATIENCE)
        wait_until(shop.at_rest, PATIENCE, "rest")
    shop.write("Which orders of mine do you have?", from_address=JUERGEN, from_name="Jürgen")
    database.note()


def _what_is_lost(shop: Harness) -> None:
    """The manager approves, the customers get their money, the question is answered."""
    with running(shop):
        decide(shop, link_in(shop.mails_to(MONA)[0].text), "approve")
        _ask_for_the_kettle(shop)
        wait_until(
            lambda: [each.status for each in shop.refunds()] == ["paid"] * 2,
            PATIENCE,
            "both to be paid",
        )
        shop.wait_for_mails(JUERGEN, 1, PATIENCE)
        shop.wait_for_mails(GRACE, 2, PATIENCE)
        shop.wait_for_mails(ADA, 2, PATIENCE)  # the second is the receipt
        wait_until(shop.at_rest, PATIENCE, "rest")


def _ask_for_the_kettle(shop: Harness) -> None:
    shop.write(
        "My kettle of order W3001 arrived broken. I want my money back.",
        from_address=GRACE,
        from_name="Grace",
    )


def _check_that_it_is_lost(shop: Harness) -> None:
    assert [each.status for each in shop.refunds()] == ["awaiting_approval"]
    assert [row.status for row in shop.rows("SELECT status FROM inbound_mails ORDER BY 1")] == [
        "answered",
        "unanswered",
    ]


def _follow_the_steps(shop: Harness) -> None:
    """What docs/backup.md says, before any worker runs: its commands, as they are written there."""
    said = {command: _run(shop, command) for command in list_commands(shop.environ["DATABASE_URL"])}
    (told,) = (words for command, words in said.items() if " reconcile " in command)
    assert "so its decision is lost: have it approved again" in told
    assert "49.99 USD was refunded on order W3001 outside mailagent" in told
    doubted = said["flask mails doubt --yes"]
    assert doubted == said["flask mails doubt --dry-run"].replace("Nothing was changed.\n", "")
    assert "0  mails of ours that may have gone out" in doubted
    assert "1  mails of customers that may have been answered" in doubted
    assert said["flask check"].startswith("problem: no worker is alive")


def list_commands(database_url: str) -> list[str]:
    """Return the commands of docs/backup.md that restore a database of this kind, in their order."""
    text = (ROOT / "docs" / "backup.md").read_text("utf-8")
    steps = text[text.index("## Restoring") : text.index("## What cannot be brought back")]
    found = re.findall(r"`((?:MAILAGENT_ROLE=\w+ )?flask [a-z][^`]+)`", steps)
    other = "worker" if database_url.startswith("sqlite") else "all"
    return [
        each.replace("DAYS", "400")
        for each in found
        if not each.startswith(f"MAILAGENT_ROLE={other} ")
    ]


def _run(shop: Harness, command: str) -> str:
    """Run a command; one with a setting of its own, in a process that starts with it."""
    setting, found, arguments = command.partition("flask ")
    assert found
    if not setting:
        return flask(shop, *arguments.split()).output
    name, value = setting.strip().split("=")
    done = process({**shop.environ, name: value}, *arguments.split())
    assert not done.stderr.startswith(("Error", "Usage", "Traceback")), done.stderr
    return done.stdout


def _go_on(shop: Harness) -> None:
    """The workers start; the manager presses the old link again, and Grace asks again."""
    before, receipts = len(shop.mails_to(GRACE)), len(shop.mails_to(ADA))
    with running(shop):
        decide(shop, link_in(shop.mails_to(MONA)[0].text), "approve")
        shop.wait_for_refund("paid", PATIENCE)
        _ask_for_the_kettle(shop)
        shop.wait_for_mails(GRACE, before + 1, PATIENCE)
        shop.wait_for_mails(ADA, receipts + 1, PATIENCE)  # her receipt, again
        shop.wait_for_mails(TESS, 1, PATIENCE)
        wait_until(shop.at_rest, PATIENCE, "rest")
        assert "Everything is in place" in flask(shop, "check").output


def _check(shop: Harness, stripe: StripeServer) -> str:
    # Which of them came first is the queue's affair.
    at_stripe = {each["payment"]: each for each in stripe.refunds}
    assert len(stripe.refunds) == 2, f"paid twice: {stripe.refunds}"
    assert {payment: each["amount"] for payment, each in at_stripe.items()} == {
        DESK: 149900,
        LAMP: 4999,
    }, f"paid otherwise: {stripe.refunds}"
    (desk,) = [each for each in shop.refunds() if each.status == "paid"]
    assert desk.gateway_reference == at_stripe[DESK]["id"]
    external = shop.rows("SELECT reference, amount_minor FROM external_refunds")
    assert [(row.reference, row.amount_minor) for row in external] == [
        (at_stripe[LAMP]["id"], 4999)
    ]
    books = flask(shop, "refunds", "reconcile")
    assert books.exit_code == 0, books.output
    answers = len(shop.mails_to(JUERGEN))
    cases = len(shop.mails_to(TESS))
    return (
        "2 refunds at the gateway before and after, books agree; answers to the question:"
        f" {answers}, cases for the team: {cases}, mails to Ada: {len(shop.mails_to(ADA))}"
    )
