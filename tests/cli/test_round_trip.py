"""`flask check --send-test-mail`: a mail to ourselves that comes back and is no customer's."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from click.testing import Result

from mailagent.adapters.links import Links
from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.fakes.webhooks import build_body
from mailagent.domain.mail.message import Door, token_address
from mailagent.domain.operations.circuit_breaker import Failure
from mailagent.domain.operations.incident import IncidentKind
from mailagent.store.operations import circuit_breakers, incidents
from tests.cast import OLGA, SUPPORT
from tests.cli.commands import flask
from tests.harness import Harness, letter, running

DOMAIN = SUPPORT.partition("@")[2]


def check(shop: Harness, wait: int = 20) -> Result:
    with running(shop):
        return flask(shop, "check", "--send-test-mail", "--wait", str(wait))


def come_back(
    shop: Harness, event: str | None = "delivered"
) -> Callable[[Callable[[], Answer]], Answer]:
    """Return a SendGrid that takes the mail and posts it, and an event of it, to the webhooks at once."""

    def send(accept: Callable[[], Answer]) -> Answer:
        (person,) = shop.faults.asked[-1]["personalizations"][0]["to"]
        text = letter("Nobody has to answer it.", from_address=SUPPORT, to=person["email"])
        assert shop.post_inbound(build_body(text)).status_code == 200
        answer = accept()
        if event:
            for _ in range(2):  # SendGrid repeats events
                assert shop.report(shop.mailboxes.sent()[-1], event).status_code == 200
        return answer

    return send


def test_the_mail_comes_back_and_the_model_answers(shop: Harness) -> None:
    shop.faults.sendgrid.append(come_back(shop))
    done = check(shop)
    assert done.exit_code == 0, done.output
    assert "ok: the model" in done.output
    assert "ok: SendGrid has taken the test mail" in done.output
    assert "ok: it came back and was stored" in done.output
    assert "ok: delivery events arrive" in done.output
    assert "Everything is in place" in done.output
    (mail,) = shop.rows("SELECT * FROM inbound_mails")
    assert (mail.kind, mail.status, mail.conversation_id) == ("test", "no_answer", None)
    assert (mail.no_answer_reason, mail.rate_limit_key) == ("our own test mail", None)
    assert shop.rows("SELECT 1 FROM conversations") == []
    assert shop.rows("SELECT 1 FROM outbound_mails") == []
    (sent,) = shop.mailboxes.sent()
    assert shop.rows("SELECT 1 FROM delivery_events") == []
    reported = shop.rows("SELECT actor, subject FROM audit WHERE action = 'test mail reported'")
    assert [tuple(each) for each in reported] == [("sendgrid", sent.custom_args["outbound_id"])]


def test_events_that_do_not_arrive_are_told_beside_what_works(shop: Harness) -> None:
    shop.faults.sendgrid.append(come_back(shop, event=None))
    done = check(shop, wait=1)
    assert done.exit_code == 1
    assert "ok: the model" in done.output
    assert "ok: it came back and was stored" in done.output
    assert "waiting for a delivery event of it (0 of 1 s)" in done.output
    assert "problem: no delivery event of the test mail came within 1 s" in done.output
    assert f"the URL {shop.live.shop.public_url}/webhooks/sendgrid/events" in done.output
    assert "turn on Signature Verification" in done.output
    assert "set SENDGRID_EVENTS_PUBLIC_KEY" in done.output


def test_an_event_of_another_mail_says_nothing_of_this_one(shop: Harness) -> None:
    shop.faults.sendgrid.append(come_back(shop))
    assert check(shop).exit_code == 0
    shop.faults.sendgrid.append(come_back(shop, event=None))
    assert "problem: no delivery event" in check(shop, wait=1).output
    (sent, _) = shop.mailboxes.sent()
    forged = shop.report(sent, outbound_id=f"test_{'a' * 32}")
    assert forged.status_code == 200
    assert len(shop.rows("SELECT 1 FROM audit WHERE action = 'test mail reported'")) == 1


def test_an_outage_that_the_round_trip_shows_to_be_over_leaves_the_console(shop: Harness) -> None:
    now, why = shop.live.now(), Failure("401", needs_operator=True)
    with shop.live.database.transaction() as connection:
        for kind in (IncidentKind.OPENAI, IncidentKind.MAIL_PROVIDER):
            incidents.open_incident(connection, now, kind, "401")
        for provider in (shop.live.providers.model, shop.live.providers.mail):
            circuit_breakers.record_failure(connection, provider, why, now, probing=False)
    assert shop.log_in(OLGA).get("/ops").text.count("data-outage=") == 2
    shop.faults.sendgrid.append(come_back(shop))
    assert check(shop).exit_code == 0
    assert "data-outage=" not in shop.log_in(OLGA).get("/ops").text


def test_a_mail_that_does_not_come_back_is_told(shop: Harness) -> None:
    done = check(shop, wait=1)
    assert done.exit_code == 1
    assert "waiting for it to come back (0 of 1 s)" in done.output
    assert "problem: the test mail did not come back within 1 s" in done.output
    assert f"the MX record of {DOMAIN} names SendGrid" in done.output
    assert "/webhooks/sendgrid/inbound" in done.output
    assert "problem: no delivery event of the test mail came." in done.output


def test_what_the_providers_refuse_is_told(shop: Harness) -> None:
    shop.faults.sendgrid.append(lambda _accept: Answer(401, {"errors": [{"message": "expired"}]}))
    refusal = {"error": {"message": "no", "type": "x", "code": "invalid_api_key", "param": None}}
    shop.faults.openai.append(lambda: Answer(401, refusal))
    done = check(shop)
    assert done.exit_code == 1
    assert "problem: the model does not answer: " in done.output
    assert "check OPENAI_API_KEY" in done.output
    assert "problem: no mail can be sent: SendGrid answered 401" in done.output
    assert "Correct SENDGRID_API_KEY" in done.output


def test_a_web_process_with_another_key_is_told(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Links(["another"], "https://x.test")
    monkeypatch.setattr(shop.live.links, "sign_test_mail", other.sign_test_mail)
    shop.faults.sendgrid.append(come_back(shop))
    done = check(shop, wait=2)
    assert done.exit_code == 1
    assert "has another SECRET_KEY" in done.output
    assert "delivery event" not in done.output
    assert [mail.kind for mail in shop.rows("SELECT kind FROM inbound_mails")] == ["own"]


def test_a_customer_cannot_make_a_test_mail_of_theirs(shop: Harness) -> None:
    forged = token_address(Door.TEST, "a" * 32, DOMAIN)
    shop.write("Where is my order?", to=forged)
    (mail,) = shop.rows("SELECT kind, status FROM inbound_mails")
    assert tuple(mail) == ("customer", "unanswered")


def test_tokens_of_test_mails_are_ours_alone() -> None:
    old, new = Links(["old"], "https://x.test"), Links(["new", "old"], "https://x.test")
    token = old.sign_test_mail()
    assert re.fullmatch("[a-z2-7]{32}", token)
    assert token != old.sign_test_mail()
    assert new.verify_test_mail(token)
    assert not old.verify_test_mail(new.sign_test_mail())
    for wrong in ("", token[:-1], token[:16], token[:-1] + ("a" if token[-1] != "a" else "b")):
        assert not new.verify_test_mail(wrong)


def test_check_asks_about_a_variable_that_is_misspelt(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANAGER_EMAIL", "mona@shop.example")
    with running(shop):
        done = flask(shop, "check")
    assert done.exit_code == 0
    told = "note: MANAGER_EMAIL is set, but there is no such setting: did you mean MANAGER_EMAILS?"
    assert told in done.output
