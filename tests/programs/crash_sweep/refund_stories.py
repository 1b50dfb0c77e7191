"""Stories about refunds: paid at once, decided by a manager in every way, withdrawn, left to expire."""

from __future__ import annotations

from typing import Any

from tests.cast import ADA, DESK_WISH, KETTLE_WISH, MAX, MONA
from tests.programs.crash_sweep import people
from tests.programs.crash_sweep.shop import SweptShop
from tests.programs.crash_sweep.story import WEBHOOKS, Story, steps

PAID = steps(
    "take_batch ask_model propose_refund write_reply send_mail claim_refund pay_refund"
    " tell_customer"
)
DECIDED = PAID | steps("look_at_decision")
UNPAID = DECIDED - steps("pay_refund")
PRESSED = WEBHOOKS | {"POST /approvals/<token>"}


def _asks_for_the_kettle(shop: SweptShop) -> None:
    shop.write(KETTLE_WISH)


def _told_by_stripe(shop: SweptShop) -> None:
    """Stripe is not done with the refund for a while, and tells when it is."""
    assert shop.stripe is not None
    shop.stripe.statuses.append("pending")
    shop.write(KETTLE_WISH)
    shop.wait_for_mails(ADA)
    shop.wait(lambda: bool(_asked_of_stripe(shop)), "Stripe to be asked")
    shop.stripe.settle("succeeded")
    shop.wait(lambda: shop.post_stripe_event("refund.updated"), "the event to be taken")


def _asked_of_stripe(shop: SweptShop) -> list[Any]:
    return shop.rows("SELECT 1 FROM refund_payments WHERE state = 'asked' AND problem IS NOT NULL")


def _approved(shop: SweptShop) -> None:
    shop.write(DESK_WISH)
    people.decide(shop, MONA, "approve")


def _rejected(shop: SweptShop) -> None:
    shop.write(DESK_WISH)
    people.decide(shop, MONA, "reject")


def _countersigned(shop: SweptShop) -> None:
    shop.write(DESK_WISH)
    people.decide(shop, MONA, "approve")
    people.decide(shop, MAX, "approve")


def _approved_by_mail(shop: SweptShop) -> None:
    shop.write(DESK_WISH)
    people.decide_by_mail(shop, MONA, "Approve")


def _withdrawn(shop: SweptShop) -> None:
    shop.write(DESK_WISH)
    shop.wait_for_mails(MONA)
    shop.wait_for_mails(ADA)
    shop.write("Never mind, I do not want a refund for order W2001 any more.")


def _left_to_expire(shop: SweptShop) -> None:
    shop.write(DESK_WISH)


def _bounced(shop: SweptShop) -> None:
    shop.write(DESK_WISH)
    asked = shop.wait_for_mails(MONA)[0]
    shop.wait(lambda: shop.post_event(asked, "bounce"), "the bounce to be taken")
    people.decide(shop, MAX, "approve")


def _offered(shop: SweptShop) -> None:
    shop.write(KETTLE_WISH)
    shop.wait_for_mails(ADA)
    shop.wait_for_quiet()


def _accepted(shop: SweptShop) -> None:
    shop.write("Yes, please.", to=shop.mails_to(ADA)[-1].reply_to)


def _as_store_credit(shop: SweptShop) -> None:
    shop.write(DESK_WISH)
    told = shop.wait_for_mails(ADA)[-1]
    # It refers to the mail, as mail programs do: the crash may have left us unsure whether that arrived.
    shop.write("I take the store credit, please.", to=told.reply_to, in_reply_to=told.message_id)
    chosen = "SELECT 1 FROM refunds WHERE credit_bonus IS NOT NULL"
    shop.wait(lambda: bool(shop.rows(chosen)), "the choice of store credit")
    people.decide(shop, MONA, "approve")
    waits = "SELECT idempotency_key FROM ledger_settlements"
    shop.wait(lambda: bool(shop.rows(waits)), "the settlement")
    (settlement,) = shop.rows(waits)
    path = f"/ops/settlements/{settlement.idempotency_key}"
    people.press(shop, MONA, "/ops/settlements", path, settle="yes", reference="GIFT-1234")


def _offered_instead(shop: SweptShop) -> None:
    shop.write(DESK_WISH)
    people.decide(shop, MONA, "offer", offer_percent="30")
    told = shop.wait_for_mails(ADA, 2)[-1]
    shop.write("Yes, please.", to=told.reply_to, in_reply_to=told.message_id)


STORIES = (
    Story("small refund", _asks_for_the_kettle, {ADA: 2}, PAID, refunds=("paid",)),
    Story(
        "order in the shop's system", _asks_for_the_kettle, {ADA: 2}, PAID | steps("look_up_orders"),
        refunds=("paid",), order_server=True,
    ),
    Story(
        "paid by Shopify", _asks_for_the_kettle, {ADA: 2}, PAID | steps("look_up_orders"),
        refunds=("paid",), shopify=True,
    ),
    Story(
        "paid by Stripe", _asks_for_the_kettle, {ADA: 2}, PAID,
        refunds=("paid",), stripe=True,
    ),
    Story(
        "told by Stripe", _told_by_stripe, {ADA: 2}, PAID,
        WEBHOOKS | {"POST /webhooks/stripe"}, refunds=("paid",), stripe=True,
    ),
    Story(
        "approved refund", _approved, {ADA: 2, MONA: 1}, DECIDED, PRESSED,
        refunds=("paid",), deciders=(MONA,),
    ),
    Story(
        "rejected refund", _rejected, {ADA: 2, MONA: 1}, UNPAID, PRESSED,
        refunds=("rejected",), deciders=(MONA,),
    ),
    Story(
        "countersigned refund", _countersigned, {ADA: 2, MONA: 1, MAX: 1}, DECIDED, PRESSED,
        refunds=("paid",), deciders=(MONA, MAX),
        policy='four_eyes_above = { USD = "1000.00" }',
    ),
    Story(
        # The manager is told what was made of the word.
        "approved by mail", _approved_by_mail, {ADA: 2, MONA: 2},
        DECIDED | steps("look_at_delivery"), refunds=("paid",), deciders=(MONA,),
    ),
    Story(
        "withdrawn refund", _withdrawn, {ADA: 2, MONA: 1},
        UNPAID | steps("withdraw_refund"), refunds=("withdrawn",),
    ),
    Story(
        "accepted offer", _accepted, {ADA: 3},
        PAID - steps("propose_refund") | steps("accept_offer"), refunds=("paid",), prepare=_offered,
        policy="keep_offers = { percent_by_reason = { damaged = 30 } }",
    ),
    Story(
        "store credit", _as_store_credit, {ADA: 3, MONA: 1}, DECIDED,
        PRESSED | {"POST /ops/settlements/<settlement>"}, refunds=("paid",), deciders=(MONA,),
        policy="store_credit = { bonus_percent = 10 }",
    ),
    Story(
        "offer instead", _offered_instead, {ADA: 4, MONA: 1}, DECIDED | steps("accept_offer"),
        PRESSED, refunds=("rejected", "paid"), deciders=(MONA,),
        policy="keep_offers = { valid_days = 7 }",
    ),
    Story(
        # Reminders, then the next manager: how many have come by then, depends on the restart.
        "expired refund", _left_to_expire, {ADA: 2, MONA: (2, 8), MAX: (0, 8)},
        UNPAID | steps("look_at_delivery"),
        refunds=("expired",),
        settings={
            "APPROVAL_REMINDER_SECONDS": "2",
            "APPROVAL_ESCALATION_SECONDS": "4",
            "APPROVAL_EXPIRY_SECONDS": "8",
        },
    ),
    Story(
        "request that bounced", _bounced, {ADA: 2, MONA: 1, MAX: 1},
        DECIDED | steps("look_at_delivery"), PRESSED, refunds=("paid",), deciders=(MAX,),
    ),
)  # fmt: skip
