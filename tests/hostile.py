"""A customer who writes code wherever they may write: what they leave in every row that pages show."""

from __future__ import annotations

import json
import re
from email.message import EmailMessage
from email.policy import SMTP

from tests.adapters.parse_requests import raw_request
from tests.cast import MONA, SUPPORT, TESS, order
from tests.harness import Harness, post_form, wait_until

HOSTILE = "o'hara+xss@evil.example"
ORDER = "W6666"
# Without a slash: what stands before one is cut off.
FILE = "XSS-FILE\"'><xss onclick=alert(1)>.gif"


def code(field: str) -> str:
    """Return what the customer writes into a field: its name, and what would run if it were not text."""
    return (
        f"XSS-{field}\"'><xss onclick=alert(1)><img src=x onerror=alert(1)></title></textarea>"
        f"<script>alert(1)</script><a href=javascript:alert(1)>{{{{7*7}}}}</a>"
    )


def stock(harness: Harness) -> None:
    """Put an order on the books whose every text is theirs."""
    item = {"item_id": "D1", "name": code("ITEM"), "quantity": 1, "unit_price": "1499.00"}
    customer = {"email": HOSTILE, "name": code("NAME")}
    payment = {"payment_id": "pay_W6666", "method": "card", "amount": "1499.00"}
    harness.stock(order(ORDER, customer=customer, items=[item], payments=[payment]))


def mail(words: str, message_id: str = "1", subject: str = "SUBJECT") -> bytes:
    """Return the request for one of their mails."""
    message = EmailMessage(policy=SMTP.clone(linesep="\n", max_line_length=500))
    message["From"] = f"{quoted(code('FROM'))} <{HOSTILE}>"
    message["To"], message["Subject"] = SUPPORT, code(subject)
    message.set_content(f"{words}\n\n{code('TEXT')}\n\nhttps://evil.example/click")
    message.add_alternative(
        f"<p>{words}</p><xss>{code('HTML')}</xss><a href='https://evil.example/'>click</a>", "html"
    )
    message.add_attachment(b"GIF89a", maintype="image", subtype="gif", filename=FILE)
    source = message.as_bytes()
    ids = f'Message-ID: <{message_id}"><xss>@evil.example>\nReferences: <"><xss onx=1>@evil.example>\n'
    source = ids.encode() + source.replace(b"image/gif", b'image/x"><xss>')
    return raw_request(source, dkim="{@evil.example : pass}", envelope_from=HOSTILE)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_everywhere(harness: Harness) -> None:
    """Let them ask for money, and for a person: with code everywhere."""
    stock(harness)
    words = f"The thing of order {ORDER} is damaged, please refund it."
    assert harness.post_inbound(mail(words)).status_code == 200
    harness.wait_for_mails(MONA)
    harness.wait_for_mails(HOSTILE)
    human = "I am done with machines. Let me talk to a human being, now!"
    assert harness.post_inbound(mail(human, "2", "SECOND")).status_code == 200
    harness.wait_for_mails(TESS)
    wait_until(harness.at_rest, 30, "an end of it")


def be_answered(harness: Harness, email: str, text: str) -> None:
    """Let somebody of the shop answer their conversation in the console."""
    (handed,) = harness.rows(
        "SELECT conversation_id FROM conversations WHERE status = 'handed_over' LIMIT 1"
    )
    path = f"/ops/conversations/{handed.conversation_id}"
    person = harness.log_in(email)
    for _ in range(10):
        form = dict(re.findall(r'name="(once|seen)" value="([^"]+)"', person.get(path).text))
        sent = post_form(person, f"{path}/answer", path, text=text, **form)
        if sent.status_code != 409:  # else a mail was written since the page was made
            break
    assert sent.status_code == 303, sent.text


def bounce(harness: Harness) -> None:
    """Let their mail server refuse what they were sent, in words of its own."""
    (answer, *_) = harness.mails_to(HOSTILE)
    bounce = {
        "event": "bounce",
        "email": HOSTILE,
        "timestamp": 1_790_000_000,
        "reason": code("BOUNCE"),
        **answer.custom_args,
    }
    body = json.dumps([bounce]).encode()
    told = harness.client.post(
        "/webhooks/sendgrid/events", data=body, headers=harness.events_key.sign(body)
    )
    assert told.status_code == 200
