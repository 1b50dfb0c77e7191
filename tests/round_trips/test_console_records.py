"""What DBOS keeps of runs, and its console shows, holds nobody's words, names or addresses: all of its tables
are read after stories in which each of those has a canary. The message of a mistake or of a refusal stands
there, for it says why a run failed; addresses in it are masked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.scripted_model import Fact
from mailagent.domain.refunds.order import Order
from mailagent.store import schema
from tests import stripe_server
from tests.cast import ADA, MONA, TESS, big_order, order
from tests.harness import Harness, open_shop, running, wait_until
from tests.histories.stories import ended
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.mail_with_file import write_with_file
from tests.round_trips.provider_faults import limited, model_says
from tests.stripe_server import StripeServer
from tests.tool_calls import WHICH_ORDER, calls, says
from tests.workflows.trouble import watched

CANARY = "Canary"  # also in what `write_with_file` writes
SAYS_IT = {"from_name": f"Ada {CANARY}", "subject": f"My order {CANARY}"}


def ordered(make: Callable[..., Order], **changes: Any) -> Order:
    customer = {"email": ADA, "name": f"Ada {CANARY}"}
    return make(customer=customer, **changes)


def cells_of(shop: Harness, ours: bool) -> list[str]:
    """Return all that stands in our tables, or in all others of the database."""
    engine = shop.live.database.engine
    dbos = "dbos" if engine.dialect.name == "postgresql" else None
    names = sa.inspect(engine).get_table_names(schema=None if ours else dbos)
    wanted = [each for each in names if (each in schema.metadata.tables) is ours]
    prefix = "dbos." if dbos and not ours else ""
    with engine.connect() as connection:
        return [
            f"{table}.{column}: {value!r}"
            for table in wanted
            for row in connection.execute(sa.text(f'SELECT * FROM {prefix}"{table}"'))
            for column, value in row._mapping.items()
        ]


def assert_dbos_has_no_words(shop: Harness) -> None:
    """See that a canary sang in our rows, and that DBOS's have neither it nor any address."""
    assert any(CANARY in cell for cell in cells_of(shop, ours=True))
    theirs = cells_of(shop, ours=False)
    assert any("take_batch" in cell for cell in theirs)
    assert [cell for cell in theirs if CANARY.lower() in cell.lower()] == []
    assert [cell for cell in theirs if "@" in cell] == []


def wait_for_failed_run(shop: Harness, workflow: str) -> str:
    """Wait for a run that fails; return its error as DBOS has it."""

    def failed() -> list[str]:
        runs = shop.live.workflow_client.runs.list_runs(status="ERROR")
        return [run.error or "" for run in runs if run.workflow == workflow]

    wait_until(lambda: bool(failed()), 60, "the run to fail")
    return failed()[0]


def wait_for_rest(shop: Harness) -> None:
    wait_until(lambda: ended(shop), 60, "all runs to end")


# --- the stories ----------------------------------------------------------------------------------


def a_question_with_a_false_answer(shop: Harness) -> None:
    shop.stock(ordered(order))
    shop.faults.openai += [
        calls("find_my_orders"),
        calls("look_at_order", order_id=f"W1001 {CANARY}"),
        calls(f"give_{CANARY}"),
        says(f"Dear {CANARY}, we have refunded $49.99 to your card today."),
        says(f"Dear {CANARY}, which order do you mean?", WHICH_ORDER),
    ]
    write_with_file(shop, f"Where is my kettle? {CANARY}")
    shop.wait_for_mails(ADA)


def a_refund_that_the_model_asks_for_oddly(shop: Harness) -> None:
    kettle = {"item_id": CANARY, "name": f"Kettle {CANARY}", "quantity": 1, "unit_price": "49.99"}
    shop.stock(ordered(order, items=[kettle]))
    items = [{"item_id": CANARY, "quantity": 1}]
    shop.faults.openai += [
        calls("propose_refund", order_id=CANARY, items=items, reason="damaged"),
        calls("propose_refund", order_id="W1001", items=items, reason="damaged"),
        calls("withdraw_refund", order_id=CANARY),
        says(f"Dear {CANARY}", Fact("refund/W1001")),
    ]
    shop.write(f"My kettle of W1001 is broken. {CANARY}", **SAYS_IT)
    shop.wait_for_mails(ADA, 2)


def a_hand_over_and_the_team_s_answer(shop: Harness) -> None:
    summary = {"reason": "customer_asked", "summary": f"{CANARY} wants a person."}
    shop.faults.openai.append(calls("hand_over", **summary))
    shop.write(f"I want a person! {CANARY}", **SAYS_IT)
    (case,) = shop.wait_for_mails(TESS)
    assert CANARY in case.text
    (row,) = shop.rows("SELECT conversation_id FROM conversations")
    page = f"{shop.live.shop.public_url}/ops/conversations/{row.conversation_id}"
    assert page in case.text
    assert page in (case.html or "")
    quoted = "\n".join(f"> {line}" for line in case.text.splitlines())
    shop.write(
        f"Dear {CANARY}, I will call you.\n\nOn Monday we wrote:\n{quoted}",
        from_address=TESS, from_name=f"Tess {CANARY}", to=str(case.reply_to), subject=f"Re: {case.subject}",
    )  # fmt: skip
    for mail in shop.wait_for_mails(ADA, 2):  # also not as a quotation
        assert page not in f"{mail.text}{mail.html}"


def a_manager_s_decision(shop: Harness) -> None:
    shop.stock(ordered(big_order))
    shop.write(
        f"The standing desk of order W2001 is damaged, please refund it. {CANARY}", **SAYS_IT
    )
    (request,) = shop.wait_for_mails(MONA)
    decide(shop, link_in(request.text), "approve", note=f"for {CANARY}")
    shop.wait_for_refund("paid")
    shop.wait_for_mails(ADA, 2)


def mail_that_sendgrid_puts_off(shop: Harness) -> None:
    shop.faults.sendgrid.append(limited)
    shop.write(f"Where is my order? {CANARY}", **SAYS_IT)
    shop.wait_for_mails(ADA)


def mail_that_sendgrid_refuses(shop: Harness) -> None:
    told = {"errors": [{"message": f"{CANARY} <{ADA}> does not exist", "field": None}]}
    shop.faults.sendgrid.append(lambda _accept: Answer(413, told))
    shop.write(f"Where is my order? {CANARY}", **SAYS_IT)
    shop.wait_for_mails(TESS)


def a_model_that_refuses_us(shop: Harness) -> None:
    refused = model_says(401, "invalid_api_key")().value
    assert isinstance(refused, dict)
    refused["error"]["message"] = f"{CANARY} {ADA}: wrong key"
    shop.faults.openai += [lambda: Answer(401, refused)] * 3
    shop.write(f"Where is my order? {CANARY}", **SAYS_IT)
    assert "401" in wait_for_failed_run(shop, "conversation")


def a_mistake_in_a_step(shop: Harness) -> None:
    def fail() -> None:
        raise ValueError(f"mail of {ADA} cannot be read")

    with watched("write_reply after", fail):
        shop.write(f"Where is my order? {CANARY}", **SAYS_IT)
        error = wait_for_failed_run(shop, "conversation")
    assert error.startswith("ValueError in mailagent.")
    assert error.endswith("mail of [address] cannot be read")


STORIES = [
    a_question_with_a_false_answer,
    a_refund_that_the_model_asks_for_oddly,
    a_hand_over_and_the_team_s_answer,
    a_manager_s_decision,
    mail_that_sendgrid_puts_off,
    mail_that_sendgrid_refuses,
    a_model_that_refuses_us,
    a_mistake_in_a_step,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_nobodys_words_are_in_what_the_console_shows(
    busy_shop: Harness, story: Callable[[Harness], None]
) -> None:
    story(busy_shop)
    wait_for_rest(busy_shop)
    assert_dbos_has_no_words(busy_shop)


def test_nor_are_those_of_a_gateway_that_refuses(tmp_path: Path, database_url: str) -> None:
    stripe = StripeServer({"pi_card": 4999})
    told = f"{ADA} has no balance"
    stripe.refusal = stripe_server.error(400, "balance_insufficient", told)
    settings = {
        "PAYMENT_GATEWAY": "stripe",
        "STRIPE_API_KEY": "sk_test_17",
        "STRIPE_API_BASE": stripe.url,
    }
    card = {"payment_id": "pi_card", "method": "card", "amount": "49.99"}
    with open_shop(tmp_path, database_url, settings) as shop, running(shop):
        shop.stock(ordered(order, payments=[card]))
        shop.write(
            f"My kettle of order W1001 arrived broken. I want my money back. {CANARY}", **SAYS_IT
        )
        error = wait_for_failed_run(shop, "refund")
        assert "400 balance_insufficient: [address] has no balance" in error
        wait_for_rest(shop)
        assert_dbos_has_no_words(shop)
    stripe.stop()
