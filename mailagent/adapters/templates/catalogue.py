"""Translations of the sentences in our mails and pages: one gettext catalogue (`.po`) a language.

The message ids are the English sentences, so English needs no catalogue.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import PoFileError, read_po
from jinja2 import Environment

_TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
MAIL_FOLDER, PAGES_FOLDER = _TEMPLATES / "mail", _TEMPLATES / "ops"
_FUNCTIONS = ("_", "_n")

MessageId = str | tuple[str, str]


class CatalogueError(ValueError):
    """A catalogue cannot be read; the text names the file and the reason."""


def load_translations(paths: Sequence[Path]) -> gettext.NullTranslations:
    """Return the translations of these catalogues. A later one replaces those before it.

    Raises CatalogueError if one cannot be read.
    """
    translations = gettext.NullTranslations()
    for path in paths:
        compiled = BytesIO()
        write_mo(compiled, read_catalogue(path))
        compiled.seek(0)
        added = gettext.GNUTranslations(compiled)
        added.add_fallback(translations)
        translations = added
    return translations


def find_problems(path: Path, needed: Iterable[MessageId]) -> list[str]:
    """Return what is wrong with a catalogue: needed messages that it lacks, and translations whose placeholders
    are not those of the message."""
    try:
        catalogue = read_catalogue(path)
    except CatalogueError as problem:
        return [str(problem)]
    problems = []
    for message_id in needed:
        message = catalogue.get(message_id)
        if message is None or message.fuzzy or not _is_translated(message.string):
            problems.append(f"{path}: has no translation of {_first(message_id)!r}")
    for message, errors in catalogue.check():
        problems += [f"{path}, line {message.lineno}: {error}" for error in errors]
    return problems


def list_messages() -> list[MessageId]:
    """Return the messages of the templates of mails, each once: a text, or singular and plural.

    Raises TemplateSyntaxError.
    """
    return list(dict.fromkeys(_messages()))


def _messages() -> Iterator[MessageId]:
    environment = Environment(extensions=["jinja2.ext.i18n"], autoescape=True)
    for path in sorted(
        each for each in MAIL_FOLDER.iterdir() if each.suffix != ".po" and each.is_file()
    ):
        found = environment.extract_translations(path.read_text("utf-8"), _FUNCTIONS)  # type: ignore[attr-defined]
        for _line, _function, message in found:
            # Jinja2 lists None for each argument that is no text.
            texts = (message,) if isinstance(message, str) else tuple(filter(None, message))
            yield texts[0] if len(texts) == 1 else (texts[0], texts[1])


def read_catalogue(path: Path) -> Catalog:
    try:
        with path.open("rb") as file:
            return read_po(file, locale=path.stem, abort_invalid=True)
    except (OSError, ValueError, PoFileError) as problem:
        raise CatalogueError(f"{path} cannot be read: {problem}") from None


def _is_translated(text: str | Sequence[str] | None) -> bool:
    return bool(text) and all(text or ())


def _first(message_id: MessageId) -> str:
    return message_id if isinstance(message_id, str) else message_id[0]
