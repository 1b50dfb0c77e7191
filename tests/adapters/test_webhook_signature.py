"""Signed webhooks: the bytes as they came, by one of the keys, or not at all."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.sendgrid.signature import parse_public_key, verify

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
