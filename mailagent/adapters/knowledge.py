"""Reads the shop's knowledge from a folder of Markdown files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mailagent.domain.knowledge import Knowledge, Passage, slug

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

CHECK_SECONDS = 10.0
# YAML at the beginning of a file, which generators of web sites use.
_FRONT_MATTER = re.compile(r"\A---\n(?=[\w-]+:).*?\n(?:---|\.\.\.)(?:\n|\Z)", re.DOTALL)
_ADDRESS = re.compile(r"://[^\s<>()\[\]*]+")


def read_knowledge(folder: Path) -> Knowledge:
    """Return the passages of all `.md` files in a folder and below it, in the order of their names.

    Raises ValueError, with the file, if the folder is missing or a file cannot be read.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; name one with Markdown files in it")
    passages: list[Passage] = []
    for path in sorted(folder.rglob("*.md")):
        try:
            passages += parse_passages(path.stem, path.read_text("utf-8-sig"))
        except (OSError, ValueError) as problem:
            raise ValueError(f"{path}: {problem}") from None
    ids = [passage.passage_id for passage in passages]
    for passage_id in ids:
        if ids.count(passage_id) > 1:
            raise ValueError(f"two files of {folder} have the passage {passage_id}; rename one")
    return Knowledge(tuple(passages))


# --- Markdown -------------------------------------------------------------------------------------


def parse_passages(name: str, markdown: str) -> list[Passage]:
    """Return the passages of a file. `name`: the file's name without its ending.

    A heading begins a passage. Text before the first heading has the file's name as its title. Raises
    ValueError if two headings have the same id.
    """
    passages: dict[str, Passage] = {}
    for section in _sections(name, _FRONT_MATTER.sub("", markdown.replace("\r\n", "\n"))):
        passage_id, text = f"{slug(name)}/{slug(section.title)}", section.text
        if text and passage_id in passages:
            raise ValueError(
                f"the heading {section.title!r} stands twice; name one of them otherwise"
            )
        if text:
            passages[passage_id] = Passage(passage_id, section.title, text, tuple(section.problems))
    return list(passages.values())


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.inline.ruler.before("escape", "address", _keep_address)
    return parser


def _keep_address(state: StateInline, silent: bool) -> bool:
    """Keep a URL as it is: its underscores are no Markdown."""
    found = _ADDRESS.match(state.src, state.pos)
    if found is None or not state.pending.endswith(("http", "https")):
        return False
    if not silent:
        state.pending += found[0]
    state.pos = found.end()
    return True


@dataclass
class _Section:
    """A heading, and the text below it in the form for a plain mail."""

    title: str
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _ends: int = 0

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n").rstrip()

    def add(self, token: Token, text: str, prefix: str = "") -> None:
        """Add the text of a block, after a blank line if there was one. `prefix`: the mark of a list item."""
        first, after = token.map or (0, 0)
        if first > self._ends:
            self.lines.append("")
        begin, *more = text.split("\n")
        self.lines += [prefix + begin, *(" " * len(prefix) + line for line in more)]
        self._ends = after


def _sections(name: str, markdown: str) -> Iterator[_Section]:
    source, section, is_title = markdown.split("\n"), _Section(name), False
    for token in _parser().parse(markdown):
        if token.type == "inline" and is_title:
            yield section
            section = _Section(" ".join(_plain(token, []).split()))
        elif token.type == "inline" and token.map:
            prefix = source[token.map[0]].partition(token.content.split("\n")[0])[0]
            section.add(token, _plain(token, section.problems), re.sub(r"> ?", "", prefix))
        elif token.type in ("fence", "code_block"):
            section.add(token, token.content.rstrip("\n"))
        elif token.type == "html_block":
            _note_html(token, section.problems)
        is_title = token.type == "heading_open" and token.level == 0
    yield section


def _plain(token: Token, problems: list[str]) -> str:
    """Return a block's text without Markdown, each link followed by its URL. Add to `problems` what a mail
    cannot show."""
    text, address, linked_at = "", "", 0
    for each in token.children or []:
        match each.type:
            case "text" | "code_inline":
                text += each.content
            case "softbreak" | "hardbreak":
                text += "\n"
            case "link_open":
                address, linked_at = str(each.attrs["href"]), len(text)
            case "link_close":
                shown = _shown_address(address, problems)
                text += f" ({shown})" if shown and text[linked_at:] != shown else ""
            case "image":
                problems.append(
                    f"a mail does not show the picture {each.attrs['src']}; describe it in words"
                )
                text += each.content
            case "html_inline":
                _note_html(each, problems)
    return text


def _shown_address(address: str, problems: list[str]) -> str:
    scheme, _, rest = address.partition(":")
    if scheme in ("http", "https"):
        return address
    if scheme in ("mailto", "tel"):
        return rest
    problems.append(f"the link {address} works only on your site; write its whole address")
    return ""


def _note_html(token: Token, problems: list[str]) -> None:
    shown = token.content.strip().split("\n")[0][:40]
    if not shown.startswith(("<!--", "</")):
        problems.append(f"a mail does not show the HTML {shown}; write it as text")


# --- links ----------------------------------------------------------------------------------------


def find_broken_links(knowledge: Knowledge) -> Iterator[str]:
    """Request each link of the passages. Yield a sentence for each that does not work, with its passage."""
    import httpx2

    with httpx2.Client(timeout=CHECK_SECONDS, follow_redirects=True) as client:
        for passage in knowledge.passages:
            for link in passage.links:
                try:
                    answer = client.get(link)
                except httpx2.HTTPError as problem:
                    yield f"{passage.passage_id}: {link} does not answer ({type(problem).__name__}); mend it"
                    continue
                if answer.status_code >= 400:
                    yield f"{passage.passage_id}: {link} answers {answer.status_code}; mend it"
