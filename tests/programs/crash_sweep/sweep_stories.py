"""What the sweep is for: rows whose wake-ups were lost, runs of a worker that is gone, mail that was throttled.

The schedule wakes the sweep once a minute; these stories wake it themselves, every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from dbos import DBOSClient, DBOSPortableJSONSerializer

from mailagent import engine
from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.fakes.mailboxes import CustomerMailState
from mailagent.demo.scripted_model import Call, CustomerRequest, ToolResult, Turn
from mailagent.domain.operations.provider import OPENAI
from mailagent.store import schema
from mailagent.store.console import sessions
from mailagent.store.ids import new_id
from tests.cast import ADA, DESK_WISH, GRACE, JUERGEN, MALLORY, MONA, OLGA, TESS
from tests.programs.crash_sweep import people
from tests.programs.crash_sweep.shop import QUESTION, SweptShop
from tests.programs.crash_sweep.story import EVENTS, Story, steps

WAKE_PAUSE_SECONDS = 4.0
PAUSE = timedelta(minutes=10)  # before OpenAI is asked again
# Longer than the sweep leaves a row alone, or a budget throttles a mail.
LONG_AGO = timedelta(minutes=70)

SWEEP = steps(
    "report_failed_runs take_over_runs enqueue_mail enqueue_refunds enqueue_deliveries"
    " release_throttled_mail purge_raw_mail"
)
HOUSEKEEPING = steps(
    "tell_overdue_settlements report_to_owners purge_short_lived purge_content purge_histories"
)


class ScheduledRuns:
    """Enqueues one scheduled workflow again and again, but never twice within a few seconds."""

    def __init__(self, shop: SweptShop, workflow: str) -> None:
        self._client = DBOSClient(
            system_database_engine=shop.database.engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name=engine.APPLICATION_NAME,
            lazy=True,
        )
        self._workflow = workflow
        self._last_at = 0.0

    def enqueue(self) -> bool:
        """Enqueue a run if the last one was a while ago; always True, so that a wait can go on with `and`."""
        if time.monotonic() - self._last_at >= WAKE_PAUSE_SECONDS:
            self._last_at = time.monotonic()
            run_id = new_id(self._workflow)
            self._client.enqueue(
                {
                    "workflow_name": self._workflow,
                    "queue_name": engine.DELIVERIES,
                    "workflow_id": run_id,
                },
                "now",
                None,
            )
        return True

    def close(self) -> None:
        self._client.destroy()


def _leave_everything(shop: SweptShop) -> None:
    """Leave mail of ours and a refund without runs, then mails that came in, each in another trouble."""
    shop.faults.sendgrid += [_is_busy] * 20
    shop.write(DESK_WISH)
    shop.wait(
        lambda: _count(shop, "outbound_mails", "attempts > 0 AND status = 'queued'") == 2,
        "two mails to be refused",
    )
    shop.wait(lambda: not _conversations_at_work(shop), "the conversation's run to end")
    shop.stop()
    shop.faults.sendgrid.clear()
    _lose_runs(shop, engine.DELIVERY, engine.REFUND)
    shop.openai.answers.clear()
    shop.start()
    for person in (GRACE, JUERGEN, MALLORY):
        shop.write(QUESTION, from_address=person, from_name="")
    shop.wait(lambda: _conversations_at_work(shop) == 3, "three conversations to be begun")
    shop.wait(lambda: _all_taken(shop), "the letters to be taken")
    shop.stop()
    shop.openai.answers.set()
    _let_time_pass(shop)
    _lose_run_of(shop, GRACE)
    _park(shop, MALLORY)
    _begin_elsewhere(shop, JUERGEN)


def _is_busy(_accept: Callable[[], Answer]) -> Answer:
    # Not one that leaves open whether the mail was taken: then it counts what else SendGrid tells of.
    return Answer(429)


def _count(shop: SweptShop, table: str, condition: str) -> int:
    return shop.scalar(f"SELECT count(*) FROM {table} WHERE {condition}")


def _conversations_at_work(shop: SweptShop) -> int:
    return _count(
        shop, f"{shop.dbos}workflow_status", "name = 'conversation' AND status <> 'SUCCESS'"
    )


def _all_taken(shop: SweptShop) -> bool:
    return all(each.state is CustomerMailState.DELIVERED for each in shop.mailboxes.letters())


def _lose_runs(shop: SweptShop, *workflows: str) -> None:
    for workflow in workflows:
        assert shop.change(f"DELETE FROM {shop.dbos}workflow_status WHERE name = :w", w=workflow)


def _lose_run_of(shop: SweptShop, person: str) -> None:
    assert shop.change(f"DELETE FROM {shop.dbos}workflow_status {_RUN_OF}", person=person)


_RUN_OF = "WHERE workflow_uuid = (SELECT run_id FROM inbound_mails WHERE from_address = :person)"


def _park(shop: SweptShop, person: str) -> None:
    _lose_run_of(shop, person)
    assert shop.change(
        "UPDATE inbound_mails SET status = 'throttled', no_answer_reason = 'more than 60 mails an hour'"
        " WHERE from_address = :person",
        person=person,
    )


def _begin_elsewhere(shop: SweptShop, person: str) -> None:
    """Have a worker begin a run and vanish."""
    assert shop.change(
        f"UPDATE {shop.dbos}workflow_status SET status = 'PENDING', executor_id = 'gone-1' {_RUN_OF}",
        person=person,
    )


def _let_time_pass(shop: SweptShop) -> None:
    """Make rows older than they are; one raw mail so old that it may be kept no longer."""
    then = datetime.now(UTC) - LONG_AGO
    raw = schema.raw_mails
    first = sa.select(sa.func.min(raw.c.mail_id)).scalar_subquery()
    with shop.database.transaction() as connection:
        connection.execute(schema.inbound_mails.update().values(received_at=then))
        # A worker that has just come up takes nothing over before it knows who else lives.
        connection.execute(schema.workers.update().values(steady_since=then))
        connection.execute(schema.breakers.delete())  # SendGrid is well by now
        connection.execute(schema.refunds.update().values(requested_at=then))
        mails = schema.outbound_mails
        connection.execute(mails.update().values(created_at=then, next_attempt_at=None))
        old = datetime.now(UTC) - timedelta(days=40)
        connection.execute(raw.update().where(raw.c.mail_id == first).values(received_at=old))


def _the_sweep_sees_to_everything(shop: SweptShop) -> None:
    sweeps = ScheduledRuns(shop, engine.SWEEP)
    shop.wait(lambda: sweeps.enqueue() and bool(shop.mails_to(MONA)), "the manager to be asked")
    people.decide(shop, MONA, "approve")
    for person, count in ((ADA, 2), (GRACE, 1), (JUERGEN, 1), (MALLORY, 1)):
        shop.wait(
            lambda person=person, count=count: sweeps.enqueue() and _has(shop, person, count),  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            f"{count} mails to {person}",
        )
    sweeps.close()


def _has(shop: SweptShop, person: str, count: int) -> bool:
    return len(shop.mails_to(person)) >= count


def _openai_is_away(shop: SweptShop) -> None:
    """Nobody is to ask the model when Ada writes; after a while it is well again."""
    with shop.database.transaction() as connection:
        connection.execute(schema.breakers.insert().values(_open_breaker(PAUSE)))
    sweeps = ScheduledRuns(shop, engine.SWEEP)
    shop.write(QUESTION)
    put_off = f"put_off > 0 AND from_address = '{ADA}'"
    shop.wait(lambda: _count(shop, "inbound_mails", put_off) == 1, "the mail to be put off")
    shop.wait(lambda: not _conversations_at_work(shop), "the run to end")
    with shop.database.transaction() as connection:
        connection.execute(schema.breakers.update().values(_open_breaker(-PAUSE)))
    shop.wait(lambda: sweeps.enqueue() and _has(shop, ADA, 1), "the answer")
    sweeps.close()


def _open_breaker(ahead: timedelta) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "provider": OPENAI.name,
        "failures": 5,
        "opened_at": now - timedelta(hours=1),
        "until_at": now + ahead,
        "why": "500",
    }


def _has_old_histories(shop: SweptShop) -> None:
    """Answer a question, long ago."""
    shop.write(QUESTION)
    shop.wait_for_mails(ADA)
    shop.wait_for_quiet()
    shop.stop()
    then = datetime.now(UTC) - timedelta(days=40)
    with shop.database.transaction() as connection:
        sessions.begin(connection, sessions.new_secret(), TESS, then, then)
    times = {"then": round(then.timestamp() * 1000)}
    shop.change(
        f"UPDATE {shop.dbos}workflow_status"
        " SET created_at = :then, updated_at = :then, completed_at = :then",
        **times,
    )


def _housekeeping_deletes_them(shop: SweptShop) -> None:
    notifications = ScheduledRuns(shop, engine.HOUSEKEEPING)
    runs = f"SELECT count(*) FROM {shop.dbos}workflow_status WHERE name ="
    shop.wait(
        lambda: (
            notifications.enqueue()
            and shop.scalar(f"{runs} 'housekeeping' AND status = 'SUCCESS'") > 0
        ),
        "the housekeeping to be done",
    )
    shop.wait_for_quiet()
    notifications.close()
    yesterday = round((datetime.now(UTC) - timedelta(days=1)).timestamp() * 1000)
    old = shop.scalar(f"{runs} 'conversation' AND created_at < {yesterday}")
    assert (old, shop.scalar("SELECT count(*) FROM sessions")) == (0, 0), (
        "what is old is still there"
    )


NEW_ADDRESS = {"street": "12 New Road", "zip": "10117", "city": "Berlin"}
WISH = "12 New Road, 10117 Berlin"


def _names_the_parts(
    _request: CustomerRequest, results: list[ToolResult], _corrected: bool
) -> Turn | None:
    """Give the parts of the new address, which the demo's model does not."""
    if [each.name for each in results] != ["look_at_order"]:
        return None
    nothing = dict.fromkeys(("name", "extra", "province", "country"))
    asked = {"order_id": "W1008", "kind": "change_address", "items": [], "reason": "other"}
    return Call("request_change", asked | {"wish": WISH, "address": nothing | NEW_ADDRESS})


def _address_is_changed_by_shopify(shop: SweptShop) -> None:
    assert shop.shopify is not None
    changed: list[dict[str, Any]] = []
    shop.shopify.after_update = changed.append
    sweeps = ScheduledRuns(shop, engine.SWEEP)
    shop.write(f"Please change the delivery address of my order W1008 to:\n{WISH}")
    shop.wait(lambda: sweeps.enqueue() and _has(shop, ADA, 2), "the address to be changed")
    sweeps.close()
    assert changed
    for (
        order
    ) in changed:  # once more if the app dies before it has recorded that the order was changed
        address = order["shippingAddress"]
        found = address["address1"], address["zip"], address["city"]
        assert found == tuple(NEW_ADDRESS.values()), f"it goes to {found}"
    assert [row.status for row in shop.rows("SELECT status FROM remedies")] == ["done"]


STORIES = (
    Story(
        "left lying", _the_sweep_sees_to_everything,
        {ADA: 2, MONA: 1, GRACE: 1, JUERGEN: 1, MALLORY: 1, OLGA: 1},
        SWEEP | steps(
            "take_batch ask_model write_reply send_mail look_at_delivery claim_refund"
            " look_at_decision pay_refund tell_customer"
        ),
        frozenset({EVENTS, "POST /approvals/<token>"}), refunds=("paid",), deciders=(MONA,),
        prepare=_leave_everything, raw_mails_purged=1,
    ),
    Story(
        "OpenAI away", _openai_is_away, {ADA: 1, OLGA: (0, 2)},
        SWEEP | steps(
            "take_batch ask_model put_off write_reply send_mail"
        ),
    ),
    Story(
        "address changed by Shopify", _address_is_changed_by_shopify, {ADA: 2},
        SWEEP | steps(
            "take_batch look_up_orders ask_model request_change write_reply send_mail look_at_delivery"
        ),
        policy="remedies = { change_address_by_source = true }", shopify=True,
        script=_names_the_parts,
    ),
    Story(
        "what is old goes", _housekeeping_deletes_them, {ADA: 1},
        HOUSEKEEPING, frozenset(), prepare=_has_old_histories,
    ),
)  # fmt: skip
