"""Stories of what a refund waits for: goods that come back, and a cancellation by the shop's own system."""

from __future__ import annotations

from tests.cast import ADA, KETTLE_WISH
from tests.programs.crash_sweep.refund_stories import PAID
from tests.programs.crash_sweep.shop import ORDERS_TOKEN, SweptShop
from tests.programs.crash_sweep.story import WEBHOOKS, Story, steps


def _sent_back(shop: SweptShop) -> None:
    """The warehouse says that the kettle is back, twice."""
    shop.write(KETTLE_WISH)
    shop.wait_for_mails(ADA, 2)
    (refund,) = shop.rows("SELECT refund_id FROM refunds")
    for _ in range(2):
        shop.wait(lambda: shop.say_received(refund.refund_id), "the return to be taken")


def _cancelled_by_the_system(shop: SweptShop) -> None:
    shop.write("Please cancel my order W1008.")
    shop.wait_for_mails(ADA, 3)
    assert shop.order_server is not None
    keys = shop.order_server.cancelled_under
    assert len(keys) == 1, f"the order was cancelled under {keys}"


STORIES = (
    Story(
        "return first", _sent_back, {ADA: 3}, PAID | steps("look_at_delivery"),
        WEBHOOKS | {"POST /api/returns/<return_id>/received"}, refunds=("paid",),
        policy='return_first = { reasons = ["damaged"], instructions = "Send it to 1 Shop Street." }',
        settings={"ORDERS_API_TOKEN": ORDERS_TOKEN},
    ),
    Story(
        "cancelled by the shop's system", _cancelled_by_the_system, {ADA: 3},
        PAID - steps("propose_refund") | steps("cancel_order look_up_orders look_at_delivery"),
        refunds=("paid",), order_server=True,
    ),
)  # fmt: skip
