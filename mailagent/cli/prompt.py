"""`flask prompt …`: what the model is told."""

from __future__ import annotations

import click

from mailagent import services
from mailagent.agent.prompt import INSTRUCTIONS
from mailagent.cli.printing import Commands
from mailagent.workflows.steps.conversation.model_call import standing_instructions

prompt = Commands("prompt", help="What the model is told.")


@prompt.command("show")
@click.option("--whole", is_flag=True, help="With phrases, the policy's offers and knowledge.")
def show_prompt(whole: bool) -> None:
    """Print the part that OPENAI_PROMPT and `--prompt` replace, to change a copy of it."""
    live = services.current().prompt or INSTRUCTIONS
    click.echo(standing_instructions() if whole else live, nl=False)
