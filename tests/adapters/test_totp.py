"""Secrets of authenticator apps: which keys read them, and which codes count when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyotp
import pytest

from mailagent.adapters.totp import Totp

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
