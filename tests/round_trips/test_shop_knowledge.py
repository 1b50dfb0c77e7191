"""A question about the shop in general: quoted from what the shop wrote, or given to the team and counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask

from mailagent import services
from mailagent.adapters.knowledge import read_knowledge
from mailagent.cli.knowledge import check_knowledge
from mailagent.demo.scripted_model import Fact, Phrase
from tests.cast import ADA, OLGA, TESS
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_calls import calls, says

# What is quoted does not depend on the database.
pytestmark = ONE_DATABASE

SHIPPING = "We ship to Switzerland for 14.90 CHF, within 5 days: https://shop.example/ship"
PASSAGE = Fact("knowledge/faq/where-we-ship")


@pytest.fixture
def informed_shop(busy_shop: Harness, tmp_path: Path) -> Iterator[Harness]:
    folder = tmp_path / "knowledge"
    folder.mkdir()
    (folder / "faq.md").write_text(f"# Where we ship\n\n{SHIPPING}\n", "utf-8")
    services.bind(replace(busy_shop.live, knowledge=read_knowledge(folder)))
    yield busy_shop
    services.bind(busy_shop.live)


@pytest.mark.parametrize("aligned", [True, False])
def test_a_passage_is_quoted_as_the_shop_wrote_it(informed_shop: Harness, aligned: bool) -> None:
    informed_shop.faults.openai.append(says(Phrase("answers_question"), PASSAGE))
    informed_shop.write("Do you ship to Switzerland?", aligned=aligned)
    told = informed_shop.wait_for_mails(ADA)[0]
    assert SHIPPING in told.text
    assert ("This answers your question:" in told.text) is aligned
    (row,) = informed_shop.rows("SELECT sources FROM outbound_mails WHERE purpose = 'reply'")
    assert "faq/where-we-ship@" in str(row.sources)


def test_the_model_is_told_every_passage(informed_shop: Harness) -> None:
    informed_shop.write("Do you ship to Switzerland?")
    # The scripted model reads the passages from its instructions.
    assert SHIPPING in informed_shop.wait_for_mails(ADA)[0].text


def test_a_question_that_no_passage_answers_goes_to_the_team_and_is_shown(
    informed_shop: Harness,
) -> None:
    informed_shop.faults.openai.append(
        calls("hand_over", reason="not_in_knowledge", summary="Do they repair kettles?")
    )
    informed_shop.write("Do you repair kettles?", subject="Repairs")
    (case,) = informed_shop.wait_for_mails(TESS)
    assert "the shop's knowledge has no answer" in case.text
    page = informed_shop.log_in(OLGA).get("/ops/knowledge").text
    assert "Repairs" in page
    assert "faq/where-we-ship" in page


def test_the_check_lists_the_passages(informed_shop: Harness) -> None:
    runner = Flask("check").test_cli_runner()
    found = runner.invoke(check_knowledge, ["--no-links"])
    assert found.exit_code == 0, found.output
    assert "faq/where-we-ship" in found.output
    services.bind(informed_shop.live)
    assert "SHOP_KNOWLEDGE" in runner.invoke(check_knowledge).output
