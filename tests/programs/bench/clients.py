"""What the two providers' clients cost by themselves: the app's adapters in a loop, and the floor of
each: the same JSON over one kept connection, by the standard library.

`python -m tests.programs.bench.clients` reads the job on standard input.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from mailagent.adapters.openai.client import MAX_OUTPUT_TOKENS, ChatModel
from mailagent.adapters.sendgrid.sender import MailSender
from mailagent.adapters.templates.engine import Templates
from mailagent.agent import loop, prompt
from mailagent.app import ROOT
from mailagent.demo.fakes.openai import MODEL_NAME
from mailagent.domain.mail.delivery import Accepted
from mailagent.domain.mail.message import (
    Identity,
    InboundMail,
    MailKind,
    MailStatus,
    OutboundMail,
    Purpose,
)
from mailagent.domain.refunds.policy import Policy
from mailagent.workflows.tools.look_at_order import order_output
from tests.cast import ADA, NOW, SUPPORT, order
from tests.programs.bench.flows import QUESTION
from tests.tool_calls import SCHEMAS

WARM_UP = 5


def _measure(count: int, work: Callable[[], object]) -> dict[str, float]:
    """Return what one `work` takes, after some that are not counted."""
    for _ in range(WARM_UP):
        work()
    began, used = time.perf_counter(), time.process_time()
    for _ in range(count):
        work()
    return {
        "cpu_ms": (time.process_time() - used) * 1000 / count,
        "wall_ms": (time.perf_counter() - began) * 1000 / count,
    }


# --- the model: the asks of one question about an order ----------------------------------------

_INSTRUCTIONS = prompt.instructions("Shop", SUPPORT)


def _case() -> dict[str, Any]:
    mail = InboundMail(
        mail_id="mail_1",
        conversation_id="conversation_1",
        from_address=ADA,
        from_name="Ada Example",
        subject="My order",
        message_id="m1@example.com",
        references=(),
        body=QUESTION.text.format(order_id="W1001"),
        new_text=QUESTION.text.format(order_id="W1001"),
        identity=Identity.DKIM,
        kind=MailKind.CUSTOMER,
        status=MailStatus.UNANSWERED,
        received_at=NOW,
    )
    return prompt.case_item(True, [], [mail])


def _talk(model: ChatModel) -> list[list[dict[str, Any]]]:
    """Have one mail answered and return what the model was told each time."""
    told, items = [], [_case()]
    while True:
        told.append(list(items))
        outcome = model.ask(
            _INSTRUCTIONS, items, SCHEMAS, prompt.version(_INSTRUCTIONS, SCHEMAS), "a" * 32
        )
        move = loop.next_move(outcome)
        if not isinstance(move, loop.CallTool):
            if not isinstance(move, loop.Reply):
                raise RuntimeError(f"the model does not answer: {outcome}")
            return told
        output = order_output(order(), [], Policy())
        items = [*items, *outcome["items"], *loop.tool_result_items(move, output)]


def _ask_plainly(post: Callable[[str, object], bytes], told: list[list[dict[str, Any]]]) -> None:
    for items in told:
        body = {
            "model": MODEL_NAME,
            "instructions": _INSTRUCTIONS,
            "input": items,
            "store": False,
            "max_output_tokens": MAX_OUTPUT_TOKENS,
            "tools": SCHEMAS,
            "parallel_tool_calls": False,
        }
        json.loads(post("/v1/responses", body))


# --- the mail: one reply -----------------------------------------------------------------------


def _reply() -> OutboundMail:
    common = {"support_name": "Shop", "support_address": SUPPORT}
    text = "Hello,\n\norder W1001 is delivered.\n\nKind regards\nShop"
    facts = {"text": text, "confirm_code": None, "goodwill": None, "subject": "Re: My order"}
    rendered = Templates(ROOT / "templates" / "mail", common).render("reply", facts)
    return OutboundMail(
        outbound_id="outbound_1",
        purpose=Purpose.REPLY,
        to_address=ADA,
        from_address=SUPPORT,
        subject=rendered.subject,
        text=rendered.text,
        html=rendered.html,
        message_id="outbound_1@shop.example",
        reply_to=f"case+aaaaaaaaaaaaaaaa@{SUPPORT.partition('@')[2]}",
        in_reply_to="m1@example.com",
        references=("m1@example.com",),
    )


def _send(sender: MailSender, mail: OutboundMail) -> None:
    outcome = sender.send(mail)
    if not isinstance(outcome, Accepted):
        raise RuntimeError(f"the mail was not taken: {outcome}")


def _plain_mail(mail: OutboundMail) -> dict[str, Any]:
    return {
        "personalizations": [{"to": [{"email": mail.to_address}]}],
        "from": {"email": mail.from_address, "name": "Shop"},
        "subject": mail.subject,
        "content": [
            {"type": "text/plain", "value": mail.text},
            {"type": "text/html", "value": mail.html},
        ],
        "custom_args": {"outbound_id": mail.outbound_id},
    }


# --- the floor ---------------------------------------------------------------------------------


def _plain_poster(url: str) -> Callable[[str, object], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=30)
    headers = {"Content-Type": "application/json", "Authorization": "Bearer bench"}

    def post(path: str, body: object) -> bytes:
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status not in (200, 202):
            raise RuntimeError(f"{path} answered {answer.status}: {said[:200]!r}")
        return said

    return post


def _run(job: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    model = ChatModel("bench", f"{job['openai_url']}/v1", MODEL_NAME)
    sender, mail = MailSender("bench", job["sendgrid_url"], support_name="Shop"), _reply()
    told, plain_mail = _talk(model), _plain_mail(mail)
    ask, send = _plain_poster(job["openai_url"]), _plain_poster(job["sendgrid_url"])
    count = job["count"]
    return {
        "model": _measure(count, lambda: _talk(model)),
        "model_floor": _measure(count, lambda: _ask_plainly(ask, told)),
        "mail": _measure(count, lambda: _send(sender, mail)),
        "mail_floor": _measure(count, lambda: send("/v3/mail/send", plain_mail)),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_run(json.load(sys.stdin))) + "\n")
