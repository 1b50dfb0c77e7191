"""Which mails get no answer because machines wrote them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.mail.auto_response import CALENDAR_REPLY, GMAIL_REACTION, Signs, classify
from mailagent.domain.mail.message import MailKind
from tests.cast import ADA, SUPPORT
from tests.growth import assert_linear

REPORT = "multipart/report; boundary=x; report-type="


def kind(**changes: Any) -> MailKind:
    """Classify Ada's letter with changes; keyword `h_x_y` is the header X-Y."""
    headers = {
        name[2:].replace("_", "-"): (value,)
        for name, value in changes.items()
        if name.startswith("h_")
    }
    values: dict[str, Any] = {
        "headers": headers,
        "envelope_from": ADA,
        "from_address": ADA,
        "from_name": "Ada Example",
        "subject": "My kettle is broken",
        "part_types": frozenset({"text/plain"}),
        "own_addresses": (SUPPORT,),
        "reply_domain": "reply.shop.example",
    }
    values |= {name: value for name, value in changes.items() if not name.startswith("h_")}
    return classify(Signs(**values))[0]


MACHINES: list[tuple[dict[str, Any], MailKind]] = [
    ({"from_address": SUPPORT}, MailKind.OWN),
    ({"from_address": "case+abc@reply.shop.example"}, MailKind.OWN),
    ({"h_x_loop": f"<{SUPPORT}>"}, MailKind.OWN),
    ({"h_content_type": REPORT + "feedback-report"}, MailKind.COMPLAINT),
    ({"part_types": {"multipart/report", "message/feedback-report"}}, MailKind.COMPLAINT),
    ({"subject": "complaint about message from 192.0.2.1"}, MailKind.COMPLAINT),
    ({"h_content_type": REPORT + '"delivery-status"'}, MailKind.BOUNCE),
    ({"h_content_type": "multipart/report; boundary=x"}, MailKind.BOUNCE),
    ({"part_types": {"multipart/report", "message/delivery-status"}}, MailKind.BOUNCE),
    ({"from_address": "mailer-daemon@example.com"}, MailKind.BOUNCE),
    ({"from_address": "postmaster@example.com", "envelope_from": ""}, MailKind.BOUNCE),
    ({"from_address": "postmaster@example.com", "subject": "Undeliverable: x"}, MailKind.BOUNCE),
    ({"from_address": "microsoftexchange329e71ec88ae@example.com"}, MailKind.BOUNCE),
    ({"from_address": "", "from_name": "MAILER-DAEMON"}, MailKind.BOUNCE),
    ({"from_name": "Mail Delivery Subsystem"}, MailKind.BOUNCE),
    ({"h_x_failed_recipients": "tess@shop.example"}, MailKind.BOUNCE),
    ({"subject": "Undelivered Mail Returned to Sender"}, MailKind.BOUNCE),
    ({"subject": "Mail delivery failed: returning message to sender"}, MailKind.BOUNCE),
    ({"subject": "failure notice", "envelope_from": ""}, MailKind.BOUNCE),
    ({"from_address": "postmaster@example.com", "subject": "DELIVERY FAILURE: x"}, MailKind.BOUNCE),
    ({"from_address": "postmaster@example.com", "subject": "Failed delivery"}, MailKind.BOUNCE),
    (
        {"from_address": "postmaster@example.com", "envelope_from": "mailer-daemon@example.com"},
        MailKind.BOUNCE,
    ),
    ({"from_address": "post_master@vtext.example", "tells_failure": True}, MailKind.BOUNCE),
    (
        {"from_address": "admin@example.com", "from_name": "InterScan MSS"},
        MailKind.BOUNCE,
    ),
    ({"h_x_mlserver": "fml [fml 4.0.3]"}, MailKind.LIST),
    ({"subject": "failure notice", "part_types": {"text/rfc822-headers"}}, MailKind.BOUNCE),
    ({"subject": "Delivery Status Notification (Failure)"}, MailKind.BOUNCE),
    ({"subject": "Warning: could not send message for past 4 hours"}, MailKind.BOUNCE),
    ({"envelope_from": ""}, MailKind.BOUNCE),
    ({"h_return_path": "<>"}, MailKind.BOUNCE),
    (
        {"h_auto_submitted": "auto-replied", "from_address": "mailer-daemon@example.com"},
        MailKind.BOUNCE,
    ),
    ({"h_content_type": REPORT + "disposition-notification"}, MailKind.AUTO_REPLY),
    ({"h_auto_submitted": "auto-replied"}, MailKind.AUTO_REPLY),
    ({"h_auto_submitted": "Auto-Replied (vacation)"}, MailKind.AUTO_REPLY),
    ({"h_auto_submitted": "auto-generated"}, MailKind.AUTO_REPLY),
    ({"h_auto_submitted": "auto-notified; owner-email=x"}, MailKind.AUTO_REPLY),
    ({"h_auto_submitted": "auto-replied", "envelope_from": ""}, MailKind.AUTO_REPLY),
    ({"h_auto_submitted": "auto-replied", "h_precedence": "bulk"}, MailKind.AUTO_REPLY),
    ({"h_x_autoreply": "yes"}, MailKind.AUTO_REPLY),
    ({"h_x_autorespond": "away"}, MailKind.AUTO_REPLY),
    ({"h_precedence": "auto_reply"}, MailKind.AUTO_REPLY),
    ({"h_x_loop": "somebody@example.com"}, MailKind.AUTO_REPLY),
    ({"subject": "Automatic reply - My order"}, MailKind.AUTO_REPLY),
    ({"subject": "[Auto-Reply] Re: My order"}, MailKind.AUTO_REPLY),
    ({"subject": "Automatic reply: Your kettle"}, MailKind.AUTO_REPLY),
    ({"subject": "Out of Office AutoReply: Your kettle"}, MailKind.AUTO_REPLY),
    ({"subject": "Out of Office: Your kettle", "h_in_reply_to": "<o-1@x>"}, MailKind.AUTO_REPLY),
    ({"subject": "Nieobecność: czajnik", "h_references": "<o-1@x>"}, MailKind.AUTO_REPLY),
    ({"subject": "Automatische Antwort: Ihr Kessel"}, MailKind.AUTO_REPLY),
    ({"subject": "Abwesenheitsnotiz: Ihr Kessel"}, MailKind.AUTO_REPLY),
    ({"subject": "Réponse automatique : Votre bouilloire"}, MailKind.AUTO_REPLY),
    ({"subject": "Respuesta automática: x"}, MailKind.AUTO_REPLY),
    ({"subject": "自動返信: x"}, MailKind.AUTO_REPLY),
    ({"subject": "Automatic reply"}, MailKind.AUTO_REPLY),
    ({"subject": "Automatic response: x", "h_in_reply_to": "<o-1@x>"}, MailKind.AUTO_REPLY),
    ({"subject": "Re: Out of office: Your refund"}, MailKind.AUTO_REPLY),
    ({"subject": "AUTO: Ada is out of the office (returning 12/01)"}, MailKind.AUTO_REPLY),
    ({"subject": "AUTO: Ada is out of the office until Monday"}, MailKind.AUTO_REPLY),
    ({"subject": "Ada Example is out of the office (returning 12/01/2026)"}, MailKind.AUTO_REPLY),
    ({"subject": "Ada ist nicht im Büro (Rückkehr am 01.12.2026)"}, MailKind.AUTO_REPLY),
    ({"part_types": {"text/plain", CALENDAR_REPLY}}, MailKind.AUTO_REPLY),
    ({"part_types": {"text/plain", "text/html", GMAIL_REACTION}}, MailKind.AUTO_REPLY),
    ({"subject": "Absence : Votre bouilloire", "h_in_reply_to": "<o-1@x>"}, MailKind.AUTO_REPLY),
    ({"subject": "Poissa: Keitin", "h_references": "<o-1@x>"}, MailKind.AUTO_REPLY),
    ({"h_list_id": "<kettles.lists.example>"}, MailKind.LIST),
    ({"h_list_unsubscribe": "<mailto:off@example.com>"}, MailKind.LIST),
    ({"h_precedence": "bulk"}, MailKind.LIST),
    ({"h_precedence": "List"}, MailKind.LIST),
    ({"from_address": "kettles-request@lists.example"}, MailKind.LIST),
    ({"from_address": "kettles-bounces@lists.example"}, MailKind.LIST),
    ({"from_address": "noreply@example.com"}, MailKind.NO_REPLY),
    ({"from_address": "no-reply@example.com"}, MailKind.NO_REPLY),
    ({"from_address": "orders.no_reply+17@example.com"}, MailKind.NO_REPLY),
    ({"from_address": "do-not-reply@example.com"}, MailKind.NO_REPLY),
    ({"from_address": "donotreply@example.com"}, MailKind.NO_REPLY),
    (
        {"from_address": "notifications@example.com", "envelope_from": "bounces+17@example.com"},
        MailKind.NO_REPLY,
    ),
    (
        {"from_address": "owner-kettles@x.example", "envelope_from": "kettles-bounces@x.example"},
        MailKind.NO_REPLY,
    ),
    ({"from_address": "nicht-antworten@example.com"}, MailKind.NO_REPLY),
    ({"from_address": ""}, MailKind.MALFORMED),
]


# What the mail programs of these languages write before the subject that they answer.
AUTOMATIC_REPLIES = """
Automatic reply · Automated response · Auto-Reply · Automatische Antwort · Automatische reactie
Automatisch antwoord · Réponse automatique · Respuesta automática · Resposta automática
Resposta automàtica · Risposta automatica · Răspuns automat · Erantzun automatikoa · Autosvar
Automatiskt svar · Automatisk svar · Sjálfvirkt svar · Automaattinen vastaus · Automaatvastus
Automātiskā atbilde · Automatinis atsakymas · Odpowiedź automatyczna · Automatyczna odpowiedź
Automatická odpověď · Automatická odpoveď · Automatikus válasz · Samodejni odgovor
Automatski odgovor · Аутоматски одговор · Автоматичен отговор · Автоматический ответ · Автоответ
Автоматична відповідь · Аўтаматычны адказ · Αυτόματη απάντηση · Otomatik yanıt · Avtomatik cavab
Автоматты жауап · Avtomatik javob · Ավտոմատ պատասխան · ავტომატური პასუხი · Përgjigje automatike
תשובה אוטומטית · מענה אוטומטי · رد تلقائي · الرد التلقائي · پاسخ خودکار · स्वचालित उत्तर
স্বয়ংক্রিয় উত্তর · การตอบกลับอัตโนมัติ · Trả lời tự động · Thư trả lời tự động · Balasan otomatis
Balasan automatik · Awtomatikong tugon · Jibu otomatiki · Outomatiese antwoord
自动答复 · 自动回复 · 自動回覆 · 自動答覆 · 自動返信 · 自動応答 · 자동 회신 · 자동 응답
"""


@pytest.mark.parametrize("words", re.split(r" · |\n", AUTOMATIC_REPLIES.strip()))
@pytest.mark.parametrize("rest", ["", ": Your kettle", " : Votre bouilloire", "：ケトル"])
def test_automatic_replies_are_recognised_by_their_subject(words: str, rest: str) -> None:
    assert kind(subject=words + rest) is MailKind.AUTO_REPLY


@pytest.mark.parametrize(("signs", "expected"), MACHINES)
def test_machines_are_recognised(signs: dict[str, Any], expected: MailKind) -> None:
    assert kind(**signs) is expected


PEOPLE: list[dict[str, Any]] = [
    {},
    {"envelope_from": None},
    {"h_auto_submitted": "no"},
    {"h_auto_submitted": "No (really)"},
    {"h_auto_submitted": ""},
    {"h_x_auto_response_suppress": "All"},
    {"h_precedence": "normal"},
    {"h_precedence": "first-class"},
    {"h_x_autoreply": "no"},
    {"subject": "Re: Automatic reply: Your kettle", "h_in_reply_to": "<o-1@shop.example>"},
    {"subject": "Undeliverable: parcel W1001"},
    {"subject": "Failure notice"},
    {"subject": "Mail delivery failed: my parcel W1001 never arrived"},
    {"subject": "Automatic reply did not help me"},
    {"subject": "Autoresponder keeps answering, I want my money"},
    {"subject": "Out of the office when the courier came"},
    {"subject": "Out of office: please deliver to the neighbour"},
    {"subject": "Fuori sede: consegna fallita"},
    {"subject": "Respuesta a su mensaje automático"},
    {"subject": "Kaffeevollautomat: keine Antwort von Ihnen"},
    {"subject": "Automatic umbrella: no reply since Monday"},
    {"subject": "Automatic answering machine"},
    {"subject": "Machine à café automatique : réponse ?"},
    {"subject": "Automatikuhr Antwort"},
    {"subject": "Antwort Automat"},
    {"subject": "Automatic response: kettle"},
    {"subject": "Re: Antwort Automat: Kaffee"},
    {"subject": "Nobody is out of the office (returning my kettle)"},
    {"subject": "Delivery failure: my parcel W1001"},
    {"tells_failure": True},
    {"part_types": {"text/plain", "text/calendar"}},
    {"subject": "Niet aanwezig bij bezorging"},
    {"subject": "Poissa paketista: keitin W1001"},
    {"subject": "Absence : le livreur n'est pas venu"},
    {"subject": "Fravær af kedel i pakken"},
    {"subject": "Fravær af kedel", "h_in_reply_to": "<o-1@shop.example>"},
    {"subject": "Complaint about message from your driver"},
    {"from_address": "mailer@example.com"},
    {"from_address": "notifications@example.com", "envelope_from": "notifications@example.com"},
    {"from_address": "bounce@example.com", "envelope_from": "bounce@example.com"},
    {"from_address": "owner-kiosk@example.com"},
    {"from_address": "postmaster@example.com", "envelope_from": "postmaster@example.com"},
    {"part_types": {"text/plain", "message/delivery-status"}},
    {"part_types": {"text/plain", "message/feedback-report"}},
    {"subject": "AW: Abwesenheitsnotiz"},
    {"subject": "Re: Undelivered Mail Returned to Sender"},
    {"subject": "I was out of the office when the courier came"},
    {"subject": "Returned mail order"},
    {"subject": "Failure notice on my kettle"},
    {"subject": "Absent lid"},
    {"from_address": "noreen@example.com"},
    {"from_address": "norbert.replyson@example.com"},
    {"from_address": "nora-respondek@example.com"},
    {"from_address": "info@example.com"},
    {"from_address": "webhook_sender@example.com"},
    {"from_address": "post@master.example"},
    {"from_address": "listowner@example.com"},
    {"from_address": "case+abc@other.example"},
    {"from_address": "tess@shop.example"},
    {"from_address": ADA, "from_name": SUPPORT},
    {"from_name": "Interscania AB"},
    {"from_name": "Mail Delivery Service Ltd"},
    {"part_types": {"text/plain", "message/rfc822"}},
    {"h_content_type": "multipart/mixed; boundary=x"},
]


OUR_GROUP = {
    "h_list_id": "Help <help.shop.example>",
    "h_precedence": "list",
    "h_mailing_list": "list help@shop.example; contact help+owners@shop.example",
    "h_list_post": "<mailto:help@shop.example>",
    "h_x_beenthere": "help@shop.example",
    "envelope_from": "help+bncBC1@shop.example",
}
REWRITTEN = {"from_address": "help@shop.example", "h_x_original_from": f"Ada <{ADA}>"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"h_list_id": "<help.lists.shop.example>"},
        {"h_list_id": "<reply.shop.example>"},
        {"h_list_id": "help.shop.example <HELP.shop.example> "},
    ],
)
def test_a_customer_who_writes_to_a_list_of_ours_is_a_customer(changes: dict[str, Any]) -> None:
    assert kind(**OUR_GROUP | changes) is MailKind.CUSTOMER


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"h_list_id": "<help.evilshop.example>"}, MailKind.LIST),
        ({"h_list_id": "<help.shop.example.evil.example>"}, MailKind.LIST),
        ({"h_list_id": "<shop.example.googlegroups.com>"}, MailKind.LIST),
        ({"h_list_id": "help.shop.example"}, MailKind.LIST),
        ({"h_list_id": ""}, MailKind.LIST),
        ({"from_address": "news@shop.example"}, MailKind.LIST),
        ({"from_address": "news@mail.shop.example"}, MailKind.LIST),
        ({"h_precedence": "bulk"}, MailKind.LIST),
        ({"h_auto_submitted": "auto-replied"}, MailKind.AUTO_REPLY),
        ({"from_address": "no-reply@example.com"}, MailKind.NO_REPLY),
        ({"from_address": SUPPORT}, MailKind.OWN),
        (REWRITTEN, MailKind.LIST),
        (REWRITTEN | {"from_address": SUPPORT}, MailKind.LIST),
    ],
)
def test_what_else_comes_by_a_list_is_not_answered(
    changes: dict[str, Any], expected: MailKind
) -> None:
    assert kind(**OUR_GROUP | changes) is expected


@pytest.mark.parametrize("signs", PEOPLE)
def test_people_are_not_taken_for_machines(signs: dict[str, Any]) -> None:
    assert kind(**signs) is MailKind.CUSTOMER


def test_a_hostile_content_type_takes_linear_time() -> None:
    def read(spaces: str) -> None:
        kind(headers={"content-type": (f"{REPORT}{spaces}",)})

    assert_linear(read, " ", 2_000)


def test_the_rule_is_named() -> None:
    signs = Signs({"auto-submitted": ("auto-replied",)}, ADA, ADA, "", "", (), (), "shop.example")
    assert classify(signs) == (MailKind.AUTO_REPLY, "Auto-Submitted: auto-replied")


@given(st.dictionaries(st.text(), st.lists(st.text(), max_size=2)), st.text(), st.text(), st.text())
def test_no_sign_raises(
    headers: dict[str, list[str]], envelope_from: str, address: str, subject: str
) -> None:
    classify(Signs(headers, envelope_from, address, subject, subject, (), (SUPPORT,), "x.example"))
