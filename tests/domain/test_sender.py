"""Who wrote a mail: forged and honest cases with their verdicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.mail.authentication import (
    ascii_domain,
    decide_identity,
    normalise_address,
    parse_dkim,
)
from mailagent.domain.mail.message import Identity

ADA = "ada@example.com"
PUBLIC_SUFFIXES = {"com", "example", "co.uk", "uk", "hosting.example"}


def organisation(domain: str) -> str | None:
    labels = domain.split(".")
    for at in range(len(labels)):
        if ".".join(labels[at + 1 :]) in PUBLIC_SUFFIXES:
            return ".".join(labels[at:]) if ".".join(labels[at:]) not in PUBLIC_SUFFIXES else None
    return None


CASES = {
    # honest
    "signed by the author's domain": ([ADA], ADA, "fail", "{@example.com : pass}", "dkim"),
    "signed by a subdomain": ([ADA], ADA, "fail", "{@mail.example.com : pass}", "dkim"),
    "author in a subdomain": (["ada@eu.example.com"], "", "none", "{@example.com : pass}", "dkim"),
    "several signatures, one is the author's": (
        [ADA],
        "list@relay.example",
        "pass",
        "{@relay.example : pass, @example.com : pass}",
        "dkim",
    ),
    "one signature broken, one sound": (
        [ADA],
        "",
        "",
        "{@example.com : fail}{@example.com : pass}",
        "dkim",
    ),
    "forwarded, the signature survived": (
        [ADA],
        "fwd@relay.example",
        "pass",
        "{@example.com : pass}",
        "dkim",
    ),
    "no signature, SPF of the author": ([ADA], "Ada@Example.com", "pass", "none", "spf"),
    "SPF by another host of the author's domain": (
        [ADA],
        "ada@mail.example.com",
        "pass",
        "none",
        "spf",
    ),
    "return path signed by the author's server": (
        [ADA],
        "prvs=1234a5b6c7=ada@example.com",
        "pass",
        "none",
        "spf",
    ),
    "broken signature, SPF passed": ([ADA], ADA, "PASS ", "{@example.com : fail}", "spf"),
    "IDNA domain, written in letters and in A-labels": (
        ["jürgen@bücher.example"],
        "",
        "none",
        "{@xn--bcher-kva.example : pass}",
        "dkim",
    ),
    # honest, and yet unproven
    "signed by the provider only": (
        [ADA],
        "x@provider.example",
        "permerror",
        "{@example-com.provider.example : pass}",
        "none",
    ),
    "SPF by a return path of its own": ([ADA], "b@bounce.example.com", "pass", "none", "none"),
    "internal mail without any check": ([ADA], ADA, "none", "none", "none"),
    # forged
    "signed by the forger": ([ADA], "m@evil.example", "pass", "{@evil.example : pass}", "none"),
    "SPF of the forger": ([ADA], "mallory@evil.example", "pass", "none", "none"),
    "forwarded by Gmail for another mailbox there": (
        ["victim@gmail.example"],
        "oldshop+caf_=support=shop.example@gmail.example",
        "pass",
        "none",
        "none",
    ),
    "forwarded by Gmail for the mailbox of that name": (
        ["oldshop@gmail.example"],
        "oldshop+caf_=support=shop.example@gmail.example",
        "pass",
        "none",
        "none",
    ),
    "forwarded by Exchange, which rewrites the envelope": (
        ["mona@shop.example"],
        "old+SRS=abcd=EF=evil.example=mallory@shop.example",
        "pass",
        "none",
        "none",
    ),
    "forwarded by a host that rewrites the envelope": (
        ["mona@shop.example"],
        "SRS0=ab1c=ef=evil.example=mona@shop.example",
        "pass",
        "none",
        "none",
    ),
    "forwarded in the name of the mailbox": ([ADA], "old@example.com", "pass", "none", "none"),
    "forwarded by a server that signs its return path": (
        [ADA],
        "prvs=1234a5b6c7=old@example.com",
        "pass",
        "none",
        "none",
    ),
    "forwarded by a group": ([ADA], "help+bncBC=1@example.com", "pass", "none", "none"),
    "the author's domain as a suffix of another": (
        [ADA],
        "m@evilexample.com",
        "pass",
        "{@evilexample.com : pass}",
        "none",
    ),
    "the author's domain as a subdomain of another": (
        [ADA],
        "",
        "",
        "{@example.com.evil.example : pass}",
        "none",
    ),
    "only the public suffix is shared": (
        ["ada@shop.co.uk"],
        "m@evil.co.uk",
        "pass",
        "{@evil.co.uk : pass}",
        "none",
    ),
    "customers of one hoster": (
        ["ada@a.hosting.example"],
        "",
        "",
        "{@b.hosting.example : pass}",
        "none",
    ),
    "signed by the public suffix": (["ada@a.co.uk"], "", "", "{@co.uk : pass}", "none"),
    "two authors": ([ADA, "mallory@evil.example"], ADA, "pass", "{@example.com : pass}", "none"),
    "the same author twice": ([ADA, ADA], ADA, "pass", "{@example.com : pass}", "none"),
    "no author": ([], ADA, "pass", "{@example.com : pass}", "none"),
    "unreadable author": ([""], ADA, "pass", "{@example.com : pass}", "none"),
    "look-alike letters": (["ada@exаmple.com"], "", "", "{@example.com : pass}", "none"),
    "sharp s is not ss": (["ada@straße.example"], "", "", "{@strasse.example : pass}", "none"),
    "null return path": ([ADA], "", "pass", "none", "none"),
    "unknown return path": ([ADA], None, "pass", "none", "none"),
    "softfail is no pass": ([ADA], ADA, "softfail", "none", "none"),
    "two words in SPF": ([ADA], ADA, "fail pass", "none", "none"),
    "neutral signature": ([ADA], "", "", "{@example.com : neutral}", "none"),
    "half of the dkim field is rubbish": ([ADA], "", "", "{@example.com : pass, broken}", "none"),
    "text around the dkim field": ([ADA], "", "", "x{@example.com : pass}", "none"),
    "IP addresses have no organisation": (["a@[10.0.0.1]"], "b@9.0.0.1", "pass", "none", "none"),
}


@pytest.mark.parametrize(
    ("authors", "envelope_from", "spf", "dkim", "expected"), CASES.values(), ids=CASES.keys()
)
def test_identity_is_proven_by_the_authors_own_domain_only(
    authors: list[str], envelope_from: str | None, spf: str, dkim: str, expected: str
) -> None:
    verdict = decide_identity(authors, envelope_from, spf, dkim, organisation)
    assert verdict is Identity(expected)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("{@example.com : pass}", [("example.com", "pass")]),
        (" { @Example.COM:pass } ", [("example.com", "pass")]),
        ("{@a.example : pass, @b.example : fail}", [("a.example", "pass"), ("b.example", "fail")]),
        (
            "{@a.example : pass} , {@b.example : fail}",
            [("a.example", "pass"), ("b.example", "fail")],
        ),
        ("none", []),
        ("pass", []),
        ("", []),
        ("{}", []),
        ("{@example.com : pass", []),
        ("{{@example.com : pass}}", []),
        ("{@example.com : pass; @b.example : pass}", []),
        ("{@exa mple.com : pass}", []),
        ("{" + "@a.example : pass, " * 1000 + "@b.example : pass}", []),
    ],
)
def test_dkim_field_is_read_whole_or_not_at_all(
    field: str, expected: list[tuple[str, str]]
) -> None:
    assert list(parse_dkim(field)) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("Ada@Example.COM", "ada@example.com"),
        (" ada+kettle@example.com. ", "ada+kettle@example.com"),
        ("a..b.@example.com", "a..b.@example.com"),  # a Japanese carrier gave such addresses out
        ("jürgen@bücher.example", "jürgen@xn--bcher-kva.example"),
        ("\u212aai@example.com", "\u212aai@example.com"),  # the Kelvin sign is no k
        ("ada@\u212aettle.example", "ada@kettle.example"),  # but host names are mapped, RFC 3490
        ("root@localhost", "root@localhost"),
        ("ada", None),
        ("@example.com", None),
        ("ada@", None),
        ("ada@exa mple.com", None),
        ("a da@example.com", None),
        ("ada@example..com", None),
        ("ada@-example.com", None),
        ("ada@192.0.2.1", None),
        ("ada@[192.0.2.1]", None),
        ("a@b@example.com", None),
        ("ada\x00@example.com", None),
        ("x" * 400 + "@example.com", None),
        ("ada@" + "x" * 64 + ".com", None),
    ],
)
def test_addresses_have_one_form(address: str, expected: str | None) -> None:
    assert normalise_address(address) == expected


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_raises(one: str, other: str) -> None:
    address = normalise_address(f"{one}@{other}")
    assert address is None or normalise_address(address) == address
    domain = ascii_domain(other)
    assert domain is None or (domain.isascii() and ascii_domain(domain) == domain)
    decide_identity([one], other, one, other, organisation)


@given(st.text(max_size=60))
def test_nothing_but_a_pass_of_the_authors_domain_proves_by_dkim(word: str) -> None:
    verdict = decide_identity([ADA], "", "", f"{{@example.com : {word}}}", organisation)
    assert (verdict is Identity.DKIM) == (word.strip().lower() == "pass")
