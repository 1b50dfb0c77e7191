"""`flask knowledge …`: what the shop has written down for its customers."""

from __future__ import annotations

import click

from mailagent import services
from mailagent.adapters.knowledge import find_broken_links
from mailagent.cli.printing import Commands

knowledge = Commands("knowledge", help="What replies may quote (SHOP_KNOWLEDGE).")


@knowledge.command("check")
@click.option("--no-links", is_flag=True, help="Do not call the links.")
def check_knowledge(no_links: bool) -> None:
    """List the passages, and what to mend: double headings, passages that are too long, broken links.

    Exits with 1 on a problem.
    """
    known = services.current().knowledge
    if not known.passages:
        raise click.ClickException(
            "there are no passages: set SHOP_KNOWLEDGE to a folder of Markdown files"
        )
    for passage in known.passages:
        click.echo(f"{passage.passage_id}  {passage.title}  ({len(passage.text)} characters)")
    problems = [*known.list_problems(), *([] if no_links else find_broken_links(known))]
    for problem in problems:
        click.echo(f"problem: {problem}", err=True)
    if problems:
        raise click.exceptions.Exit(1)
    click.echo(f"{len(known.passages)} passages, no problem")
