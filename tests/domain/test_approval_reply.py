"""Which words of a manager's reply decide, and which do not."""

from __future__ import annotations

import pytest

from mailagent.domain.mail.reply_commands import NOTE_MAX_LENGTH, read_reply

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
