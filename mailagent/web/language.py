"""The language of a page: the reader's choice, else what their browser asks for, else English.

The message ids are the English sentences. `templates/ops` has a catalogue, such as `de.po`, for each other
language.
"""

from __future__ import annotations

from datetime import date, datetime
from functools import lru_cache
from gettext import NullTranslations
from typing import cast
from urllib.parse import urlsplit, urlunsplit

from babel import Locale
from babel.core import negotiate_locale
from babel.dates import format_skeleton
from flask import Blueprint, Flask, Response, current_app, has_request_context, redirect, request
from jinja2 import Environment
from markupsafe import Markup
from werkzeug.datastructures import LanguageAccept
from werkzeug.http import parse_accept_header

from mailagent.adapters.templates import formats
from mailagent.adapters.templates.catalogue import PAGES_FOLDER, load_translations
from mailagent.adapters.templates.engine import parse_locale
from mailagent.domain.money import Money
from mailagent.web.guard import open_to_all

blueprint = Blueprint("language", __name__)

COOKIE = "language"
_KEPT_SECONDS = 365 * 24 * 3600
_FOUND = "mailagent.language"  # in the WSGI environment of a request
_ENGLISH = "en"

# The languages of the pages, each with its name in that language. Babel knows the names, too, but would load
# all it knows of each language: 11 MB, and 0.1 s of every start.
LANGUAGES = {
    _ENGLISH: "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "it": "Italiano",
    "nl": "Nederlands",
    "pl": "Polski",
    "pt": "Português",
}


@blueprint.post("/language")
@open_to_all
def choose() -> Response:
    """Store the reader's choice of a language in a cookie, and redirect back to their page."""
    language = request.form.get("language", "")
    try:
        page = urlsplit(request.referrer or "/ops")
    except ValueError:  # no address at all
        page = urlsplit("/ops")
    # Only its path, with one slash, so that we never redirect to another host.
    back = urlunsplit(("", "", "/" + page.path.lstrip("/\\"), page.query, ""))
    response = cast(Response, redirect(back, 303))
    if language in LANGUAGES:
        secure = current_app.config["SESSION_COOKIE_SECURE"]
        response.set_cookie(
            COOKIE, language, _KEPT_SECONDS, secure=secure, httponly=True, samesite="Lax"
        )
    return response


def find_language() -> str:
    """Return the language of the page for the current request."""
    if not has_request_context():
        return _ENGLISH
    known = request.environ
    if _FOUND not in known:  # a page asks hundreds of times
        chosen, header = request.cookies.get(COOKIE, ""), request.headers.get("Accept-Language", "")
        known[_FOUND] = _negotiate(chosen, header)
    language: str = known[_FOUND]
    return language


@lru_cache(maxsize=256)
def _negotiate(chosen: str, header: str) -> str:
    if chosen in LANGUAGES:
        return chosen
    wanted = [each for each, quality in parse_accept_header(header, LanguageAccept) if quality]
    return negotiate_locale(wanted, LANGUAGES, sep="-") or _ENGLISH


# --- sentences ------------------------------------------------------------------------------------


@lru_cache
def _translations(language: str) -> NullTranslations:
    return load_translations([] if language == _ENGLISH else [PAGES_FOLDER / f"{language}.po"])


def translate(message: str) -> str:
    """Return a message in the language of the page; a text without a translation, unchanged."""
    return _translations(find_language()).gettext(message) if message else message


def _(message: str, **facts: object) -> str:
    """Return a message in the language of the page, with `facts` in place of its placeholders; amounts, numbers
    and times in the form of that language."""
    return translate(message) % {name: _write(fact) for name, fact in facts.items()}


def sentence(message: str, **facts: object) -> str:
    """As `_`, for a page only: the browser shows times in the reader's zone."""
    times = {name: show_moment(each) for name, each in facts.items() if isinstance(each, datetime)}
    if not times:
        return _(message, **facts)
    return Markup(translate(message)) % (  # noqa: S704 - our own words; facts are escaped
        {name: _write(each) for name, each in facts.items()} | times
    )


def _write(fact: object) -> object:
    match fact:
        case Money():
            return write_money(fact)
        case datetime():
            return write_moment(fact)
        case int():
            return write_number(fact)
    return fact


def _translate_plural(one: str, many: str, number: int) -> str:
    return _translations(find_language()).ngettext(one, many, number)


def ngettext(one: str, many: str, num: int, **facts: object) -> str:
    """Return the message for the number `num` in the language of the page, with `facts` in place of its
    placeholders."""
    return _translate_plural(one, many, num) % {**facts, "num": write_number(num)}


def upper_first(text: str) -> str:
    """Return a text that begins with a capital letter. Unlike `capitalize`, it leaves "US" and nouns alone."""
    return text[:1].upper() + text[1:]


# --- amounts, numbers and times -------------------------------------------------------------------


def write_money(amount: Money) -> str:
    return formats.format_money(amount, parse_locale(find_language()))


def write_number(number: int) -> str:
    return formats.format_number(number, parse_locale(find_language()))


def _dates() -> Locale:
    """Return the locale for dates. In English it writes the day first, as our mails to the shop's people do."""
    language = find_language()
    return parse_locale("en_GB" if language == _ENGLISH else language)


def write_day(day: date) -> str:
    return formats.format_day(day, _dates())


def write_moment(moment: datetime) -> str:
    return formats.format_moment(moment, _dates())


def show_moment(moment: datetime) -> Markup:
    """Return a time with the same mark as the macro `when`."""
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(), write_moment(moment))


def write_short_day(day: date) -> str:
    """Return a day without its year, for charts."""
    return format_skeleton("MMMd", day, locale=_dates())


def speak(app: Flask) -> None:
    """Make the pages of an app translate into the reader's language."""
    teach(app.jinja_env)
    app.register_blueprint(blueprint)
    app.after_request(_vary)


def teach(environment: Environment) -> None:
    """Add the filters and functions for translated pages to a Jinja environment."""
    environment.add_extension("jinja2.ext.i18n")
    environment.policies["ext.i18n.trimmed"] = True
    environment.install_gettext_callables(translate, _translate_plural, newstyle=True)  # type: ignore[attr-defined]
    environment.filters |= {
        "translated": translate,
        "upper_first": upper_first,
        "number": write_number,
        "day": write_day,
        "moment": write_moment,
    }
    environment.globals |= {"languages": LANGUAGES, "find_language": find_language}


def _vary(response: Response) -> Response:
    if response.mimetype == "text/html":
        response.vary.update(("Accept-Language", "Cookie"))
    return response
