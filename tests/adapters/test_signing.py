"""Signed links: whom we mailed what, and nothing that we did not sign."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pyotp
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.links import ApprovalLink, Links
from mailagent.adapters.sendgrid.signature import parse_public_key, verify
from mailagent.adapters.totp import Totp

PUBLIC_URL = "https://support.shop.example"
MONA = "mona@shop.example"


def token_of(url: str) -> str:
    return url.rpartition("/")[2]


def test_a_link_names_the_approval_and_whom_it_was_sent_to() -> None:
    links = Links(["key"], PUBLIC_URL + "/")
    url = links.sign_approval("a_17", MONA)
    assert url.startswith(f"{PUBLIC_URL}/approvals/")
    assert links.verify_approval(token_of(url)) == ApprovalLink("a_17", MONA)


def test_a_link_is_short_and_needs_no_escaping() -> None:
    url = Links(["key"], PUBLIC_URL).sign_approval("0193c1d2-7a5e-7c3b-9f11-3b8a2f6d4e50", MONA)
    assert len(url) < 200
    assert token_of(url).replace("-", "").replace("_", "").replace(".", "").isalnum()
    assert url[-1].isalnum(), "mail programs leave trailing punctuation out of a link"


def test_the_newest_key_signs_and_every_key_in_use_verifies() -> None:
    before = Links(["old"], PUBLIC_URL)
    rotated = Links(["new", "old"], PUBLIC_URL)
    after = Links(["new"], PUBLIC_URL)

    mailed_before = token_of(before.sign_approval("a_17", MONA))
    mailed_since = token_of(rotated.sign_approval("a_17", MONA))

    assert rotated.verify_approval(mailed_before) == ApprovalLink("a_17", MONA)
    assert after.verify_approval(mailed_since) == ApprovalLink("a_17", MONA)
    assert after.verify_approval(mailed_before) is None


def test_a_link_with_any_character_changed_is_not_valid() -> None:
    links = Links(["key"], PUBLIC_URL)
    token = token_of(links.sign_approval("a_17", MONA))
    for place, letter in enumerate(token):
        for other in "AB":
            changed = token[:place] + other + token[place + 1 :]
            assert letter == other or links.verify_approval(changed) is None


@pytest.mark.parametrize("length", [0, 1, 10, -1, -5, -44])
def test_a_link_that_was_cut_off_is_not_valid(length: int) -> None:
    links = Links(["key"], PUBLIC_URL)
    token = token_of(links.sign_approval("a_17", MONA))
    assert links.verify_approval(token[:length]) is None


@pytest.mark.parametrize(
    "token", ["", ".", "..", "a.b", "é.é", "\ud800.x", "\x00", "x" * 100_000, "a.b!", "-._"]
)
def test_nonsense_is_not_valid_and_not_an_error(token: str) -> None:
    assert Links(["key"], PUBLIC_URL).verify_approval(token) is None


@pytest.mark.parametrize("end", ["!", "!!!!", " ", "\n", "é", "="])
def test_a_link_with_something_added_is_not_valid(end: str) -> None:
    links = Links(["key"], PUBLIC_URL)
    assert links.verify_approval(token_of(links.sign_approval("a_17", MONA)) + end) is None


def test_something_signed_for_another_use_is_not_an_approval() -> None:
    links, content = Links(["key"], PUBLIC_URL), ["a_17", MONA]
    assert links.verify_approval(str(links._approvals.dumps(content))) == ApprovalLink("a_17", MONA)
    assert links.verify_approval(str(links._votes.dumps(content))) is None


@pytest.mark.parametrize("keys", [[], [""], ["key", ""], "key"])
def test_no_links_without_proper_keys(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="SECRET_KEY"):
        Links(keys, PUBLIC_URL)


# --- totp -----------------------------------------------------------------------------------------


NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)  # a step of 30 seconds begins


def test_the_newest_key_encrypts_and_all_keys_decrypt() -> None:
    old, both, new = Totp(["old"], "S"), Totp(["new", "old"], "S"), Totp(["new"], "S")
    before, after = old.make_secret(), both.make_secret()
    assert both.reveal(before) == old.reveal(before) is not None
    assert new.reveal(before) is None
    assert new.reveal(after) is not None
    assert old.reveal(after) is None


@pytest.mark.parametrize(
    ("seconds", "counts"),
    [(-31, False), (-30, True), (0, True), (29, True), (59, True), (60, False)],
)
def test_a_code_counts_one_step_before_and_after_its_own(seconds: int, counts: bool) -> None:
    totp = Totp(["key"], "S")
    encrypted = totp.make_secret()
    shown = pyotp.TOTP(totp.reveal(encrypted) or "").at(NOW)
    found = totp.find_step(encrypted, shown, NOW + timedelta(seconds=seconds))
    assert found == (int(NOW.timestamp()) // 30 if counts else None)


# --- webhook signature ----------------------------------------------------------------------------


STAMP = "1795176000"
BODY = (
    b'--xYzZY\r\nContent-Disposition: form-data; name="text"\r\n\r\npidi\xa2 \xff\r\n--xYzZY--\r\n'
)


def shown(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> str:
    """Return the public half as SendGrid shows it."""
    der = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b64encode(der).decode()


def signed(key: ec.EllipticCurvePrivateKey, stamp: str = STAMP, body: bytes = BODY) -> str:
    signature = key.sign(stamp.encode() + body, ec.ECDSA(hashes.SHA256()))
    return base64.b64encode(signature).decode()


KEY = ec.generate_private_key(ec.SECP256R1())
OLD_KEY = ec.generate_private_key(ec.SECP256R1())
PUBLIC = shown(KEY)


def test_a_body_that_is_no_text_verifies() -> None:
    assert verify([PUBLIC], STAMP, signed(KEY), [BODY])


@pytest.mark.parametrize("key", [KEY, OLD_KEY])
def test_any_one_of_several_keys_verifies(key: ec.EllipticCurvePrivateKey) -> None:
    assert verify([PUBLIC, shown(OLD_KEY)], STAMP, signed(key), [BODY])


@pytest.mark.parametrize(
    ("keys", "stamp", "signature", "body"),
    [
        ([], STAMP, signed(KEY), BODY),
        ([shown(OLD_KEY)], STAMP, signed(KEY), BODY),
        ([PUBLIC], "1795176001", signed(KEY), BODY),
        ([PUBLIC], STAMP, signed(KEY), BODY[:-2]),
        ([PUBLIC], STAMP, signed(KEY), BODY.replace(b"\r\n", b"\n")),
        ([PUBLIC], "", signed(KEY), BODY),
        ([PUBLIC], STAMP, "", BODY),
        ([PUBLIC], STAMP, "no base64!", BODY),
        ([PUBLIC], STAMP, base64.b64encode(b"no signature").decode(), BODY),
        ([PUBLIC], STAMP, signed(KEY)[:-4], BODY),
        ([PUBLIC], "١٧٩٥", signed(KEY), BODY),
        (["no key"], STAMP, signed(KEY), BODY),
        ([PUBLIC], STAMP, "A" * 1_000_000, BODY),
    ],
    ids=range(13),  # the keys are new in every process, and names must not be
)
def test_anything_else_does_not_verify(
    keys: list[str], stamp: str, signature: str, body: bytes
) -> None:
    assert not verify(keys, stamp, signature, [body])


def test_an_unreadable_key_does_not_spoil_the_others() -> None:
    assert verify(["", "no key", PUBLIC], STAMP, signed(KEY), [BODY])


@given(st.text(), st.text(), st.text(), st.binary())
def test_no_input_raises(key: str, stamp: str, signature: str, body: bytes) -> None:
    assert not verify([key, PUBLIC], stamp, signature, [body])


def test_a_key_is_read_with_the_white_space_of_copying() -> None:
    assert parse_public_key(f" {PUBLIC}\n").curve.name == "secp256r1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no base64!",
        base64.b64encode(b"no key").decode(),
        shown(ec.generate_private_key(ec.SECP384R1())),
        shown(ed25519.Ed25519PrivateKey.generate()),
        "ключ",
    ],
    ids=range(6),
)
def test_what_is_no_verification_key_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="verification key"):
        parse_public_key(text)
