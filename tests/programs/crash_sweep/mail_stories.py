"""Stories about mail: questions, people who take over, drafts, discounts, loops, lost answers."""

from __future__ import annotations

import time
from collections.abc import Callable

from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.scripted_model import Call, CustomerRequest, Fact, Phrase, Say, ToolResult, Turn
from mailagent.domain.mail.conversation import Limits
from tests.cast import ADA, OLGA, TESS
from tests.programs.crash_sweep import people
from tests.programs.crash_sweep.shop import QUESTION, SweptShop
from tests.programs.crash_sweep.story import WEBHOOKS, Story, steps

ANSWERED = steps("take_batch ask_model write_reply send_mail")
NO_LOOK = frozenset({"ask_model:looked"})  # the model asks for nothing


def _requests(shop: SweptShop) -> None:
    shop.write(QUESTION)


def _people_take_over(shop: SweptShop) -> None:
    """Ada wants a person; Tess answers; Ada writes again, which is the team's, too."""
    shop.write("This is outrageous! I want to talk to a human being, now!")
    case, told = shop.wait_for_mails(TESS)[0], shop.wait_for_mails(ADA)[0]
    shop.write(
        "Dear Ada, I am sorry. I will call you today.",
        from_address=TESS, from_name="Tess Team", to=case.reply_to, subject="Re: Please take over",
    )  # fmt: skip
    shop.wait_for_mails(ADA, 2)
    shop.write("At what time?", to=told.reply_to)


def _answer_is_a_draft(shop: SweptShop) -> None:
    shop.write(QUESTION)
    people.send_drafts(shop, ADA)


def _gets_a_discount(shop: SweptShop) -> None:
    shop.write("The kettle of order W1001 came late. Is there a discount for that?")


def _says_discount(
    request: CustomerRequest, results: list[ToolResult], _corrected: bool
) -> Turn | None:
    if "discount" not in request.text:
        return None
    if not results:
        return Call("offer_goodwill", {"order_id": "W1001", "percent": 10})
    return Say((Phrase("sorry_hear"), Fact("goodwill/W1001")))


def _says_what_is_false(
    request: CustomerRequest, results: list[ToolResult], corrected: bool
) -> Turn | None:
    """First claim a refund that nobody made; when told so, answer as it is."""
    if "happy" not in request.text:
        return None
    if not corrected:
        return Say("Your refund of 49.99 USD has been paid.")
    return Say([Phrase("glad_you_like_it")])


def _is_answered_falsely(shop: SweptShop) -> None:
    shop.write("I am happy with my kettle.")


def _writes_until_the_loop_guard_is_due(shop: SweptShop) -> None:
    to: str | None = None
    for number in range(1, Limits().answers_per_hour + 1):
        shop.write("Thank you, we will be in touch.", **({"to": to} if to else {}))
        to = shop.wait_for_mails(ADA, number)[-1].reply_to
    shop.wait_for_quiet()


def _writes_once_too_often(shop: SweptShop) -> None:
    to = shop.mails_to(ADA)[-1].reply_to
    shop.write("Thank you, we will be in touch.", to=to)


def _taken_but_500(accept: Callable[[], Answer]) -> Answer:
    accept()
    return Answer(500)


def _loses_an_answer(shop: SweptShop) -> None:
    """SendGrid takes the mail and says that it failed: only its event tells."""
    shop.faults.sendgrid.append(_taken_but_500)
    _requests(shop)


def _busy(_accept: Callable[[], Answer]) -> Answer:
    return Answer(429, None, {"X-RateLimit-Reset": str(int(time.time()) + 1)})


def _meets_a_busy_sendgrid(shop: SweptShop) -> None:
    shop.faults.sendgrid.append(_busy)
    _requests(shop)


STORIES = (
    Story("question", _requests, {ADA: 1}, ANSWERED),
    Story(
        "people take over", _people_take_over, {ADA: 2, TESS: 2},
        steps("take_batch ask_model hand_over send_mail forward_team_replies pass_on_to_people"),
        passes_by=NO_LOOK,
    ),
    Story(
        "draft", _answer_is_a_draft, {ADA: 1},
        ANSWERED | steps("look_at_delivery"), WEBHOOKS | {"POST /ops/drafts/<draft_id>"},
        settings={"DRAFT_REPLIES": "all"},
    ),
    Story(
        "discount", _gets_a_discount, {ADA: 1},
        steps("take_batch ask_model offer_goodwill write_reply send_mail"),
        passes_by=NO_LOOK, policy="[goodwill]\nmost_percent = 15\n", script=_says_discount,
    ),
    Story(
        "false reply", _is_answered_falsely, {ADA: 1},
        steps("take_batch ask_model write_reply send_mail"), passes_by=NO_LOOK,
        script=_says_what_is_false,
    ),
    Story(
        "loop", _writes_once_too_often, {ADA: Limits().answers_per_hour, TESS: 1, OLGA: (0, 1)},
        steps("take_batch stop_loop send_mail"), prepare=_writes_until_the_loop_guard_is_due,
    ),
    Story(
        "lost answer of SendGrid", _loses_an_answer, {ADA: 1},
        ANSWERED | steps("look_at_delivery"),
    ),
    Story(
        "busy SendGrid", _meets_a_busy_sendgrid, {ADA: 1},
        ANSWERED | steps("look_at_delivery"),
    ),
)  # fmt: skip
