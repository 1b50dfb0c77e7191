"""Every mail in every language, to look at: `python -m tests.programs.gallery FOLDER` writes it as
HTML and text, with an index.html. `--pictures` also takes the pictures of docs/mails.md anew.

The pictures need Chromium on the PATH. Nothing here is a test; pytest does not collect it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from mailagent.adapters.templates.engine import MAIL_FOLDER, RenderedMail, Templates
from mailagent.adapters.templates.mail_samples import COMMON, FIRST_APPROVAL, TO_CUSTOMERS, facts_of
from mailagent.adapters.templates.template_check import list_languages
from mailagent.domain.money import Money

LARGEST_BYTES = 400_000
WIDTH = 1100

STYLE = """
body{margin:0;padding:24px;font:15px/1.4 sans-serif;background:Canvas;color:CanvasText;color-scheme:light dark}
h1{font-size:22px;margin:0 0 8px} h2{font-size:16px;margin:28px 0 8px}
main{display:grid;grid-template-columns:1fr 1fr;gap:16px;align-items:start}
section{border:1px solid #8a8f98;border-radius:8px;padding:8px;min-width:0}
section p{margin:0 0 8px;opacity:.8;font-size:13px}
iframe{width:100%;border:0;display:block}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font-size:12.5px}
"""
# Frames as high as what they hold, so that a picture shows all of it.
FIT = """
for (const frame of document.querySelectorAll("iframe")) {
  const fit = () => frame.style.height = frame.contentDocument.documentElement.scrollHeight + "px"
  frame.onload = fit
  if (frame.contentDocument.readyState == "complete") fit()
}
"""

SAID: dict[str, dict[str, str]] = {
    "en": {
        "item": "Kettle, 1.7 litres",
        "subject": "Re: My kettle leaks",
        "note": "We are sorry for the trouble.",
        "text": "Hello Ada,\n\nthank you for the photo. The kettle of order W1001 was delivered on"
        " 4 November.\n\nKind regards\nYour support team",
    },
    "de": {
        "item": "Wasserkocher, 1,7 Liter",
        "subject": "Re: Mein Wasserkocher ist undicht",
        "note": "Entschuldigen Sie bitte die Umstände.",
        "text": "Guten Tag Jürgen,\n\nvielen Dank für das Foto. Der Wasserkocher aus der Bestellung"
        " W1001 wurde am 4. November geliefert.\n\nViele Grüße\nIhr Support-Team",
    },
    "fr": {
        "item": "Bouilloire, 1,7 litre",
        "subject": "Re: Ma bouilloire fuit",
        "note": "Veuillez nous excuser pour ce désagrément.",
        "text": "Bonjour Ada,\n\nmerci pour la photo. La bouilloire de la commande W1001 a été livrée le"
        " 4 novembre.\n\nCordialement\nVotre équipe",
    },
    "es": {
        "item": "Hervidor, 1,7 litros",
        "subject": "Re: Mi hervidor gotea",
        "note": "Disculpe las molestias.",
        "text": "Hola, Ada:\n\nGracias por la foto. El hervidor del pedido W1001 se entregó el 4 de"
        " noviembre.\n\nUn saludo\nSu equipo",
    },
}
TEAM = "team"  # what people of the shop get, in English


@dataclass(frozen=True, slots=True)
class Shown:
    """One mail of the gallery; `sheet` is its language, or `team`."""

    sheet: str
    name: str
    mail: RenderedMail


def main() -> None:
    """Write the gallery, and the pictures if asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.gallery")
    parser.add_argument("folder", type=Path, help="where to write it; made if it is not there")
    parser.add_argument("--pictures", action="store_true", help="also take those of docs/mails.md")
    arguments = parser.parse_args()
    sheets = write_gallery(arguments.folder, tuple(list_mails()))
    if arguments.pictures:
        picture(sheets)


def list_mails() -> Iterator[Shown]:
    """Yield every mail in every language that we ship, with all that it can say."""
    templates = Templates(MAIL_FOLDER, COMMON)
    for language in list_languages(None):
        said = SAID.get(language, SAID["en"])
        for name, facts in sorted(facts_of().items()):
            if name in TO_CUSTOMERS:
                told = _told(facts, said, "USD" if language == "en" else "EUR")
                yield Shown(language, name, templates.render(name, told, language))
    yield from _to_the_shop(templates)


def _to_the_shop(templates: Templates) -> Iterator[Shown]:
    for name, facts in sorted(facts_of().items()):
        if name not in TO_CUSTOMERS:
            yield Shown(TEAM, name, templates.render(name, facts))
        if name == "approval_request":
            second = facts | {"first_approval": FIRST_APPROVAL}
            yield Shown(TEAM, f"{name}_second", templates.render(name, second))


def _told(facts: dict[str, Any], said: dict[str, str], currency: str) -> dict[str, Any]:
    """Return facts with words that customers might read, in the money of the language."""
    words = {"subject": said["subject"], "note": said["note"], "text": said["text"]}
    told = {key: words.get(key, value) for key, value in facts.items()}
    if "items" in told:
        told["items"] = [each | {"name": said["item"]} for each in told["items"]]
    return dict(_in_currency(told, currency))


def _in_currency(value: Any, currency: str) -> Any:
    match value:
        case Money():
            return replace(value, currency=currency)
        case dict():
            return {key: _in_currency(each, currency) for key, each in value.items()}
        case list():
            return [_in_currency(each, currency) for each in value]
    return value


def write_gallery(folder: Path, shown: Iterable[Shown]) -> list[Path]:
    """Write each mail as files, a sheet for each language, and an index; return the sheets."""
    sheets: dict[str, list[Shown]] = {}
    for each in shown:
        sheets.setdefault(each.sheet, []).append(each)
        place = folder / each.sheet
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{each.name}.html").write_text(each.mail.html, "utf-8")
        (place / f"{each.name}.txt").write_text(f"{each.mail.subject}\n\n{each.mail.text}", "utf-8")
    links = [f'<li><a href="mails-{sheet}.html">{sheet}</a></li>' for sheet in sheets]
    (folder / "index.html").write_text(_page("Mails", f"<ul>{''.join(links)}</ul>"), "utf-8")
    paths = []
    for sheet, mails in sheets.items():
        paths.append(folder / f"mails-{sheet}.html")
        paths[-1].write_text(_page(f"Mails: {sheet}", "\n".join(map(_rows, mails))), "utf-8")
    return paths


def _rows(shown: Shown) -> str:
    return (
        f"<h2>{shown.name}</h2><main><section><p>{escape(shown.mail.subject)}</p>"
        f'<iframe srcdoc="{escape(shown.mail.html)}"></iframe></section>'
        f"<section><pre>{escape(shown.mail.text)}</pre></section></main>"
    )


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f"<h1>{title}</h1>{body}<script>{FIT}</script>"
    )


def picture(sheets: Iterable[Path]) -> None:
    """Take a picture of each sheet. Raises SystemExit when one is too large or Chromium is missing."""
    from tests.programs.screenshots import opened, save, studio

    with studio() as (browser, _):
        for sheet in sheets:
            with opened(browser, sheet.absolute().as_uri(), (WIDTH, 900), "light") as page:
                save(page, sheet.stem, whole=True, largest_bytes=LARGEST_BYTES, palette=True)


if __name__ == "__main__":
    main()
