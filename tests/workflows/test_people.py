"""Handing over and back, replayed: a step that comes too late undoes nothing that people did since."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from email.message import EmailMessage
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import handback
from mailagent.adapters.html.text import render_text
from mailagent.demo.scripted_model import Phrase
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import MailStatus, OutboundMail, Purpose
from mailagent.domain.mail.reply_commands import TeamCommand
from mailagent.domain.operations.replay import tell_rows
from mailagent.store import audit, schema
from mailagent.store.console import run_subjects
from mailagent.store.mail import conversations, drafts, inbound, outbound, suppressions, throttled
from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.steps.conversation.people import (
    forward_team_replies,
    hand_over,
    pass_on_to_people,
)
from mailagent.workflows.steps.conversation.reply import write_reply
from mailagent.workflows.steps.delivery.send import send_mail
from mailagent.workflows.steps.maintenance import restored
from mailagent.workflows.steps.maintenance.flood import CASES_PER_HOUR
from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, GRACE, JUERGEN, MALLORY, SUPPORT, TESS
from tests.cli.commands import flask
from tests.harness import Harness
from tests.workflows.moves import person_move, reply_move

SPENT = {"model_turns": 1, "tokens": 1, "unusable_replies": 0}


def thread(shop: Harness) -> Any:
    return shop.rows("SELECT * FROM conversations")[0]


def take(shop: Harness) -> Batch:
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    return batch


def give_to_people(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, thread(shop).conversation_id, "a test", shop.live.now())


def give_to_agent(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        conversation_id = thread(shop).conversation_id
        handback.give_back(connection, conversation_id)
        audit.record(connection, shop.live.now(), TESS, audit.GIVEN_BACK, conversation_id)


def asked_by_customer(shop: Harness) -> Batch:
    shop.write("Hello, is anybody there?")
    return take(shop)


def asked_again(shop: Harness) -> Batch:
    batch = asked_by_customer(shop)
    give_to_people(shop)
    return batch | {"task": "pass_on"}


def written_by_team(shop: Harness, *texts: str, subject: str = "Re: My order") -> Batch:
    """Let the team write into a conversation that it looks after."""
    hand_over(asked_by_customer(shop), person_move("CUSTOMER_ASKED"))
    door = f"team+{thread(shop).team_token}@shop.example"
    for text in texts:
        shop.write(text, from_address=TESS, from_name="Tess Team", to=door, subject=subject)
    return take(shop)


def everything(shop: Harness) -> list[object]:
    """Return every row that these steps could change."""
    tables = ("conversations", "inbound_mails", "outbound_mails", "audit")
    return [shop.rows(f"SELECT * FROM {table}") for table in tables]


HAND_OVER = pytest.param(
    asked_by_customer,
    lambda batch: hand_over(batch, person_move("CUSTOMER_ASKED")),
    give_to_agent,
    id="hand_over",
)
PASS_ON = pytest.param(asked_again, pass_on_to_people, give_to_agent, id="pass_on")
FORWARD = pytest.param(
    lambda shop: written_by_team(shop, "Dear Ada, I will call you.", "Back to the agent"),
    forward_team_replies,
    give_to_people,
    id="forward",
)


HOLD = pytest.param(
    lambda shop: written_by_team(shop, "I am away, call Max.", subject="I am on vacation"),
    forward_team_replies,
    give_to_agent,
    id="hold",
)


def plan(shop: Harness) -> list[str]:
    """Return what a replay says about the mails that wait."""
    conversation_id = thread(shop).conversation_id
    with shop.live.database.snapshot() as connection:
        rows = run_subjects.look(connection, [conversation_id], source_name=None)[conversation_id]
    return [told for told in tell_rows(rows) if "wait" in told]


def test_the_plan_of_a_replay_says_who_gets_the_teams_words_and_who_the_customers(
    shop: Harness,
) -> None:
    batch = written_by_team(shop, "Dear Ada, I will call you.")
    for_customer = "Mails from the team that wait: 1. Answers among them go to the customer."
    assert plan(shop) == [for_customer]
    shop.write("And my kettle?", to=f"case+{thread(shop).reply_token}@shop.example")
    told, for_team = plan(shop)
    assert told == for_customer
    assert for_team.startswith("Mails that wait: 1. People look after this conversation")
    forward_team_replies(batch)
    (answer,) = shop.rows("SELECT to_address FROM outbound_mails WHERE purpose = 'team_reply'")
    assert answer.to_address == ADA
    assert plan(shop) == [for_team]


@pytest.mark.parametrize(("asked", "step", "since"), [HAND_OVER, PASS_ON, FORWARD, HOLD])
def test_a_replayed_step_changes_nothing_and_knows_its_mails(
    shop: Harness,
    asked: Callable[[Harness], Batch],
    step: Callable[[Batch], list[str]],
    since: Callable[[Harness], None],
) -> None:
    batch = asked(shop)
    written = step(batch)
    assert written
    since(shop)
    before = everything(shop)
    assert step(batch) == written
    assert everything(shop) == before


@pytest.mark.parametrize(("asked", "step", "since"), [HAND_OVER, PASS_ON])
def test_a_mail_that_was_dealt_with_elsewhere_is_not_given_to_people_again(
    shop: Harness,
    asked: Callable[[Harness], Batch],
    step: Callable[[Batch], list[str]],
    since: Callable[[Harness], None],
) -> None:
    batch = asked(shop)
    since(shop)
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE inbound_mails SET status = 'no_answer', no_answer_reason = 'a test'"
        )
    before = everything(shop)
    assert step(batch) == []
    assert everything(shop) == before


def test_a_replay_forwards_only_what_was_not_forwarded(shop: Harness) -> None:
    batch = written_by_team(shop, "Dear Ada, I will call you.", "It will be today.")
    half = batch | {"mail_ids": batch["mail_ids"][:1]}
    first = forward_team_replies(half)
    both = forward_team_replies(batch)
    assert both[:1] == first
    rows = shop.rows("SELECT 1 FROM outbound_mails WHERE purpose = 'team_reply'")
    assert (len(both), len(rows)) == (2, 2)


def test_what_the_agent_has_already_is_not_given_back_again(shop: Harness) -> None:
    batch = written_by_team(shop, "Back to the agent", "Back to the agent")
    assert forward_team_replies(batch) == []
    assert thread(shop).status == "open"
    # A second act would restart the loop guard's count, and the deadline of the mail that waits.
    acts = shop.rows("SELECT actor FROM audit WHERE action = 'conversation given back'")
    assert acts == [(TESS,)]


def test_a_batch_of_which_people_took_one_mail_gets_no_answer_of_the_agents(shop: Harness) -> None:
    first = shop.write("Hello, is anybody there?")
    shop.write("Hello again.", in_reply_to=first.message_id)
    batch = take(shop)
    assert len(batch["mail_ids"]) == 2
    with shop.live.database.transaction() as connection:
        inbound.leave_unanswered(connection, batch["mail_ids"][:1], "a test")
    write_reply(batch, reply_move(batch, Phrase("welcome")), SPENT)
    assert shop.rows("SELECT 1 FROM outbound_mails") == []


def test_what_was_answered_stays_answered_when_a_stop_comes_late(shop: Harness) -> None:
    batch = asked_by_customer(shop)
    write_reply(batch, reply_move(batch, Phrase("welcome")), SPENT)
    with shop.live.database.transaction() as connection:
        inbound.leave_unanswered(connection, batch["mail_ids"], "the loop guard stopped it")
    (mail,) = shop.rows("SELECT status, no_answer_reason FROM inbound_mails")
    assert (mail.status, mail.no_answer_reason) == ("answered", None)


# --- what the team quotes -------------------------------------------------------------------------


def case_of(shop: Harness, customer: str = ADA) -> Any:
    """Have a customer's conversation handed over; return the mail with the case, and the team's address."""
    shop.write("My kettle is broken, a human please!", from_address=customer)
    (found,) = shop.rows("SELECT * FROM conversations WHERE customer_email = :of", of=customer)
    batch = take_batch(found.conversation_id)
    assert batch is not None
    hand_over(batch, person_move("CUSTOMER_ASKED"))
    return newest_case(shop, found.conversation_id)


def newest_case(shop: Harness, conversation_id: str) -> Any:
    return shop.rows(
        "SELECT outbound_mails.*, team_token FROM outbound_mails JOIN conversations USING (conversation_id)"
        " WHERE purpose = 'hand_over' AND conversation_id = :of ORDER BY outbound_id DESC LIMIT 1",
        of=conversation_id,
    )[0]


def answer_case(shop: Harness, case: Any, text: str) -> list[Any]:
    """Let Tess answer a case, which her program quotes; return our mails that this wrote."""
    quoted = "\n".join(f"> {line}" for line in case.text.splitlines())
    shop.write(
        f"{text}\n\nOn Tue, 3 Nov 2026 at 10:12, The Shop <support@shop.example> wrote:\n{quoted}\n",
        from_address=TESS, from_name="Tess Team", to=f"team+{case.team_token}@shop.example",
        subject=f"Re: {case.subject}", in_reply_to=case.message_id,
    )  # fmt: skip
    batch = take_batch(case.conversation_id)
    assert batch is not None
    written = forward_team_replies(batch)
    return [
        shop.rows("SELECT * FROM outbound_mails WHERE outbound_id = :id", id=outbound_id)[0]
        for outbound_id in written
    ]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("above", ["", "Sent from my iPhone", "-- \nTess Team"])
def test_a_case_that_is_sent_back_without_words_does_not_reach_the_customer(
    shop: Harness, above: str
) -> None:
    (notice,) = answer_case(shop, case_of(shop), above)
    assert (notice.purpose, notice.to_address) == ("notice", TESS)
    assert "Why: held: it has no new text" in notice.text
    assert "write above what your program quotes" in notice.text
    (mail,) = shop.rows("SELECT * FROM inbound_mails WHERE kind = 'team'")
    assert (mail.status, mail.no_answer_reason) == ("no_answer", TeamCommand.HELD_EMPTY.value)
    assert "Back to the agent" in mail.body  # people still see all of it


def outlook(shop: Harness, case: Any, text: str, quoted: str) -> Any:
    """Let Tess answer a case from Outlook, which quotes it without quote signs; return our mail."""
    block = f"From: The Shop <{SUPPORT}>\nSent: Tuesday\nTo: Tess\nSubject: {case.subject}"
    shop.write(
        f"{text}\n\n________________________________\n{block}\n\n{quoted}\n\nThe Shop Ltd, 12 New Road, London",
        from_address=TESS, to=f"team+{case.team_token}@shop.example", subject=f"Re: {case.subject}",
    )  # fmt: skip
    (written,) = forward_team_replies(take(shop))
    (mail,) = shop.rows("SELECT * FROM outbound_mails WHERE outbound_id = :id", id=written)
    return mail


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("answered_inside", [True, False])
@pytest.mark.parametrize("form", ["text", "html"])
def test_an_answer_inside_the_quoted_case_is_held(
    shop: Harness, answered_inside: bool, form: str
) -> None:
    case = case_of(shop)
    quoted = (case.text if form == "text" else render_text(case.html).text).splitlines()
    if answered_inside:
        (at,) = (at for at, line in enumerate(quoted) if "My kettle is broken" in line)
        quoted.insert(at, "We send you a new one on Monday.")
    mail = outlook(shop, case, "Hi Ada, see below in red.", "\n".join(quoted))
    assert mail.purpose == ("notice" if answered_inside else "team_reply")
    assert (f"Why: {TeamCommand.HELD_INSIDE.value}" in mail.text) is answered_inside


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("above", "is_held"),
    [("please send the kettle back to this address:", True), ("we wait for the kettle.", False)],
)
def test_an_address_that_is_announced_is_no_signature(
    shop: Harness, above: str, is_held: bool
) -> None:
    text = f"Hello Ada,\n\n{above}\n\n--\nShop GmbH\nMusterweg 1\n12345 Berlin"
    (mail,) = answer_case(shop, case_of(shop), text)
    assert mail.purpose == ("notice" if is_held else "team_reply")
    assert (f"Why: {TeamCommand.HELD_INSIDE.value}" in mail.text) is is_held


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_teams_usual_answer_reaches_each_customer(shop: Harness) -> None:
    """The next case of Ada's quotes it, so that it stands in our newest mail to Tess."""
    usual = "Please send us a photo of the damage.\n\nBest regards, Tess of the support team"
    case = case_of(shop)
    for one in (case, case_of(shop, GRACE)):
        (sent,) = answer_case(shop, one, usual)
        assert (sent.purpose, usual in sent.text) == ("team_reply", True)
        assert "Why:" not in sent.text
        if one is case:
            shop.write("I have none.", to=f"case+{thread(shop).reply_token}@shop.example")
            assert pass_on_to_people(take(shop))


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_sentences_that_the_team_uses_again_reach_the_customer(shop: Harness) -> None:
    """Her first answer stands in the case that she answers now."""
    ask = "Please send us a photo of the damage."
    greeting = (
        "Best regards, Tess of the support team\nThe Shop, 12 New Road, London\n"
        "Open from Monday to Friday, 9 to 5"
    )
    (first,) = answer_case(shop, case_of(shop), f"Dear Ada,\n\n{ask}\n\n{greeting}")
    shop.write("Here it is.", to=f"case+{thread(shop).reply_token}@shop.example")
    pass_on_to_people(take(shop))
    case = newest_case(shop, first.conversation_id)
    assert ask in case.text
    again = f"Dear Ada,\n\nNo picture was attached.\n{ask}\n\n{greeting}"
    (sent,) = answer_case(shop, case, again)
    assert again in sent.text


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_case_that_a_program_quotes_without_a_mark_does_not_reach_the_customer(
    shop: Harness,
) -> None:
    case = case_of(shop)
    shop.write(
        f"I will call her.\n\n{case.text}", from_address=TESS,
        to=f"team+{case.team_token}@shop.example", subject=f"Re: {case.subject}",
    )  # fmt: skip
    forward_team_replies(take(shop))
    assert shop.rows("SELECT 1 FROM outbound_mails WHERE purpose = 'team_reply'") == []
    (mail,) = shop.rows("SELECT * FROM inbound_mails WHERE kind = 'team'")
    assert mail.no_answer_reason == TeamCommand.HELD_EMPTY.value


def answer_of_tess(shop: Harness, case: Any, message: EmailMessage) -> Any:
    """Let Tess answer the mail with a case; return the mail that follows."""
    door = f"team+{case.team_token}@shop.example"
    message["From"], message["To"], message["Subject"] = TESS, door, f"Re: {case.subject}"
    proof = "{@shop.example : pass}"
    body = raw_request(message.as_bytes(), envelope_to=(door,), dkim=proof, envelope_from=TESS)
    assert shop.post_inbound(body).status_code == 200
    batch = take_batch(case.conversation_id)
    assert batch is not None
    (written,) = forward_team_replies(batch)
    (row,) = shop.rows("SELECT * FROM outbound_mails WHERE outbound_id = :id", id=written)
    return row


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_answer_with_a_file_is_held_and_the_team_is_told_which(shop: Harness) -> None:
    case = case_of(shop)
    message = EmailMessage()
    message.set_content("Here is your label.")
    message.add_attachment(b"%PDF", "application", "pdf", filename="label.pdf")
    notice = answer_of_tess(shop, case, message)
    assert (notice.purpose, notice.to_address) == ("notice", TESS)
    assert "it has files" in notice.text
    assert "Files: label.pdf" in notice.text
    page = f"{shop.live.shop.public_url}/ops/conversations/{case.conversation_id}"
    assert f"To answer with files: {page}" in notice.text
    assert "To send files, answer on the page" in case.text


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("text", "is_held"),
    [
        ("We have sent you a new kettle.\n\n-- \nTess\n[cid:image001.png@01DC]\n", False),
        ("Please print this label:\n\n[cid:image001.png@01DC]\n\nKeep it for us.\n", True),
    ],
    ids=["logo", "label"],
)
def test_a_logo_of_a_signature_passes_and_a_picture_that_was_pasted_is_held(
    shop: Harness, text: str, is_held: bool
) -> None:
    message = EmailMessage()
    message.set_content(text)
    shown = text.replace("[cid:image001.png@01DC]", '<img src="cid:image001.png@01DC">')
    message.add_alternative(f"<p>{shown}</p>", subtype="html")
    html = message.get_body(["html"])
    assert html is not None
    html.add_related(b"x" * 24_000, "image", "png", cid="<image001.png@01DC>", filename="label.png")
    mail = answer_of_tess(shop, case_of(shop), message)
    purpose = ("notice", TESS) if is_held else ("team_reply", ADA)
    assert (mail.purpose, mail.to_address) == purpose
    assert ("Files: label.png" in mail.text) is is_held


@pytest.mark.both_databases
def test_the_picture_of_a_signature_holds_up_no_second_answer(shop: Harness) -> None:
    def answer(customer: str, picture: bytes, text: str = "It is on its way") -> Any:
        message = EmailMessage()
        if "[cid:logo]" in text:
            message.set_content(text)
        shown = text.replace("[cid:logo]", "")
        message.add_alternative(f'<p>{shown}</p><img src="cid:logo">', subtype="html")
        html = message.get_body(["html"])
        assert html is not None
        html.add_related(picture, "image", "png", cid="<logo>", filename="image001.png")
        return answer_of_tess(shop, case_of(shop, customer), message)

    logo = b"x" * 24_000
    first = answer(ADA, logo)
    assert "it will not hold up your answers" in " ".join(first.text.split())
    assert answer(GRACE, logo).purpose == "team_reply"
    assert answer(JUERGEN, b"y" * 25_000).purpose == "notice"
    assert answer("bob@example.com", logo, "Print this label:\n[cid:logo]\n").purpose == "notice"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("text", "size"), [("Tess\n[cid:logo]", 100_000), ("It left today.\n[cid:logo]", 24_000)]
)
def test_no_answer_is_promised_that_would_be_held_again(
    shop: Harness, text: str, size: int
) -> None:
    for customer in (ADA, GRACE):
        message = EmailMessage()
        message.set_content(f"Hello,\nit is on its way.\n\n{text}\n")
        message.add_alternative('<p>It is on its way</p><img src="cid:logo">', subtype="html")
        html = message.get_body(["html"])
        assert html is not None
        html.add_related(b"x" * size, "image", "png", cid="<logo>", filename="image001.png")
        held = answer_of_tess(shop, case_of(shop, customer), message)
        assert held.purpose == "notice"
        assert "will not hold up" not in " ".join(held.text.split())


# --- claiming mail --------------------------------------------------------------------------------


MAIL = OutboundMail(
    outbound_id="outbound_1",
    purpose=Purpose.NOTICE,
    to_address=ADA,
    from_address="support@shop.example",
    subject="A notice",
    text="Something has happened.",
    html=None,
    message_id="outbound_1@shop.example",
)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("address", "suppressed"),
    [
        ("gone@shop.example", "gone@shop.example"),
        ("erased-1@erased.invalid", "nobody@shop.example"),
        (MAIL.to_address, MAIL.to_address),
    ],
)
def test_what_changes_while_a_claim_waits_for_the_mail_counts(
    shop: Harness, address: str, suppressed: str
) -> None:
    database, now = shop.live.database, shop.live.now()
    states: list[str] = []
    with database.transaction() as connection:
        outbound.record(connection, MAIL, "notice:1", now)
    waits = threading.Thread(target=lambda: states.append(send_mail("outbound_1")))
    with database.transaction() as connection:
        change = sa.text("UPDATE outbound_mails SET to_address = :address")
        connection.execute(change, {"address": address})
        suppressions.suppress(connection, suppressed, "bounce", now)
        waits.start()
        waits.join(0.5)
        assert waits.is_alive()
    waits.join(10)
    assert states == ["failed"]
    acts = shop.rows("SELECT actor, action FROM audit WHERE subject = 'outbound_1'")
    assert acts == [("clock", "mail suppressed")]


# --- restored -------------------------------------------------------------------------------------


SENDERS = (ADA, GRACE, JUERGEN, MALLORY)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_throttled_mail_and_drafts_are_peoples_after_a_restore(shop: Harness) -> None:
    """Each may have become an answer in the time that is lost. The command is broken off, and run again."""
    for sender in SENDERS:
        shop.write("Which orders of mine do you have?", from_address=sender)
    with shop.live.database.transaction() as connection:
        _park(connection, "more than 60 mails an hour", MALLORY)
        _park(connection, throttled.LOOP_DETECTED, JUERGEN)
        _draft_answer(connection, GRACE, shop.live.now())
    assert _doubted(shop, "--dry-run") == ["0", "4", "1"]

    found = restored.find_doubtful()
    restored.give_to_people(replace(found, conversation_ids=found.conversation_ids[:2]))
    assert _doubted(shop)[1] == "2"
    assert _doubted(shop) == ["0", "0", "0"]

    theirs = shop.rows("SELECT status, no_answer_reason FROM inbound_mails")
    assert set(theirs) == {("no_answer", HandOverReason.RESTORED.value)}
    assert shop.rows("SELECT state FROM drafts") == [("superseded",)]
    ours = shop.rows("SELECT purpose, to_address, status FROM outbound_mails")
    assert ours == [("hand_over", TESS, "queued")] * len(SENDERS)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_flood_that_was_throttled_before_a_restore_is_told_of_in_one_notice(
    shop: Harness,
) -> None:
    for number in range(CASES_PER_HOUR + 1):
        shop.write("Where is it?", from_address=GRACE, subject=f"Parcel {number}")
    with shop.live.database.transaction() as connection:
        _park(connection, "more than 60 mails an hour", GRACE)
    assert _doubted(shop) == ["0", str(CASES_PER_HOUR + 1), "0"]
    assert _doubted(shop) == ["0", "0", "0"]
    assert shop.rows("SELECT DISTINCT status FROM inbound_mails") == [("no_answer",)]
    (told,) = shop.rows("SELECT purpose, status, text FROM outbound_mails")
    assert (told.purpose, told.status) == ("notice", "queued")
    assert f"{CASES_PER_HOUR + 1} from {GRACE}" in told.text


def _park(connection: sa.Connection, why: str, sender: str) -> None:
    connection.execute(
        schema.inbound_mails.update()
        .where(schema.inbound_mails.c.from_address == sender)
        .values(status=MailStatus.THROTTLED.value, no_answer_reason=why)
    )


def _draft_answer(connection: sa.Connection, sender: str, now: datetime) -> None:
    mails = schema.inbound_mails
    query = sa.select(mails.c.mail_id, mails.c.conversation_id)
    mail = connection.execute(query.where(mails.c.from_address == sender)).one()
    drafts.record(connection, mail.conversation_id, [mail.mail_id], [], "You have one.", now)


def _doubted(shop: Harness, *options: str) -> list[str]:
    """Run the command; return how many mails of ours, mails of customers and drafts it names."""
    return re.findall(
        r"^ *(\d+)  ", flask(shop, "mails", "doubt", "--yes", *options).output, re.MULTILINE
    )
