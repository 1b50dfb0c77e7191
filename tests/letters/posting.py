"""One mail through the whole inbound path: the request SendGrid would make, posted, and its row."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.adapters.sendgrid.inbound import parse_request
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
    row: Row | None
    whole: bool
    problems: tuple[str, ...] = ()


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
    with _exceptions() as problems:
        response = shop.post_inbound(body, content_type, sign(shop.inbound_key, body))
        row, kept = _stored(shop, body, content_type)
    answer = response.text.strip()
    return Outcome(response.status_code, answer, row, kept == body, tuple(problems))


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
    finally:
        logger.removeHandler(listener)
