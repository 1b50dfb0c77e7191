"""`flask policy`: the decision and why, without anything being done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mailagent import services
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import RefundReason
from mailagent.store.refunds import policies
from tests.cast import NOW, big_order, order
from tests.cli.commands import flask, process
from tests.harness import Harness, running

RULES = Policy(
    limits={"USD": 1_000_00},
    four_eyes_above={"USD": 1_400_00},
    photo_reasons=frozenset({RefundReason.DAMAGED}),
    version="spring",
)


@pytest.fixture
def ruled(shop: Harness) -> Harness:
    """A shop with rules of its own."""
    services.bind(replace(shop.live, policy=RULES))
    cups = {"item_id": "C:1", "name": "Cup", "quantity": 4, "unit_price": "10.00"}
    paid = {"payment_id": "p", "method": "card", "amount": "41.00"}
    shop.stock(
        order(),
        big_order(),
        order("W3", items=[cups], payments=[paid], discount="4.00", shipping="5.00"),
        order("W4", payments=[paid | {"payment_id": "q", "amount": "49.99", "refunded": "10.00"}]),
    )
    return shop


def explain(shop: Harness, *arguments: str) -> dict[str, object]:
    found = flask(shop, "policy", "explain", *arguments, "--json")
    assert found.exit_code == 0, found.output
    result: dict[str, object] = json.loads(found.output)
    return result


EXPLAINED: tuple[tuple[str, dict[str, object]], ...] = (
    ("W1001", {"decision": "approved", "amount": "49.99", "reasons": []}),
    (
        "W2001 --items D1:1",
        {"decision": "needs_manager", "four_eyes": True, "amount": "1499.00"},
    ),
    ("W1001 --reason damaged", {"decision": "declined"}),
    ("W1001 --reason damaged --photos 1", {"decision": "approved"}),
    ("W3 --items C:1", {"amount": "41.00", "shipping": "5.00"}),
    ("W3 --items C:1:3", {"amount": "27.00", "shipping": "0.00"}),
    ("W4", {"decision": "needs_manager", "amount": "39.99", "shipping": "0.00"}),
)


def test_the_decision_is_explained_and_nothing_is_done(ruled: Harness) -> None:
    for arguments, expected in EXPLAINED:
        told = explain(ruled, *arguments.split())
        assert told.items() >= {**expected, "policy_version": "spring"}.items(), arguments
    for table in ("refunds", "audit", "policy_versions"):
        assert ruled.rows(f"SELECT * FROM {table}") == []


def test_each_rule_is_shown_with_its_fact(ruled: Harness) -> None:
    told = flask(ruled, "policy", "explain", "W3", "--items", "C:1:1").output
    assert "Order W3: 9.00 USD would be refunded without asking." in told
    assert (
        "The order: lines 40.00 USD, discount 4.00 USD, carriage 5.00 USD; paid 41.00 USD." in told
    )
    assert "9.00 USD; up to 1000.00 USD without asking" in told
    assert "Policy version: spring" in told
    dear = flask(ruled, "policy", "explain", "W2001").output
    assert "two managers would decide on 1499.00 USD" in dear
    assert "The amount is above what is refunded without asking." in dear


UNEXPLAINED = (
    ("W9", "there is no order W9"),
    ("W1001 --items X", "item X is not on order W1001. Look at it: flask orders show W1001"),
    ("W1001 --items K1:2", "quantity must be from 1 to 1"),
    ("W1001 --items K1,K1", "item K1 is named twice"),
    ("W1001 --items ,", "names no item"),
    ("W1001 --reason bored", "'bored' is not one of"),
)


def test_what_cannot_be_explained_is_said(ruled: Harness) -> None:
    for arguments, complaint in UNEXPLAINED:
        found = flask(ruled, "policy", "explain", *arguments.split())
        assert found.exit_code != 0
        assert complaint in found.output
        assert "Traceback" not in found.output


def test_the_rules_in_force_are_shown(ruled: Harness) -> None:
    told = flask(ruled, "policy", "show").output
    assert "Version: spring." in told
    assert "A second person approves above 1400.00 USD." in told


def test_check_notes_a_version_that_decided_before_with_another_text(ruled: Harness) -> None:
    settings = ruled.app.config["MAILAGENT"]
    ruled.app.config["MAILAGENT"] = settings.model_copy(update={"policy": RULES})
    with running(ruled):
        assert "policy" not in flask(ruled, "check").output
        with ruled.live.database.transaction() as connection:
            policies.record(connection, replace(RULES, source="# older"), NOW)
        told = flask(ruled, "check")
    assert "note: the policy spring had another text before" in told.output
    assert told.exit_code == 0


def test_a_bad_file_is_told_by_check_with_every_key(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("window = 3\nrefund_shipping = 1\n", "utf-8")
    found = process({"REFUND_POLICY": str(path), "SECRET_KEY": "for tests"}, "check")
    assert found.returncode == 1
    output = found.stdout + found.stderr
    assert f"REFUND_POLICY: {path}, the file: unknown key 'window'" in output
    assert f"REFUND_POLICY: {path}, refund_shipping: 1 is neither" in output
    assert "Traceback" not in output
