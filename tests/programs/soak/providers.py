"""OpenAI, SendGrid and Stripe on this machine, each of which fails at random while faults are on."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
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


KINDS = {
    "OpenAI": ("429", "500", "503", "hangs", "HTML", "line cut"),
    "SendGrid": ("429", "500", "lost before", "lost after"),
    "Stripe": ("500 and made", "429", "lost before", "lost after"),
}
# Until each kind has been there, of so many requests one goes wrong.
FIRST_ROUND = 5
# Of all later requests.
SHARE = 0.05


class Dice:
    """Which fault comes next, if any."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.on = True
        self._asked: Counter[str] = Counter()
        self.thrown: Counter[str] = Counter()

    def throw(self, provider: str) -> str | None:
        if not self.on:
            return None
        self._asked[provider] += 1
        missing = [kind for kind in KINDS[provider] if not self.thrown[f"{provider} {kind}"]]
        if missing:
            if self._asked[provider] % FIRST_ROUND:
                return None
        elif self._chance.random() >= SHARE:
            return None
        kind = self._chance.choice(missing or KINDS[provider])
        self.thrown[f"{provider} {kind}"] += 1
        return kind


class SoakOpenAI(OpenAIServer):
    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        super().__init__()

    def _create(self, request: Request) -> Answer:
        match self._dice.throw("OpenAI"):
            case "429":
                return Answer(429, {"error": {"message": "slow down"}}, {"Retry-After": "1"})
            case "500":
                return Answer(500, {"error": {"message": "sorry"}})
            case "503":
                return Answer(503, {"error": {"message": "overloaded"}})
            case "HTML":
                return Answer(200, "<html><body>a page of a proxy</body></html>")
            case "line cut":
                raise LineCut
            case "hangs":
                time.sleep(HANG_SECONDS)
        return super()._create(request)


class SoakSendGrid(SendGridServer):
    def __init__(self, mailboxes: Mailboxes, dice: Dice) -> None:
        self._dice = dice
        super().__init__(mailboxes, SUPPORT)

    def _send(self, request: Request) -> Answer:
        match self._dice.throw("SendGrid"):
            case "429":
                return Answer(429, {"errors": [{"message": "too many requests"}]})
            case "500":
                return Answer(500, {"errors": [{"message": "sorry"}]})
            case "lost before":
                raise LineCut
            case "lost after":
                super()._send(request)
                raise LineCut
        return super()._send(request)


class SoakStripe(StripeServer):
    """Its list of faults is the dice."""

    dice: Dice

    def _create(self, request: Request) -> Answer:
        faults = {
            "500 and made": stripe_server.made_but_500,
            "429": stripe_server.limited,
            "lost before": stripe_server.lost_before,
            "lost after": stripe_server.lost_after,
        }
        kind = self.dice.throw("Stripe")
        if kind is not None:
            self.faults.append(faults[kind])
        return super()._create(request)


class Providers:
    """All three, in threads of this process."""

    def __init__(self, folder: Path, seed: int) -> None:
        # More than five at once may call; and whoever hangs up is no news.
        ThreadingHTTPServer.request_queue_size = 128
        _be_quiet(ThreadingHTTPServer)
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


def _be_quiet(server: type[ThreadingHTTPServer]) -> None:
    say_nothing: Callable[..., None] = lambda *_: None  # noqa: E731 - a method, given as one
    server.handle_error = say_nothing  # type: ignore[method-assign]  # on purpose
