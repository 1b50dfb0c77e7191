"""`flask prompt`: what the model is told, and how much of it a file replaces."""

from __future__ import annotations

from dataclasses import replace

from mailagent import services
from mailagent.agent.prompt import INSTRUCTIONS
from mailagent.domain.refunds.policy import Goodwill, Policy
from mailagent.workflows.steps.conversation.model_call import standing_instructions
from tests.cli.commands import flask
from tests.harness import Harness

OWN = "Be brief.\n"


def test_the_part_that_a_file_replaces_is_shown(shop: Harness) -> None:
    assert flask(shop, "prompt", "show").output == INSTRUCTIONS
    services.bind(replace(shop.live, prompt=OWN))
    assert flask(shop, "prompt", "show").output == OWN


def test_a_file_replaces_no_phrase_and_no_offer(shop: Harness) -> None:
    services.bind(replace(shop.live, policy=Policy(goodwill=Goodwill(12)), prompt=OWN))
    whole = flask(shop, "prompt", "show", "--whole").output
    assert whole == standing_instructions()
    assert whole.startswith(f"{OWN}\nThe phrases, by their ids, are:\n- ")
    assert "at most\n12 percent" in whole
    assert INSTRUCTIONS not in whole
    assert standing_instructions(lead="Be long.\n") == whole.replace(OWN, "Be long.\n")
