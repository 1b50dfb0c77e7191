"""Which mails get no answer, because machines wrote them: one table of rules (RFC 3834).

Pure. A weak sign, such as a subject that people write too, needs a second sign: a customer who gets no
answer is worse than a machine that gets one. The loop guard stops the loops that remain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from mailagent.domain.mail.message import Door, MailKind

READ_RECEIPT = "read receipt"
NULL_RETURN_PATH = "null return path"
REWRITTEN_BY_LIST = "a list of ours put its own address into From"
CALENDAR_REPLY = "text/calendar; method=reply"  # among `Signs.part_types`
GMAIL_REACTION = "text/vnd.google.email-reaction+json"


@dataclass(frozen=True, slots=True)
class Signs:
    """The facts of a mail by which `classify` decides who wrote it.

    `headers` have lower-case names. `envelope_from` is empty for the null return path and None if
    unknown. `from_name` is the display name, or the whole From field if that has no address.
    `part_types` are the media types of the mail's own parts, and perhaps `CALENDAR_REPLY`. We send from
    `own_addresses`; our reply addresses are in `reply_domain`. `tells_failure`: the text has the status
    code or the words by which mail systems report that a mail did not arrive.
    """

    headers: Mapping[str, Sequence[str]]
    envelope_from: str | None
    from_address: str
    from_name: str
    subject: str
    part_types: Collection[str]
    own_addresses: Collection[str]
    reply_domain: str
    tells_failure: bool = False

    def header(self, name: str) -> str:
        """Return the first value of a header, trimmed and lower-case; empty if there is none."""
        values = self.headers.get(name, ())
        return values[0].strip().lower() if values else ""

    @property
    def local_part(self) -> str:
        return self.from_address.rpartition("@")[0]

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip()

    @property
    def report_type(self) -> str:
        match = _REPORT_TYPE.search(self.header("content-type"))
        return match[1] if match else ""


_REPORT_TYPE = re.compile(r"report-type\s*+=\s*+\"?\s*+([a-z-]{1,40})")
_DAEMON_LOCAL_PART = re.compile(
    r"(?:mailer|mail)[-_.]?daemon\b.*|mdaemon|mail[-_.]?delivery\b.*|microsoftexchange[0-9a-f]{6,}"
)
# A person may write from it, so that a rule needs a second sign.
_POSTMASTER_LOCAL_PART = re.compile(r"po+st[-_.]?master")
_DAEMON_NAME = re.compile(
    r"mailer[- ]daemon|mail delivery (?:sub)?system|(?:internet )?mail delivery\Z|delivery subsystem"
    r"|mail delivery service\Z|\binterscan\b"
)
# Only with a second sign: customers write of deliveries that failed.
_BOUNCE_SUBJECT = re.compile(
    r"undeliver(?:ed|able)\b|delivery[ _](?:failure|status notification|notification: delivery has failed)"
    r"|mail delivery (?:failed|failure)|mail system error|returned mail:|failure notice\Z|failed delivery"
    r"|(?:mail|message) (?:could not be|was not|not) delivered|unzustellbar|non remis|onbestelbaar"
    r"|no se puede entregar|impossibile recapitare|niedostarczona wiadomość|nedoručitelné|недоставлен"
    r"|メッセージを配信できません|配信不能|配信失敗|无法传递|無法傳遞|未传递的|배달되지 않음|배달되지 못함"
    r"|warning: (?:could not send message|message .{1,60} delayed)"
)
# Whole subjects as only mail systems write them.
_WHOLE_BOUNCE_SUBJECT = re.compile(
    r"undelivered mail returned to sender|mail delivery failed: returning message to sender"
    r"|delivery status notification ?\((?:failure|delay)\)"
    r"|returned mail: (?:see transcript for details|user unknown)"
    r"|mail system error - returned mail|warning: message \S{6,40} delayed \d{1,4} hours"
    r"|warning: could not send message for past \d{1,4} (?:hours?|days?)"
)
_COMPLAINT_SUBJECT = re.compile(r"complaint about message from \[?[0-9a-f]*[.:][0-9a-f.:]+\]?")
# What mail programs write for "automatic reply". It stands before a colon, or is the whole subject:
# people write "Automatic reply did not help me".
_AUTOMATIC_REPLY = (
    r"(?:auto[ -]?(?:reply|response|responder)|automatic reply|automated (?:reply|response)"
    r"|automatische antwort|automatische reactie|automatisch antwoord|outomatiese antwoord"
    r"|réponse automatique|respuesta automática|resposta automática|resposta automàtica"
    r"|risposta automatica|răspuns automat|raspuns automat|erantzun automatikoa|përgjigje automatike"
    r"|autosvar|automatiskt svar|automatisk svar|sjálfvirkt svar|automaattinen vastaus|automaatvastus"
    r"|automātiskā atbilde|automatinis atsakymas|odpowiedź automatyczna|automatyczna odpowiedź"
    r"|automatická odpověď|automatická odpoveď|automatikus válasz|samodejni odgovor"
    r"|automatski odgovor|аутоматски одговор|автоматичен отговор|автоматический ответ|автоответ"
    r"|автоматична відповідь|аўтаматычны адказ|αυτόματη απάντηση|otomatik yanıt|avtomatik cavab"
    r"|автоматты жауап|avtomatik javob|ավտոմատ պատասխան|ავტომატური პასუხი"
    r"|תשובה אוטומטית|מענה אוטומטי|رد تلقائي|الرد التلقائي|پاسخ خودکار|स्वचालित उत्तर|স্বয়ংক্রিয় উত্তর"
    r"|การตอบกลับอัตโนมัติ|(?:thư )?trả lời tự động|balasan otomatis|balasan automatik"
    r"|awtomatikong tugon|jibu otomatiki|自动(?:答复|回复)|自動(?:回覆|答覆|返信|応答)|자동 ?(?:회신|응답))"
)
_NOTICE_OF_ABSENCE = (
    r"(?:out of (?:the )?office auto[ -]?reply|abwesenheits(?:notiz|assistent|nachricht))"
)
# IBM Notes: "AUTO: Ada is out of the office", "Ada is out of the office (returning 12/01/2026)".
_IS_OUT = r".{1,200} (?:is out of the office|ist außer haus|ist nicht im büro|est absente?|è fuori ufficio)\b"
_OUT_IN_NOTES = re.compile(
    rf"auto: {_IS_OUT}"
    rf"|{_IS_OUT} ?\((?:returning|rückkehr|retour|di ritorno)\b[^()\d]{{0,40}}\d[^()]{{0,40}}\)\.?\Z"
)
_AUTO_REPLY_SUBJECT = re.compile(
    rf"[\[(]?(?:{_AUTOMATIC_REPLY}|{_NOTICE_OF_ABSENCE})(?:[\])].*|\s{{0,3}}[:：].*|\s{{1,3}}[-–—]\s.*|\s{{0,3}})\Z"
)
# Some programs put "Re:" before it, but have no In-Reply-To or References. A person's answer has one of them.
_ANSWERED_AUTO_REPLY_SUBJECT = re.compile(
    rf"(?:re|aw|sv|antw)\s?: ?(?:{_AUTOMATIC_REPLY}|{_NOTICE_OF_ABSENCE}|out of (?:the )?office)\s{{0,3}}[:：]"
)
# Customers use these words, too ("out of office: leave it with the neighbour"). They count only in an answer
# to a mail.
_LIKELY_SUBJECT = re.compile(
    r"(?:automatic response|out of (?:the )?office|absen[ct]e?(?: du bureau)?"
    r"|abwesenheit|afwezigheid|afwezig|niet aanwezig"
    r"|fuera de la oficina|ausente|fuori (?:sede|ufficio)|ausência(?: temporária)?|frånvaro|fravær|poissa"
    r"|nieobecność|nepřítomnost|вне офиса|отсутствие|ofis dışında|不在)\s{0,3}(?:[:：]|\Z)"
)
_LIST_LOCAL_PART = re.compile(r".+-(?:request|bounces?)|bounces?[+=_-].+")
_NO_REPLY_LOCAL_PART = re.compile(
    r"(?:.*[-_.+])?(?:no|not|donot|do[-_.]not|dont)[-_.]?(?:reply|respond|answer)(?:[-_.+\d].*)?"
    r"|(?:.*[-_.])?(?:nicht[-_.]?antworten|keine[-_.]?antwort|ne[-_.]?pas[-_.]?repondre)(?:[-_.].*)?"
    r"|(?:.*[-_.])?(?:no[-_.]?responder|nao[-_.]?responda|non[-_.]?rispondere)(?:[-_.].*)?"
    r"|auto[-_.]?(?:confirm|reply|mailer|responder)"
)
# These may also be a surname or a kiosk's mailbox. They count only beside a return path of a program.
_ROLE_LOCAL_PART = re.compile(r"(?:.*[-_.])?notifications?|mailer|bounces?|owner-.+")


def classify(signs: Signs) -> tuple[MailKind, str | None]:
    """Return the kind of a mail and the first rule of `_RULES` that fits; CUSTOMER and None if none does.

    No rule looks at X-Auto-Response-Suppress, because Outlook sets it on mail that people wrote.
    """
    for kind, reason, fits in _RULES:
        if fits(signs):
            return kind, reason
    return MailKind.CUSTOMER, None


def _fits(pattern: re.Pattern[str], local_part: str) -> bool:
    return bool(local_part) and bool(pattern.fullmatch(local_part))


def _is_own(signs: Signs) -> bool:
    local_part, _at, domain = signs.from_address.rpartition("@")
    token = local_part.startswith(tuple(f"{door.value}+" for door in Door))
    return signs.from_address in signs.own_addresses or (token and domain == signs.reply_domain)


def _names_own_loop(signs: Signs) -> bool:
    return any(address in signs.header("x-loop") for address in signs.own_addresses)


def _is_complaint(signs: Signs) -> bool:
    return (
        signs.report_type == "feedback-report"
        or (_is_report(signs) and "message/feedback-report" in signs.part_types)
        or bool(_COMPLAINT_SUBJECT.fullmatch(signs.subject.strip().lower()))
    )


def _is_report(signs: Signs) -> bool:
    return signs.media_type == "multipart/report" or "multipart/report" in signs.part_types


def _has_delivery_status(signs: Signs) -> bool:
    # Outside a report it is an attachment: customers forward bounces that they got.
    return signs.report_type == "delivery-status" or (
        _is_report(signs) and not _STATUS_TYPES.isdisjoint(signs.part_types)
    )


_STATUS_TYPES = frozenset({"message/delivery-status", "message/global-delivery-status"})


def _is_from_daemon(signs: Signs) -> bool:
    if _fits(_DAEMON_LOCAL_PART, signs.local_part):
        return True
    return bool(_DAEMON_NAME.search(signs.from_name.lower()))


def _is_auto_replied(signs: Signs) -> bool:
    return signs.header("auto-submitted").startswith("auto-replied")


def _is_auto_submitted(signs: Signs) -> bool:
    value = signs.header("auto-submitted")
    return bool(value) and not re.match(r"no\b", value)


def _has_autoreply_header(signs: Signs) -> bool:
    named = any(signs.header(name) not in {"", "no"} for name in _AUTOREPLY_HEADERS)
    return named or signs.header("precedence").replace("-", "_") == "auto_reply"


_AUTOREPLY_HEADERS = (
    *("x-autoreply", "x-autorespond", "x-autoresponder", "x-autoreply-from", "x-mail-autoreply"),
    *("x-autogenerated", "x-apple-action"),
)
# RFC 2919: the list's domain with a label for the list before it, such as <help.shop.example>.
_LIST_ID = re.compile(r"<([a-z0-9._-]{1,253})>\s*\Z")
_LIST_HEADERS = (
    *("list-id", "list-post", "list-unsubscribe", "list-help", "list-subscribe", "list-owner"),
    *("mailing-list", "x-mailing-list", "x-beenthere", "x-list-id", "x-mlserver", "x-ml-name"),
)


def _has_list_header(signs: Signs) -> bool:
    return any(signs.header(name) for name in _LIST_HEADERS) and not _is_passed_on(signs)


def _has_list_precedence(signs: Signs) -> bool:
    precedence = signs.header("precedence")
    return precedence in {"bulk", "junk"} or (precedence == "list" and not _is_passed_on(signs))


def _is_passed_on(signs: Signs) -> bool:
    """Whether a list of ours, such as a Google Group that is the support address, passed on a mail of a
    customer. Mail that our own people write to the list, such as a newsletter, does not count."""
    return _is_of_our_list(signs) and not _is_ours(signs, signs.from_address.rpartition("@")[2])


def _is_rewritten(signs: Signs) -> bool:
    """Whether a list of ours replaced the author, as Google Groups does where the author's domain has a
    strict DMARC policy."""
    return bool(signs.header("x-original-from")) and _is_of_our_list(signs)


def _is_of_our_list(signs: Signs) -> bool:
    match = _LIST_ID.search(signs.header("list-id"))
    return match is not None and _is_ours(signs, match[1])


def _is_ours(signs: Signs, host: str) -> bool:
    own = {address.rpartition("@")[2] for address in signs.own_addresses} | {signs.reply_domain}
    return any(host == domain or host.endswith(f".{domain}") for domain in own if domain)


def _has_null_return_path(signs: Signs) -> bool:
    return signs.envelope_from == "" or signs.header("return-path") == "<>"


def _has_bounce_subject(signs: Signs) -> bool:
    subject = signs.subject.strip().lower()
    if _WHOLE_BOUNCE_SUBJECT.fullmatch(subject):
        return True
    return bool(_BOUNCE_SUBJECT.match(subject)) and (
        _fits(_POSTMASTER_LOCAL_PART, signs.local_part)
        or "text/rfc822-headers" in signs.part_types
        or _has_null_return_path(signs)
        or _is_returned_to_daemon(signs)
    )


def _is_returned_to_daemon(signs: Signs) -> bool:
    local_part = (signs.envelope_from or "").partition("@")[0].lower()
    return _fits(_DAEMON_LOCAL_PART, local_part)


def _is_failure_from_postmaster(signs: Signs) -> bool:
    return _fits(_POSTMASTER_LOCAL_PART, signs.local_part) and (
        signs.tells_failure or _is_returned_to_daemon(signs)
    )


def _has_auto_reply_subject(signs: Signs) -> bool:
    subject = signs.subject.strip().lower()
    if _AUTO_REPLY_SUBJECT.match(subject) or _OUT_IN_NOTES.match(subject):
        return True
    if signs.header("in-reply-to") or signs.header("references"):
        return bool(_LIKELY_SUBJECT.match(subject))
    return bool(_ANSWERED_AUTO_REPLY_SUBJECT.match(subject))


def _is_role_of_program(signs: Signs) -> bool:
    return_path = (signs.envelope_from or "").rpartition("@")[0]
    return _fits(_ROLE_LOCAL_PART, signs.local_part) and (
        _fits(_LIST_LOCAL_PART, return_path) or _fits(_NO_REPLY_LOCAL_PART, return_path)
    )


_RULES: tuple[tuple[MailKind, str, Callable[[Signs], bool]], ...] = (
    (MailKind.LIST, REWRITTEN_BY_LIST, _is_rewritten),
    (MailKind.OWN, "From is an address of ours", _is_own),
    (MailKind.OWN, "X-Loop names an address of ours", _names_own_loop),
    (MailKind.COMPLAINT, "feedback report", _is_complaint),
    (MailKind.BOUNCE, "delivery status report", _has_delivery_status),
    (MailKind.AUTO_REPLY, READ_RECEIPT, lambda s: s.report_type == "disposition-notification"),
    (MailKind.BOUNCE, "From a mail system", _is_from_daemon),
    (MailKind.BOUNCE, "X-Failed-Recipients", lambda s: bool(s.header("x-failed-recipients"))),
    (MailKind.BOUNCE, "multipart/report", lambda s: s.media_type == "multipart/report"),
    (MailKind.BOUNCE, "subject of a bounce", _has_bounce_subject),
    (MailKind.BOUNCE, "failure told by a postmaster", _is_failure_from_postmaster),
    (MailKind.AUTO_REPLY, "answer to an invitation", lambda s: CALENDAR_REPLY in s.part_types),
    (MailKind.AUTO_REPLY, "reaction", lambda s: GMAIL_REACTION in s.part_types),
    (MailKind.AUTO_REPLY, "Auto-Submitted: auto-replied", _is_auto_replied),
    (MailKind.AUTO_REPLY, "header of an automatic answer", _has_autoreply_header),
    (MailKind.AUTO_REPLY, "subject of an automatic answer", _has_auto_reply_subject),
    (MailKind.LIST, "list header", _has_list_header),
    (MailKind.LIST, "Precedence", _has_list_precedence),
    (MailKind.AUTO_REPLY, "Auto-Submitted", _is_auto_submitted),
    (MailKind.AUTO_REPLY, "X-Loop", lambda s: bool(s.header("x-loop"))),
    (MailKind.MALFORMED, "no From address that can be read", lambda s: not s.from_address),
    (MailKind.BOUNCE, NULL_RETURN_PATH, _has_null_return_path),
    (MailKind.LIST, "list address", lambda s: _fits(_LIST_LOCAL_PART, s.local_part)),
    (MailKind.NO_REPLY, "no-reply address", lambda s: _fits(_NO_REPLY_LOCAL_PART, s.local_part)),
    (MailKind.NO_REPLY, "address and return path of a program", _is_role_of_program),
)
REASONS = tuple(reason for _, reason, _ in _RULES)  # pages translate them
