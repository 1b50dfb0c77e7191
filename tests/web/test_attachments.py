"""Files on the manager's page: listed with name, type and size, saved by the signed link only."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import timedelta
from email.message import EmailMessage

import pytest
from PIL import Image

from mailagent import services
from mailagent.adapters.links import Links
from mailagent.adapters.mime.attachment import DOWNLOAD_MAX_BYTES
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store.console import sessions
from mailagent.store.mail import raw_mail
from mailagent.store.refunds import refunds
from mailagent.web.approvals.attachments import ShownFile, count_files
from mailagent.workflows.steps.maintenance.housekeeping import make_previews
from mailagent.workflows.steps.maintenance.sweep import purge_raw_mail
from tests.adapters.parse_requests import common_fields, form, raw_request
from tests.cast import ADA, GRACE, MAX, MONA, NOW, SUPPORT, TESS, a_photo
from tests.harness import Harness
from tests.web.mail_with_files import JPEG, Desk, ask, mail_with


@pytest.fixture
def desk(shop: Harness) -> Desk:
    files = ("photo.jpg", "image/jpeg", JPEG), ("Küche.html", "text/html", b"<h1>Approved</h1>")
    return ask(shop, mail_with(*files))


def test_files_are_listed_with_name_type_and_size(desk: Desk) -> None:
    page = desk.page()
    for shown in ("photo.jpg", "image/jpeg, 870 Bytes", "Küche.html", "text/html, 17 Bytes"):
        assert shown in page
    assert "sender not proven" not in page


def test_every_listed_link_leads_to_its_file(desk: Desk) -> None:
    links = re.findall(r'href="(/approvals/[^"]+)"', desk.page())
    assert [desk.shop.client.get(link).data for link in links] == [JPEG, b"<h1>Approved</h1>"]


def test_a_file_is_only_ever_saved(desk: Desk) -> None:
    response = desk.get(1)
    assert (response.status_code, response.data) == (200, b"<h1>Approved</h1>")
    assert (
        dict(response.headers).items()
        >= {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": (
                "attachment; filename=\"K_che.html\"; filename*=UTF-8''K%C3%BCche.html"
            ),
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "Cache-Control": "no-store",
        }.items()
    )
    assert len(response.headers.getlist("Content-Security-Policy")) == 1


def test_a_photo_is_shown_as_a_picture_of_ours(shop: Harness) -> None:
    photo = a_photo()
    desk = ask(shop, mail_with(("crack.jpg", "image/jpeg", photo), ("a.png", "image/png", JPEG)))
    (source,) = set(re.findall(r'src="(/approvals/[^"]+)"', desk.page()))
    awaited = shop.client.get(source)
    assert (awaited.status_code, awaited.content_type[:13]) == (200, "image/svg+xml")
    assert "The preview is being made" in awaited.text
    assert [make_previews(), make_previews()] == [1, 0]  # once, and kept
    shown = shop.client.get(source)
    assert (shown.status_code, shown.content_type) == (200, "image/jpeg")
    assert shown.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert Image.open(io.BytesIO(shown.data)).size == (640, 480)
    assert b"taken at home" in photo
    assert b"taken at home" not in shown.data
    assert desk.get(0).data == photo


def test_a_photo_without_a_preview_says_why_and_is_saved_all_the_same(shop: Harness) -> None:
    broken = a_photo()[:12_000]
    desk = ask(shop, mail_with(("crack.jpg", "image/jpeg", broken)))
    assert make_previews() == 1
    (source,) = set(re.findall(r'src="(/approvals/[^"]+)"', desk.page()))
    shown = shop.client.get(source)
    assert (shown.status_code, shown.content_type[:13]) == (404, "image/svg+xml")
    assert "No preview:" in shown.text
    assert "broken" in shown.text
    assert desk.get(0).data == broken


def test_a_photo_that_ended_its_worker_is_not_tried_again(shop: Harness) -> None:
    desk = ask(shop, mail_with(("crack.jpg", "image/jpeg", a_photo())))
    with shop.live.database.transaction() as connection:
        assert raw_mail.begin_preview(connection, desk.mail_id, 0, shop.live.now())
    assert make_previews() == 0
    (row,) = shop.rows("SELECT picture, problem FROM photo_previews")
    assert (row.picture, row.problem) == (None, raw_mail.INTERRUPTED)


def test_photos_of_proven_senders_come_before_those_of_strangers(shop: Harness) -> None:
    desk = ask(shop, mail_with(("crack.jpg", "image/jpeg", a_photo())))
    stranger = mail_with(("x.jpg", "image/jpeg", a_photo()), message_id="m2@example.com")
    unproven = stranger.replace(b"\r\npass\r\n", b"\r\nfail\r\n")
    assert shop.post_inbound(unproven).status_code == 200
    identities = shop.rows("SELECT identity FROM inbound_mails ORDER BY received_at")
    assert [row.identity for row in identities] == ["spf", "none"]
    with shop.live.database.snapshot() as connection:
        assert len(raw_mail.list_without_previews(connection, 9)) == 2
        assert raw_mail.list_without_previews(connection, 1) == [desk.mail_id]


def test_previews_go_with_the_raw_mail(shop: Harness) -> None:
    ask(shop, mail_with(("crack.jpg", "image/jpeg", a_photo())))
    assert make_previews() == 1
    later = shop.live.now() + timedelta(days=30, minutes=1)
    services.bind(replace(shop.live, now=lambda: later))
    assert purge_raw_mail() == 1
    assert shop.rows("SELECT * FROM photo_previews") == []


def test_only_the_managers_own_link_shows_photos(shop: Harness) -> None:
    desk = ask(shop, mail_with(("crack.jpg", "image/jpeg", a_photo())))
    path = f"{desk.link()}/photos/{desk.mail_id}/0"
    assert shop.client.get(path).status_code == 200
    assert shop.client.get(path.replace(desk.mail_id, "mail_other")).status_code == 404
    assert shop.client.get(path.replace("/approvals/", "/approvals/x")).status_code == 404
    stranger = f"{desk.link('left@shop.example')}/photos/{desk.mail_id}/0"
    assert shop.client.get(stranger).status_code == 403


def test_files_of_parsed_mode_are_handed_out(shop: Harness) -> None:
    headers = f"From: {ADA}\nTo: {SUPPORT}\nSubject: My desk\nMessage-ID: <m1@example.com>\n"
    fields = {"headers": headers, "text": "It wobbles.", **common_fields()}
    desk = ask(shop, form(fields, [("attachment1", "../../a.jpg", "image/jpeg", JPEG)]))
    response = desk.get()
    assert response.data == JPEG
    assert 'filename="a.jpg"' in response.headers["Content-Disposition"]


def test_files_of_later_mail_in_the_conversation_are_listed_too(desk: Desk) -> None:
    later = mail_with(("second.png", "image/png", b"png"), message_id="m2@example.com")
    later = later.replace(b"Subject:", b"In-Reply-To: <m1@example.com>\nSubject:")
    desk.shop.post_inbound(later)
    (mail,) = desk.shop.rows(
        "SELECT mail_id, conversation_id FROM inbound_mails WHERE message_id = 'm2@example.com'"
    )
    assert mail.conversation_id == desk.conversation_id
    page = desk.page()
    assert page.index("photo.jpg") < page.index("second.png")
    assert desk.get(0, mail.mail_id).data == b"png"


def test_a_mail_of_another_conversation_is_not_there(desk: Desk) -> None:
    other = mail_with(("secret.pdf", "application/pdf", b"%PDF"), sender=GRACE, message_id="g@x.y")
    desk.shop.post_inbound(other)
    (mail,) = desk.shop.rows("SELECT mail_id FROM inbound_mails WHERE message_id = 'g@x.y'")
    assert "secret.pdf" not in desk.page()
    refused = desk.get(0, mail.mail_id)
    missing = desk.get(0, "mail_0")
    assert refused.status_code == missing.status_code == 404
    assert refused.text == missing.text
    assert "does not work" in refused.text


@pytest.mark.parametrize("number", ["2", "-1", "x", "1.0", "²", "0x0", "9" * 5000, "0/1", "%00"])
def test_a_number_that_is_not_listed_is_not_there(desk: Desk, number: str) -> None:
    assert desk.get(number).status_code == 404
    assert desk.get(0, f"mail_{number}").status_code == 404


def test_a_tampered_or_foreign_link_gives_nothing(desk: Desk) -> None:
    foreign = Links(["another key"], "").sign_approval(desk.approval_id, MONA)
    unknown = desk.shop.live.links.sign_approval("approval_none", MONA).replace(
        desk.shop.live.shop.public_url, ""
    )
    for bad in (desk.link()[:-1], desk.link() + "A", foreign, unknown, "/approvals/nonsense"):
        response = desk.shop.client.get(f"{bad}/attachments/{desk.mail_id}/0")
        assert response.status_code == 404, bad
        assert "does not work" in response.text
        assert "Content-Disposition" not in response.headers


def test_only_get_and_head_are_answered(desk: Desk) -> None:
    path = f"{desk.link(MAX)}/attachments/{desk.mail_id}/0"
    head = desk.shop.client.head(path)
    assert (head.status_code, head.data) == (200, b"")
    assert desk.shop.client.post(path).status_code in (400, 405)


def test_a_file_above_the_limit_is_named_and_not_handed_out(shop: Harness) -> None:
    desk = ask(shop, mail_with(("film.mp4", "video/mp4", b"x" * (DOWNLOAD_MAX_BYTES + 1))))
    page = desk.page()
    assert "film.mp4" in page
    assert "(not kept for download: too large)" in page
    assert "video/mp4, 10.0 MB" in page
    assert "/attachments/" not in page
    assert desk.get().status_code == 404
    assert len(shop.rows("SELECT body FROM raw_mails")[0].body) > DOWNLOAD_MAX_BYTES


def test_a_purged_file_is_named_and_said_to_be_gone(desk: Desk) -> None:
    later = desk.shop.live.now() + timedelta(days=30, minutes=1)
    services.bind(replace(desk.shop.live, now=lambda: later))
    assert purge_raw_mail() == 1
    page = desk.page()
    assert "photo.jpg" in page
    assert "(no longer kept)" in page
    assert "/attachments/" not in page
    gone = desk.get()
    assert gone.status_code == 410
    assert "no longer kept" in gone.text
    assert "30 days" in gone.text
    assert gone.headers["Cache-Control"] == "no-store"
    assert desk.get(2).status_code == 404


@pytest.mark.parametrize(("days", "status"), [(6.9, 200), (7.1, 410)])
@pytest.mark.parametrize("closed_by", ["a decision", "its date"])
def test_links_show_photos_and_files_for_a_week_after_a_refund_was_closed(
    shop: Harness, closed_by: str, days: float, status: int
) -> None:
    desk = ask(shop, mail_with(("crack.jpg", "image/jpeg", a_photo())))
    closed_at = shop.live.now()
    if closed_by == "its date":
        closed_at += timedelta(days=60)
    else:
        with shop.live.database.transaction() as connection:
            refund = refunds.lock(connection, "refund_1")
            refunds.move(
                connection, refund, RefundStatus.REJECTED, decided_by=MONA, decided_at=closed_at
            )
    assert desk.get().status_code == 200
    later = closed_at + timedelta(days=days)
    services.bind(replace(shop.live, now=lambda: later))
    photo = f"{desk.link()}/photos/{desk.mail_id}/0"
    assert (desk.get().status_code, shop.client.get(photo).status_code) == (status, status)


def test_a_sender_who_is_not_proven_is_named_as_such(shop: Harness) -> None:
    desk = ask(
        shop,
        mail_with(("a.jpg", "image/jpeg", JPEG))
        .replace(b": pass}", b": fail}")
        .replace(b"\r\n\r\npass\r\n", b"\r\n\r\nsoftfail\r\n"),
    )
    assert "sender not proven" in desk.page()


def test_hostile_names_are_harmless_on_the_page(shop: Harness) -> None:
    name = "\u202egpj.<b onclick=x>photo\u0007.exe"
    page = ask(shop, mail_with((name, "image/jpeg", JPEG))).page()
    assert "gpj._b onclick=x_photo.exe" in page
    assert "<b onclick" not in page


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("Re.eml", "application/octet-stream"),
        ("a.MSG", "text/plain"),
        ("winmail.dat", "x/y"),
    ],
)
def test_an_attached_mail_is_named_and_not_handed_out(
    shop: Harness, name: str, content_type: str
) -> None:
    desk = ask(shop, mail_with((name, content_type, b"From: Mona")))
    assert name in desk.page()
    assert "(not handed out: a mail may hold a link that decides)" in desk.page()
    assert desk.get().status_code == 404
    page = shop.log_in(TESS).get(f"/ops/conversations/{desk.conversation_id}").text
    assert "a mail may hold a link that decides" in page
    assert "/attachments/" not in page


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_forwarded_mail_is_not_handed_out(shop: Harness) -> None:
    forwarded = EmailMessage()
    forwarded["Subject"] = "Please decide"
    forwarded.set_content("https://shop.example/approvals/…")
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = ADA, SUPPORT, "My desk"
    message.set_content("See the attached mail.")
    message.add_attachment(forwarded)
    desk = ask(shop, raw_request(message.as_bytes()))
    assert "a mail may hold a link that decides" in desk.page()
    assert desk.get().status_code == 404


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("sender", [MONA, "Mona+private@shop.example"])
def test_no_file_of_the_shops_own_people_is_handed_out(shop: Harness, sender: str) -> None:
    desk = ask(shop, mail_with(("crack.jpg", "image/jpeg", a_photo()), sender=sender))
    client = shop.log_in(TESS)
    thread = f"/ops/conversations/{desk.conversation_id}"
    assert (
        "mail of the shop&#39;s own people may hold a link that decides" in client.get(thread).text
    )
    for kind in ("attachments", "photos"):
        assert client.get(f"{thread}/{kind}/{desk.mail_id}/0").status_code == 404
        assert shop.client.get(f"{desk.link(MAX)}/{kind}/{desk.mail_id}/0").status_code == 404


def test_a_file_that_holds_a_working_link_is_kept_back(shop: Harness) -> None:
    saved = f"<a href='{shop.live.links.sign_approval('approval_1', MONA)}'>decide</a>".encode()
    secret = sessions.new_secret()
    now = shop.live.now()
    with shop.live.database.transaction() as connection:
        sessions.record_link(connection, secret, MONA, "/ops", now, now + timedelta(minutes=9))
    files = [("a.html", saved), ("b.txt", f"({secret})".encode()), ("c.txt", b"My desk wobbles.")]
    desk = ask(shop, mail_with(*((name, "application/pdf", data) for name, data in files)))
    client, thread = shop.log_in(TESS), f"/ops/conversations/{desk.conversation_id}"
    for number, status in enumerate((403, 403, 200)):
        theirs = client.get(f"{thread}/attachments/{desk.mail_id}/{number}")
        for response in (desk.get(number), theirs):
            assert response.status_code == status
            assert ("may contain a secret link" in response.text) is (status == 403)


# --- file count -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ((), ""),
        (("image/jpeg",), "1 photo"),
        (("image/jpeg", "image/png"), "2 photos"),
        (("application/pdf",), "1 file"),
        (("image/png", "application/pdf"), "1 photo, 1 file"),
        (("image/png", "text/plain", "application/pdf"), "1 photo, 2 files"),
    ],
)
def test_photos_are_counted_apart_from_other_files(types: tuple[str, ...], words: str) -> None:
    files = [ShownFile("mail_1", 0, "x", each, 1000, NOW, True, "") for each in types]
    assert count_files(files) == words
