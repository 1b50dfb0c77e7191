"""Replay workflows and read what they did."""

from __future__ import annotations

import re
from typing import Any

from mailagent.domain.refunds.payment import OutcomeUnknown, PaymentOutcome, RefundRequest
from mailagent.engine import ACTIVE
from mailagent.store.refunds.ledger import LedgerGateway
from tests.cast import ADA, DESK_WISH, MONA, OLGA, TESS, big_order
from tests.harness import Harness, beside, post_form, wait_until
from tests.round_trips.approvals import decide, link_in


def in_the_console(shop: Harness, run_id: str, how: str) -> None:
    client = shop.log_in(OLGA)
    page = client.get(f"/ops/runs/{run_id}/replay").text
    fields = dict(re.findall(r'name="(from_step|seen|number)" value="([^"]*)"', page))
    answer = post_form(
        client, f"/ops/runs/{run_id}/replay", f"/ops/runs/{run_id}/replay", how=how, **fields
    )
    assert answer.status_code == 303, answer.text


def by_our_command(shop: Harness, run_id: str) -> None:
    result = beside(lambda: shop.app.test_cli_runner().invoke(args=["runs", "replay", run_id]))
    assert result.exit_code == 0, result.output


class ClosedBank(LedgerGateway):
    """A gateway whose answers are of no use, so that somebody has to look."""

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        return OutcomeUnknown(f"the bank says nothing of {request.refund_id}", for_people=True)


def wait_for_quiet(shop: Harness) -> None:
    def quiet() -> bool:
        return not any(run.status in ACTIVE for run in shop.live.workflow_client.runs.list_runs())

    wait_until(quiet, 30, "every run to end")


def runs_of(shop: Harness, workflow: str) -> list[str]:
    return [
        run.run_id for run in shop.live.workflow_client.runs.list_runs() if run.workflow == workflow
    ]


def facts(shop: Harness) -> tuple[Any, ...]:
    """Return what must not change by a replay: mail, money, decisions."""
    return (
        [mail.mail_id for person in (ADA, MONA, TESS) for mail in shop.mails_to(person)],
        shop.rows("SELECT * FROM ledger_entries"),
        shop.rows("SELECT refund_id, status, amount_minor, gateway_reference FROM refunds"),
        shop.rows("SELECT * FROM decisions"),
        shop.rows("SELECT mail_id, status, answered_by FROM inbound_mails"),
    )


def play_approved(shop: Harness) -> None:
    shop.stock(big_order())
    shop.write(DESK_WISH)
    (request,) = shop.wait_for_mails(MONA)
    decide(shop, link_in(request.text), "approve")
    shop.wait_for_refund("paid")
    shop.wait_for_mails(ADA, 2)
    wait_for_quiet(shop)
