"""Outlook's header block: found in every language, with and without a blank line or a rule above it."""

from __future__ import annotations

import pytest

from mailagent.adapters.mime.reply_text import new_text
from tests.adapters.quotes import LABELS, NEW, OURS

VALUES = ("The Shop <support@shop.example>", "3. 11. 2026 10:12", "Ada <ada@example.com>", "Kettle")


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_a_header_block_below_the_reply_is_cut(labels: str) -> None:
    for above in ("", "\n", "_" * 32 + "\n", "\n-----\n", "\n----- Original Message -----\n"):
        for form in ("{}: {}", "{} : {}", "{}\uff1a{}", "*{}:* {}", "**{}:** {}"):
            block = "\n".join(map(form.format, labels.split("|"), VALUES))
            assert new_text(f"{NEW}\n{above}{block}\n\n{OURS}", subject="Re: Kettle") == NEW


@pytest.mark.parametrize("own", ["Date: 3 November", "To: your support", "Subject: the lid"])
def test_a_line_of_the_customer_that_has_such_a_label_is_kept(own: str) -> None:
    block = "\n".join(map("{}: {}".format, LABELS["en"].split("|"), VALUES))
    assert new_text(f"{NEW}\n{own}\n{block}\n\n{OURS}") == f"{NEW}\n{own}"


def test_four_labels_are_no_header_block_if_they_name_no_mail() -> None:
    body = "Hello,\nItem: kettle\nBought: 3.11.2026 10:12\nPaid: 49.99\nOrder: W1001\nIt broke."
    assert new_text(body) == body


@pytest.mark.parametrize(
    "own",
    [
        "Name: Ada <ada@example.com>\nBought: 3.11.2026 10:12\nWrite to: grace@example.org\nItem: Kettle",
        "From: Berlin\nTo: Hamburg\nDate: 3.11.2026 10:12\nThat train never came.",
    ],
)
def test_a_form_and_a_journey_with_a_time_of_day_are_kept(own: str) -> None:
    assert new_text(f"Hello,\n{own}\nIt broke.") == f"Hello,\n{own}\nIt broke."


@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_a_header_block_may_follow_another(between: str) -> None:
    block = "\n".join(map("{}: {}".format, LABELS["en"].split("|"), VALUES)) + "\n"
    assert new_text(f"{NEW}\n\n{block}{between}{block}\n{OURS}") == NEW


@pytest.mark.parametrize("own", ["In its original box", "From: my flat in Berlin", "To: Tess"])
def test_the_last_line_above_a_short_header_block_is_kept(own: str) -> None:
    block = "From: The Shop <support@shop.example>\nSent: 3 November 2026 10:12\nTo: Ada"
    assert new_text(f"{NEW}\n{own}\n{block}\n\n{OURS}") == f"{NEW}\n{own}"


@pytest.mark.parametrize("date", ["3 March 2026", "Monday", "12.11."])
@pytest.mark.parametrize("item", ["", "* ", "- "])
def test_a_list_of_the_customer_that_names_no_mail_is_kept(date: str, item: str) -> None:
    values = f"From: Berlin|To: Hamburg|Date: {date}|Subject: my parcel"
    body = "Hello,\n" + "\n".join(item + line for line in values.split("|")) + "\nIt broke."
    assert new_text(body) == body


@pytest.mark.parametrize(
    ("sent", "subject"),
    [
        ("Monday, 3 March 2025 10:11", "Kettle"),
        ("Monday, March 3, 2025 10:11 AM", "Kettle"),
        ("3.3.2025 10:11", "Kettle"),
        ("Monday", "Re: Kettle"),
        ("Monday", "AW: Kettle"),
    ],
)
def test_a_header_block_with_names_only_is_cut(sent: str, subject: str) -> None:
    block = f"From: Ada Example\nSent: {sent}\nTo: Support\nSubject: {subject}"
    assert new_text(f"{NEW}\n\n{block}\n\n{OURS}") == NEW
