"""Passages of the shop's knowledge: what a heading makes, and how Markdown reads in a plain mail."""

from __future__ import annotations

from pathlib import Path

import pytest

from mailagent.adapters.knowledge import parse_passages, read_knowledge
from mailagent.domain.knowledge import PASSAGE_MAX_LENGTH, Knowledge, Passage


def test_each_heading_with_a_text_is_a_passage() -> None:
    markdown = "Hello.\n\n# Returns\n\n## How long? 30 days!\n\nYou have **30 days**.\n\n### Größe\nEgal.\n"
    assert [
        (each.passage_id, each.title, each.text) for each in parse_passages("FAQ", markdown)
    ] == [
        ("faq/faq", "FAQ", "Hello."),
        ("faq/how-long-30-days", "How long? 30 days!", "You have 30 days."),
        ("faq/grosse", "Größe", "Egal."),
    ]


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        (
            "See [our page](https://shop.example/a_b_c).",
            "See our page (https://shop.example/a_b_c).",
        ),
        ("It is *really* __so__ in snake_case_names.", "It is really so in snake_case_names."),
        ("So:\n\n```\n# no heading\n```", "So:\n\n# no heading"),
        ('[Page](https://shop.example/x "Our page")', "Page (https://shop.example/x)"),
        (
            "<https://shop.example> or [mail](mailto:a@shop.example)",
            "https://shop.example or mail (a@shop.example)",
        ),
        ("[Page][1]\n\n[1]: https://shop.example/1", "Page (https://shop.example/1)"),
        ("See ![our chart](chart.png) here", "See our chart here"),
        ("One<br>\ntwo\n\n<div>no</div>\n\n***\n\nthree", "One\ntwo\n\nthree"),
        ("1. **one**\n   more\n2. two\n   - three", "1. one\n   more\n2. two\n   - three"),
        ("> As we *say*", "As we say"),
        ("5 \\* 3 &amp; `a_b`  \nx", "5 * 3 & a_b\nx"),
        ("- one\n- two\r\n\n\n\nthree", "- one\n- two\n\nthree"),
        ("5 * 3 * 2", "5 * 3 * 2"),
        ("https://shop.example/_a_/b, *so*", "https://shop.example/_a_/b, so"),
    ],
)
def test_markdown_reads_as_plain_text(markdown: str, text: str) -> None:
    (passage,) = parse_passages("a", f"# T\n\n{markdown}")
    assert passage.text == text


def test_headings_of_every_kind_and_front_matter_are_understood() -> None:
    markdown = (
        "---\ntitle: FAQ\nlayout: page\n---\n\n*Returns* now\n===\nYes.\n\nHow long\n---\n30 days.\n"
        "\n##### Where\nHere.\n\n---\n\nOr there."
    )
    assert [(each.title, each.text) for each in parse_passages("faq", markdown)] == [
        ("Returns now", "Yes."),
        ("How long", "30 days."),
        ("Where", "Here.\n\nOr there."),
    ]


def test_what_a_mail_cannot_show_is_said_with_the_place() -> None:
    (passage,) = parse_passages(
        "sizes",
        "# All\n![](a.png) [x](../faq.md) [y](#up) <b>z</b> <!-- ours -->\n\n<table></table>",
    )
    assert Knowledge((passage,)).list_problems() == [
        "sizes/all: a mail does not show the picture a.png; describe it in words",
        "sizes/all: the link ../faq.md works only on your site; write its whole address",
        "sizes/all: the link #up works only on your site; write its whole address",
        "sizes/all: a mail does not show the HTML <b>; write it as text",
        "sizes/all: a mail does not show the HTML <table></table>; write it as text",
    ]


def test_headings_in_another_alphabet_have_ids_of_their_own() -> None:
    passages = parse_passages("Вопросы", "# Возврат\nx\n# Доставка\ny\n# 반품\nz")
    assert [each.passage_id for each in passages] == [
        "вопросы/возврат",
        "вопросы/доставка",
        "вопросы/반품",
    ]


def test_a_heading_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="stands twice"):
        parse_passages("a", "# T\nx\n# T\ny")


def test_the_version_is_that_of_the_text() -> None:
    assert Passage("a/b", "B", "x").version != Passage("a/b", "B", "y").version


def test_what_to_mend_is_said() -> None:
    long = Passage("a/long", "Long", "x" * (PASSAGE_MAX_LENGTH + 1))
    problems = Knowledge((long, Passage("b/long", "long", "y"))).list_problems()
    assert problems == [
        "a/long, b/long: the same heading 'long'; give each a heading of its own",
        f"a/long: {PASSAGE_MAX_LENGTH + 1} characters, and at most {PASSAGE_MAX_LENGTH} fit a mail;"
        " split it by a heading",
    ]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# B\nb")
    (tmp_path / "a.md").write_text("# A\na")
    (tmp_path / "notes.txt").write_text("# C\nc")
    assert list(read_knowledge(tmp_path).by_id) == ["a/a", "b/b"]


def test_what_cannot_be_read_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no folder"):
        read_knowledge(tmp_path / "missing")
    (tmp_path / "a.md").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"a\.md"):
        read_knowledge(tmp_path)
    (tmp_path / "a.md").write_text("# T\nx")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_text("# T\ny")
    with pytest.raises(ValueError, match="rename one"):
        read_knowledge(tmp_path)
