"""What may be told of an error outside the database."""

from __future__ import annotations

import pytest

from mailagent.domain.text import LONGEST, tell_error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, "no reason is on record"),
        ("  ", "no reason is on record"),
        ("refund refund_01 could not be paid in 40 attempts", None),
        ("no mail for ada@example.com here", "no mail for … here"),
        ("no mail for <ada@example.com>, sorry", "no mail for <…>, sorry"),
        ("cannot read 'my name is Ada'", "cannot read …"),
        ('cannot read "my name is Ada"', "cannot read …"),
        ("Key (subject)=(About my knee) exists", "Key (subject)=… exists"),
        ("card 4111 1111 1111 1111 refused", "card … refused"),
        ("401: the key is wrong\nDETAIL: Ada wrote this", "401: the key is wrong"),
        ("x" * 300, "x" * (LONGEST - 1) + "…"),
    ],
)
def test_one_line_without_what_a_person_wrote(error: str | None, told: str | None) -> None:
    assert tell_error(error) == (told or error)
