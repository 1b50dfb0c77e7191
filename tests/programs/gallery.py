"""Write every mail in every language as HTML and text: `python -m tests.programs.gallery FOLDER`.

`--pictures` also takes the pictures of docs/mails.md anew, which needs Chromium on the PATH.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

from mailagent.adapters.templates.engine import RenderedMail, Templates
from mailagent.adapters.templates.mail_samples import (
    COMMON,
    FIRST_APPROVAL,
    NOON,
    TO_CUSTOMERS,
    facts_of,
)
from mailagent.adapters.templates.template_check import list_languages
from mailagent.domain.money import Money

WIDTH, TALLEST = 550, 20_000
# Letters and lines are grey: with 64 colours no pixel differs from the page by more than 3 percent.
COLOURS = 64

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
  const fit = () => {
    frame.style.height = 0
    frame.style.height = frame.contentDocument.documentElement.scrollHeight + "px"
  }
  frame.onload = fit
  if (frame.contentDocument.readyState == "complete") fit()
}
"""

# A picture has the HTML alone, in a language that of the mails that come most often.
PICTURED = (
    *("handed_over", "receipt", "refund_rejected", "reply", "reply_question", "reply_unproven"),
)
HTML_ALONE = "main{display:block} section:has(pre){display:none}"
LESS = f"article:not({','.join(f'#{name}' for name in PICTURED)}){{display:none}}"

# What the customer wrote, the subject; what a colleague wrote; the item.
SAID: dict[str, tuple[str, str, str]] = {
    "en": (
        "Re: My kettle leaks",
        "We are sorry for the trouble.",
        "Kettle, 1.7 litres",
    ),
    "de": (
        "Re: Mein Wasserkocher ist undicht",
        "Entschuldigen Sie bitte die Umstände.",
        "Wasserkocher, 1,7 Liter",
    ),
    "fr": (
        "Re: Ma bouilloire fuit",
        "Veuillez nous excuser pour ce désagrément.",
        "Bouilloire, 1,7 litre",
    ),
    "es": (
        "Re: Mi hervidor gotea",
        "Disculpe las molestias.",
        "Hervidor, 1,7 litros",
    ),
    "it": (
        "Re: Il mio bollitore perde",
        "Ci scusiamo per il disagio.",
        "Bollitore, 1,7 litri",
    ),
    "nl": (
        "Re: Mijn waterkoker lekt",
        "Excuses voor het ongemak.",
        "Waterkoker, 1,7 liter",
    ),
    "pt": (
        "Re: A minha chaleira verte",
        "Pedimos desculpa pelo incómodo.",
        "Chaleira, 1,7 litros",
    ),
    "pl": (
        "Re: Mój czajnik przecieka",
        "Przepraszamy za kłopot.",
        "Czajnik, 1,7 litra",
    ),
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
    parser.add_argument(
        "folder", type=Path, nargs="?", help="where to write it; else a new one that is named"
    )
    parser.add_argument("--pictures", action="store_true", help="also take those of docs/mails.md")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="mailagent-gallery-"))
    sheets = write_gallery(folder, tuple(list_mails()))
    print(f"{len(sheets)} languages: {folder}")
    if arguments.pictures:
        picture(sheets)


def list_mails() -> Iterator[Shown]:
    """Yield every mail in every language that we ship, with all that it can say; a reply also as a question and
    to a sender who is not proven."""
    templates = Templates(COMMON)
    for language in list_languages(None):
        for name, facts in sorted(facts_of().items()):
            if name not in TO_CUSTOMERS:
                continue
            told = _told(facts, _facts_in(language, name, templates), language)
            if name == "reply":
                yield from _replies(told, language, templates)
            else:
                yield Shown(language, name, templates.render(name, told, language))
    yield from _to_the_shop(templates)


def _replies(told: dict[str, Any], language: str, templates: Templates) -> Iterator[Shown]:
    phrases = templates.phrases(language)
    nothing = {"record": None, "goodwill": None}
    question = " ".join([phrases["sorry_not_working"], phrases["ask_order_number"]])
    thanks = templates.fragment("_fact.txt", {"fact": {"kind": "not_verified"}}, language)
    for name, facts in {
        "reply": told | {"confirm_code": None},
        "reply_question": told | nothing | {"text": question, "confirm_code": None},
        "reply_unproven": told
        | nothing
        | {"text": thanks, "customer_name": None, "subject": None, "helped": None},
    }.items():
        yield Shown(language, name, templates.render("reply", facts, language))


# The state of the refund that a mail is about; in all other mails a manager decides.
STATES = {
    "receipt": "paid",
    "receipts": "paid",
    "refund_returned": "paid",
    "refund_promised": "approved",
    "refund_rejected": "rejected",
    "refund_expired": "expired",
    "refund_failed": "failed",
}


# What an order of the gallery does not have.
_NOTHING_ELSE = {
    "elsewhere": None,
    "discount": None,
    "offer": None,
    "as_of": None,
}


def _facts_in(language: str, name: str, templates: Templates) -> dict[str, Any]:
    """Return what a mail in a language says: words, facts and the record of one order."""
    subject, note, item = SAID[language]
    facts, at = facts_of()[name], datetime(2026, 11, 4, 9, 0, tzinfo=UTC)
    amount = facts.get("amount") or facts_of()["receipt"]["amount"]
    is_receipt = STATES.get(name) == "paid"
    refund = {
        "status": STATES.get(name, "awaiting_approval"),
        "amount": amount,
        "asked": facts_of()["receipt"]["asked"] if is_receipt else amount,
        "credit": None,
        "items": [{"name": item, "quantity": 1}],
        "requested_at": at + timedelta(days=10),
        "paid_at": NOON,
        "returned": facts.get("returned"),
        "part_paid": facts.get("part_paid"),
        "part_credit": facts.get("part_credit"),
        "returned_credit": None,
        "pay_by": facts.get("pay_by"),
        "goods_by": None,
        "cancels": False,
        "decided_by": at + timedelta(days=13),
    }
    order = {"order_id": "W1001", "refunds": [refund], "parcels": [], **_NOTHING_ELSE}
    second = {**order, "order_id": "W1002", "refunds": [refund | _second_refund()]}
    orders = [order, second] if name == "receipts" else [order]
    state = {"kind": "order", "status": "delivered", "placed_at": at, "delivered_at": at}
    phrases = templates.phrases(language)

    def fragment(name: str, facts: dict[str, Any]) -> str:
        return templates.fragment(name, _in_currency(facts, _currency(language)), language)

    sentences = [
        fragment("_fact.txt", {"fact": order | fact}) for fact in (state, {"kind": "refund"})
    ]
    said = {"subject": subject, "note": note, "item": item}
    if name == "remedy":
        exchange = {"kind": "exchange", "status": "done", "items": refund["items"], "due_at": at}
        exchange |= {"instructions": None}
        ended = {"kind": "remedy", "order_id": "W1001", "remedies": [exchange]}
        return said | {"text": fragment("_fact.txt", {"fact": ended}), "record": None}
    return said | {
        "text": "\n\n".join([phrases["thanks_photos"], *sentences, phrases["just_answer"]]),
        "record": fragment("_record.txt", {"orders": orders}),
    }


def _second_refund() -> dict[str, Any]:
    amount = facts_of()["receipts"]["refunds"][1]["amount"]
    return {"amount": amount, "asked": amount}


def _currency(language: str) -> str:
    return "USD" if language == "en" else "EUR"


def _to_the_shop(templates: Templates) -> Iterator[Shown]:
    for name, facts in sorted(facts_of().items()):
        if name not in TO_CUSTOMERS:
            yield Shown(TEAM, name, templates.render(name, facts))
        if name == "approval_request":
            second = facts | {"first_approval": FIRST_APPROVAL}
            yield Shown(TEAM, f"{name}_second", templates.render(name, second))


def _told(facts: dict[str, Any], said: dict[str, Any], language: str) -> dict[str, Any]:
    """Return facts with words that customers might read, in the money of the language."""
    told = {key: said.get(key, value) for key, value in facts.items()}
    for refund in (told, *told.get("refunds", ())):
        for each in refund.get("items", ()):
            each["name"] = said["item"]
    return dict(_in_currency(told, _currency(language)))


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
        f'<article id="{shown.name}"><h2>{shown.name}</h2>'
        f"<main><section><p>{escape(shown.mail.subject)}</p>"
        f'<iframe srcdoc="{escape(shown.mail.html)}"></iframe></section>'
        f"<section><pre>{escape(shown.mail.text)}</pre></section></main></article>"
    )


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f"<h1>{title}</h1>{body}<script>{FIT}</script>"
    )


def picture(sheets: Iterable[Path]) -> None:
    """Take a picture of each sheet: all of what people of the shop get, some of what customers do."""
    from tests.programs.screens import opened, save, studio

    with studio() as (browser, _):
        for sheet in sheets:
            with opened(browser, sheet.absolute().as_uri(), (WIDTH, 900), "light") as page:
                page.add_style_tag(content=HTML_ALONE)
                if sheet.stem != f"mails-{TEAM}":
                    page.add_style_tag(content=LESS)
                page.evaluate(FIT)
                save(page, sheet.stem, TALLEST, COLOURS)


if __name__ == "__main__":
    main()
