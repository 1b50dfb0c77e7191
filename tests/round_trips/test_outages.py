"""Providers that fail: nothing is lost, nothing is doubled, and what cannot be known is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mailagent.demo.fakes.http_server import Answer, LineCut
from tests.cast import ADA, GRACE, KETTLE_WISH, TESS, order
from tests.harness import Harness, open_shop, running, wait_until
from tests.round_trips.provider_faults import (
    QUESTION,
    Accept,
    limited,
    lost_after,
    lost_before,
    model_says,
    no_key,
)
from tests.round_trips.replays import wait_for_quiet


def taken_but_500(accept: Accept) -> Answer:
    accept()
    return Answer(500)


def state_of_reply(shop: Harness) -> Any:
    rows = shop.rows(
        "SELECT * FROM outbound_mails WHERE purpose = 'reply' AND to_address = :a", a=ADA
    )
    return rows[0] if rows else None


def reply_is(shop: Harness, status: str) -> bool:
    row = state_of_reply(shop)
    return row is not None and row.status == status


def test_a_mail_that_was_refused_for_now_is_sent_again(busy_shop: Harness) -> None:
    busy_shop.faults.sendgrid.append(limited)
    busy_shop.write(QUESTION)
    wait_until(lambda: reply_is(busy_shop, "sent"), 30, "the reply to be sent")
    assert len(busy_shop.mails_to(ADA)) == 1
    assert state_of_reply(busy_shop).attempts == 2


def lose_the_reply_to_ada(shop: Harness) -> None:
    shop.faults.sendgrid.append(lost_before)
    shop.write(QUESTION)
    wait_until(lambda: reply_is(shop, "sending"), 20, "the reply to be handed over")
    wait_until(lambda: bool(state_of_reply(shop).error), 20, "the lost answer to be recorded")


@pytest.mark.parametrize("event", ["processed", "delivered"])
def test_a_mail_without_an_event_is_sent_again_when_a_later_one_has_one(
    busy_shop: Harness, event: str
) -> None:
    lose_the_reply_to_ada(busy_shop)
    busy_shop.write(QUESTION, from_address=GRACE)
    busy_shop.report(busy_shop.wait_for_mails(GRACE)[0], event)
    wait_until(lambda: reply_is(busy_shop, "sent"), 30, "the reply to be sent")
    assert len(busy_shop.mails_to(ADA)) == 1
    assert state_of_reply(busy_shop).attempts == 2
    assert busy_shop.mails_to(TESS) == []


def test_a_mail_is_sent_again_only_once(busy_shop: Harness) -> None:
    lose_the_reply_to_ada(busy_shop)
    busy_shop.write(QUESTION, from_address=GRACE)
    (to_grace,) = busy_shop.wait_for_mails(GRACE)
    busy_shop.faults.sendgrid.append(lost_before)
    busy_shop.report(to_grace)
    wait_until(lambda: reply_is(busy_shop, "unknown"), 30, "the reply to be given up")
    assert state_of_reply(busy_shop).attempts == 2
    assert busy_shop.mails_to(ADA) == []
    assert "may or may not have been sent" in busy_shop.wait_for_mails(TESS)[0].subject


def test_events_of_earlier_mail_do_not_show_that_a_mail_was_lost(busy_shop: Harness) -> None:
    busy_shop.write(QUESTION, from_address=GRACE)
    (to_grace,) = busy_shop.wait_for_mails(GRACE)
    busy_shop.report(to_grace, "processed")
    lose_the_reply_to_ada(busy_shop)
    busy_shop.report(to_grace, "delivered")  # told of later, but handed over before
    wait_until(lambda: reply_is(busy_shop, "unknown"), 30, "the reply to be given up")
    assert state_of_reply(busy_shop).attempts == 1
    assert "may or may not have been sent" in busy_shop.wait_for_mails(TESS)[0].subject


def test_a_webhook_that_never_told_of_anything_proves_no_silence(busy_shop: Harness) -> None:
    lose_the_reply_to_ada(busy_shop)
    busy_shop.write(QUESTION, from_address=GRACE)
    busy_shop.wait_for_mails(GRACE)
    wait_until(lambda: reply_is(busy_shop, "unknown"), 30, "the reply to be given up")
    assert busy_shop.mails_to(ADA) == []
    assert len(busy_shop.wait_for_mails(TESS)) == 1


@pytest.mark.parametrize("fault", [lost_after, taken_but_500])
def test_a_mail_that_was_taken_is_not_sent_again(busy_shop: Harness, fault: Any) -> None:
    busy_shop.faults.sendgrid.append(fault)
    busy_shop.write(QUESTION)
    (mail,) = busy_shop.wait_for_mails(ADA)
    assert busy_shop.report(mail, "processed").status_code == 200
    wait_until(lambda: reply_is(busy_shop, "sent"), 30, "the reply to be known as sent")
    assert len(busy_shop.mails_to(ADA)) == 1


def test_without_events_an_unknown_mail_is_a_persons(tmp_path: Path, database_url: str) -> None:
    settings = {"SENDGRID_EVENTS_PUBLIC_KEY": ""}
    with open_shop(tmp_path, database_url, settings) as shop, running(shop):
        shop.faults.sendgrid.append(lost_after)
        shop.write(QUESTION)
        wait_until(lambda: reply_is(shop, "unknown"), 30, "the reply to be given up")
        (notice,) = shop.wait_for_mails(TESS)
        assert "may or may not have been sent" in notice.subject
        assert len(shop.mails_to(ADA)) == 1


def test_a_revoked_sendgrid_key_loses_nothing(busy_shop: Harness) -> None:
    busy_shop.faults.sendgrid += [no_key] * 3
    busy_shop.write(QUESTION)
    wait_until(lambda: state_of_reply(busy_shop) is not None, 20, "the reply to be written")
    wait_until(lambda: bool(state_of_reply(busy_shop).error), 20, "the refusal to be recorded")
    row = state_of_reply(busy_shop)
    assert row.status == "queued"
    assert "401" in row.error
    assert row.next_attempt_at is not None


# --- the model ------------------------------------------------------------------------------------


def model_hangs_up() -> Answer:
    raise LineCut


MODEL_FAULTS = (
    model_says(429, "rate_limit_exceeded", {"retry-after": "1"}),
    model_says(503, "server_is_overloaded"),
    model_hangs_up,
    lambda: Answer(200, "<html>a proxy's page</html>"),
    lambda: Answer(200, {"error": {"message": "no"}}),
)


def test_a_model_that_fails_for_a_while_is_asked_again(busy_shop: Harness) -> None:
    for number, fault in enumerate(MODEL_FAULTS, 1):
        busy_shop.faults.openai.append(fault)
        busy_shop.write(QUESTION, subject=f"Mail {number}")
        busy_shop.wait_for_mails(ADA, number)
        wait_until(busy_shop.at_rest, 20, "the answer to be recorded")
    assert len(busy_shop.mails_to(ADA)) == len(MODEL_FAULTS)


def run_of_mail(shop: Harness) -> str:
    (row,) = shop.rows("SELECT run_id FROM inbound_mails")
    return str(row.run_id)


def test_a_revoked_model_key_fails_the_run_and_a_replay_answers_once(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.faults.openai.append(model_says(401, "invalid_api_key"))
    busy_shop.write(KETTLE_WISH)
    workflow_client = busy_shop.live.workflow_client
    run_id = run_of_mail(busy_shop)

    def has_failed() -> bool:
        run = workflow_client.runs.find_run(run_id)
        return run is not None and run.status == "ERROR"

    wait_until(has_failed, 30, "the run to fail")
    assert busy_shop.mails_to(ADA) == []
    assert busy_shop.rows("SELECT status FROM inbound_mails")[0].status == "unanswered"
    workflow_client.replays.replay_run(run_id)
    busy_shop.wait_for_refund("paid")
    busy_shop.wait_for_mails(ADA, 2)
    wait_for_quiet(busy_shop)
    assert len(busy_shop.mails_to(ADA)) == 2
