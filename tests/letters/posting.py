"""One mail through the whole inbound path: the request SendGrid would make, posted, and its row.

Reading files and printing tables belong elsewhere.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.adapters.mime.address_list import parse_addresses
from mailagent.adapters.mime.headers import first, parse_block
from mailagent.adapters.mime.multipart import Span
from mailagent.adapters.sendgrid.inbound import parse_request
from mailagent.adapters.sendgrid.inbound_message import from_mailboxes
from mailagent.domain.shop import ShopAddresses
from mailagent.store import schema
from mailagent.store.database import Row
from tests.adapters.parse_requests import CONTENT_TYPE, raw_request
from tests.cast import SUPPORT
from tests.harness import Harness, sign


@dataclass(frozen=True, slots=True)
class Checks:
    """What SendGrid says of a mail beside the mail itself, in the words of its fields."""

    dkim: str
    spf: str
    envelope_from: str
    envelope_to: str = SUPPORT


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one mail. `row` is None if none was stored; `whole`: its very bytes are kept;
    `problems` are exceptions, also those that the app caught and answered."""

    code: int
    answer: str
    milliseconds: float
    row: Row | None
    whole: bool
    problems: tuple[str, ...] = ()

    @property
    def duplicate(self) -> bool:
        """Whether it is a mail that was there already, and is kept as it came the first time.

        Message-ID, author, date, subject, recipients and body are the same: only the way it came differs.
        """
        return self.row is not None and self.answer == "known already"

    @property
    def good(self) -> bool:
        return self.code == 200 and (self.whole or self.duplicate) and not self.problems


def likely_checks(mail: bytes, dkim: str, spf: str) -> Checks:
    """Return checks for a mail of unknown origin: the envelope as its Return-Path or From says.

    A `dkim` of one word is the result for the domain of From; with braces it is taken as it is.
    """
    headers = parse_block(mail, Span(0, len(mail))).headers
    author = next((one.address for one in from_mailboxes(headers) if one.address), "")
    returned = parse_addresses(first(headers, "return-path"))
    sender = author if "return-path" not in headers else returned[0].address if returned else ""
    if dkim != "none" and not dkim.startswith("{"):
        dkim = f"{{@{author.rpartition('@')[2]} : {dkim}}}" if author else "none"
    return Checks(dkim, spf, sender)


def post(shop: Harness, mail: bytes, checks: Checks) -> Outcome:
    """Post a mail in raw mode, signed, and look at what the shop has of it afterwards."""
    body = raw_request(
        mail,
        dkim=checks.dkim,
        spf=checks.spf,
        envelope_from=checks.envelope_from,
        envelope_to=[checks.envelope_to],
    )
    return post_request(shop, body)


def post_request(shop: Harness, body: bytes, content_type: str = CONTENT_TYPE) -> Outcome:
    """Post a request as it is, signed."""
    signed = sign(shop.inbound_key, body)
    code, answer, milliseconds, row, kept = 0, "", 0.0, None, None
    with _exceptions() as problems:
        begun = time.perf_counter()
        response = shop.post_inbound(body, content_type, signed)
        milliseconds = (time.perf_counter() - begun) * 1000
        code, answer = response.status_code, response.text.strip()
        row, kept = _stored(shop, body, content_type)
    return Outcome(code, answer, milliseconds, row, kept == body, tuple(problems))


def _stored(shop: Harness, body: bytes, content_type: str) -> tuple[Row | None, bytes | None]:
    facts = ShopAddresses(shop.live.shop.support_address, shop.live.shop.reply_domain)
    key = parse_request(content_type, body, facts, shop.live.now()).dedup_key
    mails, raw = schema.inbound_mails, schema.raw_mails
    with shop.live.database.snapshot() as connection:
        row = connection.execute(sa.select(mails).where(mails.c.dedup_key == key)).one_or_none()
        if row is None:
            return None, None
        kept = connection.scalar(sa.select(raw.c.body).where(raw.c.mail_id == row.mail_id))
    return row, None if kept is None else bytes(kept)


class _Listener(logging.Handler):
    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._problems.append(repr(record.exc_info[1]))


@contextmanager
def _exceptions() -> Iterator[list[str]]:
    """Collect exceptions: the app answers 503 for those it does not expect, and logs them."""
    problems: list[str] = []
    listener = _Listener(problems)
    logger = logging.getLogger("mailagent")
    logger.addHandler(listener)
    try:
        yield problems
    except Exception as problem:  # noqa: BLE001 - one mail must not hide what comes of the others
        problems.append(repr(problem))
    finally:
        logger.removeHandler(listener)
