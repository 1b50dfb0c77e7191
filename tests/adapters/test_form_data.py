"""Form fields as exact bytes, and forms that a sender tampered with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.sendgrid.inbound_message import FormData, parse_form
from tests.adapters.parse_requests import CONTENT_TYPE, form
from tests.growth import assert_linear


def parsed(body: bytes) -> FormData:
    found = parse_form(CONTENT_TYPE, body)
    assert found is not None
    return found


@pytest.mark.parametrize("newline", [b"\r\n", b"\n"])
@pytest.mark.parametrize(
    "value", [b"", b"text", b"\xa2\xff\x00", b"a\nb\n", b"\rx", b"--xYzZ", b"-- "]
)
def test_values_keep_every_byte(newline: bytes, value: bytes) -> None:
    found = parsed(form({"a": value, "B": b"2"}, newline=newline))
    assert (found.value("a", 100), found.value("b", 100)) == (value, b"2")
    assert (found.closed, found.repeated) == (True, False)


def test_files_are_apart_from_fields() -> None:
    found = parsed(form({"a": "1"}, [("attachment1", "photo.jpg", "image/jpeg", b"\r\n\xff")]))
    (file,) = found.files
    assert (file.name, file.content_type) == ("photo.jpg", "image/jpeg")
    assert file.span.bytes_of(found.body) == b"\r\n\xff"
    assert set(found.fields) == {"a"}


def test_a_boundary_line_within_a_mail_is_text() -> None:
    mail = b'Hello\n--xYzZY\nContent-Disposition: form-data; name="dkim"\n\n{@shop : pass}\n--xYzZY--\n'
    found = parsed(form({"email": mail, "dkim": "none"}))
    assert found.value("email", 1_000) == mail
    assert found.value("dkim", 100) == b"none"
    assert not found.repeated


INJECTED = (
    b'x\r\n--xYzZY\r\nContent-Disposition: form-data; name="dkim"\r\n\r\n{@bank.example : pass}'
)


@pytest.mark.parametrize("ending", [b"", b"\r\n--xYzZY--"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_field_that_a_file_brought_along_is_noticed(ending: bytes, order: int) -> None:
    genuine = form({"dkim": "none"})
    attacked = form({}, [("attachment1", "a.bin", "application/octet-stream", INJECTED + ending)])
    end = b"--xYzZY--\r\n"
    pieces = [genuine.removesuffix(end), attacked.removesuffix(end)][::order]
    assert parsed(b"".join(pieces) + end).repeated


@pytest.mark.parametrize("cut", [1, 5, 20, 60])
def test_a_request_that_was_cut_off_is_noticed(cut: int) -> None:
    body = form({"a": b"1" * 30, "b": b"2" * 30})
    assert not parsed(body[: -cut - 4]).closed


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "multipart/form-data",
        "multipart/mixed; boundary=xYzZY",
        "\x00; \xff",
    ],
)
def test_other_requests_are_no_forms(content_type: str) -> None:
    assert parse_form(content_type, form({"a": "1"})) is None


@given(st.text(), st.binary())
def test_no_request_raises(content_type: str, body: bytes) -> None:
    parse_form(content_type, body)
    parse_form(CONTENT_TYPE, body)


@pytest.mark.parametrize(
    "piece", [b"--xYzZY\r\n", b"--xYzZY", b"\n--xYzZY ", b"\n--xYzZYx", b"-", b"\r\n", b"a: b\n"]
)
def test_hostile_requests_take_linear_time(piece: bytes) -> None:
    assert_linear(lambda body: parse_form(CONTENT_TYPE, b"--xYzZY\r\n" + body), piece, 100_000)
