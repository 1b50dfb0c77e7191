"""Renders our mails: facts in, subject, text and HTML out. The templates are in `templates/mail`, in English,
with one catalogue (`de.po`) for each further language. The head of a `.subject` file lists the mail's facts.

A missing fact is an error. Every fact is written on one line unless the template says otherwise, so that a
customer's name cannot add a line to our mail.

A shop may have a folder of its own. A file in its `de/` replaces ours in German, and the sentences in its
`de.po` replace ours; a `sv.po` adds a language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from gettext import NullTranslations
from pathlib import Path
from typing import Any

from babel import Locale, UnknownLocaleError
from jinja2 import (
    Environment,
    FileSystemLoader,
    StrictUndefined,
    Undefined,
    pass_context,
    pass_eval_context,
    select_autoescape,
)
from jinja2.nodes import EvalContext
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from mailagent.adapters.templates import formats
from mailagent.adapters.templates.catalogue import MAIL_FOLDER, load_translations
from mailagent.domain.mail.redaction import inert
from mailagent.domain.refunds.order import is_shops_own

PARTS = (".subject", ".txt", ".html")
# The country whose words our catalogue has, where the formats of Babel's language alone are another's.
_OUR_REGION = {"pt": "pt_PT"}
_DEFAULT_LANGUAGE = "en"
_SUBJECT_LENGTH = 250
# By locale. Without a folder of the shop, they are compiled once for the process.
_OURS: dict[str, Environment] = {}


@dataclass(frozen=True, slots=True)
class RenderedMail:
    subject: str
    text: str
    html: str


class Templates:
    """Renders mails. One per process; threads may share it."""

    def __init__(self, common: Mapping[str, object], own_folder: Path | None = None) -> None:
        """`common`: facts that every mail gets, such as `support_name`. Files in `own_folder` replace ours."""
        self._common = common
        self._own_folder = own_folder
        self._environments = {} if own_folder else _OURS
        self._phrases: dict[str, Mapping[str, str]] = {}

    def render(
        self, purpose_name: str, facts: Mapping[str, object], locale: str = _DEFAULT_LANGUAGE
    ) -> RenderedMail:
        """Return the mail `purpose_name` in the language of `locale` (such as `de` or `de_CH`), or in English
        if it is not written in that.

        Raises ValueError for a mail that does not exist, jinja2.UndefinedError for a missing fact.
        """
        spoken = self._find_locale(purpose_name, locale)
        context = self._context(facts, spoken)
        environment = self._environment(spoken)

        def part(suffix: str) -> str:
            template = environment.get_template(purpose_name + suffix)
            return template.render(context).strip() + "\n"

        subject = formats.one_line(part(".subject"))
        if len(subject) > _SUBJECT_LENGTH:
            subject = subject[: _SUBJECT_LENGTH - 1] + "…"
        context["subject_line"] = subject
        return RenderedMail(subject, part(".txt"), part(".html"))

    def fragment(self, name: str, facts: Mapping[str, object], locale: str) -> str:
        """Return a part of a mail, the file `name`, by itself. `locale` as for `render`."""
        spoken = self._locale_with_catalogue(locale)
        template = self._environment(spoken).get_template(name)
        return template.render(self._context(facts, spoken)).strip()

    def phrases(self, locale: str = _DEFAULT_LANGUAGE) -> Mapping[str, str]:
        """Return the sentences that a reply may name, by their ids. `locale` as for `render`.

        Raises ValueError if the shop's own `_phrases.txt` does not set them.
        """
        spoken = self._locale_with_catalogue(locale)
        found = self._phrases.get(str(spoken))
        if found is None:
            template = self._environment(spoken).get_template("_phrases.txt")
            found = vars(template.make_module(self._context({}, spoken))).get("phrases")
            if not isinstance(found, dict) or not found:
                raise ValueError(f"{template.filename} does not set `phrases`, ids with sentences")
            found = {str(each): formats.one_line(str(found[each])) for each in found}
            self._phrases[str(spoken)] = found
        return found

    def _locale_with_catalogue(self, locale: str) -> Locale:
        wanted = parse_locale(locale)
        written = wanted.language == _DEFAULT_LANGUAGE or self._catalogues(wanted.language)
        return wanted if written else Locale.parse(_DEFAULT_LANGUAGE)

    def _context(self, facts: Mapping[str, object], spoken: Locale) -> dict[str, object]:
        return {
            **self._common,
            **facts,
            "locale": spoken,
            "language": str(spoken).replace("_", "-"),
            "direction": spoken.text_direction,
        }

    def is_written_in(self, language: str, name: str) -> bool:
        """Return whether the mail `name` exists in `language`, such as `de` or `de_CH`, by a catalogue or by
        files of the shop."""
        own = self._own_folder
        own_files = own is not None and all(
            (own / language / f"{name}{part}").is_file() for part in PARTS
        )
        return own_files or language == _DEFAULT_LANGUAGE or bool(self._catalogues(language))

    def speaks(self, locale: str, name: str) -> bool:
        """Return whether the mail `name` exists in the language of `locale`."""
        return self._find_locale(name, locale).language == parse_locale(locale).language

    def _find_locale(self, name: str, locale: str) -> Locale:
        """Return the locale in which to write a mail; without a translation, English, also for amounts and
        dates."""
        files = [f"{name}{part}" for part in PARTS]
        if not all((MAIL_FOLDER / file).is_file() for file in files):
            raise ValueError(
                f"there is no mail {name!r} in {MAIL_FOLDER}: it needs {', '.join(files)}"
            )
        wanted = parse_locale(locale)
        written = any(self.is_written_in(each, name) for each in (str(wanted), wanted.language))
        return wanted if written else Locale.parse(_DEFAULT_LANGUAGE)

    def _catalogues(self, language: str) -> list[Path]:
        folders = [MAIL_FOLDER, *([self._own_folder] if self._own_folder else [])]
        paths = (folder / f"{language}.po" for folder in folders)
        return [path for path in paths if path.is_file()]

    def _environment(self, locale: Locale) -> Environment:
        found = self._environments.get(str(locale))
        if found is None:
            languages = dict.fromkeys((locale.language, str(locale)))  # the region's own come last
            paths = [path for language in languages for path in self._catalogues(language)]
            own = self._own_folder
            folders = [own / language for language in reversed(languages)] + [own] if own else []
            found = _environment([*folders, MAIL_FOLDER], load_translations(paths))
            self._environments[str(locale)] = found
        return found


def parse_locale(locale: str) -> Locale:
    """Return a locale; where Babel does not know it with its region, such as `pl_DE`, that of the language."""
    named = locale.replace("-", "_")
    for each in (named, named.partition("_")[0]):
        with suppress(ValueError, UnknownLocaleError):
            return Locale.parse(_OUR_REGION.get(each, each))
    return Locale.parse(_DEFAULT_LANGUAGE)


def _environment(folders: Sequence[Path], translations: NullTranslations) -> Environment:
    # Sandboxed: a shop's template needs no access to Python objects.
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
        "aligned": formats.aligned,
        "quote": formats.quote,
        "paragraphs": formats.paragraphs,
        "inert": inert,
        "named": formats.named,
        "strong": Markup("<strong>{}</strong>").format,
        "isolated": Markup("<bdi>{}</bdi>").format,
    }
    environment.tests["shops_own"] = is_shops_own
    environment.globals |= {
        "marker_line": formats.marker_line,
        "_": _translate(translations),
        "_n": _translate_plural(translations),
    }
    return environment


def _translate(translations: NullTranslations) -> Callable[..., str]:
    @pass_eval_context
    def translate(context: EvalContext, message: str, **facts: object) -> str:
        return _fill(context, translations.gettext(message), facts)

    return translate


def _translate_plural(translations: NullTranslations) -> Callable[..., str]:
    @pass_eval_context
    def translate(context: EvalContext, one: str, many: str, num: int, **facts: object) -> str:
        return _fill(context, translations.ngettext(one, many, num), facts | {"num": num})

    return translate


def _fill(context: EvalContext, sentence: str, facts: Mapping[str, object]) -> str:
    """Put facts into a sentence; in HTML they are escaped."""
    for fact in facts.values():
        if isinstance(fact, Undefined):
            str(fact)  # raises UndefinedError, naming the fact
    shown = {name: _on_one_line(fact) for name, fact in facts.items()}
    # The translation is trusted as a template is; the facts are escaped.
    return (Markup(sentence) if context.autoescape else sentence) % shown  # noqa: S704


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
