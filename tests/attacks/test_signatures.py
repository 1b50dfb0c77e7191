"""Old and private mail, validly signed, sent again by a stranger: the verifier passes it, and we do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from mailagent.adapters.sendgrid.inbound import parse_request
from mailagent.domain.mail.message import Identity
from mailagent.domain.refunds.refund import RefundStatus
from tests.adapters.parse_requests import CONTENT_TYPE, FACTS, letter, signature
from tests.attacks.signing import ALL_FIELDS, MODES, replaced, request, sign, verdict
from tests.cast import ADA, MALLORY, MONA, SUPPORT, order
from tests.harness import Harness
from tests.web.questions import Question, ask, question

__all__ = ["question"]

NOW = datetime.now(UTC).replace(microsecond=0)
SOON = NOW + timedelta(minutes=2)
REPLY_ADDRESS = "approval+abcdefghijklmnop@reply.shop.example"
MICROSOFT = "From:Date:Subject:Message-ID:Content-Type:MIME-Version:X-MS-Exchange-SenderADCheck"
YAHOO = "Date:From:To:Subject:References:From:Subject:Reply-To"
BOTH_PARTS: dict[str, Any] = {
    "text": "--b\nContent-Type: text/plain\n\nMy kettle is broken.\n--b--\n",
    "Content_Type": "multipart/alternative; boundary=b",
}
EVIL = "Refund everything"


def ago(**time: float) -> str:
    return format_datetime(NOW - timedelta(**time))


def adas(fields: str = ALL_FIELDS, /, *, length: bool = False, **changes: Any) -> bytes:
    """Return a mail of Ada's as her server signs it; to us and of now unless `changes` say otherwise."""
    written = letter(**{"Date": ago(), "DKIM_Signature": "", **changes})
    return sign(written, "example.com", fields, length)


def private(fields: str = ALL_FIELDS, /, **changes: Any) -> bytes:
    """Return a mail that Ada wrote to Mallory."""
    return adas(fields, **{"To": MALLORY, **changes})


def on_top(mail: bytes, **fields: str) -> bytes:
    head = "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in fields.items())
    return head.encode() + mail


def of_mallory(to: str) -> dict[str, str]:
    """Return what an attacker would like a mail to say of itself."""
    return {"Subject": EVIL, "To": to, "Date": ago(), "Message_ID": "<new@evil.example>"}


def hidden_below(mail: bytes, between: bytes, to: str) -> bytes:
    """Return a mail whose fields are below `between`, all but From, and others above it."""
    (author,) = re.findall(rb"^From: .*\n", mail, re.MULTILINE)
    return bytes(author) + on_top(between + mail.replace(author, b""), **of_mallory(to))


def below_many_fields(mail: bytes, to: str = SUPPORT) -> bytes:
    return hidden_below(mail, b"X:\n" * 995, to)


def below_broken_lines(mail: bytes, to: str = SUPPORT) -> bytes:
    """Return a mail below lines that some programs pass over, and above them a signature to be seen."""
    (domain,) = re.findall(r" d=(\S+);", mail.decode())
    shown = f"DKIM-Signature: {signature(domain)}\n".encode()
    return shown + hidden_below(mail, b"From ada Sat Jan  1 00:00:00 2022\n" * 9, to)


def behind_blanks(mail: bytes, to: str = SUPPORT) -> bytes:
    """Return a mail with blanks before `d=`: relaxed canonicalisation makes one of them."""
    return replaced(mail.replace(b" d=", b" " * 40 + b"d="), **of_mallory(to))


# Each is passed by the verifier, and proves nothing.
ATTACKS: dict[str, Callable[[], bytes]] = {
    "signature below many fields": lambda: below_many_fields(private(Date=ago(days=300))),
    "signature below broken lines": lambda: below_broken_lines(private(Date=ago(days=300))),
    "signature behind blanks": lambda: behind_blanks(private("From", Date=ago(days=300))),
    "signature folded at every tag": lambda: replaced(
        adas("From").replace(b"; d=", b";\n\t  d="), Subject=EVIL
    ),
    "field name in capitals": lambda: replaced(
        adas("From").replace(b"DKIM-Signature:", b"DKIM-SIGNATURE:"), Subject=EVIL
    ),
    "another Subject on top": lambda: on_top(adas(), Subject=EVIL),
    "another To on top": lambda: on_top(private(), To=SUPPORT),
    "a Cc put in": lambda: on_top(private(), Cc=SUPPORT),
    "another Date on top": lambda: on_top(adas(Date=ago(days=300)), Date=ago()),
    "another Message-ID on top": lambda: on_top(adas(), Message_ID="<new@evil.example>"),
    "a Subject that is not signed": lambda: replaced(adas("From:To:Date:Message-ID"), Subject=EVIL),
    "a Subject put in that was not there": lambda: on_top(
        adas("From:To:Date:Message-ID", Subject=""), Subject=EVIL
    ),
    "a Date that is not signed": lambda: replaced(adas("From:To:Subject:Message-ID"), Date=ago()),
    "text below the signed length": lambda: adas(length=True, text="Hello\n") + b"I want money.\n",
    "an old mail as it is": lambda: adas(Date=ago(days=8)),
    "a private mail as it is": private,
    "a weak signature that is sound, a strong one that is not": lambda: on_top(
        replaced(adas("From"), Subject=EVIL), **{"DKIM-Signature": signature()}
    ),
    "a signature that cannot be read beside": lambda: on_top(
        adas(), **{"DKIM-Signature": "v=1; d=exam ple.com"}
    ),
    "no recipient signed, two hours ago": lambda: replaced(
        private(MICROSOFT, **BOTH_PARTS, Date=ago(hours=2)), To=SUPPORT
    ),
    "no recipient signed, in a thread of ours": lambda: replaced(
        private(MICROSOFT, **BOTH_PARTS), To=SUPPORT, In_Reply_To="<o-1@reply.shop.example>"
    ),
    "no recipient signed, another boundary": lambda: replaced(
        private("From:Date:Subject:Message-ID", **BOTH_PARTS),
        To=SUPPORT,
        Content_Type="multipart/mixed; boundary=evil",
    ),
    "no recipient signed, another encoding": lambda: replaced(
        private(MICROSOFT), To=SUPPORT, Content_Transfer_Encoding="base64"
    ),
    "no recipient signed, another Content-Type on top": lambda: on_top(
        replaced(private(MICROSOFT, **BOTH_PARTS), To=SUPPORT), Content_Type="text/plain"
    ),
    "neither recipient nor Message-ID signed": lambda: replaced(
        private("From:Date:Subject:Content-Type", **BOTH_PARTS), To=SUPPORT
    ),
}

HONEST: dict[str, Callable[[], bytes]] = {
    "all signed": adas,
    "six days under way": lambda: adas(Date=ago(days=6)),
    "all signed twice": lambda: adas(f"{ALL_FIELDS}:{ALL_FIELDS}"),
    "no recipient signed": lambda: adas(MICROSOFT, **BOTH_PARTS),
    "no Message-ID signed": lambda: adas(YAHOO),
    "no Message-ID signed, six days under way": lambda: adas(YAHOO, Date=ago(days=6)),
    "unsigned fields of servers on the way": lambda: on_top(adas(), X_Spam="no", Received="by x"),
    "signed by a list, too": lambda: sign(adas(), "relay.example", "From:Subject"),
}


def identity_of(mode: str, mail: bytes, to: str = SUPPORT) -> Identity:
    body = request(mode, mail, to)
    return parse_request(CONTENT_TYPE, body, FACTS, SOON).identity


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_what_an_attacker_makes_of_a_signed_mail_proves_nothing(
    attack: Callable[[], bytes], mode: str
) -> None:
    mail = attack()
    assert "@example.com : pass" in verdict(mail)
    assert identity_of(mode, mail) is Identity.NONE


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("write", HONEST.values(), ids=HONEST.keys())
def test_honest_signed_mail_is_proven(write: Callable[[], bytes], mode: str) -> None:
    assert identity_of(mode, write()) is Identity.DKIM


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("mail", "proven"),
    [
        (lambda: adas(To=REPLY_ADDRESS), True),
        (lambda: adas(f"{ALL_FIELDS}:cc", To="x@club.example", Cc=REPLY_ADDRESS), True),
        (adas, False),
        (lambda: adas(To="colleague@shop.example"), False),
        (lambda: replaced(private(MICROSOFT, **BOTH_PARTS), To=REPLY_ADDRESS), False),
    ],
    ids=["signed to it", "signed Cc", "to the shop", "to a colleague", "no recipient signed"],
)
def test_a_mail_at_a_reply_address_is_proven_only_if_it_was_written_to_it(
    mail: Callable[[], bytes], proven: bool, mode: str
) -> None:
    identity = identity_of(mode, mail(), REPLY_ADDRESS)
    assert identity is (Identity.DKIM if proven else Identity.NONE)


def test_the_same_mail_under_another_message_id_proves_nothing(shop: Harness) -> None:
    mail = adas(YAHOO)
    again = replaced(mail, Message_ID="<another@evil.example>")
    assert verdict(again) == "{@example.com : pass}"
    for one in (mail, again):
        assert shop.post_inbound(request("raw", one)).status_code == 200
    rows = shop.rows("SELECT identity, flags FROM inbound_mails ORDER BY mail_id")
    assert [row.identity for row in rows] == ["dkim", "none"]
    assert "known_date" in rows[1].flags


ON_POSTGRESQL = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
# In parsed mode SendGrid gives fields only: lines that are none do not come through.
HIDDEN = pytest.mark.parametrize(
    ("mode", "hide"),
    [
        ("raw", below_many_fields),
        ("parsed", below_many_fields),
        ("raw", behind_blanks),
        ("parsed", behind_blanks),
        ("raw", below_broken_lines),
    ],
)
OLD_WISH = "I want my money back for the kettle of order W1001, it arrived broken."


@ON_POSTGRESQL
@HIDDEN
def test_an_old_private_mail_is_not_refunded(
    busy_shop: Harness, hide: Callable[[bytes], bytes], mode: str
) -> None:
    busy_shop.stock(order())
    fields = "From" if hide is behind_blanks else ALL_FIELDS
    attack = hide(private(fields, text=OLD_WISH, Subject="Kettle", Date=ago(days=300)))
    assert "@example.com : pass" in verdict(attack)
    assert busy_shop.post_inbound(request(mode, attack)).status_code == 200
    (asked,) = busy_shop.wait_for_mails(ADA)
    assert (asked.reply_to or "").startswith("confirm+")
    assert busy_shop.refunds() == ()
    assert busy_shop.rows("SELECT * FROM ledger_entries") == []


@ON_POSTGRESQL
@HIDDEN
def test_an_old_approved_of_a_manager_decides_nothing(
    question: Question, hide: Callable[[bytes, str], bytes], mode: str
) -> None:
    fields = "From" if hide is behind_blanks else ALL_FIELDS
    words = {"From": MONA, "To": MALLORY, "Subject": "Re: The new sofa", "Date": ago(days=300)}
    old = sign(letter("Approved.", **words, DKIM_Signature=""), "shop.example", fields)
    token = ask(question).reply_to
    attack = hide(old, token)
    assert "@shop.example : pass" in verdict(attack)
    assert question.shop.post_inbound(request(mode, attack, token)).status_code == 200
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert question.shop.rows("SELECT * FROM decisions") == []
