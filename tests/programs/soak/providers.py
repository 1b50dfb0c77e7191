"""OpenAI, SendGrid and Stripe on this machine, each of which fails at random while faults are on."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path

from mailagent.demo.fakes.http_server import Answer, LineCut, Request
from mailagent.demo.fakes.mailboxes import Mailboxes
from mailagent.demo.fakes.openai import OpenAIServer
from mailagent.demo.fakes.sendgrid import SendGridServer
from tests import stripe_server
from tests.cast import SUPPORT
from tests.stripe_server import StripeServer

HANG_SECONDS = 8.0

Call = Callable[[], Answer]
Fault = Callable[[Call], Answer]


def _says(status: int, value: object, headers: Mapping[str, str] | None = None) -> Fault:
    return lambda _call: Answer(status, value, headers or {})


def _cut(_call: Call) -> Answer:
    raise LineCut


def _hangs(call: Call) -> Answer:
    time.sleep(HANG_SECONDS)
    return call()


# A fault is given the real call and may make it.
FAULTS: Mapping[str, Mapping[str, Fault]] = {
    "OpenAI": {
        "429": _says(429, {"error": {"message": "slow down"}}, {"Retry-After": "1"}),
        "500": _says(500, {"error": {"message": "sorry"}}),
        "503": _says(503, {"error": {"message": "overloaded"}}),
        "hangs": _hangs,
        "HTML": _says(200, "<html><body>a page of a proxy</body></html>"),
        "line cut": _cut,
    },
    "SendGrid": {
        "429": _says(429, {"errors": [{"message": "too many requests"}]}),
        "500": _says(500, {"errors": [{"message": "sorry"}]}),
        "lost before": _cut,
        "lost after": stripe_server.lost_after,
    },
    "Stripe": {
        "500 and made": stripe_server.made_but_500,
        "429": stripe_server.limited,
        "lost before": _cut,
        "lost after": stripe_server.lost_after,
    },
}
# Until each kind has been there, one of so many requests goes wrong; then this share of all.
FIRST_ROUND = 5
SHARE = 0.05


class Dice:
    """Decides which fault comes next, if any, and counts them."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.on = True
        self._asked: Counter[str] = Counter()
        self.thrown: Counter[str] = Counter()

    def call(self, provider: str, call: Call) -> Answer:
        """Make the real call, or let it go wrong."""
        kind = self._throw(provider) if self.on else None
        return FAULTS[provider][kind](call) if kind else call()

    def _throw(self, provider: str) -> str | None:
        self._asked[provider] += 1
        kinds = list(FAULTS[provider])
        missing = [kind for kind in kinds if not self.thrown[f"{provider} {kind}"]]
        if missing:
            if self._asked[provider] % FIRST_ROUND:
                return None
        elif self._chance.random() >= SHARE:
            return None
        kind = self._chance.choice(missing or kinds)
        self.thrown[f"{provider} {kind}"] += 1
        return kind


class SoakOpenAI(OpenAIServer):
    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        super().__init__()

    def _create(self, request: Request) -> Answer:
        create = super()._create
        return self._dice.call("OpenAI", lambda: create(request))


class SoakSendGrid(SendGridServer):
    def __init__(self, mailboxes: Mailboxes, dice: Dice) -> None:
        self._dice = dice
        super().__init__(mailboxes, SUPPORT)

    def _send(self, request: Request) -> Answer:
        send = super()._send
        return self._dice.call("SendGrid", lambda: send(request))


class SoakStripe(StripeServer):
    dice: Dice

    def _execute(self, key: str, sent: str) -> Answer:
        execute = super()._execute
        return self.dice.call("Stripe", lambda: execute(key, sent))


class Providers:
    """All three, in threads of this process."""

    def __init__(self, folder: Path, seed: int) -> None:
        # More than five at once may call; and a caller that hangs up is no news.
        ThreadingHTTPServer.request_queue_size = 128
        ThreadingHTTPServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # on purpose
        self.dice = Dice(seed)
        self.mailboxes = Mailboxes()
        self.openai, self.sendgrid = SoakOpenAI(self.dice), SoakSendGrid(self.mailboxes, self.dice)
        self.openai.start()
        self.sendgrid.start()
        self.stripe = SoakStripe({})
        self.stripe.dice = self.dice

    def stop(self) -> None:
        for server in (self.openai, self.sendgrid, self.stripe):
            server.stop()
