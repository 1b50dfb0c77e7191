"""Which words of a manager's reply decide, and which do not."""

from __future__ import annotations

import pytest

from mailagent.domain.mail.message import INLINE_MIN_BYTES, PHOTO_MIN_BYTES, Attachment
from mailagent.domain.mail.reply_commands import (
    NOTE_MAX_LENGTH,
    TeamCommand,
    decide_team_command,
    read_reply,
)

ASKED = "Ada asks for $1,499.00 back. Please decide.\n> My desk wobbles.\n"

APPROVALS = [
    "approve",
    "Approved.",
    "I approve!",
    "**APPROVE**",
    "genehmigt",
    "J’approuve",
    "apruebo",
]
REJECTIONS = ["reject", "Rejected.", "decline", "“Reject”", "ich lehne ab", "refusé", "rechazado"]
NEITHER = [
    "approve?",
    "approve, but only 50",
    "do not approve",
    "not approved",
    "approve or reject",
    "yes",
    "ok",
    "> approve",
    "approve it",
    "reject?",
    "",
    "   ",
    "Hi,\napprove",
    "refuse",
]


@pytest.mark.parametrize(
    ("line", "approves"),
    [
        *((each, True) for each in APPROVALS),
        *((each, False) for each in REJECTIONS),
        *((each, None) for each in NEITHER),
    ],
)
def test_only_an_unmistakable_first_line_decides(line: str, approves: bool | None) -> None:
    assert read_reply(line, ASKED).approves is approves
    assert read_reply(f"\n\n{line}\nWe owe her that.", ASKED).approves is approves


@pytest.mark.parametrize(
    ("line", "percent"),
    [
        *((each, 30) for each in ("offer 30", "Offer 30 %.", "I offer 30%", "Angebot 30 %")),
        *((each, None) for each in ("offer", "offer 300", "offer 30 EUR", "offer 30 %?", "approve", "reject")),
    ],
)  # fmt: skip
def test_an_offer_of_part_of_the_price_is_a_rejection_with_a_percentage(
    line: str, percent: int | None
) -> None:
    reply = read_reply(f"{line}\nA scratch.", ASKED)
    assert reply.offer_percent == percent
    assert (reply.approves is False) is (percent is not None or line == "reject")


def test_a_request_that_holds_an_offer_is_not_decided_by_mail() -> None:
    assert read_reply("offer 30", f"{ASKED}> offer 99 %\n").blocked


def test_what_stands_below_the_word_is_a_note_and_without_the_word_all_of_it() -> None:
    assert read_reply("Approve.\n\nWe owe her that.\nMona", ASKED).note == "We owe her that.\nMona"
    assert read_reply("approve", ASKED).note is None
    assert read_reply("Is that\nthe same desk?", ASKED).note == "Is that\nthe same desk?"
    assert len(read_reply("n" * 3000, ASKED).note or "") == NOTE_MAX_LENGTH


@pytest.mark.parametrize("line", ["approve", "> Approve!", "> > rejected"])
def test_no_word_decides_where_the_request_itself_holds_such_a_line(line: str) -> None:
    reply = read_reply("approve", f"{ASKED}{line}\n")
    assert (reply.approves, reply.note, reply.blocked) == (None, "approve", True)
    assert not read_reply("approve", ASKED).blocked


# --- team -----------------------------------------------------------------------------------------


CASE = ("My kettle leaks", "Please take over: Ada Example, My kettle leaks")


@pytest.mark.parametrize("words", ["agent", "@agent", "Back to the agent.", "BACK TO AGENT!"])
@pytest.mark.parametrize(
    "below",
    [
        "",
        "\n\nBest regards,\nTess Team",
        "\n\nThanks!\nTess\n",
        "\nKind regards\nTess Team\nShop Support\nShop Ltd.\n+1 555 0100\nshop.example",
    ],
)
def test_one_line_above_a_greeting_gives_it_back(words: str, below: str) -> None:
    meant = decide_team_command(f"\n{words}{below}", "any subject", CASE)
    assert meant is TeamCommand.FOR_AGENT


@pytest.mark.parametrize(
    "below",
    [
        "Please ask her for the photo.",
        "Could you ask her?",
        "she has written to us three times now",
        "1\n2\n3\n4\n5\n6\n7",
    ],
)
def test_what_says_more_to_the_agent_is_for_nobody(below: str) -> None:
    assert decide_team_command(f"agent\n\n{below}", CASE[0], CASE) is TeamCommand.HELD_AGENT


@pytest.mark.parametrize("text", ["Our agent will call you.", "Hello\nagent", "agents"])
def test_a_line_that_only_speaks_of_the_agent_is_for_the_customer(text: str) -> None:
    assert decide_team_command(text, CASE[0], CASE) is TeamCommand.FOR_CUSTOMER


@pytest.mark.parametrize(
    "subject",
    [
        "My kettle leaks",
        "RE: my  kettle LEAKS",
        "AW: Antw: Re[2]: My kettle leaks",
        "Re: Please take over: Ada Example, My kettle leaks",
        "[EXTERNAL] Re: Please take over: Ada Example, My kettle leaks",
        "Re: [EXTERNAL] Please take over: Ada Example, My kettle leaks",
        "Re: Please take over: Ada Exam",
        "Re: Please take over",
        "SV：My kettle leaks (order W1001)",
    ],
)
def test_an_answer_with_the_subject_of_the_case_is_for_the_customer(subject: str) -> None:
    assert decide_team_command("I will call you.", subject, CASE) is TeamCommand.FOR_CUSTOMER


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "Re:",
        "I am on vacation",
        "Out of office",
        "Automatic reply: Please take over: Ada Example, My kettle leaks",
        "Abwesenheitsnotiz: My kettle leaks",
        "My kett",
        "Re: Automatic reply: My kettle leaks",
    ],
)
def test_an_answer_with_a_subject_of_its_own_is_held(subject: str) -> None:
    assert decide_team_command("I am away, call Max.", subject, CASE) is TeamCommand.HELD_SUBJECT


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_answer_without_new_text_is_held(text: str) -> None:
    assert decide_team_command(text, CASE[0], CASE) is TeamCommand.HELD_EMPTY


@pytest.mark.parametrize(
    ("name", "content_type", "size", "meant"),
    [
        ("label.pdf", "application/pdf", 900, TeamCommand.HELD_FILES),
        ("label.xls", "application/octet-stream", 900, TeamCommand.HELD_FILES),
        ("logo.PNG", "application/octet-stream", PHOTO_MIN_BYTES - 1, TeamCommand.FOR_CUSTOMER),
        ("photo.png", "application/octet-stream", PHOTO_MIN_BYTES, TeamCommand.HELD_FILES),
        ("photo.jpg", "image/jpeg", PHOTO_MIN_BYTES, TeamCommand.HELD_FILES),
        ("image001.png", "image/png", PHOTO_MIN_BYTES - 1, TeamCommand.FOR_CUSTOMER),
        ("smime.p7s", "application/pkcs7-signature", 20_000, TeamCommand.FOR_CUSTOMER),
        ("tess.vcf", "text/vcard", 900, TeamCommand.FOR_CUSTOMER),
        ("winmail.dat", "application/ms-tnef", PHOTO_MIN_BYTES - 1, TeamCommand.FOR_CUSTOMER),
        ("winmail.dat", "application/ms-tnef", PHOTO_MIN_BYTES, TeamCommand.HELD_FILES),
        ("ATT00001.txt", "text/plain", 180, TeamCommand.FOR_CUSTOMER),
        ("ATT00002.htm", "text/html", 180, TeamCommand.FOR_CUSTOMER),
        ("ATT00001.pdf", "application/pdf", 180, TeamCommand.HELD_FILES),
        ("my-att1.txt", "text/plain", 180, TeamCommand.HELD_FILES),
    ],
)
def test_an_answer_with_a_file_is_held_but_not_for_a_logo_or_a_signature(
    name: str, content_type: str, size: int, meant: TeamCommand
) -> None:
    files = [Attachment(name, content_type, size)]
    assert decide_team_command("Here is your label.", CASE[0], CASE, files) is meant
    assert decide_team_command("agent", CASE[0], CASE, files) is TeamCommand.FOR_AGENT


@pytest.mark.parametrize(
    ("content_type", "size", "meant"),
    [
        ("image/png", INLINE_MIN_BYTES - 1, TeamCommand.FOR_CUSTOMER),
        ("image/png", INLINE_MIN_BYTES, TeamCommand.HELD_FILES),
        ("application/pdf", 900, TeamCommand.HELD_FILES),
    ],
)
def test_a_picture_of_a_signature_is_no_file_but_a_photo_between_the_lines_is(
    content_type: str, size: int, meant: TeamCommand
) -> None:
    files = [Attachment("image001.png", content_type, size, is_inline=True)]
    text = "I will call you.\n\nTess\n[cid:image001.png]"
    assert decide_team_command(text, CASE[0], CASE, files) is meant


LABEL = "[cid:image001.png@01DC]"
SAID = "Please print this label."


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (f"{SAID}\n\n{LABEL}\n\nKeep it for us.", TeamCommand.HELD_FILES),
        (f"{SAID}\n[image: label.png]\n\nBest regards\nTess", TeamCommand.HELD_FILES),
        (f"Hello Ada,\n{LABEL}\n{SAID}", TeamCommand.HELD_FILES),
        (f"{LABEL}\nTess", TeamCommand.HELD_FILES),
        (f"Your label: {LABEL}", TeamCommand.HELD_FILES),
        (f"Print this on paper and put it on top {LABEL}", TeamCommand.HELD_FILES),
        (f"{SAID}\n{LABEL}\n\nTess\n{LABEL}", TeamCommand.HELD_FILES),
        (f"{SAID}\n\nBest regards\nTess\n\n{LABEL}", TeamCommand.FOR_CUSTOMER),
        (f"{SAID}\n\nTess\n{LABEL}\nThis mail is for you only.", TeamCommand.FOR_CUSTOMER),
        (
            f"{SAID}\nTess, The Shop, 12 New Road, 12345 London, UK\n{LABEL}",
            TeamCommand.FOR_CUSTOMER,
        ),
        (f"Done!\n\nTess\n{LABEL}", TeamCommand.FOR_CUSTOMER),
        (SAID, TeamCommand.HELD_FILES),
    ],
)
def test_a_picture_among_the_sentences_is_no_logo(text: str, meant: TeamCommand) -> None:
    label = Attachment("image001.png", "image/png", INLINE_MIN_BYTES - 1, is_inline=True)
    assert decide_team_command(text, CASE[0], CASE, [label]) is meant
    icon = Attachment("image001.png", "image/png", PHOTO_MIN_BYTES - 1, is_inline=True)
    assert decide_team_command(text, CASE[0], CASE, [icon]) is TeamCommand.FOR_CUSTOMER


def test_an_answer_that_is_only_a_file_is_held_for_its_file() -> None:
    files = [Attachment("label.pdf", "application/pdf", 900)]
    assert decide_team_command("", CASE[0], CASE, files) is TeamCommand.HELD_FILES


def test_a_case_without_a_subject_can_be_answered() -> None:
    assert decide_team_command("I will call you.", "Re: ", ("",)) is TeamCommand.FOR_CUSTOMER


@pytest.mark.parametrize(
    ("below", "note", "shared"),
    [
        ("For the customer:\nWe are sorry.", "We are sorry.", True),
        ("\nFür die Kundin\n\nEs tut uns leid.\nMona", "Es tut uns leid.\nMona", True),
        ("For the customer:", None, False),
        ("For the customer: we are sorry.", "For the customer: we are sorry.", False),
        ("She called.\nFor the customer:\nSorry.", "She called.\nFor the customer:\nSorry.", False),
    ],
)
def test_a_note_is_for_us_unless_the_line_before_it_says_otherwise(
    below: str, note: str | None, shared: bool
) -> None:
    read = read_reply(f"Reject\n{below}", ASKED)
    assert (read.approves, read.note, read.note_shared) == (False, note, shared)


def test_a_note_without_a_decision_is_never_for_the_customer() -> None:
    assert not read_reply("For the customer:\nWe are sorry.", ASKED).note_shared
