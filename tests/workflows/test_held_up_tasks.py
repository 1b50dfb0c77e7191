"""An exchange does not lapse while people may not send it, as a refund of its items waits for a manager."""

from __future__ import annotations

import pytest

from mailagent import services
from mailagent.domain.refunds.policy import Remedies
from mailagent.domain.text import tell_day
from mailagent.store.refunds import remedies
from mailagent.workflows.steps.maintenance import tasks
from mailagent.workflows.tools.request_change import request_change
from tests.cast import order
from tests.harness import Harness, pass_time
from tests.tool_use import use
from tests.workflows.camera import later_batch, reject
from tests.workflows.paying import look
from tests.workflows.proposals import propose, write

pytestmark = pytest.mark.both_databases

TASK_DAYS = Remedies().task_days


@pytest.fixture(autouse=True)
def exchange(shop: Harness) -> None:
    """Ada wants a red kettle, then her money."""
    shop.stock(order())
    batch = write(shop, text="Or swap the kettle for a red one.")
    kettle = {"items": [{"item_id": "K1", "quantity": None}], "reason": "other", "wish": None}
    asked = {"order_id": "W1001", "kind": "exchange"} | kettle
    assert use(request_change, batch, asked)["outcome"] == "task"
    assert propose(later_batch(shop, batch), "W1001")["outcome"] == "needs_manager"


def status(shop: Harness) -> str:
    return str(shop.rows("SELECT status FROM remedies")[0].status)


def sweep_after(shop: Harness, days: float) -> str:
    """Sweep so many days after the exchange was asked for; return its state then."""
    pass_time(shop, days=days)
    tasks.see_to()
    return status(shop)


def told_as_late(shop: Harness) -> bool:
    late = "SELECT 1 FROM outbound_mails WHERE text LIKE '%was not done in time%'"
    return bool(shop.rows(late))


def test_it_does_not_lapse_while_a_manager_decides(shop: Harness) -> None:
    assert sweep_after(shop, TASK_DAYS + 0.1) == "task"
    assert tasks.see_to() == 0  # it has a later date
    assert not told_as_late(shop)
    assert [refund.status for refund in shop.refunds()] == ["awaiting_approval"]


def test_people_have_their_time_once_a_manager_has_refused(shop: Harness) -> None:
    pass_time(shop, days=TASK_DAYS - 0.1)
    reject(shop)
    assert sweep_after(shop, TASK_DAYS + 1) == "task"
    assert sweep_after(shop, 2 * TASK_DAYS) == "expired"
    assert told_as_late(shop)


def test_people_have_their_time_once_no_manager_has_decided(shop: Harness) -> None:
    week = services.current().waits.approval_expiry.days
    pass_time(shop, days=week + 0.1)
    assert look(shop.refunds()[0].refund_id)["status"] == "expired"
    assert sweep_after(shop, week + TASK_DAYS) == "task"
    assert sweep_after(shop, week + TASK_DAYS + 0.2) == "expired"


def dates_told(shop: Harness) -> list[str]:
    rows = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'remedy' ORDER BY created_at")
    return [
        row.text.split("We write to you by ")[1].split(" at the latest")[0]
        for row in rows
        if "Exchange for order W1001: our team has your request." in row.text
    ]


def due_day(shop: Harness) -> str:
    with shop.live.database.snapshot() as connection:
        (remedy,) = remedies.list_open(connection)
    return tell_day(remedy.due_at)


def test_the_customer_is_told_the_later_date(shop: Harness) -> None:
    assert dates_told(shop) == []  # the reply tells the first one
    sweep_after(shop, TASK_DAYS + 0.1)
    first = due_day(shop)
    tasks.see_to()
    assert dates_told(shop) == [first]
    sweep_after(shop, 2 * TASK_DAYS + 0.2)
    assert dates_told(shop) == [first, due_day(shop)]


def test_a_refusal_that_moves_the_date_tells_it(shop: Harness) -> None:
    pass_time(shop, days=1.1)
    reject(shop)
    assert dates_told(shop) == [due_day(shop)]
