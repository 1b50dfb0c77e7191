"""Stories of the console: a person takes a conversation over, answers and gives it back; runs are replayed."""

from __future__ import annotations

from mailagent.engine import CONVERSATION, REFUND
from tests.cast import ADA, KETTLE_WISH, OLGA, TESS
from tests.programs.crash_sweep import people
from tests.programs.crash_sweep.shop import QUESTION, SweptShop
from tests.programs.crash_sweep.story import WEBHOOKS, Story, steps

TAKE_OVER, ANSWER, GIVE_BACK = (
    f"POST /ops/conversations/<conversation_id>/{act}"
    for act in ("take-over", "answer", "give-back")
)
REPLAY = "POST /ops/runs/<run_id>/replay"


def _answered_by_a_person(shop: SweptShop) -> None:
    """Tess takes over and answers; what Ada writes then is passed on, and given back to the agent."""
    shop.write("This is outrageous! I want to talk to a human being, now!")
    told = shop.wait_for_mails(ADA)[0]
    shop.wait_for_mails(TESS)
    shop.wait_for_quiet()
    # Somebody else's conversation may have begun: people write after a crash.
    (row,) = shop.rows(
        "SELECT DISTINCT conversation_id FROM inbound_mails WHERE from_address = :ada", ada=ADA
    )
    page = f"/ops/conversations/{row.conversation_id}"
    people.press(shop, TESS, page, f"{page}/take-over")
    people.press(shop, TESS, page, f"{page}/answer", text="Dear Ada, I am sorry. Ask me anything.")
    shop.wait_for_mails(ADA, 2)
    shop.write(QUESTION, to=told.reply_to)
    shop.wait_for_mails(TESS, 2)
    shop.wait_for_quiet()
    people.press(shop, TESS, page, f"{page}/give-back")


def _exchanged(shop: SweptShop) -> None:
    shop.write("Can I exchange the kettle of order W1001 for a red one?")
    _done_by_the_team(shop)


def _sent_again(shop: SweptShop) -> None:
    shop.write("Please send a replacement for the kettle of W1001, it is damaged.")
    _done_by_the_team(shop)


def _sent_elsewhere(shop: SweptShop) -> None:
    shop.write("Please change the delivery address of W1008 to:\n12 Canary Road, Springfield 12345")
    _done_by_the_team(shop)


def _cancelled(shop: SweptShop) -> None:
    """Tess cancels, then the refund is paid."""
    shop.write("Please cancel my order W1008.")
    _done_by_the_team(shop)


def _done_by_the_team(shop: SweptShop) -> None:
    shop.wait_for_mails(TESS)
    (task,) = shop.rows("SELECT remedy_id FROM remedies")
    people.press(shop, TESS, "/ops/tasks", f"/ops/tasks/{task.remedy_id}", done="yes")


def _pays_for_the_kettle(shop: SweptShop) -> None:
    shop.write(KETTLE_WISH)
    shop.wait_for_mails(ADA, 2)
    shop.wait_for_quiet()


def _replayed(shop: SweptShop) -> None:
    """Olga replays runs that ended well, from their first step: one in place, one as a copy."""
    for workflow, how in ((REFUND, "rewind"), (CONVERSATION, "fork")):
        (run,) = shop.rows(
            f"SELECT workflow_uuid AS run_id FROM {shop.dbos}workflow_status"
            " WHERE name = :w AND forked_from IS NULL ORDER BY created_at LIMIT 1",
            w=workflow,
        )
        page = f"/ops/runs/{run.run_id}/replay"
        people.press(shop, OLGA, f"{page}?from_step=1", page, how=how)
        shop.wait_for_quiet()
    forks = f"SELECT count(*) FROM {shop.dbos}workflow_status WHERE forked_from IS NOT NULL"
    assert shop.scalar(forks) == 1, "the copy was not made once"


STORIES = (
    *(
        Story(
            name, play, {ADA: 2, TESS: 1},
            steps("take_batch ask_model request_change write_reply send_mail look_at_delivery"),
            WEBHOOKS | {"POST /ops/tasks/<remedy_id>"},
        )
        for name, play in (
            ("task", _exchanged),
            ("replacement", _sent_again),
            ("other address", _sent_elsewhere),
        )
    ),
    Story(
        "cancellation", _cancelled, {ADA: 3, TESS: 1},
        steps(
            "take_batch ask_model cancel_order write_reply send_mail look_at_delivery claim_refund"
            " pay_refund tell_customer"
        ),
        WEBHOOKS | {"POST /ops/tasks/<remedy_id>"}, refunds=("paid",),
    ),
    Story(
        "answered by a person", _answered_by_a_person, {ADA: 3, TESS: 2},
        steps(
            "take_batch ask_model hand_over send_mail pass_on_to_people write_reply"
            " look_at_delivery"
        ),
        WEBHOOKS | {TAKE_OVER, ANSWER, GIVE_BACK},
    ),
    Story(
        "replayed", _replayed, {ADA: 2},
        steps(
            "take_batch claim_refund tell_customer send_mail"
        ),
        frozenset({REPLAY}), frozenset({"send_mail:claimed", "send_mail:submitted"}),
        refunds=("paid",), prepare=_pays_for_the_kettle,
    ),
)  # fmt: skip
