"""What the audit trail says, in words that people of the shop read."""

from __future__ import annotations

import pytest

from mailagent.store.ids import new_id
from mailagent.web.console.labels import action_label, detail_label, detail_labels


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("refund awaiting_approval", "refund left to a manager"),
        ("refund paid", "refund paid"),
        ("mail given_up", "mail given up"),
    ],
)
def test_an_act_is_told_in_words(action: str, words: str) -> None:
    assert action_label(action) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("awaiting_approval", "waits for a manager"),
        ("window_closed", "window closed"),
        ("pay_W2001", "pay_W2001"),
        ("mona@shop.example", "mona@shop.example"),
        (15, "15"),
    ],
)
def test_short_names_become_words_and_all_else_stays(value: object, words: str) -> None:
    assert detail_label(value) == words


def test_a_story_is_told_without_ids_and_empty_words() -> None:
    details = {
        "mail_id": new_id("mail"),
        "amount": "49.99 USD",
        "note": "stands with the decision",
        "note_for": "the shop only",
        "why": "",
        "filters": ["actor"],
    }
    assert detail_labels(details) == [("amount", "49.99 USD"), ("note for", "the shop only")]
