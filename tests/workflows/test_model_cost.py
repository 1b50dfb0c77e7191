"""What the model costs: prompts that are cached, and a budget a day that holds
mail back and loses none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mailagent import services
from mailagent.agent.prompt import estimate_tokens
from mailagent.bootstrap import NotConfigured
from mailagent.domain.operations.incident import IncidentKind, tell_incident
from mailagent.domain.operations.model_cost import day_begins_at, parse_prices
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.store import ids
from mailagent.store.operations import incidents as open_incidents
from mailagent.store.operations import model_calls
from mailagent.store.operations.model_calls import Spending
from mailagent.workflows.steps.conversation import rate_limit
from mailagent.workflows.steps.maintenance import incidents, sweep
from tests.cast import ADA, GRACE, JUERGEN, KETTLE_WISH, OLGA, TESS, order
from tests.harness import Harness, open_shop, running, wait_until
from tests.programs.stampede.story import Clock
from tests.workflows.watched_model import WatchedModel

# https://platform.openai.com/docs/guides/prompt-caching: from 1,024 tokens on.
LEAST_CACHED_TOKENS = 1024
# docs/benchmarks.md names about 3,000 of instructions and tools.
MOST_STANDING_TOKENS = 3_200


def models(shop: Harness) -> list[str]:
    return [row.model for row in shop.rows("SELECT model FROM model_calls ORDER BY call_id")]


# --- the provider's cache -------------------------------------------------------------------------


def test_all_that_stands_comes_before_all_that_changes(shop: Harness) -> None:
    watched = WatchedModel(shop.live.model)
    services.bind(replace(shop.live, model=watched))
    shop.stock(order())
    with running(shop):
        shop.write(KETTLE_WISH)
        wait_until(lambda: len(shop.mails_to(ADA)) == 2, 30, "answer and receipt")
        shop.write("Hello?", from_address=GRACE, from_name="Grace")
        shop.wait_for_mails(GRACE)
        shop.write("Wo bleibt mein Paket?", from_address=JUERGEN, aligned=False)
        shop.wait_for_mails(JUERGEN)
    first, second, *_ = watched.asked
    standing = json.dumps(first[:2])[:-1]
    assert len(watched.asked) >= 5
    assert all(json.dumps(each).startswith(standing) for each in watched.asked)
    assert LEAST_CACHED_TOKENS < estimate_tokens(standing) < MOST_STANDING_TOKENS
    assert len({each[3] for each in watched.asked}) == 1  # by this key the provider finds the cache
    # The schema of the reply is cached too.
    assert len({json.dumps(each) for each in watched.formats}) == 1
    # And each turn begins with the one before it.
    assert second[2][: len(first[2])] == first[2]


class InterruptedModel(WatchedModel):
    """While it works on a refund the customer writes again, and the refund is paid."""

    def __init__(self, shop: Harness) -> None:
        super().__init__(shop.live.model)
        self._shop = shop
        self.thread = ""

    def ask(self, *arguments: Any) -> dict[str, Any]:
        if self._shop.refunds():
            wait_until(lambda: self._shop.refunds()[0].status == "paid", 30, "the payment")
        answer = super().ask(*arguments)
        if len(self.asked) == 1:
            self._shop.write("One more thing: where are you?", in_reply_to=self.thread)
        return answer


def test_what_comes_while_the_model_works_changes_nothing_that_it_was_told(shop: Harness) -> None:
    watched = InterruptedModel(shop)
    services.bind(replace(shop.live, model=watched))
    shop.stock(order())
    watched.thread = shop.write(KETTLE_WISH).message_id
    with running(shop):
        wait_until(lambda: len(shop.mails_to(ADA)) == 3, 60, "two answers and a receipt")
    cases = [json.loads(items[0]["content"]) for _, _, items, _ in watched.asked]
    turns = [
        items
        for case, (_, _, items, _) in zip(cases, watched.asked, strict=True)
        if [each["text"] for each in case["mails"]] == [KETTLE_WISH]
    ]
    assert len(turns) > 2
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(turns))
    # The next batch is told all of it.
    assert {each["from"] for each in cases[-1]["history"]} == {"customer", "shop"}
    assert len(cases[-1]["history"]) >= 2  # a receipt comes when it comes


# --- a budget a day -------------------------------------------------------------------------------


@pytest.fixture
def clock() -> Clock:
    """The clock stands at half past eleven in the evening, by UTC."""
    late = Clock()
    tomorrow = day_begins_at(late.now()) + timedelta(days=1, hours=23, minutes=30)
    late.put_forward((tomorrow - late.now()).total_seconds())
    return late


@pytest.fixture
def poor_shop(tmp_path: Path, database_url: str, clock: Clock) -> Iterator[Harness]:
    """A shop whose budget for a day one answer uses up."""
    settings = {"OPENAI_PRICES": "1000,100,2000", "OPENAI_DAILY_BUDGET": "0.50"}
    with open_shop(tmp_path, database_url, settings) as harness:
        harness.live = replace(harness.live, now=clock.now)
        services.bind(harness.live)
        yield harness


def put_off(shop: Harness) -> list[int]:
    rows = shop.rows("SELECT put_off FROM inbound_mails WHERE status = 'unanswered'")
    return [row.put_off for row in rows]


@pytest.mark.parametrize("prices", ["0,0,0", "90000,90000,90000"], ids=["cheaper", "dearer"])
def test_what_was_spent_today_stays_when_prices_change(
    poor_shop: Harness, clock: Clock, prices: str
) -> None:
    with running(poor_shop):
        poor_shop.write("Hello?")
        poor_shop.wait_for_mails(ADA)
    clock.put_forward(10)
    spent = rate_limit.cost_of_today()
    assert spent
    services.bind(replace(poor_shop.live, token_prices=parse_prices(prices), spending=Spending()))
    assert rate_limit.cost_of_today() == spent
    assert rate_limit.why_stopped()


def test_a_call_that_reached_no_model_leaves_the_day_countable(poor_shop: Harness) -> None:
    poor_shop.write("Hello?")
    (mail,) = poor_shop.rows("SELECT conversation_id FROM inbound_mails")
    outcome = NotConfigured("OPENAI_API_KEY").ask()
    about = (ids.new_number(), mail.conversation_id, None, outcome, poor_shop.live.now())
    with poor_shop.live.database.transaction() as connection:
        model_calls.record(connection, *about)  # without a price, as a release before this did
    assert rate_limit.cost_of_today() == 0  # None would be a budget that stops nothing


def test_mail_beyond_the_budget_waits_for_the_next_day(poor_shop: Harness, clock: Clock) -> None:
    with running(poor_shop):
        poor_shop.write("Hello?")
        poor_shop.wait_for_mails(ADA)
        clock.put_forward(10)  # what was counted is looked at again
        poor_shop.write("Hello?", from_address=GRACE, from_name="Grace")
        wait_until(lambda: put_off(poor_shop) == [1], 30, "the second mail to be put off")
        clock.put_forward(120)
        assert sweep.enqueue_mail() == 0  # not before there is a budget again
        incidents.update_incidents()
        incidents.update_incidents()
        told = poor_shop.wait_for_mails(OLGA, 2)
        subjects = "".join(mail.subject for mail in told)
        assert tell_incident(IncidentKind.BUDGET_NEAR, poor_shop.live.providers).title in subjects
        assert tell_incident(IncidentKind.BUDGET_SPENT, poor_shop.live.providers).title in subjects
        with poor_shop.live.database.snapshot() as connection:
            (outage,) = [each for each in open_incidents.list_open(connection) if each.is_outage]
        assert outage.incident is IncidentKind.BUDGET_SPENT  # the console says so on top
        assert len(models(poor_shop)) == 1
        clock.put_forward(3600)
        wait_until(lambda: sweep.enqueue_mail() == 1 or not put_off(poor_shop), 30, "its turn")
        poor_shop.wait_for_mails(GRACE)
        incidents.update_incidents()
    closed = poor_shop.rows("SELECT subject FROM audit WHERE action = 'incident closed'")
    # The second mail has used up the second day's budget; that is counted a few seconds later.
    assert {row.subject for row in closed} == {IncidentKind.BUDGET_NEAR, IncidentKind.BUDGET_SPENT}
    assert len(poor_shop.mails_to(OLGA)) == 2


def test_mail_beyond_the_budget_of_noon_is_nobodys_until_midnight(
    poor_shop: Harness, clock: Clock
) -> None:
    clock.put_forward(12.5 * 3600)
    with running(poor_shop):
        poor_shop.write("Hello?")
        poor_shop.wait_for_mails(ADA)
        clock.put_forward(10)
        poor_shop.write("Hello?", from_address=GRACE, from_name="Grace")
        wait_until(lambda: put_off(poor_shop) == [1], 30, "the second mail to be put off")
        incidents.update_incidents()
        for _ in range(11):
            clock.put_forward(3600)
            incidents.update_incidents()
            assert sweep.enqueue_mail() == 0
        assert put_off(poor_shop) == [1]
        clock.put_forward(3600)
        incidents.update_incidents()
        wait_until(lambda: sweep.enqueue_mail() == 1 or not put_off(poor_shop), 30, "its turn")
        poor_shop.wait_for_mails(GRACE)
    assert poor_shop.mails_to(TESS) == []


def test_what_no_minute_has_room_for_goes_to_people_at_once(shop: Harness) -> None:
    services.bind(replace(shop.live, rate_limit=RateLimit(tokens=9_000)))
    with running(shop):
        shop.write("Hello?")
        (case,) = shop.wait_for_mails(TESS)
    assert "OPENAI_TOKENS_PER_MINUTE" in case.text
    assert models(shop) == []
