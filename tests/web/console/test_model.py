"""What the model costs, as operators see it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from mailagent import services
from mailagent.domain.operations.model_cost import (
    DailyBudget,
    TokenPrices,
    day_begins_at,
    parse_prices,
)
from mailagent.store import ids
from mailagent.store.operations import model_calls
from mailagent.store.operations.model_calls import Spending
from tests.cast import OLGA, TESS
from tests.harness import Harness
from tests.programs.stampede.story import Clock

DONE = {"kind": "done", "model": "large", "usage": {"input": 2_000, "cached": 1_000, "output": 10}}


def record(
    shop: Harness, days_ago: int, prices: TokenPrices | None = None, **changes: object
) -> None:
    if not shop.rows("SELECT 1 FROM conversations"):
        shop.write("Hello?")
    (row,) = shop.rows("SELECT conversation_id FROM conversations")
    at = shop.live.now() - timedelta(days=days_ago)
    with shop.live.database.transaction() as connection:
        model_calls.record(
            connection, ids.new_number(), row.conversation_id, "run_1", DONE | changes, at, prices
        )


def test_each_day_is_shown_with_what_it_cost(shop: Harness) -> None:
    live = replace(
        shop.live,
        token_prices=parse_prices("1000,100,2000"),
        daily_budget=DailyBudget(Decimal(5), 60),
    )
    services.bind(live)
    record(shop, 0)
    record(shop, 1)
    record(shop, 1, model="small")
    shown = shop.log_in(OLGA).get("/ops/model").text
    assert "The budget for a day is $5.00; operators get a mail at 60 %" in shown
    today, yesterday, before, *_ = shown.partition("<tbody>")[2].split("</tr>")
    assert "$1.12" in today
    assert f'<th scope="row">{shop.live.now():%-d %B %Y}</th>' in today
    assert "large, small" in yesterday
    assert "$2.24" in yesterday  # both models by the same prices
    assert "4,000" in yesterday
    assert "$0.00" in before


def test_what_was_spent_stays_when_prices_and_models_change(shop: Harness) -> None:
    morning, evening = parse_prices("1000,100,2000"), parse_prices("10,1,20")
    record(shop, 0, morning)
    record(shop, 1, morning)
    record(shop, 1, morning, model="retired")
    record(shop, 1)  # by a release that recorded no cost: today's prices are all there is
    services.bind(replace(shop.live, token_prices=evening))
    client = shop.log_in(OLGA)
    today, yesterday, *_ = client.get("/ops/model").text.partition("<tbody>")[2].split("</tr>")
    assert "$1.12" in today
    assert "$2.25" in yesterday
    (row,) = shop.rows("SELECT conversation_id FROM conversations")
    thread = client.get(f"/ops/conversations/{row.conversation_id}").text
    assert [cost in thread for cost in ("$3.37", "$1.12", "$0.01")] == [True] * 3


def test_only_operators_see_it(shop: Harness) -> None:
    assert shop.log_in(TESS).get("/ops/model").status_code == 403
    page = shop.log_in(OLGA).get("/ops/model").text
    assert "OPENAI_DAILY_BUDGET</code> names no amount" in page
    assert "Cost" not in page.partition("<table")[2]


def test_what_is_added_counts_and_what_was_counted_is_not_counted_again(shop: Harness) -> None:
    clock = Clock()
    noon = day_begins_at(clock.now()) + timedelta(days=1, hours=12)
    clock.put_forward((noon - clock.now()).total_seconds())
    shop.live = replace(shop.live, now=clock.now)
    services.bind(shop.live)
    spending = Spending()

    def calls() -> int:
        use = spending.of_today(shop.live.database, clock.now())
        return sum(each.calls for each in use.values())

    seen = []
    for seconds in (6, 30, 50, 70, 3600):
        record(shop, 0)
        clock.put_forward(seconds)
        seen.append(calls())
    assert seen == [1, 2, 3, 4, 5]
    record(shop, 0)
    assert calls() == 5  # a few seconds old at most
    clock.put_forward(-7200)
    assert calls() == 6  # a clock that was put back makes it count anew
    clock.put_forward(24 * 3600)
    assert calls() == 0


def test_outcomes_are_told_by_the_version_of_prompt_tools_and_model(busy_shop: Harness) -> None:
    busy_shop.write("I want to talk to a person, please.")
    busy_shop.wait_for_mails(TESS)
    (row,) = busy_shop.rows("SELECT DISTINCT model, prompt_version, tools_version FROM model_calls")
    record(busy_shop, 3, model="earlier")
    shown = busy_shop.log_in(OLGA).get("/ops/model").text.partition("Outcomes by version")[2]
    newest, earlier, *_ = shown.partition("<tbody>")[2].split("</tr>")
    assert all(part in newest for part in row)
    assert "1 (100 %)" in newest
    assert "earlier" in earlier
    assert "2,010" in earlier
