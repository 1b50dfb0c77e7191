"""Which words act for somebody else, however a mail program has written them, and which are only words."""

from __future__ import annotations

import base64
import quopri

import pytest

from mailagent.adapters.links import Links
from mailagent.adapters.mime.attachment import may_hold_key
from mailagent.domain.mail.redaction import without_keys
from tests.cast import MONA

LINK = Links(["a key"], "https://shop.example").sign_approval("approval_01HXYZ", MONA)
TOKEN = LINK.rpartition("/")[2]
SECRET = "aB3-_" * 8 + "xyz"
START, END = TOKEN[:40], TOKEN[40:]
LOGIN = f"https://shop.example/ops/login/{SECRET}"


def filtered(word: str) -> str:
    """Write a word as a mail filter does in its own addresses."""
    return word.replace("-", "-2D").replace("_", "-5F")


def logs_in(word: str) -> bool:
    return word == SECRET


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("see http://shop.example/approvals/abcDEF123._-x now", "see http://shop.example/approvals/… now"),
        ("https://x.example/ops/login/abcdefgh12345", "https://x.example/ops/login/…"),
        ("?url=http%3A%2F%2Fx%2Fapprovals%2Fabcdefghij&d=1", "?url=http%3A%2F%2Fx/approvals/…&d=1"),
        (f"https://f.example/?u=https-3A__h_approvals_{filtered(TOKEN)}&d=1", "https://f.example/?u=https-3A__h_approvals_…&d=1"),
        (f"/approvals/\n{TOKEN}\nBye", "/approvals/\n…\nBye"),
        (f"/appro\u200bvals/{TOKEN[:9]}\u200b{TOKEN[9:]}", "/appro\u200bvals/…"),
        (f"&#47;approvals&#47;{TOKEN}.", "&#47;approvals&#47;…"),
        (f"it is {TOKEN}, Mona", "it is …, Mona"),
        (f"> {START} \r\n> {END}\r\n> Please decide", "> …\r\n> Please decide"),
        (f"{START}=\n{END}\nPlease", "…\nPlease"),
        (f"{TOKEN[:-9]}\n{TOKEN[-9:]} ok", "… ok"),
        (f"{LOGIN} now", "https://shop.example/ops/login/… now"),
        (f"https-3A__h_ops_login_{filtered(SECRET)}&d", "https-3A__h/ops/login/…&d"),
        (f"/ops/login/\n{SECRET}\nBye", "/ops/login/…\nBye"),
        (f"use {SECRET}.", "use …"),
        (f"{SECRET[:20]}\n> {SECRET[20:]}\nbye", "…\nbye"),
        ("our approvals/decisions are slow", "our approvals/decisions are slow"),
        ("/approvals/\nPlease decide", "/approvals/\nPlease decide"),
        ("/ops/login", "/ops/login"),
        (SECRET.lower(), SECRET.lower()),
        ("the kettle broke\nafter a week\n" * 20, "the kettle broke\nafter a week\n" * 20),
    ],
    ids=[
        *("approval", "login", "wrapped", "filter", "broken_before", "no_width", "html", "bare"),
        *("quoted", "soft", "broken_late", "secret", "filtered_secret", "secret_below"),
        *("bare_secret", "broken_secret", "words", "words_below", "page", "not_a_secret", "prose"),
    ],
)  # fmt: skip
def test_words_by_which_one_acts_as_somebody_else_are_cut(written: str, kept: str) -> None:
    assert without_keys(written, logs_in) == kept


def test_a_token_that_was_worth_compressing_is_cut() -> None:
    long_address = f"{'mona.' * 20}@shop.example"
    token = Links(["k"], "").sign_approval("approval_1", long_address).rpartition("/")[2]
    assert token.startswith(".eJ")
    assert without_keys(f"see {token}\nBye") == "see …\nBye"
    assert may_hold_key(token.encode(), None)


@pytest.mark.parametrize(
    "data",
    [
        LINK.encode(),
        f"<a href='{LINK}'>decide</a>".encode(),
        f"<p>{START}<wbr>{END}</p>".encode(),
        TOKEN.replace("W", "&#87;").encode(),
        quopri.encodestring(f"{'x' * 50}{LINK}".encode()),
        b"boundary=" + b"a" * 25 + b"\n" + base64.encodebytes(b"Dear Max, " + LINK.encode()),
        base64.b64encode(base64.encodebytes(LINK.encode())),
        LINK.encode("utf-16"),
        f"{START}\r\n> {END}".encode(),
        LOGIN.encode(),
        f"word: {SECRET}\n".encode(),
    ],
    ids="plain tag html entity quoted base64 twice utf16 lines login secret".split(),
)
def test_a_file_with_such_a_word_is_found_however_it_is_encoded(data: bytes) -> None:
    assert may_hold_key(data, logs_in)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"My kettle & I <b>see</b> /approvals/ and /ops/login = nothing\n",
        base64.encodebytes(bytes(range(256)) * 40),
        b"\xff\xd8\xff\xe0" + bytes(range(256)) * 40,
    ],
    ids="empty text base64 photo".split(),
)
def test_other_files_are_not(data: bytes) -> None:
    assert not may_hold_key(data, logs_in)
