"""Lists of conversations, and what people do with one without writing: close, snooze, assign, tag, note."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from flask.testing import FlaskClient
from markupsafe import escape

from mailagent.demo.scripted_model import Phrase
from mailagent.domain.mail.conversation import parse_tag
from mailagent.domain.mail.message import Purpose
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.remedies.remedy import Remedy, RemedyKind, RemedyStatus
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations
from mailagent.store.privacy import erasure, retention
from mailagent.store.refunds import refunds, remedies
from mailagent.workflows.steps.conversation.batch import take_batch
from mailagent.workflows.steps.conversation.reply import write_reply
from tests.cast import ADA, GRACE, MONA, OLGA, TESS
from tests.databases import ONE_DATABASE
from tests.handed_over import handed_over, thread, throttle, write_for_team
from tests.harness import Harness
from tests.web.console.drafts import SPENT, STILL_ANSWERS, age, door, field, press
from tests.web.questions import Question
from tests.workflows.moves import reply_move


def write(shop: Harness) -> str:
    shop.write("Where is my order?")
    return str(thread(shop).conversation_id)


def seen(client: FlaskClient, conversation_id: str) -> str:
    return field(client.get(f"/ops/conversations/{conversation_id}").text, "seen")


def is_in(client: FlaskClient, query: str, email: str = ADA) -> bool:
    """Return whether a list of conversations shows a customer."""
    return f"<bdi>{email}</bdi>" in client.get(f"/ops/conversations?{query}").text


def lists_with(client: FlaskClient) -> list[str]:
    return [
        view for view in ("open", "pending", "snoozed", "closed") if is_in(client, f"view={view}")
    ]


def acts(shop: Harness) -> list[str]:
    rows = shop.rows("SELECT action FROM audit WHERE actor = :tess ORDER BY audit_id", tess=TESS)
    return [row.action for row in rows]


def test_an_answer_makes_it_wait_for_the_customer_whose_mail_opens_it(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    assert lists_with(tess) == ["open"]
    press(tess, conversation_id, "answer", text="It comes today.", once=new_id("once"))
    assert lists_with(tess) == ["pending"]
    shop.write("It did not.", to=door(shop))
    assert lists_with(tess) == ["open"]


def test_the_agents_answer_makes_it_wait_for_the_customer(shop: Harness) -> None:
    batch = take_batch(write(shop))
    assert batch is not None
    write_reply(batch, reply_move(batch, Phrase("ask_what_to_do")), SPENT)
    tess = shop.log_in(TESS)
    assert lists_with(tess) == ["pending"]
    page = tess.get(f"/ops/conversations/{batch['conversation_id']}").text
    assert STILL_ANSWERS not in page


@pytest.mark.both_databases
def test_a_mail_that_waits_for_people_is_not_shown_as_answered(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    handed_over(shop)

    def is_answered() -> list[bool]:
        paths = (f"/ops/conversations/{conversation_id}", "/ops/search?q=order&kind=mails")
        return [
            bool(re.search(r'class="badge good">answered<', tess.get(path).text)) for path in paths
        ]

    assert is_answered() == [False, False]
    assert "with the team" in tess.get("/ops/search?q=order&kind=mails").text
    write_for_team(shop, "Dear Ada, it comes today.")
    assert is_answered() == [True, True]


def record_task(question: Question) -> None:
    """Let the refund be withdrawn, and the team have a task instead."""
    refund, now = question.refund(), question.shop.live.now()
    task = Remedy(
        remedy_id="remedy_1",
        kind=RemedyKind.EXCHANGE,
        status=RemedyStatus.TASK,
        order_id=refund.order_id,
        conversation_id=refund.conversation_id,
        mail_id=refund.mail_id,
        items=(),
        requested_at=now,
        due_at=now + timedelta(days=1),
    )
    with question.shop.live.database.transaction() as connection:
        refunds.move(connection, refund, RefundStatus.WITHDRAWN)
        remedies.record(connection, task, "key_1")


@pytest.mark.both_databases
@pytest.mark.parametrize("owed", ["waits for a manager", "with the team"])
def test_what_our_people_still_owe_does_not_wait_for_the_customer(
    question: Question, owed: str
) -> None:
    shop, conversation_id = question.shop, thread(question.shop).conversation_id
    with shop.live.database.transaction() as connection:
        conversations.record_answered(connection, conversation_id, Purpose.REPLY, shop.live.now())
    if owed == "with the team":
        record_task(question)
    tess = shop.log_in(TESS)
    for path in ("?view=pending", f"/{conversation_id}"):
        text = tess.get(f"/ops/conversations{path}").text
        assert f'class="badge waiting">{owed}<' in text
        assert ">waits for the customer<" not in text


def test_a_closed_conversation_is_opened_by_the_customers_next_mail(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    for _ in range(2):
        press(tess, conversation_id, "close", seen=seen(tess, conversation_id))
    assert (lists_with(tess), acts(shop)) == (["closed"], ["conversation closed"])
    shop.write("And my invoice?", to=door(shop))
    assert lists_with(tess) == ["open"]
    press(tess, conversation_id, "close", seen=seen(tess, conversation_id))
    for _ in range(2):
        press(tess, conversation_id, "reopen")
    assert lists_with(tess) == ["open"]
    assert acts(shop)[-2:] == ["conversation closed", "conversation reopened"]


@pytest.mark.parametrize("is_throttled", [False, True])
def test_the_page_says_that_closing_does_not_stop_the_agent(
    shop: Harness, is_throttled: bool
) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    if is_throttled:
        throttle(shop)
    path = f"/ops/conversations/{conversation_id}"
    assert STILL_ANSWERS in tess.get(path).text
    press(tess, conversation_id, "close", seen=seen(tess, conversation_id))
    assert STILL_ANSWERS in tess.get(path).text
    press(tess, conversation_id, "take-over")
    assert STILL_ANSWERS not in tess.get(path).text


@pytest.mark.parametrize("act", ["close", "snooze"])
def test_mail_that_was_not_seen_is_neither_closed_nor_snoozed(shop: Harness, act: str) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    form = {"seen": seen(tess, conversation_id), "for": "1d"}
    shop.write("My lawyer will write to you.", to=door(shop))
    told = press(tess, conversation_id, act, **form)
    assert (told.status_code, "My lawyer will write to you." in told.text) == (409, True)
    assert "Nothing was changed" in told.text
    assert STILL_ANSWERS in told.text
    assert (lists_with(tess), acts(shop)) == (["open"], [])


def test_a_snoozed_conversation_comes_back_by_the_clock_or_by_a_mail(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, conversation_id, "a test", shop.live.now())
    snooze = {"for": "1d", "seen": seen(tess, conversation_id)}
    press(tess, conversation_id, "snooze", **snooze)
    assert lists_with(tess) == ["snoozed"]
    assert ADA not in tess.get("/ops?waiting=people").text
    shop.write("Hello?", to=door(shop))
    assert lists_with(tess) == ["open"]
    press(tess, conversation_id, "snooze", **{**snooze, "seen": seen(tess, conversation_id)})
    assert lists_with(tess) == ["snoozed"]
    age(shop, "conversations", "snoozed_until", hours=0)
    assert lists_with(tess) == ["open"]
    assert ADA in tess.get("/ops?waiting=people").text
    assert press(tess, conversation_id, "snooze", **{"for": "9y"}).status_code == 422


@pytest.mark.parametrize("acts", [("answer", "snooze"), ("snooze", "answer")], ids=" then ".join)
def test_what_is_answered_and_snoozed_comes_back_too(shop: Harness, acts: tuple[str, str]) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    press(tess, conversation_id, "take-over")
    for act in acts:
        form = {
            "text": "We ask the carrier, and write on Monday.",
            "once": new_id("once"),
            "for": "1d",
        }
        form["seen"] = seen(tess, conversation_id)
        assert press(tess, conversation_id, act, **form).status_code == 303
    assert lists_with(tess) == ["snoozed"]
    age(shop, "conversations", "snoozed_until", hours=0)
    assert lists_with(tess) == ["open"]
    assert ADA in tess.get("/ops?waiting=people").text


def test_assigning_takes_it_from_the_agent_and_is_on_record(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    for _ in range(2):
        press(tess, conversation_id, "assign", owner=OLGA)
    assert (thread(shop).owner_email, thread(shop).status) == (OLGA, "handed_over")
    assert take_batch(conversation_id) is None
    olga = shop.log_in(OLGA)
    assert (is_in(olga, "owner=mine"), is_in(tess, "owner=mine")) == (True, False)
    assert not is_in(tess, "owner=nobody")
    press(tess, conversation_id, "assign", owner="")
    assert is_in(tess, "owner=nobody")
    assert acts(shop) == ["conversation assigned"] * 2
    for nobody in (MONA, ADA, "x"):
        assert press(tess, conversation_id, "assign", owner=nobody).status_code == 422


def test_tags_are_added_found_and_removed(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    shop.write("Hello", from_address=GRACE)
    for tag in ("VIP", "vip", "no/tag", "x" * 41, ""):
        press(tess, conversation_id, "tags", tag=tag)
    assert acts(shop) == ["tag added"]
    assert '<option value="vip">' in tess.get("/ops/conversations").text
    assert (is_in(tess, "tag=vip"), is_in(tess, "tag=vip", GRACE)) == (True, False)
    for _ in range(2):
        press(tess, conversation_id, "tags", tag="vip", change="remove")
    assert not is_in(tess, "tag=vip")
    for number in range(12):
        press(tess, conversation_id, "tags", tag=f"t{number}")
    assert len(shop.rows("SELECT 1 FROM conversation_tags")) == 10


def test_a_note_is_for_people_only_and_written_once(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    for _ in range(2):
        press(tess, conversation_id, "notes", note="Call 4111 1111 1111 1111 <b>today</b>")
    page = tess.get(f"/ops/conversations/{conversation_id}").text
    assert page.count("&lt;b&gt;today&lt;/b&gt;") == 1
    assert "4111 1111 1111" not in page
    assert acts(shop) == ["note written"]
    assert shop.rows("SELECT 1 FROM outbound_mails") == []


@pytest.mark.parametrize(
    ("act", "form", "why"),
    [
        ("tags", {"tag": "t10"}, "A conversation has at most 10 tags. Remove one first."),
        ("notes", {"note": " "}, "There is nothing in the note."),
    ],
)
def test_a_form_that_is_refused_says_why(
    shop: Harness, act: str, form: dict[str, str], why: str
) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    for number in range(10):
        press(tess, conversation_id, "tags", tag=f"t{number}")
    answer = press(tess, conversation_id, act, **form)
    page = tess.get(answer.location).text
    assert why in page
    assert "Your click changed nothing." not in page


@pytest.mark.parametrize(
    ("act", "form", "why"),
    [
        ("notes", {"note": "<é>" * 1_667}, "it is 5,001 characters long, and 5,000 are the"),
        ("tags", {"tag": "no/tag <b>"}, "A tag has 1 to 40 letters, digits, spaces and dashes"),
        ("snooze", {"for": "ever"}, "It was not snoozed: choose for how long."),
        ("assign", {"owner": "gone@shop.example"}, "gone@shop.example answers no customers"),
    ],
)
def test_a_form_that_cannot_be_taken_comes_back_with_what_was_typed(
    shop: Harness, act: str, form: dict[str, str], why: str
) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    answer = press(tess, conversation_id, act, **form)
    assert answer.status_code == 422
    assert why in answer.text.partition('role="alert">')[2].partition("</div>")[0]
    assert "What the customer last wrote" in answer.text
    (typed,) = form.values()
    assert act == "snooze" or str(escape(typed)) in answer.text
    assert acts(shop) == []
    assert why not in tess.get(f"/ops/conversations/{conversation_id}").text


def test_a_note_as_long_as_the_page_allows_is_saved(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    page = tess.get(f"/ops/conversations/{conversation_id}").text
    assert 'id="note" name="note" rows="4" dir="auto" maxlength="5000"' in page
    text = "é\r\n" * 2_499 + "éé"  # a browser counts a line's end as one character, and sends two
    assert press(tess, conversation_id, "notes", note=text).status_code == 303
    (note,) = shop.rows("SELECT text FROM conversation_notes")
    assert len(note.text) == 5_000


def test_notes_tags_and_the_name_go_with_the_customer(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    shop.write("Hello", from_address=GRACE, from_name="Grace")
    (graces,) = shop.rows(
        "SELECT conversation_id FROM conversations WHERE customer_email = :grace", grace=GRACE
    )
    press(tess, graces.conversation_id, "notes", note=f"Lives with {ADA}.")
    press(tess, conversation_id, "answer", text="It comes today.", once=new_id("once"))
    press(tess, conversation_id, "notes", note="She sounded sad.")
    press(tess, conversation_id, "tags", tag="sad")
    with shop.live.database.transaction() as connection:
        shop_mails = "UPDATE outbound_mails SET status = 'sent'"
        connection.exec_driver_sql(shop_mails)
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
    (note,) = shop.rows("SELECT text FROM conversation_notes WHERE text <> ''")
    assert (ADA in note.text, "Lives with" in note.text) == (False, True)
    assert shop.rows("SELECT 1 FROM conversation_tags") == []
    assert [row.customer_name for row in shop.rows("SELECT * FROM conversations ORDER BY 1")] == [
        "", "Grace",
    ]  # fmt: skip
    assert "sad" not in str(shop.rows("SELECT details FROM audit"))


@ONE_DATABASE
def test_a_note_is_kept_as_long_as_other_content(shop: Harness) -> None:
    conversation_id, tess = write(shop), shop.log_in(TESS)
    press(tess, conversation_id, "answer", text="It comes today.", once=new_id("once"))
    long_ago = shop.live.now() - timedelta(days=400)
    with shop.live.database.transaction() as connection:
        for table, column in (("outbound_mails", "created_at"), ("conversations", "last_mail_at")):
            connection.exec_driver_sql(f"UPDATE {table} SET {column} = '{long_ago:%F %T.%f}'")
        connection.exec_driver_sql("UPDATE outbound_mails SET status = 'sent'")
    press(tess, conversation_id, "notes", note="She called again.")
    now = shop.live.now()
    for before, purged, left in (
        (now - timedelta(days=365), 0, 1),
        (now + timedelta(days=1), 1, 0),
    ):
        with shop.live.database.transaction() as connection:
            assert retention.purge_conversations(connection, before, None, now, 10) == purged
        assert len(shop.rows("SELECT 1 FROM conversation_notes WHERE text <> ''")) == left


@pytest.mark.parametrize(
    ("typed", "tag"),
    [(" VIP  customer ", "vip customer"), ("Größe-2", "größe-2"), ("", None), ("a@b", None),
     ("x" * 40, "x" * 40), ("x" * 41, None), ("a\nb", "a b"), ("<b>", None)],
)  # fmt: skip
def test_a_tag_is_letters_digits_spaces_and_dashes(typed: str, tag: str | None) -> None:
    assert parse_tag(typed) == tag
