"""The tool that gives the conversation to a person. It ends the agent's work."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.workflows.tools.tool import Arguments, Tool, text

SUMMARY_MAX_LENGTH = 2_000

_HAND_OVER_REASONS = {
    "customer_asked": HandOverReason.CUSTOMER_ASKED,
    "cannot_help": HandOverReason.MODEL_ASKED,
    "not_in_knowledge": HandOverReason.NOT_IN_KNOWLEDGE,
}


class HandOver(Arguments):
    reason: Literal["customer_asked", "cannot_help", "not_in_knowledge"]
    summary: Annotated[str, text(SUMMARY_MAX_LENGTH, lines=True)] = Field(
        description="For the colleague, in English: what is wanted, what was found."
    )

    @property
    def hand_over_reason(self) -> HandOverReason:
        return _HAND_OVER_REASONS[self.reason]


TOOL = Tool(
    "hand_over",
    HandOver,
    "Give the conversation to a person and end your work. Use it when the customer asks for a"
    " person, or needs what no tool can do.",
    run=None,
)
