"""Reads the shop's knowledge, a folder of Markdown files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mailagent.domain.knowledge import Knowledge, Passage, parse_passages

CHECK_SECONDS = 10.0


def read_knowledge(folder: Path) -> Knowledge:
    """Return the passages of all `.md` files in a folder and below it, in the order of their names.

    Raises ValueError, with the file, if the folder is missing or a file cannot be read.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; name one with Markdown files in it")
    passages: list[Passage] = []
    for path in sorted(folder.rglob("*.md")):
        try:
            passages += parse_passages(path.stem, path.read_text("utf-8"))
        except (OSError, ValueError) as problem:
            raise ValueError(f"{path}: {problem}") from None
    ids = [passage.passage_id for passage in passages]
    for passage_id in ids:
        if ids.count(passage_id) > 1:
            raise ValueError(f"two files of {folder} have the passage {passage_id}; rename one")
    return Knowledge(tuple(passages))


def find_broken_links(knowledge: Knowledge) -> Iterator[str]:
    """Yield each link of the passages that does not answer, with its passage."""
    import httpx2

    with httpx2.Client(timeout=CHECK_SECONDS, follow_redirects=True) as client:
        for passage in knowledge.passages:
            for link in passage.links:
                try:
                    answer = client.get(link)
                except httpx2.HTTPError as problem:
                    yield f"{passage.passage_id}: {link} does not answer ({type(problem).__name__})"
                    continue
                if answer.status_code >= 400:
                    yield f"{passage.passage_id}: {link} answers {answer.status_code}"
