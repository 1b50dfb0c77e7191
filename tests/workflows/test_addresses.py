"""Another delivery address: set by the shop's system if the policy says so and nothing is left to guess."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from mailagent import services
from mailagent.adapters.shopify.client import ShopifyClient
from mailagent.adapters.shopify.source import ShopifySource
from mailagent.domain.orders.source import (
    AddressChanged,
    AddressOutcome,
    NotSupported,
    SourceProblem,
    TooLate,
    Unsure,
)
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Policy, Remedies
from mailagent.domain.remedies.address import NewAddress
from mailagent.domain.remedies.remedy import RemedyKind
from mailagent.mailers.fact import sentence
from mailagent.remedies import finish
from mailagent.store.privacy import retention
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.steps.maintenance.address_changes import see_to
from mailagent.workflows.tools.cancel_order import cancel_order
from mailagent.workflows.tools.request_change import TOOL, request_change
from mailagent.workflows.tools.tool import schema_of
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import MONA, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, pass_time
from tests.tool_use import use
from tests.workflows.camera import later_batch
from tests.workflows.cancelling import PlayedSource, stored, with_source
from tests.workflows.proposals import write

WISH = "12 New Road, 10117 Berlin"
LETTER = f"Please send W1001 to {WISH}.\nOr to 9 Old Lane, 10117 Berlin?"
NOTHING = dict.fromkeys(("name", "street", "extra", "zip", "city", "province", "country"))
PARTS = NOTHING | {"street": "12 New Road", "zip": "10117", "city": "Berlin"}
PENDING: dict[str, Any] = {"status": "pending", "delivered_at": None}


def change(batch: Batch, wish: str = WISH, **parts: Any) -> dict[str, Any]:
    asked = {"order_id": "W1001", "kind": "change_address", "items": [], "reason": "other"}
    return use(request_change, batch, asked | {"wish": wish, "address": PARTS | parts})


@pytest.fixture
def batch(shop: Harness) -> Batch:
    shop.stock(order(**PENDING))
    rules = Policy(remedies=Remedies(change_address_by_source=True))
    services.bind(replace(services.current(), policy=rules))
    return write(shop, text=LETTER)


def states(shop: Harness) -> list[str]:
    return [row.status for row in shop.rows("SELECT status FROM remedies ORDER BY remedy_id")]


def mails(shop: Harness) -> str:
    rows = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'remedy'")
    return "\n".join(row.text for row in rows)


def told_team(shop: Harness) -> str:
    rows = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :t", t=TESS)
    return "\n".join(row.text for row in rows)


def test_the_shops_system_sets_it_and_then_the_customer_hears_so(
    shop: Harness, batch: Batch
) -> None:
    source = with_source(shop, AddressChanged())
    assert change(batch)["outcome"] == "asked"
    assert change(batch)["outcome"] == "asked"  # a step that is done again
    with shop.live.database.transaction() as connection:
        fact = batch_reader(connection, batch).find("remedy/W1001")
    assert fact is not None
    assert "We are changing the delivery address of order W1001." in sentence(fact)
    assert (mails(shop), told_team(shop)) == ("", "")
    assert (see_to(), see_to()) == (1, 0)
    assert source.addresses == [NewAddress("12 New Road", "10117", "Berlin")]
    assert states(shop) == ["done"]
    assert "The delivery address of order W1001 is changed." in mails(shop)
    assert told_team(shop) == ""


def test_a_process_that_dies_after_the_answer_asks_once_more(shop: Harness, batch: Batch) -> None:
    def dies() -> AddressOutcome:
        raise KeyboardInterrupt

    source = with_source(shop, dies, AddressChanged())
    change(batch)
    with pytest.raises(KeyboardInterrupt):
        see_to()
    assert see_to() == 1
    assert source.addresses[0] == source.addresses[1]
    assert states(shop) == ["done"]


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        (TooLate("sent"), "not_possible", ""),
        (NotSupported("its taxes depend on it"), "task", "does not change it: its taxes depend"),
        (Unsure("another address came back"), "task", "not sure what it did: another address"),
    ],
)
def test_what_it_does_not_set_is_not_said_to_be_set(
    shop: Harness, batch: Batch, outcome: AddressOutcome, status: str, said: str
) -> None:
    with_source(shop, outcome)
    change(batch)
    see_to()
    assert states(shop) == [status]
    assert "is changed" not in mails(shop)
    assert said in told_team(shop)
    may_be_done = isinstance(outcome, Unsure)
    if status == "task":
        told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
        assert (told["outcome"] == "too_late") is may_be_done


def test_a_system_that_stays_silent_is_given_to_people_in_half_an_hour(
    shop: Harness, batch: Batch
) -> None:
    with_source(shop, SourceProblem("away"), SourceProblem("away"))
    change(batch)
    assert see_to() == 0
    assert states(shop) == ["asked"]
    pass_time(shop, hours=0.51)
    assert see_to() == 1
    assert states(shop) == ["task"]
    assert "was asked, but it is not sure what it did: away" in told_team(shop)
    later = later_batch(shop, batch)
    assert use(withdraw_refund, later, {"order_id": "W1001"})["outcome"] == "too_late"
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        assert finish(connection, row.remedy_id, TESS, True, None)
    assert "is changed" in mails(shop)


def test_a_system_that_was_never_reached_is_not_said_to_have_been_asked(
    shop: Harness, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with_source(shop)
    with closing(socket.socket()) as refusing:
        refusing.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{refusing.getsockname()[1]}"
        source = ShopifySource(ShopifyClient(url, "token"))
        services.bind(replace(services.current(), order_source=source))
        change(batch)
        # Nothing was sent yet, but the next look may send it.
        early = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
        assert (see_to(), early["outcome"]) == (0, "too_late")
        pass_time(shop, hours=0.51)
        assert (see_to(), states(shop)) == (1, ["task"])
    assert "The shop's system was not asked" in told_team(shop)
    assert "was asked, but" not in told_team(shop)
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert (told["outcome"], states(shop)) == ("withdrawn", ["withdrawn"])


def test_one_lost_answer_is_remembered_when_it_is_not_reached_later(
    shop: Harness, batch: Batch
) -> None:
    source = with_source(shop, SourceProblem("no whole answer"))
    change(batch)
    assert see_to() == 0
    source.orders = _away
    pass_time(shop, hours=0.51)
    assert (see_to(), states(shop)) == (1, ["task"])
    assert "was asked, but it is not sure what it did" in told_team(shop)
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert told["outcome"] == "too_late"


def _away(_order_id: str) -> Order | None:
    raise SourceProblem("away")


@pytest.mark.parametrize("later", ["shipped", "not supported"])
def test_a_lost_answer_is_for_people_whatever_is_said_later(
    shop: Harness, batch: Batch, later: str
) -> None:
    with_source(shop, SourceProblem("no whole answer"), NotSupported("the order is being packed"))
    change(batch)
    assert see_to() == 0
    if later == "shipped":
        shop.stock(order(**(PENDING | {"status": "shipped"})))
    assert see_to() == 1
    assert states(shop) == ["task"]
    assert "it is not sure what it did" in told_team(shop)
    assert mails(shop) == ""


NOT_SENT = SourceProblem("cannot be reached", not_done=True)
NO_RIGHT = SourceProblem("401: check our token", operator=True, not_done=True)


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (NOT_SENT, "The shop's system was not asked: cannot be reached."),
        (NO_RIGHT, "The shop's system does not change it: it refused us: 401: check our token."),
    ],
)
def test_what_was_certainly_not_done_is_told_so_and_can_be_withdrawn(
    shop: Harness, batch: Batch, problem: SourceProblem, told: str
) -> None:
    with_source(shop, problem)
    change(batch)
    pass_time(shop, hours=0.51)
    assert (see_to(), states(shop)) == (1, ["task"])
    assert told in " ".join(told_team(shop).split())
    withdrawn = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert (withdrawn["outcome"], states(shop)) == ("withdrawn", ["withdrawn"])


@pytest.mark.parametrize("lost_first", [True, False])
def test_of_two_requests_one_lost_answer_counts(
    shop: Harness, batch: Batch, lost_first: bool
) -> None:
    """Another process asks at the same time, and gets no answer."""

    def other_asks() -> AddressOutcome:
        if not lost_first:
            see_to()
        raise NOT_SENT

    lost = SourceProblem("no whole answer")
    with_source(shop, *([lost, other_asks] if lost_first else [other_asks, lost]))
    change(batch)
    if lost_first:
        see_to()
    pass_time(shop, hours=0.51)
    see_to()
    assert states(shop) == ["task"]
    assert "was asked, but it is not sure what it did" in told_team(shop)
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert (told["outcome"], states(shop)) == ("too_late", ["task"])


def test_nothing_is_asked_for_that_ended_during_the_look_up(shop: Harness, batch: Batch) -> None:
    source = with_source(shop)
    change(batch)

    def ends(order_id: str) -> Order | None:
        with shop.live.database.transaction() as connection:
            connection.exec_driver_sql("UPDATE remedies SET status = 'task'")
        return stored(shop, order_id)

    source.orders = ends
    see_to()
    assert (source.addresses, states(shop)) == ([], ["task"])


def test_an_order_that_was_sent_since_is_not_asked_for(shop: Harness, batch: Batch) -> None:
    source = with_source(shop)
    change(batch)
    shop.stock(order(**(PENDING | {"status": "shipped"})))
    assert see_to() == 1
    assert (source.addresses, states(shop)) == ([], ["not_possible"])


@ONE_DATABASE
@pytest.mark.parametrize("why", ["policy", "no source", "a word is lost", "made up", "no zip"])
def test_otherwise_it_is_a_task_as_before(shop: Harness, batch: Batch, why: str) -> None:
    if why != "no source":
        with_source(shop)
    if why == "policy":
        services.bind(replace(services.current(), policy=Policy()))
    others: dict[str, dict[str, Any]] = {
        "a word is lost": {"wish": f"to {WISH}"},
        "made up": {"street": "1 Evil Street"},
        "no zip": {"zip": None},
    }
    assert change(batch, **others.get(why, {}))["outcome"] == "task"
    assert see_to() == 0
    assert "Please do it." in told_team(shop)


@ONE_DATABASE
def test_a_second_address_is_for_people_and_the_first_is_not_set_after_it(
    shop: Harness, batch: Batch
) -> None:
    source = with_source(shop)
    change(batch)
    later = later_batch(shop, batch)
    assert change(later, "9 Old Lane, 10117 Berlin", street="9 Old Lane")["outcome"] == "task"
    assert see_to() == 1
    assert states(shop) == ["withdrawn", "task"]
    assert (source.addresses, mails(shop)) == ([], "")


@pytest.mark.both_databases
def test_an_address_that_a_newer_mail_takes_back_is_left_to_a_manager(
    shop: Harness, batch: Batch
) -> None:
    source = with_source(shop)
    newer = write(shop, subject="Two", text="Forget the new address, leave it as it was.")
    assert use(withdraw_refund, newer, {"order_id": "W1001"})["outcome"] == "nothing_waits"
    assert change(batch)["outcome"] == "task"  # its run had failed, and is replayed
    assert (see_to(), source.addresses) == (0, [])
    assert "A manager has to do it." in told_team(shop)
    (mail,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :m", m=MONA)
    assert "later mail of the customer withdraws it" in " ".join(mail.text.split())


@ONE_DATABASE
def test_an_order_that_is_cancelled_since_needs_no_other_address(
    shop: Harness, batch: Batch
) -> None:
    source: PlayedSource = with_source(shop)
    change(batch)
    use(cancel_order, later_batch(shop, batch), {"order_id": "W1001", "items": []})
    assert see_to() == 1
    assert states(shop)[0] == "withdrawn"
    assert (source.addresses, mails(shop)) == ([], "")


@ONE_DATABASE
def test_the_parts_are_deleted_with_the_words(shop: Harness, batch: Batch) -> None:
    with_source(shop, AddressChanged())
    change(batch)
    see_to()
    with shop.live.database.transaction() as connection:
        retention.blank_conversations(connection, [batch["conversation_id"]])
    assert [tuple(row) for row in shop.rows("SELECT wish, address FROM remedies")] == [(None, None)]


def test_the_model_gives_parts_only_where_the_policy_wants_them() -> None:
    rules = Remedies(change_address_by_source=True)
    with_parts = schema_of(TOOL.for_policy(Policy(remedies=rules)))["parameters"]
    assert with_parts["properties"]["address"]["required"] == list(NOTHING)
    without = frozenset({RemedyKind.EXCHANGE})
    for others in (Remedies(), Remedies(without, change_address_by_source=True)):
        offered = schema_of(TOOL.for_policy(Policy(remedies=others)))
        assert "address" not in offered["parameters"]["properties"]


def test_a_change_that_is_asked_for_is_no_cancellation_under_way(
    shop: Harness, batch: Batch
) -> None:
    with_source(shop, Unsure("no answer"))
    change(batch)
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert (told["outcome"], told["facts"]) == ("too_late", ["remedy/W1001"])
    assert "cancellation" not in told["say"]
