"""Registrable domains, by the list that browsers use."""

from __future__ import annotations

import pytest

from mailagent.adapters.mime.dmarc import organisational_domain


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("example.com", "example.com"),
        ("mail.eu.example.com", "example.com"),
        ("shop.example.co.uk", "example.co.uk"),
        ("co.uk", None),
        ("com", None),
        ("ada.github.io", "ada.github.io"),
        ("github.io", None),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("localhost", None),
    ],
)
def test_organisations_end_at_the_public_suffix(domain: str, expected: str | None) -> None:
    assert organisational_domain(domain) == expected
