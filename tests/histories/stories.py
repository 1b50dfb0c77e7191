"""The stories whose runs are recorded at a release. They are played by the code of that release, so they
use nothing of the tests but what old releases had."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dbos import DBOS

from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.fakes.openai import answer_to
from mailagent.demo.scripted_model import Call, Part, Phrase, Say, Turn
from mailagent.engine import ACTIVE
from tests import stripe_server
from tests.cast import ADA, DESK_WISH, GRACE, KETTLE_WISH, MAX, MONA, TESS, big_order, order
from tests.harness import Harness, beside, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.provider_faults import QUESTION, limited, lost_after, lost_before, model_says
from tests.stripe_server import StripeServer

OUTRAGE = "This is outrageous! I want to talk to a human being, now!"
AWAY = "Thank you for writing. I have got your mail and will look at it when I am back."
TEN_YEARS = str(10 * 365 * 24 * 3600)

_turns = itertools.count(1)


@dataclass(frozen=True)
class Story:
    """What is played in a fresh shop. `settings` are the shop's own; in `policy` they name a file that
    holds it. `cut`: the runs are left as they are when the play ends, and the shop's rows are written down
    with them; others are let end first.
    """

    name: str
    play: Callable[[Harness], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    policy: str = ""
    cut: bool = False


@contextmanager
def settings_of(story: Story, folder: Path) -> Iterator[dict[str, str]]:
    """Give the settings of a story's shop; what stands behind them lives as long as this lasts."""
    settings = dict(story.settings)
    if story.policy:
        (folder / "policy.toml").write_text(story.policy)
        settings["REFUND_POLICY"] = str(folder / "policy.toml")
    if settings.get("PAYMENT_GATEWAY") != "stripe":
        yield settings
        return
    bank = StripeServer({"pi_card": 4999})
    bank.faults.append(stripe_server.lost_after)
    try:
        yield settings | {"STRIPE_API_KEY": "sk_test_17", "STRIPE_API_BASE": bank.url}
    finally:
        bank.stop()


def ended(shop: Harness) -> bool:
    """Whether every run has come to its end."""
    return not any(each.status in ACTIVE for each in shop.live.workflow_client.runs.list_runs())


def _turn(taken: Turn) -> Callable[[], Answer]:
    raw = f"turn {next(_turns)}".encode()
    return lambda: Answer(200, answer_to({"model": "test"}, taken, raw))


def _says(*parts: Part) -> Callable[[], Answer]:
    return _turn(Say(parts))


def _question(shop: Harness) -> None:
    shop.write(QUESTION)
    shop.wait_for_mails(ADA)


def _small_refund(shop: Harness) -> None:
    shop.stock(order())
    shop.write(KETTLE_WISH)
    shop.wait_for_mails(ADA, 2)


def _asked(shop: Harness) -> str:
    """Have a manager asked; return the link."""
    shop.stock(big_order())
    shop.write(DESK_WISH)
    (request,) = shop.wait_for_mails(MONA)
    return link_in(request.text)


def _approved(shop: Harness) -> None:
    decide(shop, _asked(shop), "approve")
    shop.wait_for_refund("paid")


def _rejected(shop: Harness) -> None:
    decide(shop, _asked(shop), "reject")
    shop.wait_for_refund("rejected")


def _countersigned(shop: Harness) -> None:
    decide(shop, _asked(shop), "approve")
    (second,) = shop.wait_for_mails(MAX)
    decide(shop, link_in(second.text), "approve")
    shop.wait_for_refund("paid")


def _expired(shop: Harness) -> None:
    _asked(shop)
    shop.wait_for_refund("expired")


def _withdrawn(shop: Harness) -> None:
    _asked(shop)
    shop.wait_for_mails(ADA)
    shop.write("Never mind, I do not want a refund for order W2001 any more.")
    shop.wait_for_refund("withdrawn")


def _waiting_for_a_manager(shop: Harness) -> None:
    _asked(shop)
    shop.wait_for_mails(ADA)
    waits = "SELECT 1 FROM operation_outputs WHERE function_name = 'DBOS.sleep'"
    wait_until(lambda: bool(shop.rows(waits)), 30, "the refund's run to wait")
    answers = "SELECT 1 FROM workflow_status WHERE name = 'conversation' AND status != 'SUCCESS'"
    wait_until(lambda: not shop.rows(answers), 30, "the conversation's run to end")


def _hand_over(shop: Harness) -> str:
    shop.write(OUTRAGE)
    (case,) = shop.wait_for_mails(TESS)
    return str(case.reply_to)


def _handed_over(shop: Harness) -> None:
    _hand_over(shop)


def _team_answers(shop: Harness) -> None:
    door = _hand_over(shop)
    shop.write(
        "Dear Ada, I am sorry. I will call you today.",
        from_address=TESS, from_name="Tess Team", to=door, subject="Re: Please take over",
    )  # fmt: skip
    shop.wait_for_mails(ADA, 2)


def _passed_on(shop: Harness) -> None:
    _hand_over(shop)
    (told,) = shop.wait_for_mails(ADA)
    shop.write("Which orders do I have?", to=told.reply_to)
    shop.wait_for_mails(TESS, 2)


def _loop(shop: Harness) -> None:
    shop.write("Where is my kettle?")
    done = 0
    while not shop.mails_to(TESS):
        wait_until(lambda: shop.at_rest() and ended(shop), 30, "the shop to come to rest")
        mails = shop.mails_to(ADA)
        for mail in mails[done:]:
            shop.write(AWAY, to=mail.reply_to, subject=f"Re: {mail.subject}")
        done = len(mails)


def _draft(shop: Harness) -> None:
    shop.stock(order())
    shop.write(QUESTION)
    wait_until(lambda: bool(shop.rows("SELECT 1 FROM drafts")), 30, "a draft")


def _false_reply(shop: Harness) -> None:
    lie = _says("Good news: we have refunded $49.99 to your card today.")
    shop.faults.openai += [lie, _says(Phrase("ask_which_order"))]
    shop.write("Where is my money?")
    shop.wait_for_mails(ADA)


def _false_twice(shop: Harness) -> None:
    shop.faults.openai += [_says("We have refunded $49.99 to your card today.") for _ in range(3)]
    shop.write("Where is my money?")
    shop.wait_for_mails(TESS)


def _unknown_tool(shop: Harness) -> None:
    shop.faults.openai.append(_turn(Call("give_everything", {})))
    shop.write(QUESTION)
    shop.wait_for_mails(ADA)


def _discount(shop: Harness) -> None:
    shop.stock(order())
    offer = {"order_id": "W1001", "percent": 5}
    shop.faults.openai.append(_turn(Call("offer_goodwill", offer)))
    shop.write("My kettle from order W1001 came a week late.")
    shop.wait_for_mails(ADA)


def _model_limited(shop: Harness) -> None:
    shop.faults.openai.append(model_says(429, "rate_limit_exceeded", {"retry-after": "1"}))
    shop.write(QUESTION)
    shop.wait_for_mails(ADA)


def _model_key_revoked(shop: Harness) -> None:
    shop.faults.openai += [model_says(401, "invalid_api_key")] * 3
    shop.write(KETTLE_WISH)
    failed = "SELECT 1 FROM workflow_status WHERE status = 'ERROR'"
    wait_until(lambda: bool(shop.rows(failed)), 30, "the run to fail")


def _mail_limited(shop: Harness) -> None:
    shop.faults.sendgrid.append(limited)
    _question(shop)


def _mail_lost(shop: Harness) -> None:
    shop.faults.sendgrid.append(lost_before)
    shop.write(QUESTION)
    lost = "SELECT 1 FROM outbound_mails WHERE status = 'sending' AND error IS NOT NULL"
    wait_until(lambda: bool(shop.rows(lost)), 30, "the lost answer to be recorded")
    shop.write(QUESTION, from_address=GRACE)
    shop.report(shop.wait_for_mails(GRACE)[0])
    shop.wait_for_mails(ADA)


def _mail_answer_lost(shop: Harness) -> None:
    shop.faults.sendgrid.append(lost_after)
    shop.write(QUESTION)
    shop.wait_for_mails(TESS)


def _bank_answer_lost(shop: Harness) -> None:
    paid = {"payment_id": "pi_card", "method": "card", "amount": "49.99"}
    shop.stock(order(payments=[paid]))
    shop.write(KETTLE_WISH)
    shop.wait_for_refund("paid")


def _a_minute(shop: Harness) -> None:
    done = "SELECT 1 FROM workflow_status WHERE name = 'sweep' AND status = 'SUCCESS'"
    wait_until(lambda: bool(shop.rows(done)), 90, "a sweep")


def _an_hour(shop: Harness) -> None:
    from mailagent.workflows.maintenance import housekeeping

    beside(lambda: DBOS.start_workflow(housekeeping, datetime.now(UTC), None))
    done = "SELECT 1 FROM workflow_status WHERE name = 'housekeeping' AND status = 'SUCCESS'"
    wait_until(lambda: bool(shop.rows(done)), 30, "the housekeeping")


def _put_off(shop: Harness) -> None:
    shop.faults.openai.append(model_says(429, "rate_limit_exceeded", {"retry-after": "3600"}))
    shop.write(QUESTION)
    put_off = "SELECT 1 FROM inbound_mails WHERE put_off > 0"
    wait_until(lambda: bool(shop.rows(put_off)), 30, "the mail to be put off")


FOUR_EYES = 'four_eyes_above = { USD = "1000.00" }\n'

STORIES: tuple[Story, ...] = (
    Story("question", _question),
    Story("small refund", _small_refund),
    Story("approved", _approved),
    Story("rejected", _rejected),
    Story("countersigned", _countersigned, policy=FOUR_EYES),
    Story("expired", _expired, {"APPROVAL_EXPIRY_SECONDS": "2"}),
    Story("withdrawn", _withdrawn),
    Story("waiting for a manager", _waiting_for_a_manager, {"APPROVAL_EXPIRY_SECONDS": TEN_YEARS}, cut=True),
    Story("handed over", _handed_over),
    Story("team answers", _team_answers),
    Story("passed on", _passed_on),
    Story("loop stopped", _loop),
    Story("draft", _draft, {"DRAFT_REPLIES": "all"}),
    Story("false reply", _false_reply),
    Story("false replies", _false_twice),
    Story("unknown tool", _unknown_tool),
    Story("discount", _discount, policy="[goodwill]\nmost_percent = 10\n"),
    Story("model limited", _model_limited),
    Story("model key revoked", _model_key_revoked),
    Story("mail limited", _mail_limited),
    Story("mail lost", _mail_lost),
    Story("answer about mail lost", _mail_answer_lost, {"SENDGRID_EVENTS_PUBLIC_KEY": ""}),
    Story("answer of the bank lost", _bank_answer_lost, {"PAYMENT_GATEWAY": "stripe"}),
    Story("put off", _put_off),
    Story("a minute", _a_minute),
    Story("an hour", _an_hour),
)  # fmt: skip
