"""Our own mails: facts in, subject, text and HTML out. The words stand in `templates/mail`, one
folder per language; which facts each mail takes is said at the head of its `.subject` file.

A fact that is missing is an error, and every fact is put on one line unless the template says
otherwise: whatever a customer calls himself, he cannot write a line of our mail.

A shop may have a folder of its own, laid out likewise: what is in it stands in for ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from babel import Locale, UnknownLocaleError
from jinja2 import (
    Environment,
    FileSystemLoader,
    StrictUndefined,
    Undefined,
    pass_context,
    select_autoescape,
)
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from mailagent.adapters.templates import formats
from mailagent.domain.refunds.order import is_shops_own

MAIL_FOLDER = Path(__file__).resolve().parents[3] / "templates" / "mail"
PARTS = (".subject", ".txt", ".html")
_DEFAULT_LANGUAGE = "en"
_SUBJECT_LENGTH = 250


@dataclass(frozen=True, slots=True)
class RenderedMail:
    subject: str
    text: str
    html: str


class Templates:
    """Renders the mails of one folder. One per process; threads may share it."""

    def __init__(
        self,
        folder: Path | str,
        common: Mapping[str, object] | None = None,
        own_folder: Path | None = None,
    ) -> None:
        """`common` holds facts that every mail gets, such as `support_name`, `support_address`; files
        in `own_folder` stand in for those of the same name in `folder`."""
        self._folder = Path(folder)
        self._folders = (*((own_folder,) if own_folder else ()), self._folder)
        self._common = dict(common or {})
        self._environment = _environment(self._folders)

    def render(
        self, purpose_name: str, facts: Mapping[str, object], locale: str = _DEFAULT_LANGUAGE
    ) -> RenderedMail:
        """Return the mail `purpose_name` about `facts`, in the language of `locale` (such as `de`
        or `de_CH`) if it is written in that, else in English.

        Raises ValueError for a mail that does not exist, jinja2.UndefinedError for a missing fact.
        """
        path, spoken = self._find_language(purpose_name, locale)
        context: dict[str, object] = {
            **self._common,
            **facts,
            "locale": spoken,
            "language": str(spoken).replace("_", "-"),
            "direction": spoken.text_direction,
        }
        subject = self._part(f"{path}.subject", context)
        subject = formats.one_line(subject)
        if len(subject) > _SUBJECT_LENGTH:
            subject = subject[: _SUBJECT_LENGTH - 1] + "…"
        context["subject_line"] = subject
        text = self._part(f"{path}.txt", context)
        return RenderedMail(subject, text, self._part(f"{path}.html", context))

    def is_written_in(self, language: str, name: str) -> bool:
        """Say whether every part of the mail `name` exists in `language`, such as `de` or `de_CH`."""
        return all(self._has(f"{language}/{name}{part}") for part in PARTS)

    def speaks(self, locale: str, name: str) -> bool:
        """Say whether the mail `name` to somebody of `locale` would be in their language."""
        return self._find_language(name, locale)[1].language == _parse_locale(locale).language

    def _has(self, path: str) -> bool:
        return any((folder / path).is_file() for folder in self._folders)

    def _part(self, name: str, context: Mapping[str, object]) -> str:
        return self._environment.get_template(name).render(context).strip() + "\n"

    def _find_language(self, name: str, locale: str) -> tuple[str, Locale]:
        """Return the mail's path and the locale it is to be read in. A mail that is not wholly
        translated is sent in English throughout, amounts and dates too."""
        wanted = _parse_locale(locale)
        for language in dict.fromkeys((str(wanted), wanted.language)):
            if self.is_written_in(language, name):
                return f"{language}/{name}", wanted
        if not self.is_written_in(_DEFAULT_LANGUAGE, name):
            raise ValueError(
                f"there is no mail {name!r} in {self._folder / _DEFAULT_LANGUAGE}: "
                f"it needs {', '.join(name + part for part in PARTS)}"
            )
        return f"{_DEFAULT_LANGUAGE}/{name}", Locale.parse(_DEFAULT_LANGUAGE)


def _parse_locale(locale: str) -> Locale:
    try:
        return Locale.parse(locale.replace("-", "_"))
    except (ValueError, UnknownLocaleError):
        return Locale.parse(_DEFAULT_LANGUAGE)


def _environment(folders: Sequence[Path]) -> Environment:
    # Sandboxed: a shop's template says words. It needs none of what Python objects can do.
    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(folders),
        autoescape=select_autoescape(["html"], default=False, default_for_string=False),
        undefined=StrictUndefined,
        finalize=_on_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters |= {
        "money": _in_locale(formats.format_money),
        "day": _in_locale(formats.format_day),
        "moment": _in_locale(formats.format_moment),
        "plain": formats.plain,
        "quote": formats.quote,
        "paragraphs": formats.paragraphs,
        "inert": formats.inert,
        "named": formats.named,
    }
    environment.tests["shops_own"] = is_shops_own
    environment.globals["marker_line"] = formats.marker_line
    return environment


def _on_one_line(value: object) -> object:
    if isinstance(value, str) and not isinstance(value, formats.Block | Markup):
        return formats.one_line(value)
    return value


def _in_locale(write: Callable[[Any, Locale], str]) -> Callable[[Context, Any], str]:
    @pass_context
    def write_in_locale(context: Context, value: object) -> str:
        if isinstance(value, Undefined):
            str(value)  # raises UndefinedError, naming the fact
        return write(value, context["locale"])

    return write_in_locale
