"""Checks a shop's own templates at start: renders each mail with sample facts, and checks the files' names.

A file with a mistake in its name would never be used.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from babel import Locale, UnknownLocaleError
from jinja2 import TemplateSyntaxError

from mailagent.adapters.templates import catalogue
from mailagent.adapters.templates.catalogue import MAIL_FOLDER
from mailagent.adapters.templates.engine import PARTS, Templates
from mailagent.adapters.templates.mail_samples import (
    COMMON,
    TO_CUSTOMERS,
    facts_of,
    list_fragments,
    list_samples,
)
from mailagent.domain.mail.message import holds_code


def find_problems(own_folder: Path) -> list[str]:
    """Return what is wrong with a shop's own templates, each problem with its file and line."""
    if not own_folder.is_dir():
        return [f"{own_folder} is not a folder; lay it out like {MAIL_FOLDER.name}: de/receipt.txt"]
    problems = _misnamed(own_folder)
    for path in sorted(own_folder.glob("*.po")):
        ours = MAIL_FOLDER / f"{path.stem.partition('_')[0]}.po"  # has the rest
        needed = () if ours.is_file() else catalogue.list_messages()
        problems += catalogue.find_problems(path, needed)
    if problems:
        return problems
    templates = Templates(COMMON, own_folder)
    for language in _touched(own_folder):
        for name in sorted(facts_of()):
            problems += _problems_of_mail(templates, own_folder, language, name)
    return list(dict.fromkeys(problems))


def list_languages(own_folder: Path | None) -> list[str]:
    """Return the languages that some mail to customers is written in, such as `de` or `de_CH`."""
    found = {"en", *(path.stem for path in MAIL_FOLDER.glob("*.po"))}
    if own_folder:
        found |= {path.stem for path in _of_languages(own_folder)}
    return sorted(found)


def _of_languages(own_folder: Path) -> list[Path]:
    """Return a shop's catalogues, and its folders that are named like a language."""
    found = (each for each in own_folder.iterdir() if each.is_dir() or each.suffix == ".po")
    return sorted(each for each in found if _is_locale(each))


def find_untranslated(language: str, own_folder: Path | None) -> list[str]:
    """Return the mails to customers that would be written in English instead of `language`."""
    templates = Templates(COMMON, own_folder)
    return [name for name in sorted(TO_CUSTOMERS) if not templates.speaks(language, name)]


def _touched(own_folder: Path) -> list[str]:
    """Return the languages whose mails a shop's files change. Files outside a language's folder change all."""
    if any(path.is_file() and path.suffix != ".po" for path in own_folder.iterdir()):
        return list_languages(own_folder)
    return sorted({path.stem for path in _of_languages(own_folder)})


def _is_locale(path: Path) -> bool:
    try:
        return str(Locale.parse(path.stem)) == path.stem
    except (ValueError, UnknownLocaleError):
        return False


def _misnamed(own_folder: Path) -> list[str]:
    """Return a problem for each file of a shop that replaces none of ours."""
    problems = []
    for path in sorted(each for each in own_folder.rglob("*") if each.is_file()):
        place = path.relative_to(own_folder)
        if path.name.startswith((".", "_")):  # of an editor; a piece that other files include
            continue
        if len(place.parts) == 1 and path.suffix == ".po":
            if not _is_locale(path):
                problems.append(f"{path} is no language; name it like de.po or de_CH.po")
        elif len(place.parts) != 2 or path.stem not in facts_of() or path.suffix not in PARTS:
            problems.append(
                f"{path} is no part of a mail; it should be called like {MAIL_FOLDER.name}'s "
                f"de/receipt.txt, with one of {', '.join(PARTS)}"
            )
        elif not _is_locale(path.parent):
            problems.append(f"{path.parent} is no language; name it like de or de_CH")
    return problems


def _problems_of_mail(
    templates: Templates, own_folder: Path, language: str, name: str
) -> list[str]:
    if not templates.is_written_in(language, name):
        parts = [part for part in PARTS if (own_folder / language / f"{name}{part}").is_file()]
        return [
            f"{own_folder / language / (name + part)} is never used: the mail needs "
            f"{', '.join(name + each for each in PARTS)}"
            for part in parts
        ]
    try:
        for facts in list_samples(name):
            templates.render(name, facts, language)
        for fragment, facts in list_fragments() if name == "reply" else ():
            templates.fragment(fragment, facts, language)
        return _problems_of_reply(templates, language) if name == "reply" else []
    except Exception as problem:  # noqa: BLE001 - a template can raise whatever it calls raises
        return [f"{_place_of(problem, own_folder / language)}: {problem}"]


def _place_of(problem: Exception, folder: Path) -> str:
    """Return the file and line of a template that `problem` came from."""
    if isinstance(problem, TemplateSyntaxError):
        return f"{problem.filename or problem.name}, line {problem.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if frame.filename.endswith(PARTS)
    ]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else str(folder)


def _problems_of_reply(templates: Templates, language: str) -> list[str]:
    ours = templates.phrases()
    differ = [str(each) for each in ours.keys() ^ templates.phrases(language).keys()]
    if differ:
        return [f"{language}/_phrases.txt: has other ids than English: {', '.join(sorted(differ))}"]
    return _problems_of_code(templates, language)


def _problems_of_code(templates: Templates, language: str) -> list[str]:
    """Return a problem if a quotation of our request for the code could be taken for the customer's answer."""
    facts = facts_of()["reply"]
    code = facts["confirm_code"]
    asked = templates.render("reply", facts, language).text
    if code not in asked:
        return [f"{language}/_confirm_address.txt: does not show confirm_code"]
    if facts["confirm_mails"][0]["words"] not in asked:
        return [
            f"{language}/_confirm_address.txt: does not show confirm_mails, which the code proves"
        ]
    if holds_code(asked, code) or holds_code(asked, facts["confirm_last_code"]):
        return [
            f"{language}/_confirm_address.txt: ask for the code in the words that are known, such as "
            '"answer this mail with the code", so that a quotation is not taken for an answer'
        ]
    return []
