"""The shadow compares a share of the mail, within a budget of its own, and never touches live mail."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.backtest.report import sum_up
from mailagent.backtest.shadow import choose_mails, compare_mail, is_in_share
from mailagent.cli.worker import engine_of
from mailagent.settings import SettingsProblem, load_settings
from mailagent.store import schema
from mailagent.store.operations import comparisons, step_texts
from mailagent.store.operations.comparisons import Comparison, Differs, Side, Source
from mailagent.store.privacy import retention
from mailagent.workflows.steps.conversation.model_call import standing_instructions
from tests.backtest.shadows import Played, compared, follow, run
from tests.cast import ADA, KETTLE_WISH, NOW, OLGA, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, pass_time, wait_until

USAGE = {"input": 1_000_000, "cached": 0, "output": 0}


@pytest.fixture
def answered(busy_shop: Harness) -> Harness:
    """A shop that has refunded a kettle."""
    busy_shop.stock(order())
    busy_shop.write(KETTLE_WISH)
    busy_shop.wait_for_refund("paid")
    busy_shop.wait_for_mails(ADA, 2)
    wait_until(busy_shop.at_rest, 40, "the mail to be answered")
    return busy_shop


def live_rows(shop: Harness) -> list[Any]:
    tables = ("refunds", "outbound_mails", "inbound_mails", "model_calls", "step_texts", "audit")
    return [shop.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables]


def test_it_asks_about_answered_mail_once_and_writes_only_its_comparison(answered: Harness) -> None:
    before, model = live_rows(answered), Played()
    follow(model)
    run()
    (row,) = compared(answered)
    assert (row.differs, row.error, row.model) == ("nothing", "", "second")
    assert row.past == row.now
    assert "propose_refund W1001 K1:all -> approved" in str(row.now)
    assert row.cost_micro_usd > 0
    asked = model.calls
    run()
    assert model.calls == asked
    assert live_rows(answered) == before


@pytest.mark.parametrize(
    "model",
    [
        Played({"kind": "operator", "why": "no credit"}, own=None),  # type: ignore[arg-type]
        Played(problem=RuntimeError("a bug"), own=None),  # type: ignore[arg-type]
    ],
    ids=["away", "broken"],
)
def test_an_outage_of_it_leaves_live_mail_alone(answered: Harness, model: Played) -> None:
    follow(model)
    run()
    (row,) = compared(answered)
    assert row.differs == "unknown"
    assert row.error in ("no credit", "RuntimeError")
    answered.write("Thank you!", subject="Thanks")
    answered.wait_for_mails(ADA, 3)
    assert answered.rows("SELECT 1 FROM breakers") == []


def test_its_prompt_replaces_no_phrase(answered: Harness) -> None:
    model = Played()
    follow(model, prompt="Be brief.")
    run()
    assert model.told == standing_instructions(lead="Be brief.")
    assert "The phrases, by their ids, are:" in model.told


def test_two_runs_do_not_ask_about_a_mail_twice(answered: Harness) -> None:
    both = threading.Barrier(2)
    model = Played()
    follow(model)
    (mail_id,) = choose_mails()

    def compare() -> str:
        both.wait()
        return compare_mail(mail_id)

    with ThreadPoolExecutor(2) as threads:
        ended = [each.result() for each in [threads.submit(compare) for _ in range(2)]]
    assert sorted(ended) == ["compared before", "nothing"]
    assert model.calls == 3  # look at the order, propose, reply


def test_a_mail_whose_run_died_is_not_paid_for_again(answered: Harness) -> None:
    follow(Played(problem=KeyboardInterrupt("killed"), own=None))  # type: ignore[arg-type]
    with suppress(KeyboardInterrupt):
        run()
    (row,) = compared(answered)
    assert (row.differs, row.error) == ("unknown", "has not ended")
    model = Played()
    follow(model)
    run()
    assert model.calls == 0


def test_live_mail_goes_first_where_both_have_one_key(answered: Harness) -> None:
    answered.write("Thank you!", subject="Thanks")
    answered.wait_for_mails(ADA, 3)
    wait_until(answered.at_rest, 40, "the second mail to be answered")
    with answered.live.database.transaction() as connection:
        connection.execute(_WAITING.where(schema.inbound_mails.c.subject == "Thanks"))
    for has_own_key, asked in ((False, False), (True, True)):
        model = Played()
        follow(model, has_own_key=has_own_key)
        run()
        assert bool(model.calls) is asked


def test_it_makes_no_further_call_once_a_mail_waits(answered: Harness) -> None:
    class Busy(Played):
        def ask(self, *arguments: Any) -> dict[str, Any]:
            with answered.live.database.transaction() as connection:
                connection.execute(_WAITING)
            return super().ask(*arguments)

    model = Busy()
    follow(model)
    run()
    (row,) = compared(answered)
    assert (model.calls, row.error) == (1, "live mail came first")
    assert row.cost_micro_usd > 0


# As if it had come just now; its run does not begin.
_WAITING = sa.update(schema.inbound_mails).values(status="unanswered", answered_by=None)


def test_a_provider_that_limits_it_is_asked_once_in_a_run(answered: Harness) -> None:
    answered.write("Thank you!", subject="Thanks")
    answered.wait_for_mails(ADA, 3)
    wait_until(answered.at_rest, 40, "the second mail to be answered")
    limited = {"kind": "retry", "after_seconds": 20, "limited": True, "why": "slow down"}
    model = Played(limited, own=None)  # type: ignore[arg-type]
    follow(model)
    run()
    assert model.calls == 1
    assert [row.error for row in compared(answered)] == ["slow down"]


def test_over_its_budget_it_asks_nothing_and_live_mail_goes_on(answered: Harness) -> None:
    model = Played({"kind": "operator", "why": "expensive", "usage": USAGE}, own=None)  # type: ignore[arg-type]
    follow(model, budget_usd="0.50")
    run()
    assert [row.cost_micro_usd for row in compared(answered)] == [1_000_000]
    answered.write("Thank you!", subject="Thanks")
    answered.wait_for_mails(ADA, 3)
    wait_until(answered.at_rest, 40, "the second mail to be answered")
    run()
    assert (model.calls, len(compared(answered))) == (1, 1)


def test_what_is_no_longer_on_record_takes_no_other_mails_place(
    answered: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered.write("Thank you!", subject="Thanks")
    answered.wait_for_mails(ADA, 3)
    wait_until(answered.at_rest, 40, "the second mail to be answered")
    with answered.live.database.transaction() as connection:
        newest = answered.rows("SELECT conversation_id FROM inbound_mails ORDER BY received_at")[-1]
        step_texts.delete_of_conversations(connection, [newest.conversation_id])
    monkeypatch.setattr("mailagent.backtest.shadow.MAILS_AT_ONCE", 1)
    follow(Played())
    run()
    assert len(compared(answered)) == 1


def test_operators_get_yesterdays_figures_once(answered: Harness) -> None:
    follow(Played())
    run()
    services.bind(replace(services.current(), shop=replace(answered.live.shop, ops_emails=(OLGA,))))
    pass_time(answered, days=1)
    run()
    run()
    (mail,) = answered.wait_for_mails(OLGA)
    assert "1 answers: 0 decide otherwise" in mail.text
    assert "/ops/comparisons?source=shadow" in mail.text


def test_what_has_no_answer_differs_in_nothing() -> None:
    edited = Comparison(
        *(Source.SHADOW, "mail_1", "conversation_1", NOW, "second", Differs.UNKNOWN, "edited"),
        *(Side(), Side(), "no credit", 0, 0, 0),
    )
    told = list(sum_up([edited, replace(edited, differs=Differs.ACTS)]))
    assert told[1] == "People edited or discarded 2 of the old answers; 1 of these differ."


def test_its_rows_go_with_the_texts_of_the_conversation(answered: Harness) -> None:
    follow(Played())
    run()
    (row,) = compared(answered)
    with answered.live.database.transaction() as connection:
        retention.blank_conversations(connection, [row.conversation_id])
    assert compared(answered) == []


@ONE_DATABASE
@pytest.mark.parametrize(("days", "left"), [(-1, 1), (1, 0)])
def test_its_rows_go_when_they_are_old(answered: Harness, days: int, left: int) -> None:
    follow(Played())
    run()
    with answered.live.database.transaction() as connection:
        comparisons.delete_before(connection, services.current().now() + timedelta(days=days))
    assert len(compared(answered)) == left


def test_a_share_is_of_conversations_and_stays() -> None:
    names = [f"conversation_{number}" for number in range(2_000)]
    chosen = [name for name in names if is_in_share(name, 25)]
    assert 400 < len(chosen) < 600
    assert [name for name in chosen if not is_in_share(name, 26)] == []
    assert not any(is_in_share(name, 0) for name in names)


@ONE_DATABASE
def test_without_a_share_nothing_is_asked(answered: Harness) -> None:
    run()
    assert compared(answered) == []
    model = Played()
    follow(model, percent=0)
    run()
    assert model.calls == 0


ON = {
    "SHADOW_SHARE": "10",
    "SHADOW_MODEL": "small",
    "OPENAI_API_KEY": "k",
    "SHADOW_PRICES": "1,1,1",
    "SHADOW_DAILY_BUDGET": "2",
    "SECRET_KEY": "a key of a test that is long enough",
}


def test_it_is_scheduled_only_with_a_share() -> None:
    assert engine_of(load_settings(ON)).shadow is not None
    assert engine_of(load_settings({"SECRET_KEY": ON["SECRET_KEY"]})).shadow is None


@pytest.mark.parametrize("missing", ["SHADOW_PRICES", "SHADOW_DAILY_BUDGET"])
def test_a_share_needs_a_budget_and_prices(missing: str) -> None:
    with pytest.raises(SettingsProblem, match=missing):
        load_settings({name: text for name, text in ON.items() if name != missing})
