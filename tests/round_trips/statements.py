"""What a mail to a customer states, read back from its text, and whether rows bear it.

The sentences are found by their messages in the catalogues, so that mails of every language can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from gettext import NullTranslations

from babel import Locale

from mailagent.adapters.html.text import render_text
from mailagent.adapters.templates.catalogue import MAIL_FOLDER, load_translations
from mailagent.adapters.templates.formats import format_day, format_money
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund
from mailagent.store import audit

# A sentence about a refund, and the state that has to be on record for it.
OF_REFUND = {
    "Your request for a refund of %(amount)s for order %(order_id)s waits for a manager's decision. You will "
    "hear from us by mail.": "awaiting_approval",
    "Your refund of %(amount)s for order %(order_id)s is approved. You get a receipt by mail as soon as it is "
    "paid.": "approved",
    "Your refund of %(amount)s for order %(order_id)s was paid on %(day)s.": "paid",
    "We have refunded %(amount)s for order %(order_id)s.": "paid",
    "A manager decided against your request for a refund of %(amount)s for order %(order_id)s. Nothing was "
    "refunded for it.": "rejected",
    "A colleague has looked at your request for %(amount)s back on order %(order_id)s, and decided against it. "
    "Nothing was refunded for this request.": "rejected",
    "Your request for a refund of %(amount)s for order %(order_id)s is withdrawn. Nothing was refunded for it.":
        "withdrawn",
}  # fmt: skip
# A sentence about an order, and the state of the order.
OF_ORDER = {
    "Order %(order_id)s of %(day)s was cancelled.": "cancelled",
    "Order %(order_id)s was delivered on %(day)s.": "delivered",
    "Order %(order_id)s of %(day)s has been shipped.": "shipped",
    "A part of order %(order_id)s of %(day)s has been shipped.": "pending",
    "Order %(order_id)s of %(day)s has not been shipped yet.": "pending",
}
# What may be the state of a refund in its record.
OF_RECORD = {
    "a manager decides, by %(day)s at the latest": "awaiting_approval",
    "approved, not paid yet": "approved",
    "paid on %(day)s": "paid",
    "declined by a manager": "rejected",
    "withdrawn": "withdrawn",
}
NO_REFUND = "Nothing has been refunded for order %(order_id)s."
NO_ORDER = (
    "We cannot find order %(order_id)s among the orders of your mail address. Please check the number, or "
    "write to us from the address that you ordered with."
)
ARRIVES = "It usually arrives within %(num)s business days."
ON_RECORD = "On record for order %(order_id)s"
CONFIRM = "One more thing: we cannot tell for certain yet that your mail came from this address."
MESSAGES = (
    *(*OF_REFUND, *OF_ORDER, *OF_RECORD),
    *(NO_REFUND, NO_ORDER, ARRIVES, ON_RECORD, CONFIRM, "%(name)s: %(value)s"),
    *("Asked for", "State", "Refunded", "nothing"),
)

# The states that a refund had before its own. One that nobody had to decide on never waited.
_BEFORE = {
    "approved": ("awaiting_approval",),
    "paid": ("awaiting_approval", "approved"),
    "rejected": ("awaiting_approval",),
    "withdrawn": ("awaiting_approval",),
}
RETURN_DAYS = 30
_FACT = {
    "order_id": r"(?P<order_id>\S+?)",
    "amount": "(?P<amount>.+?)",
    "day": "(?P<day>.+?)",
    "num": r"(?P<num>\d+)",
}


@dataclass(frozen=True)
class Rows:
    """What is on record about one customer. `days`: other days on record; `texts`: codes and references."""

    orders: tuple[Order, ...]
    refunds: tuple[Refund, ...]
    days: frozenset[datetime]
    texts: frozenset[str]

    def refunds_of(self, order_id: str) -> list[Refund]:
        return [each for each in self.refunds if each.order_id == order_id]

    def order(self, order_id: str) -> Order | None:
        return next((each for each in self.orders if each.order_id == order_id), None)

    @cached_property
    def amounts(self) -> set[Money]:
        told = {each.paid for each in self.orders}
        for refund in self.refunds:
            told |= {refund.amount, refund.asked, *(line.amount for line in refund.lines)}
        return told

    @cached_property
    def all_days(self) -> set[datetime]:
        told = {order.placed_at for order in self.orders} | self.days
        for order in self.orders:
            if order.delivered_at:
                told |= {order.delivered_at, order.delivered_at + timedelta(days=RETURN_DAYS)}
        for refund in self.refunds:
            told |= {refund.requested_at, *filter(None, [refund.paid_at])}
        return told


class MailReader:
    """Reads one mail. `stated`: the states that it has told, after `problems` has been asked for."""

    def __init__(self, mail: SentMail, rows: Rows) -> None:
        self.text, self.rows = _plain(mail.text), rows
        found = re.search('<html lang="([^"]+)"', mail.html or "")
        assert found is not None
        self.locale = Locale.parse(found[1], sep="-")
        catalogue = MAIL_FOLDER / f"{self.locale.language}.po"
        self._translations: NullTranslations = load_translations(
            [catalogue] if catalogue.is_file() else []
        )
        self.html_text = _plain(render_text(mail.html or "").text)
        self.stated: set[str] = set()

    def problems(self) -> list[str]:
        """Return what the mail states and no row bears."""
        found = [*self._refund_problems(), *self._order_problems(), *self._record_problems()]
        for text in (self.text, self.html_text):
            left = self._without_what_is_on_record(text)
            found += [f"no row has {each!r}" for each in re.findall(r"\S*\d\S*", left)]
        if self.says(CONFIRM) and any(each.order_id in self.text for each in self.rows.orders):
            found.append("tells an unproven sender of an order")
        return found

    def says(self, message: str) -> bool:
        return next(self._find(message), None) is not None

    def _find(self, message: str, text: str | None = None) -> Iterator[dict[str, str]]:
        for match in self._pattern(message).finditer(self.text if text is None else text):
            yield match.groupdict()

    def _pattern(self, message: str) -> re.Pattern[str]:
        translated = self._say(message).replace("%%", "%")
        parts = re.split(r"%\((\w+)\)s", translated)
        return re.compile(
            "".join(
                _FACT[part] if number % 2 else re.escape(part) for number, part in enumerate(parts)
            )
        )

    def _say(self, message: str) -> str:
        return _plain(self._translations.gettext(message))

    def _money(self, amount: Money) -> str:
        return _plain(format_money(amount, self.locale))

    def _day(self, day: datetime) -> str:
        return _plain(format_day(day, self.locale))

    def _refund_problems(self) -> Iterator[str]:
        for message, state in OF_REFUND.items():
            for told in self._find(message):
                self.stated.add(state)
                if not any(
                    state in _reached(refund)
                    and told["amount"] == self._money(refund.amount)
                    and told.get("day") in (None, refund.paid_at and self._day(refund.paid_at))
                    for refund in self.rows.refunds_of(told["order_id"])
                ):
                    yield f"no refund is {state}: {told}"

    def _order_problems(self) -> Iterator[str]:
        for message, state in OF_ORDER.items():
            for told in self._find(message):
                self.stated.add(state)
                order = self.rows.order(told["order_id"])
                day = order and (order.delivered_at if state == "delivered" else order.placed_at)
                if (
                    order is None
                    or order.status != state
                    or told["day"] != (day and self._day(day))
                ):
                    yield f"no order is {state}: {told}"
        for told in self._find(NO_ORDER):
            self.stated.add("no order")
            if self.rows.order(told["order_id"]):
                yield f"denies an order: {told}"
        for told in self._find(NO_REFUND):
            self.stated.add("no refund")
            if self.rows.order(told["order_id"]) is None:
                yield f"speaks of an order of somebody else: {told}"
            if self.rows.refunds_of(told["order_id"]):
                yield f"denies a refund: {told}"

    def _record_problems(self) -> Iterator[str]:
        for order_id, told in self._records():
            if self.rows.order(order_id) is None:
                yield f"has the record of {order_id}"
            asked, state = told.get("Asked for"), told.get("State")
            if asked is not None and not any(
                asked.startswith(f"{self._money(refund.asked)} (")
                and state in self._states_on_record(refund)
                and told["Refunded"] in self._refunded_on_record(refund)
                for refund in self.rows.refunds_of(order_id)
            ):
                yield f"the record of {order_id} has {told}"

    def _records(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield an order and what its record has of one refund, by our English names of the lines."""
        names = {
            name: self._say("%(name)s: %(value)s").partition("%(value)s")[0]
            % {"name": self._say(name)}
            for name in ("Asked for", "State", "Refunded")
        }
        order_id = ""
        record = self.text.partition("-" * 40)[2].partition("-" * 40)[0].strip()
        for paragraph in filter(None, record.split("\n\n")):
            lines = paragraph.split("\n")
            heading = self._pattern(ON_RECORD).fullmatch(lines[0])
            order_id = heading["order_id"] if heading else order_id
            yield (
                order_id,
                {
                    name: line.removeprefix(begins)
                    for line in lines
                    for name, begins in names.items()
                    if line.startswith(begins)
                },
            )

    def _states_on_record(self, refund: Refund) -> set[str]:
        told = set()
        for message, state in OF_RECORD.items():
            words = self._say(message)
            days = [refund.paid_at] if state == "paid" else self.rows.days
            if state in _reached(refund):
                told |= {words % {"day": self._day(day)} for day in days if day}
                told |= {words} if "%" not in words else set()
        return told

    def _refunded_on_record(self, refund: Refund) -> set[str]:
        paid = {self._money(refund.amount)} if refund.status == "paid" else set()
        return paid | {self._say("nothing")}

    def _without_what_is_on_record(self, text: str) -> str:
        """Return what is left of a text without the figures that rows have."""
        for message in (NO_ORDER, ARRIVES):
            text = self._pattern(message).sub("", text)
        known = {
            *map(self._money, self.rows.amounts),
            *map(self._day, self.rows.all_days),
            *(order.order_id for order in self.rows.orders),
            *self.rows.texts,
        }
        for each in sorted(known, key=len, reverse=True):
            text = re.sub(rf"(?<![\w.,]){re.escape(each)}(?!\w)", "", text)
        items = {line.name for order in self.rows.orders for line in order.lines}
        return re.sub(rf"\b[1-4] × ({'|'.join(map(re.escape, items))})\b", "", text)


def _plain(text: str) -> str:
    """Return a text without the spaces that hold an amount together, which an HTML mail may lose."""
    return text.replace("\u00a0", " ")


def _reached(refund: Refund) -> tuple[str, ...]:
    """Return the states that a refund has had."""
    before = _BEFORE.get(refund.status, ())
    waited = refund.decided_by != audit.POLICY
    return (*(each for each in before if waited or each != "awaiting_approval"), refund.status)
