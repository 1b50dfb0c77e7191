"""All stories, and the steps that none of them needs to come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mailagent.workflows import launch  # loading it is what makes the steps known
from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.crash_sweep import mail_stories, refund_stories, sweep_stories
from tests.crash_sweep.story import Story

assert launch.WORKFLOWS

STORIES: tuple[Story, ...] = (
    *refund_stories.STORIES,
    *mail_stories.STORIES,
    *sweep_stories.STORIES,
)

# Steps that no story comes to, each with the reason why that is right.
LEFT_OUT: Mapping[str, str] = {}


def find_unswept(stories: Iterable[Story] = STORIES) -> set[str]:
    """Return the steps that no story declares to come to and that are not left out for a reason."""
    return CRASH_POINTS.keys() - LEFT_OUT.keys() - {step for s in stories for step in s.reaches}
