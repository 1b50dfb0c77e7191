"""What the model costs: prompts that are cached, a cheaper model first, and a budget a day that holds
mail back and loses none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mailagent import services
from mailagent.agent.tokens import estimate_tokens
from mailagent.domain.budget import day_begins_at
from mailagent.domain.matter import WORDS, Matter
from mailagent.store import matters as open_matters
from mailagent.workflows.steps import matters, sweep
from tests.cast import ADA, GRACE, OLGA, order
from tests.journeys.test_hostile_model import says
from tests.stage import Stage, open_shop, running, wait_until
from tests.stampede.story import Clock
from tests.workflows.watched_model import WatchedModel

BROKEN = "My kettle from order W1001 arrived broken. I want my money back."

# https://platform.openai.com/docs/guides/prompt-caching: from 1,024 tokens on.
LEAST_CACHED_TOKENS = 1024


def models(shop: Stage) -> list[str]:
    return [row.model for row in shop.rows("SELECT model FROM model_calls ORDER BY call_id")]


# --- the provider's cache -------------------------------------------------------------------------


def test_all_that_stands_comes_before_all_that_changes(shop: Stage) -> None:
    watched = WatchedModel(shop.live.model)
    services.bind(replace(shop.live, model=watched))
    shop.stock(order())
    with running(shop):
        shop.write(BROKEN)
        wait_until(lambda: len(shop.mails_to(ADA)) == 2, 30, "answer and receipt")
        shop.write("Hello?", from_address=GRACE, from_name="Grace")
        shop.wait_for_mails(GRACE)
    first, second, *_, of_another = watched.asked
    standing = json.dumps(first[:2])[:-1]
    assert all(json.dumps(each).startswith(standing) for each in (first, of_another))
    assert estimate_tokens(standing) > LEAST_CACHED_TOKENS
    assert first[3] == of_another[3]  # the key by which the provider finds the cache
    # And each turn begins with the one before it.
    assert second[2][: len(first[2])] == first[2]


# --- a cheaper model first ------------------------------------------------------------------------


@pytest.fixture
def thrifty_shop(tmp_path: Path, database_url: str) -> Iterator[Stage]:
    """A shop that lets a cheaper model work on each mail first."""
    settings = {"OPENAI_MODEL": "large", "OPENAI_FIRST_MODEL": "small"}
    with open_shop(tmp_path, database_url, settings) as stage:
        stage.stock(order())
        with running(stage):
            yield stage


def test_a_question_is_answered_by_the_cheaper_model_alone(thrifty_shop: Stage) -> None:
    thrifty_shop.write("Where is my order W1001?")
    thrifty_shop.wait_for_mails(ADA)
    assert set(models(thrifty_shop)) == {"small"}


def test_money_is_left_to_the_main_model(thrifty_shop: Stage) -> None:
    thrifty_shop.write(BROKEN)
    thrifty_shop.wait_for_refund("paid")
    asked = models(thrifty_shop)
    assert set(asked) == {"small", "large"}
    assert asked == sorted(asked, reverse=True)  # once it has taken over it stays
    assert len(thrifty_shop.refunds()) == 1


def test_a_reply_that_is_not_true_is_written_anew_by_the_main_model(thrifty_shop: Stage) -> None:
    thrifty_shop.faults.openai += [says("We have refunded 999.00 USD to you.")]
    thrifty_shop.write("Hello?")
    (mail,) = thrifty_shop.wait_for_mails(ADA)
    assert "999" not in mail.text
    assert models(thrifty_shop) == ["small", "large"]


# --- a budget a day -------------------------------------------------------------------------------


@pytest.fixture
def clock() -> Clock:
    """The clock stands at half past eleven in the evening, by UTC."""
    late = Clock()
    tomorrow = day_begins_at(late.now()) + timedelta(days=1, hours=23, minutes=30)
    late.put_forward((tomorrow - late.now()).total_seconds())
    return late


@pytest.fixture
def poor_shop(tmp_path: Path, database_url: str, clock: Clock) -> Iterator[Stage]:
    """A shop whose budget for a day one answer uses up."""
    settings = {"OPENAI_PRICES": "1000,100,2000", "OPENAI_DAILY_BUDGET": "0.50"}
    with open_shop(tmp_path, database_url, settings) as stage:
        stage.live = replace(stage.live, now=clock.now)
        services.bind(stage.live)
        yield stage


def put_off(shop: Stage) -> list[int]:
    rows = shop.rows("SELECT put_off FROM inbound_mails WHERE status = 'unanswered'")
    return [row.put_off for row in rows]


def test_mail_beyond_the_budget_waits_for_the_next_day(poor_shop: Stage, clock: Clock) -> None:
    with running(poor_shop):
        poor_shop.write("Hello?")
        poor_shop.wait_for_mails(ADA)
        clock.put_forward(10)  # what was counted is looked at again
        poor_shop.write("Hello?", from_address=GRACE, from_name="Grace")
        wait_until(lambda: put_off(poor_shop) == [1], 30, "the second mail to be put off")
        clock.put_forward(120)
        assert sweep.ring_for_mail() == 0  # not before there is a budget again
        matters.look_at_matters()
        matters.look_at_matters()
        told = poor_shop.wait_for_mails(OLGA, 2)
        subjects = "".join(mail.subject for mail in told)
        assert WORDS[Matter.BUDGET_NEAR].title in subjects
        assert WORDS[Matter.BUDGET_SPENT].title in subjects
        with poor_shop.live.database.snapshot() as connection:
            (outage,) = [each for each in open_matters.list_open(connection) if each.is_outage]
        assert outage.matter is Matter.BUDGET_SPENT  # the console says so on top
        assert len(models(poor_shop)) == 1
        clock.put_forward(3600)
        wait_until(lambda: sweep.ring_for_mail() == 1 or not put_off(poor_shop), 30, "its turn")
        poor_shop.wait_for_mails(GRACE)
        matters.look_at_matters()
    closed = poor_shop.rows("SELECT subject FROM audit WHERE action = 'matter closed'")
    # The second mail has used up the second day's budget; that is counted a few seconds later.
    assert {row.subject for row in closed} == {Matter.BUDGET_NEAR, Matter.BUDGET_SPENT}
    assert len(poor_shop.mails_to(OLGA)) == 2
