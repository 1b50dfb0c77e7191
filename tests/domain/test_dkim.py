"""What a signature proves: tag lists that are whole, and fields that are covered."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.mail.authentication import (
    Signature,
    SignedMail,
    covers_what_is_used,
    is_of_now,
    parse_signature,
)
from tests.cast import NOW
from tests.growth import assert_linear

MOMENT = timedelta(seconds=1)
TAGS = "v=1; a=rsa-sha256; s=s1; bh=aGFzaA==; b=c2lnbg==; "


def parsed(rest: str) -> Signature:
    found = parse_signature(TAGS + rest)
    assert found is not None, rest
    return found


SOUND = {
    "plain": "d=example.com; h=from:to",
    "ends with a semicolon": "d=example.com; h=from:to;",
    "ends with a semicolon and blanks": "d=example.com; h=from:to; \t",
    "blanks around names and values": "d \t= example.com\t; h =\tfrom : to ",
    "any number of blanks": f"{' ' * 9_000}d{' ' * 500}={' ' * 500}example.com; h=from{' ' * 999}:to",
    "capitals": "d=Example.COM; h=From:TO",
    "an agent of the domain": "i=ada@example.com; d=example.com; h=from:to",
    "an agent of a part of the domain": "i=@mail.example.com; d=example.com; h=from:to",
    "an agent folded within": "i=ada@mail .example.com; d=example.com; h=from:to",
    "a tag that RFC 6376 does not know": "zz=1; a_b2=; d=example.com; h=from:to",
}


@pytest.mark.parametrize("rest", SOUND.values(), ids=SOUND.keys())
def test_a_whole_tag_list_is_read(rest: str) -> None:
    assert parsed(rest) == Signature("example.com", ("from", "to"), True, None, None)


def test_what_a_signature_says_of_itself_is_read() -> None:
    found = parsed("l=0; t=1795175999; x=1795176000; d=example.com; h=from:from")
    assert (found.fields, found.whole_body) == (("from", "from"), False)
    assert (found.signed_at, found.expires_at) == (NOW - MOMENT, NOW)


ODD = {
    "empty": "",
    "no tag list": "hello",
    "another version": TAGS.replace("v=1", "v=2") + "d=example.com; h=from",
    **{
        f"without {tag}": "; ".join(
            one for one in (TAGS + "d=example.com; h=from").split("; ") if one[: len(tag) + 1] != f"{tag}="
        )
        for tag in ("v", "a", "b", "bh", "s", "d", "h")
    },
    **{
        name: TAGS + rest
        for name, rest in {
            "a tag twice": "d=example.com; h=from; h=from:to",
            "the same tag twice, once in capitals": "d=example.com; D=evil.example; h=from",
            "an empty tag": "d=example.com;; h=from",
            "two semicolons at the end": "d=example.com; h=from;;",
            "a word that is no tag": "d=example.com; h=from; x",
            "a blank within a name": "d d=example.com; d=example.com; h=from",
            "a comment": "(d=evil.example) d=example.com; h=from",
            "a comment behind the domain": "d=example.com (really); h=from",
            "a blank within the domain": "d=exam ple.com; h=from",
            "a colon in the domain": "d=example.com : pass; h=from",
            "braces in the domain": "d=example.com}{@evil.example; h=from",
            "a quoted domain": 'd="example.com"; h=from',
            "a dot behind the domain": "d=example.com.; h=from",
            "a dot before the domain": "d=.example.com; h=from",
            "a domain in letters": "d=bücher.example; h=from",
            "letters that look like Latin ones": "d=exаmple.com; h=from",
            "wide letters": "d=ｅxample.com; h=from",
            "no domain": "d=; h=from",
            "an address": "d=[192.0.2.1]; h=from",
            "the agent is of another domain": "i=ada@evil.example; d=example.com; h=from",
            "the agent's domain only ends alike": "i=@evilexample.com; d=example.com; h=from",
            "the agent's domain is above": "i=@com; d=example.com; h=from",
            "a time in words": "t=now; d=example.com; h=from",
            "a time below zero": "x=-1; d=example.com; h=from",
            "a time beyond all calendars": "x=999999999999; d=example.com; h=from",
            "NUL": "d=example.com\x00; h=from",
            "a line break": "d=example.com;\n h=from",
            "a carriage return": "d=example.com;\r h=from",
            "a form feed for a blank": "d=\x0cexample.com; h=from",
            "a blank of Unicode": "d=\u00a0example.com; h=from",
            "DEL": "d=example.com; h=from\x7f",
        }.items()
    },
    "longer than any header field": TAGS + "d=example.com; h=from" + " " * 20_000,
}  # fmt: skip


@pytest.mark.parametrize("value", ODD.values(), ids=ODD.keys())
def test_one_odd_character_makes_it_no_signature(value: str) -> None:
    assert parse_signature(value) is None


@given(st.text())
def test_no_text_raises(text: str) -> None:
    parse_signature(text)
    parse_signature(TAGS + text)


@pytest.mark.parametrize("piece", [" ", ";", "=", "a=1;", ":", "\t=", "h=from:", "(", "é"])
def test_time_grows_with_length_only(piece: str) -> None:
    assert_linear(parse_signature, piece, 2_400)


ALL = ("from", "to", "cc", "subject", "date", "message-id")
MAIL = SignedMail(
    counts=dict.fromkeys(("from", "to", "subject", "date", "message-id", "content-type"), 1),
    naming_us={"to"},
    begins=True,
    multipart=True,
    sent_at=NOW,
    received_at=NOW,
)
SIGNATURE = Signature("example.com", ALL, True, None, None)


def signs(*fields: str) -> Signature:
    return replace(SIGNATURE, fields=fields)


def without(*fields: str) -> Signature:
    return signs(*(name for name in ALL if name not in fields))


def having(**counts: int) -> SignedMail:
    return replace(
        MAIL, counts={**MAIL.counts, **{n.replace("_", "-"): c for n, c in counts.items()}}
    )


COVERED: dict[str, tuple[Signature, SignedMail, bool]] = {
    "all": (SIGNATURE, MAIL, True),
    "all twice": (signs(*ALL, *ALL), MAIL, True),
    "From is not signed": (without("from"), MAIL, False),
    "Subject is not signed": (without("subject"), MAIL, False),
    "Subject is not signed, and there is none": (
        without("subject"),
        replace(MAIL, counts={n: 1 for n in ALL if n != "subject"}),
        True,
    ),
    "Date is not signed": (without("date"), MAIL, False),
    "Date is not signed, and there is none": (
        without("date"),
        replace(MAIL, counts={n: 1 for n in ALL if n != "date"}),
        False,
    ),
    "Message-ID is not signed: author and Date stand for it": (without("message-id"), MAIL, True),
    "another Subject on top of the signed one": (SIGNATURE, having(subject=2), False),
    "two Subjects, both signed": (signs(*ALL, "subject"), having(subject=2), True),
    "the end of the text is not signed": (replace(SIGNATURE, whole_body=False), MAIL, False),
    "To names us and is not signed, Cc is": (without("to"), MAIL, False),
    "To is somebody else's, a Cc that is not signed names us": (
        without("cc"),
        replace(having(cc=1), naming_us={"cc"}),
        False,
    ),
    "To is somebody else's, a signed Cc names us": (
        SIGNATURE,
        replace(having(cc=1), naming_us={"cc"}),
        True,
    ),
    "another To on top of the signed one": (SIGNATURE, having(to=2), False),
    "neither names us": (SIGNATURE, replace(MAIL, naming_us=set()), False),
}  # fmt: skip


@pytest.mark.parametrize(("signature", "mail", "enough"), COVERED.values(), ids=COVERED.keys())
def test_a_signature_must_cover_what_is_used(
    signature: Signature, mail: SignedMail, enough: bool
) -> None:
    assert covers_what_is_used(signature, mail) is enough


# Microsoft's consumer domains sign neither To nor Cc.
MICROSOFT = signs("from", "date", "subject", "message-id", "content-type", "mime-version")
HOUR, MINUTES = timedelta(hours=1), timedelta(minutes=5)
UNADDRESSED: dict[str, tuple[Signature, SignedMail, bool]] = {
    "at once": (MICROSOFT, MAIL, True),
    "after an hour": (MICROSOFT, replace(MAIL, received_at=NOW + HOUR), True),
    "after more than an hour": (MICROSOFT, replace(MAIL, received_at=NOW + HOUR + MOMENT), False),
    "a clock that is fast": (MICROSOFT, replace(MAIL, received_at=NOW - MINUTES), True),
    "a Date to come": (MICROSOFT, replace(MAIL, received_at=NOW - MINUTES - MOMENT), False),
    "no Date that can be read": (MICROSOFT, replace(MAIL, sent_at=None), False),
    "in answer to a mail of ours": (MICROSOFT, replace(MAIL, begins=False), False),
    "not even the unsigned To names us": (MICROSOFT, replace(MAIL, naming_us=set()), False),
    "nor the Message-ID": (signs("from", "date", "subject", "content-type"), MAIL, False),
    "another Content-Type shows other text": (
        signs("from", "date", "subject", "message-id"),
        MAIL,
        False,
    ),
    "another Content-Type on top": (MICROSOFT, having(content_type=2), False),
    "another encoding shows other text": (MICROSOFT, replace(MAIL, multipart=False), False),
    "one part, its encoding signed": (
        signs(*MICROSOFT.fields, "content-transfer-encoding"),
        replace(MAIL, multipart=False),
        True,
    ),
    "it signs a Cc that is not there": (signs(*MICROSOFT.fields, "cc"), MAIL, False),
}


@pytest.mark.parametrize(
    ("signature", "mail", "enough"), UNADDRESSED.values(), ids=UNADDRESSED.keys()
)
def test_without_a_signed_recipient_only_a_new_mail_that_begins_a_thread_is_proven(
    signature: Signature, mail: SignedMail, enough: bool
) -> None:
    assert covers_what_is_used(signature, mail) is enough


def at(received_at: datetime) -> SignedMail:
    return replace(MAIL, received_at=received_at)


WEEK, DAY = timedelta(days=7), timedelta(days=1)


@pytest.mark.parametrize(
    ("signature", "mail", "of_now"),
    [
        (SIGNATURE, at(NOW + WEEK), True),
        (SIGNATURE, at(NOW + WEEK + MOMENT), False),
        (SIGNATURE, at(NOW - DAY), True),
        (SIGNATURE, at(NOW - DAY - MOMENT), False),
        (SIGNATURE, replace(MAIL, sent_at=None), False),
        (replace(SIGNATURE, signed_at=NOW - WEEK), MAIL, True),
        (replace(SIGNATURE, signed_at=NOW - WEEK - MOMENT), MAIL, False),
        (replace(SIGNATURE, expires_at=NOW), MAIL, True),
        (replace(SIGNATURE, expires_at=NOW - MOMENT), MAIL, False),
    ],
)
def test_a_mail_of_another_time_proves_nothing(
    signature: Signature, mail: SignedMail, of_now: bool
) -> None:
    assert is_of_now([SIGNATURE, signature], mail) is of_now


def test_epoch_seconds_are_utc() -> None:
    assert parsed("t=0; d=example.com; h=from").signed_at == datetime(1970, 1, 1, tzinfo=UTC)
