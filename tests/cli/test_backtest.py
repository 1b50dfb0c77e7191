"""`flask backtest` tells what has changed, and nothing if nothing has. It writes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mailagent import services
from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.scripted_model import Fact, Phrase
from mailagent.domain.refunds.policy import Policy, StoreCredit
from mailagent.workflows.steps.conversation.model_call import standing_instructions
from mailagent.workflows.steps.maintenance import sweep
from tests.backtest.shadows import Played
from tests.cast import ADA, DESK_WISH, KETTLE_WISH, big_order, order
from tests.cli.commands import flask
from tests.databases import ONE_DATABASE
from tests.harness import Harness, pass_time, wait_until
from tests.tool_calls import calls, refund_of, says

pytestmark = ONE_DATABASE


@pytest.fixture
def past(busy_shop: Harness) -> Harness:
    """A shop that has answered five mails: two refunds, a question, a person, a thank-you."""
    busy_shop.stock(order(), big_order(), order("W1002"))
    wishes = (
        KETTLE_WISH,
        DESK_WISH,
        "Where is my order W1002?",
        "I want to speak to a person.",
        "Thank you!",
    )
    for name, wish in zip("abcde", wishes, strict=True):
        busy_shop.write(wish, subject=f"Wish {name}")
        wait_until(busy_shop.at_rest, 40, "the mail to be answered")
    busy_shop.wait_for_refund("paid")
    busy_shop.wait_for_mails(ADA, 6)
    return busy_shop


def everything(shop: Harness) -> list[object]:
    tables = (
        "refunds",
        "outbound_mails",
        "inbound_mails",
        "model_calls",
        "step_texts",
        "audit",
    )
    counted = [shop.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables]
    return [*counted, shop.rows("SELECT refund_id, status FROM refunds ORDER BY refund_id")]


def test_without_a_change_nothing_differs_and_nothing_is_written(past: Harness) -> None:
    before = everything(past)
    told = flask(past, "backtest", "--last", "10")
    assert told.exit_code == 0, told.output
    assert "5 answers: 0 decide otherwise, 0 more name other facts." in told.output
    assert "0 without an answer." in told.output
    assert "0 look-ups were not on record." in told.output
    assert everything(past) == before


def test_another_prompt_replaces_no_phrase(past: Harness, tmp_path: Path) -> None:
    file, model = tmp_path / "prompt.txt", Played()
    file.write_text("Be brief.", "utf-8")
    services.bind(replace(services.current(), model=model))
    told = flask(past, "backtest", "--prompt", str(file), "--last", "1")
    assert "1 answers" in told.output
    assert model.told == standing_instructions(lead="Be brief.")


def test_what_cannot_be_read_or_written_is_told_before_a_model_is_asked(
    shop: Harness, tmp_path: Path
) -> None:
    latin, model = tmp_path / "prompt.txt", Played()
    latin.write_bytes("Grüß".encode("latin-1"))
    services.bind(replace(services.current(), model=model))
    for option, told in (
        (["--out", str(tmp_path / "nowhere" / "out.jsonl")], "No such file or directory"),
        (["--prompt", str(latin)], "is not UTF-8"),
        (["--last", "-3"], "is not in the range"),
        (["--last", "0"], "is not in the range"),
    ):
        refused = flask(shop, "backtest", *option)
        assert refused.exit_code in (1, 2)
        assert told in refused.output
        assert isinstance(refused.exception, SystemExit)
    assert model.calls == 0


def test_another_policy_decides_otherwise(past: Harness) -> None:
    before = everything(past)
    services.bind(replace(services.current(), policy=Policy(limits={"USD": 10_00})))
    told = flask(past, "backtest")
    assert "5 answers: 1 decide otherwise" in told.output
    assert "propose_refund W1001 K1:all -> needs_manager" in told.output
    assert everything(past) == before


@pytest.mark.parametrize(
    ("then", "now"),
    [(Policy(store_credit=StoreCredit(10)), Policy()), (Policy(), Policy(store_credit=StoreCredit(5)))],
)  # fmt: skip
def test_store_credit_before_or_after_is_no_reason_to_hand_over(
    busy_shop: Harness, then: Policy, now: Policy
) -> None:
    services.bind(replace(services.current(), policy=replace(then, limits={"USD": 200_00})))
    busy_shop.stock(order())
    busy_shop.write(KETTLE_WISH)
    busy_shop.wait_for_refund("paid")
    wait_until(busy_shop.at_rest, 40, "the mail to be answered")
    services.bind(replace(services.current(), policy=replace(now, limits={"USD": 10_00})))
    told = flask(busy_shop, "backtest")
    assert "now   propose_refund W1001 K1:all -> needs_manager" in told.output, told.output


DESK = {"item_id": "D1", "name": "Desk", "quantity": 1, "unit_price": "1499.00"}
APRON = {"item_id": "A1", "name": "Apron", "quantity": 1, "unit_price": "20.00", "final_sale": True}


def no_longer_wanted(*item_ids: str) -> Callable[[], Answer]:
    items = [{"item_id": item_id, "quantity": None} for item_id in item_ids]
    return calls("propose_refund", order_id="W1001", items=items, reason="changed_mind")


@pytest.mark.parametrize(
    ("other", "script", "then"),
    [
        pytest.param(
            DESK,
            [refund_of("W1001", ("K1", None)), refund_of("W1001", ("D1", None))],
            ["K1:all -> approved", "D1:all -> needs_manager"],
            id="one for a manager",
        ),
        pytest.param(
            APRON,
            [no_longer_wanted("A1", "K1"), no_longer_wanted("K1")],
            ["A1:all K1:all -> declined final_sale", "K1:all -> approved"],
            id="one declined",
        ),
        pytest.param(
            DESK,
            [refund_of("W1001", ("K1", None)), refund_of("W1001", ("D1", None), ("K1", None))],
            ["K1:all -> approved", "D1:all K1:all -> already_requested"],
            id="one asked for before",
        ),
    ],
)
def test_each_of_two_refunds_of_an_order_is_judged_by_its_own_facts(
    busy_shop: Harness, other: dict[str, Any], script: list[Callable[[], Answer]], then: list[str]
) -> None:
    items = [{"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}, other]
    paid = [{"payment_id": "p1", "method": "card", "amount": "1600.00"}]
    busy_shop.stock(order(items=items, payments=paid))
    script = [*script, says(Fact("refund/W1001"))]
    busy_shop.faults.openai += script
    busy_shop.write("I want my money back for both of W1001.")
    wait_until(busy_shop.at_rest, 40, "the mail to be answered")
    busy_shop.faults.openai += script
    told = flask(busy_shop, "backtest")
    assert "1 answers: 0 decide otherwise, 0 more" in told.output, told.output
    busy_shop.faults.openai += [says(Phrase("welcome"))]
    told = flask(busy_shop, "backtest")
    acts = "; ".join(f"propose_refund W1001 {each}" for each in then)
    assert f"then  {acts}" in told.output, told.output


def test_what_a_run_did_that_put_the_mail_off_counts_once(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.faults.openai += [
        refund_of("W1001", ("K1", None)),
        lambda: Answer(503, {}, {"Retry-After": "130"}),
    ]
    busy_shop.write(KETTLE_WISH)
    put_off = "SELECT 1 FROM inbound_mails WHERE put_off > 0"
    wait_until(lambda: bool(busy_shop.rows(put_off)), 40, "the mail to be put off")
    pass_time(busy_shop, seconds=140)
    script = [refund_of("W1001", ("K1", None)), says(Fact("refund/W1001"))]
    busy_shop.faults.openai += script
    sweep.enqueue_mail()
    wait_until(busy_shop.at_rest, 40, "the mail to be answered")
    busy_shop.faults.openai += script
    told = flask(busy_shop, "backtest")
    assert "1 answers: 0 decide otherwise, 0 more" in told.output, told.output


def test_another_model_decides_otherwise(past: Harness, tmp_path: Path) -> None:
    """The newest mail first: it refunds on a thank-you, does nothing for the person, and so on."""
    before = everything(past)
    past.faults.openai += [
        refund_of("W1002", ("K1", None)),
        says(Phrase("welcome"), Fact("refund/W1002")),
        says(Phrase("happy_to_help")),
        calls("look_at_order", order_id="W1001"),
        says(Fact("order/W1001")),
    ]
    told = flask(past, "backtest", "--last", "3", "--out", str(tmp_path / "out.jsonl"))
    assert "3 answers: 2 decide otherwise, 1 more name other facts." in told.output
    assert "1 look-ups were not on record." in told.output
    assert "now   propose_refund W1002 K1:all -> approved; refund/W1002" in told.output
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["past"]["acts"] for line in lines][1] == ["hand_over"]
    rows = past.rows("SELECT differs FROM comparisons WHERE source = 'backtest' ORDER BY differs")
    assert [row.differs for row in rows] == ["acts", "acts", "facts"]
    assert everything(past) == before


def test_a_model_that_is_away_is_told(past: Harness) -> None:
    services.bind(replace(services.current(), model=type("Away", (), {"ask": lambda *_: _AWAY})()))
    told = flask(past, "backtest", "--last", "1")
    assert "1 without an answer" in told.output
    assert "no credit" in told.output


_AWAY = {"kind": "operator", "why": "no credit"}
