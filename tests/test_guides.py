"""The guides state figures of the code as they are."""

from __future__ import annotations

from math import floor, log2
from pathlib import Path

import pytest

from mailagent import buffering
from mailagent.agent import prompt
from mailagent.domain import knowledge
from mailagent.domain.refunds import goodwill

ROOT = Path(__file__).parent.parent
_CODE_LENGTH = goodwill.CODE_GROUPS * goodwill.CODE_GROUP_LENGTH
_CODE_BITS = floor(_CODE_LENGTH * log2(len(goodwill.CODE_ALPHABET)))

FIGURES = {
    "deploy": (
        f"limits it to {buffering.UNFINISHED_PER_ADDRESS} unfinished requests",
        f"{buffering.HEAD_SECONDS:.0f} s for a head; {buffering.BODY_SECONDS:.0f} s for a body, and a second"
        f" more for each {buffering.BODY_BYTES_PER_SECOND >> 10} KiB",
        f"{buffering.BUFFERED_BYTES >> 20} MiB of unfinished bodies",
    ),
    "goodwill": (f"{_CODE_LENGTH} unambiguous letters and digits, {_CODE_BITS} random bits",),
    "knowledge": (
        f"at most {knowledge.PASSAGE_MAX_LENGTH:,} characters",
        f"about {prompt.KNOWLEDGE_MAX_TOKENS:,} tokens",
    ),
}


@pytest.mark.parametrize(
    ("guide", "figure"), [(guide, each) for guide, figures in FIGURES.items() for each in figures]
)
def test_a_guide_states_the_figure_of_the_code(guide: str, figure: str) -> None:
    assert figure in (ROOT / "docs" / f"{guide}.md").read_text("utf-8")
