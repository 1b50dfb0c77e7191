"""The table of the crash sweep says what held, and in words what did not."""

from __future__ import annotations

from tests.programs.crash_table import table


def result(database: str, story: str, name: str, outcome: str = "held") -> dict[str, str]:
    return {"database": database, "story": story, "name": name, "at": "after", "outcome": outcome}


def test_each_step_has_a_row_with_its_stories_and_counts() -> None:
    both = [result(kind, "question", "send_mail") for kind in ("sqlite", "postgresql")]
    written = table([*both, result("sqlite", "draft", "send_mail")])
    assert "| killed in | stories | postgresql | sqlite |" in written
    assert "| `send_mail` | draft, question | 1 | 2 |" in written
    assert "in all: postgresql 1 held, sqlite 2 held." in written


def test_many_stories_are_counted_and_posts_come_last() -> None:
    stories = [result("sqlite", f"story {number}", "take_batch") for number in range(5)]
    written = table([result("sqlite", "draft", "POST /ops/drafts/<draft_id>"), *stories])
    assert "| `take_batch` | story 0, story 1, story 2 and 2 more | 5 |" in written
    assert written.index("`take_batch`") < written.index("`POST /ops")


def test_what_did_not_hold_is_said_in_words() -> None:
    rows = [
        result("sqlite", "draft", "ask_model"),
        result("sqlite", "draft", "ask_model", "BROKEN"),
    ]
    written = table([*rows, result("postgresql", "draft", "", "BROKEN")])
    assert "| `ask_model` | draft | – | 1 BROKEN, 1 held |" in written
    assert "| a story, played whole | draft | 1 BROKEN | – |" in written
