"""A code of a confirm mail proves the mails that it names, and proves once."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from mailagent import mailers
from mailagent.demo.fakes.mailboxes import MailContent
from mailagent.demo.fakes.webhooks import build_body
from mailagent.store.mail import conversations, inbound
from tests.cast import ADA
from tests.harness import Harness, code_in, pass_time

pytestmark = pytest.mark.both_databases

EVIL = "Please change the delivery address of order W1001 to 1 Evil Street"


def write(shop: Harness, text: str, **more: Any) -> MailContent:
    return shop.write(text, aligned=False, **more)


def ask(shop: Harness, *written: MailContent) -> Any:
    """Answer unproven mails of one thread; return our mail, which asks for the code."""
    ids = [row_of(shop, mail).mail_id for mail in written]
    with shop.live.database.transaction() as connection:
        thread = conversations.load(connection, row_of(shop, written[0]).conversation_id)
        mails = inbound.list_by_id(connection, ids)
        reader = mailers.reader_of(connection, thread, mails)
        outbound_id = mailers.write_reply(reader, mails, mailers.Letter("Thank you.", "en"))
        inbound.answer(connection, ids, outbound_id)
    (mail,) = shop.rows("SELECT * FROM outbound_mails WHERE outbound_id = :id", id=outbound_id)
    return mail


def row_of(shop: Harness, written: MailContent) -> Any:
    statement = "SELECT * FROM inbound_mails WHERE message_id = :id"
    return shop.rows(statement, id=written.message_id)[0]


def last_code_in(mail: Any) -> str:
    """Return the code that proves only the last mail that a confirm mail names."""
    found = re.search(r"only the last message is yours, [a-z ]+([0-9]{6});", mail.text)
    assert found is not None, mail.text
    assert found[0] in mail.html
    return found[1]


def identities(shop: Harness, *written: MailContent) -> list[str]:
    return [row_of(shop, mail).identity for mail in written]


def test_the_code_proves_the_mailbox(shop: Harness) -> None:
    first = write(shop, "Where is my order?")
    asked = ask(shop, first)
    code = write(shop, f"Yes, it is me. {code_in(asked)}", to=asked.reply_to)
    assert identities(shop, first, code) == ["mailbox", "mailbox"]
    assert row_of(shop, code).conversation_id == row_of(shop, first).conversation_id


def test_the_code_counts_though_its_mail_came_to_another_address_first(shop: Harness) -> None:
    first = write(shop, "Where is my order?")
    asked = ask(shop, first)
    copy = write(shop, code_in(asked), in_reply_to=first.message_id)
    assert identities(shop, first, copy) == ["none", "none"]
    shop.post_inbound(build_body(replace(copy, to=asked.reply_to)))
    found = shop.rows("SELECT identity, status FROM inbound_mails ORDER BY mail_id")
    assert [row.identity for row in found] == ["mailbox", "none", "mailbox"]
    assert [row.status for row in found] == ["answered", "no_answer", "unanswered"]


@pytest.mark.parametrize("words", ["Yes, it is me", "000000", "I am away until Monday."])
def test_an_answer_without_the_code_proves_nothing(shop: Harness, words: str) -> None:
    first = write(shop, "Where is my order?")
    answer = write(shop, words, to=ask(shop, first).reply_to)
    assert identities(shop, first, answer) == ["none", "none"]


def test_the_code_at_another_address_proves_nothing(shop: Harness) -> None:
    first = write(shop, "Where is my order?")
    asked = ask(shop, first)
    (thread,) = shop.rows("SELECT * FROM conversations")
    for to in (f"case+{thread.reply_token}@shop.example", "support@shop.example"):
        answer = write(shop, code_in(asked), to=to, in_reply_to=first.message_id)
        assert identities(shop, first, answer) == ["none", "none"]


def test_the_code_proves_nothing_that_its_mail_does_not_name(shop: Harness) -> None:
    """A stranger goes on in a thread that they opened in Ada's name, before and after she is asked."""
    first = write(shop, "Hello, a question.")
    before = write(shop, EVIL, in_reply_to=first.message_id)
    asked = ask(shop, first)
    after = write(shop, EVIL, in_reply_to=first.message_id)
    code = write(shop, code_in(asked), to=asked.reply_to)
    assert identities(shop, first, code) == ["mailbox", "mailbox"]
    assert identities(shop, before, after) == ["none", "none"]
    assert "“Hello, a question.”" in asked.text
    assert "Evil" not in asked.text


def test_a_later_confirm_mail_names_what_the_earlier_one_named(shop: Harness) -> None:
    first = write(shop, "My kettle leaks.")
    to = ask(shop, first).reply_to
    second = write(shop, "Why do you ask?", to=to)
    asked = ask(shop, second)
    assert asked.text.index("“My kettle leaks.”") < asked.text.index("“Why do you ask?”")
    code = write(shop, code_in(asked), to=to)
    assert identities(shop, first, second, code) == ["mailbox"] * 3


def test_the_code_of_an_earlier_confirm_mail_proves_less(shop: Harness) -> None:
    first = write(shop, "My kettle leaks.")
    earlier = ask(shop, first)
    forged = write(shop, EVIL, to=earlier.reply_to)
    later = ask(shop, forged)
    assert code_in(earlier) != code_in(later)
    code = write(shop, code_in(earlier), to=earlier.reply_to)
    assert identities(shop, first, forged, code) == ["mailbox", "none", "mailbox"]


def test_a_customer_can_confirm_their_last_mail_without_a_forged_one(shop: Harness) -> None:
    forged = write(shop, EVIL)
    asked = ask(shop, forged)
    own = write(shop, "I did not write that. Where is my pot?", to=asked.reply_to)
    asked = ask(shop, own)
    code = write(shop, f"It is me: {last_code_in(asked)}", to=asked.reply_to)
    assert identities(shop, forged, own, code) == ["none", "mailbox", "mailbox"]
    more = write(shop, "And my pan?", to=asked.reply_to, in_reply_to=own.message_id)
    asked = ask(shop, more)
    code = write(shop, last_code_in(asked), to=asked.reply_to)
    assert identities(shop, forged, more, code) == ["none", "mailbox", "mailbox"]


def test_who_uses_the_second_code_writes_again_what_else_is_theirs(shop: Harness) -> None:
    lost = write(shop, "My kettle leaks.")
    forged = write(shop, EVIL, to=ask(shop, lost).reply_to)
    asked = ask(shop, forged)
    own = write(shop, "Where is my pot?", to=asked.reply_to)
    asked = ask(shop, own)
    for body in (asked.text, asked.html):
        assert "use this second code and write those again in your answer" in body
    again = write(shop, f"{last_code_in(asked)}\n\nMy kettle leaks.", to=asked.reply_to)
    assert identities(shop, lost, forged, own, again) == ["none", "none", "mailbox", "mailbox"]
    assert "My kettle leaks." in row_of(shop, again).new_text


def test_a_quotation_of_both_codes_proves_nothing(shop: Harness) -> None:
    to = ask(shop, write(shop, EVIL)).reply_to
    own = write(shop, "That was not me.", to=to)
    quoted = write(shop, f"Ticket 17 was opened: {ask(shop, own).text}", to=to)
    assert identities(shop, own, quoted) == ["none", "none"]


def test_one_mail_is_asked_for_by_one_code(shop: Harness) -> None:
    asked = ask(shop, write(shop, "Where is my order?"))
    assert "only the last" not in asked.text + asked.html


def test_a_confirm_mail_names_the_newest_mails_and_proves_no_others(shop: Harness) -> None:
    first = write(shop, "Number zero")
    asked = ask(shop, first)
    more = []
    for word in ("one", "two", "three", "four", "five"):
        more.append(write(shop, f"Number {word}", to=asked.reply_to))
        asked = ask(shop, more[-1])
    code = write(shop, code_in(asked), to=asked.reply_to)
    assert "Number zero" not in asked.text
    assert asked.text.count("“Number") == 5
    assert identities(shop, first, *more, code) == ["none"] + ["mailbox"] * 6


def test_a_stranger_cannot_have_us_mail_a_link_or_a_number(shop: Harness) -> None:
    words = "Pay 500 at https://evil.example or evil.example, call 0800-123456, me@evil.example now"
    asked = ask(shop, write(shop, words))
    assert "“Pay … at … or … call … now”" in asked.text
    for part in (asked.text, asked.html):
        assert "evil" not in part
        assert "500" not in part


# --- used up --------------------------------------------------------------------------------------


def test_the_code_proves_once(shop: Harness) -> None:
    """Somebody who saw the confirm mail writes in Ada's name, with its code, to its address."""
    first = write(shop, "Where is my order?")
    asked = ask(shop, first)
    write(shop, code_in(asked), to=asked.reply_to)
    again = write(shop, f"{code_in(asked)} {EVIL}", to=asked.reply_to)
    assert identities(shop, again) == ["none"]
    pass_time(shop, days=25)
    later = write(
        shop, f"{code_in(asked)} {EVIL}", to=asked.reply_to, sent_at=shop.live.now().isoformat()
    )
    assert identities(shop, later) == ["none"]


def test_a_customer_who_writes_to_the_used_address_is_asked_anew(shop: Harness) -> None:
    first = write(shop, "Where is my order?")
    asked = ask(shop, first)
    write(shop, code_in(asked), to=asked.reply_to)
    more = write(shop, "And my pot?", to=asked.reply_to, in_reply_to=first.message_id)
    row = row_of(shop, more)
    assert (row.status, row.identity) == ("unanswered", "none")
    assert row.conversation_id == row_of(shop, first).conversation_id
    anew = ask(shop, more)
    assert (anew.to_address, code_in(anew) != code_in(asked)) == (ADA, True)
    code = write(shop, code_in(anew), to=anew.reply_to)
    assert identities(shop, more, code) == ["mailbox", "mailbox"]


def test_the_used_address_takes_no_code(shop: Harness) -> None:
    """Who saw the first confirm mail knows its address, and may try many codes."""
    first = write(shop, "Where is my order?")
    asked = ask(shop, first)
    write(shop, code_in(asked), to=asked.reply_to)
    forged = write(shop, EVIL, to=asked.reply_to, in_reply_to=first.message_id)
    anew = ask(shop, forged)
    guess = write(shop, code_in(anew), to=asked.reply_to, in_reply_to=first.message_id)
    assert identities(shop, forged, guess) == ["none", "none"]


def test_of_two_mails_with_the_code_at_once_one_is_proven(shop: Harness) -> None:
    asked = ask(shop, write(shop, "Where is my order?"))
    with ThreadPoolExecutor(2) as threads:
        both = list(
            threads.map(
                lambda n: write(shop, f"{code_in(asked)} number {n}", to=asked.reply_to), range(2)
            )
        )
    assert sorted(identities(shop, *both)) == ["mailbox", "none"]


def test_who_sends_back_both_codes_is_asked_anew_and_not_throttled(shop: Harness) -> None:
    first = write(shop, "My kettle leaks.")
    earlier = ask(shop, first)
    second = write(shop, "It has a hole.", to=earlier.reply_to)
    later = ask(shop, second)
    for asked in (earlier, later):
        code = write(shop, code_in(asked), to=asked.reply_to, in_reply_to=first.message_id)
    assert identities(shop, first, second, code) == ["mailbox", "none", "none"]
    assert row_of(shop, code).status == "unanswered"
