"""Slow, half-open and large requests that carry no good signature: mail goes on being taken meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from email.message import EmailMessage
from email.utils import make_msgid

import pytest

from mailagent import buffering
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey, build_body
from tests.adapters.parse_requests import raw_request
from tests.attacks.conftest import EVENTS, INBOUND, ORDERS_TOKEN, STRIPE, Served
from tests.cast import ADA, SUPPORT
from tests.deploy.files import UNITS, unit
from tests.harness import letter, wait_until

SLOW, LARGE = 200, 50
LARGE_BYTES = 39 * 1024 * 1024
SECONDS = 2.0
PIECE = bytes(64 * 1024)


def allowed_bytes() -> int:
    """Return what systemd lets a web process have."""
    limit = dict(unit(UNITS / "mailagent-web.service"))["MemoryMax"]
    assert limit.endswith("M")
    return int(limit[:-1]) << 20


def head(path: str, *lines: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def lines_of(headers: Mapping[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in headers.items()]


@pytest.fixture(scope="module")
def strangers_key(tmp_path_factory: pytest.TempPathFactory) -> WebhookKey:
    """A key that is not SendGrid's: its signatures look good until the body is there."""
    return WebhookKey(tmp_path_factory.mktemp("stranger") / "stranger.pem")


@contextmanager
def dribbling(served: Served, *begun: bytes) -> Iterator[list[socket.socket]]:
    """Keep connections open that sent their beginning, and go on with a byte now and then."""
    with ExitStack() as stack:
        opened = [stack.enter_context(served.connect()) for _ in begun]
        for connection, sent in zip(opened, begun, strict=True):
            connection.sendall(sent)
        over = threading.Event()

        def go_on() -> None:
            while not over.wait(0.5):
                for connection in opened:
                    with contextlib.suppress(OSError):
                        connection.sendall(b"x")

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield opened
        finally:
            over.set()
            thread.join()


def pour(served: Served, start: bytes) -> int:
    """Send a large body as fast as it is taken; return the status of the answer, 0 for none."""
    with served.connect() as connection:
        with contextlib.suppress(OSError):  # closed in our face
            connection.sendall(start)
            for _ in range(LARGE_BYTES // len(PIECE)):
                connection.sendall(PIECE)
        with contextlib.suppress(OSError):
            answer = connection.recv(64).split()
            return int(answer[1]) if answer else 0
    return 0


def assert_serves(served: Served, until: Callable[[], bool]) -> None:
    """Post signed mail and ask for heartbeat, at least three times; each must be answered in time."""
    rounds = 0
    while rounds < 3 or not until():
        taken, alive = served.post_mail(), served.get("/healthz")
        assert (taken.status, alive.status) == (200, 200)
        assert max(taken.seconds, alive.seconds) < SECONDS
        assert served.memory_bytes() < allowed_bytes()
        rounds += 1
        time.sleep(0.2)


def test_slow_heads_and_slow_bodies_hold_up_no_mail(
    served: Served, strangers_key: WebhookKey
) -> None:
    assert served.post_mail().status == 200
    forged = lines_of(strangers_key.sign(b"whatever"))
    kinds = [
        b"",
        b"POST " + INBOUND.encode(),
        head(INBOUND, "X-Slow: 1")[:-2],
        head(INBOUND, *forged, "Content-Length: 39000000"),
        head(INBOUND, *forged, "Content-Length: 100"),
        head(EVENTS, *forged, "Transfer-Encoding: chunked") + b"ffff\r\n",
        head("/ops/login", "Content-Length: 500"),
        head("/ops/login", "Transfer-Encoding: chunked"),
    ]
    with dribbling(served, *(kinds[number % len(kinds)] for number in range(SLOW))) as opened:
        assert len(opened) == SLOW
        assert_serves(served, lambda: True)


@pytest.mark.parametrize("forged", [False, True], ids=["unsigned", "forged"])
def test_large_bodies_hold_up_no_mail_and_stay_out_of_memory(
    served: Served, strangers_key: WebhookKey, forged: bool
) -> None:
    assert served.post_mail().status == 200
    lines = lines_of(strangers_key.sign(b"whatever")) if forged else []
    framing = f"Content-Length: {LARGE_BYTES}"
    start = head(INBOUND, f"Content-Type: {CONTENT_TYPE}", *lines, framing)
    # A signature that looks good costs the reading of the body: fewer of them, the machine is small.
    count = LARGE // 5 if forged else LARGE
    with ThreadPoolExecutor(count) as pool:
        poured = [pool.submit(pour, served, start) for _ in range(count)]
        assert_serves(served, lambda: all(each.done() for each in poured))
        assert {each.result() for each in poured} <= {0, 403, 503}
    assert served.memory_bytes() < allowed_bytes()


def mail_with_file(size: int) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = ADA, SUPPORT, "My photos"
    message["Message-ID"] = make_msgid()
    message.set_content("See the photos.")
    message.add_attachment(bytes(size), maintype="image", subtype="jpeg", filename="photos.jpg")
    return message.as_bytes()


def test_large_signed_mails_at_once_stay_within_the_memory(served: Served) -> None:
    """They are taken, or left with SendGrid for later; and small ones do not wait for them."""
    stored = served.count("inbound_mails")
    bodies = [raw_request(mail_with_file(16_000_000)) for _ in range(3)]
    with ThreadPoolExecutor(len(bodies)) as pool:
        posted = [pool.submit(served.post_signed, each, 60.0) for each in bodies]
        while not all(each.done() for each in posted):
            assert served.memory_bytes() < allowed_bytes()
            time.sleep(0.05)
        taken = [each.result().status for each in posted]
    assert set(taken) <= {200, 503}
    assert taken.count(200) >= 2
    assert served.count("inbound_mails") == stored + taken.count(200)


@pytest.mark.parametrize(
    ("method", "path", "lines", "statuses"),
    [
        ("POST", INBOUND, [], {403, 503}),
        ("POST", INBOUND, ["{timestamp}"], {403, 503}),
        ("POST", INBOUND, ["{timestamp}", "{no signature}"], {403, 503}),
        ("POST", INBOUND, ["{signature}", "{no timestamp}"], {403, 503}),
        ("POST", EVENTS, [], {403, 503}),
        ("POST", STRIPE, [], {400}),
        ("POST", STRIPE, ["Stripe-Signature: t=1,v1=short"], {400}),
        ("PUT", "/api/orders/W1001", ["Authorization: Bearer nonsense"], {401}),
        ("POST", "/api/goodwill-codes/X/redemptions", [], {401}),
        ("POST", "/no/such/page", [], {404}),
        ("POST", "/ops/login", [], {413}),
    ],
)
@pytest.mark.parametrize(
    "framing", [f"Content-Length: {LARGE_BYTES}", "Transfer-Encoding: chunked"]
)
def test_a_request_without_a_signature_ends_at_its_headers(
    served: Served,
    strangers_key: WebhookKey,
    method: str,
    path: str,
    lines: list[str],
    statuses: set[int],
    framing: str,
) -> None:
    if path == "/ops/login" and "chunked" in framing:
        pytest.skip("a form of unknown length is read as far as forms may go")
    signature, timestamp = lines_of(strangers_key.sign(b"whatever"))
    values = {
        "signature": signature,
        "timestamp": timestamp,
        "no signature": "X-Twilio-Email-Event-Webhook-Signature: TWFsbG9yeQ==",
        "no timestamp": "X-Twilio-Email-Event-Webhook-Timestamp: today",
    }
    filled = [values.get(each.strip("{}"), each) for each in lines]
    with served.connect(seconds=SECONDS) as connection:
        connection.sendall(head(path, *filled, framing, method=method))  # and no more
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status in statuses
        answer.read()
        assert connection.recv(1) == b""  # it hangs up


def test_a_head_that_never_ends_is_hung_up_on(served: Served) -> None:
    began = time.monotonic()
    with dribbling(served, head(INBOUND, "X-Slow: 1")[:-2]) as (connection,):
        assert connection.recv(1) == b""
    assert time.monotonic() - began < buffering.HEAD_SECONDS + 5


_strangers = itertools.count(2)


def test_a_stranger_has_only_so_many_unfinished_requests_and_signed_mail_has_no_such_limit(
    served: Served,
) -> None:
    # Not a proxy that gunicorn trusts, and new for each try: signed mail comes from it below.
    source = f"127.0.0.{next(_strangers)}"

    def open_some(stack: ExitStack, count: int) -> list[socket.socket]:
        opened = [stack.enter_context(served.connect(source)) for _ in range(count)]
        for connection in opened:
            with contextlib.suppress(OSError):
                connection.sendall(b"POST ")
        time.sleep(0.5)  # for the answers, if there are any
        return opened

    with ExitStack() as stack:
        opened = open_some(stack, buffering.UNFINISHED_PER_ADDRESS + 10)
        wait_until(lambda: sum(map(is_closed, opened)) == 10, 5, "the last ten to be closed")
        assert served.post_mail().status == 200  # from another address
    with ExitStack() as stack:
        body = build_body(letter("Hello"))
        signed = lines_of({"Content-Type": CONTENT_TYPE, **served.key.sign(body)})
        with served.connect(source) as connection:
            sized = f"Content-Length: {len(body)}"
            connection.sendall(head(INBOUND, *signed, sized, "Connection: close") + body)
            assert connection.recv(64).split()[1] == b"200"
            while connection.recv(1024):  # the address is noted before the server hangs up
                pass
        opened = open_some(stack, buffering.UNFINISHED_PER_ADDRESS + 10)
        assert sum(map(is_closed, opened)) == 0


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_more_connections_than_there_may_be_leave_room_for_mail(served: Served) -> None:
    with dribbling(served, *[b"POST "] * 600):
        assert_serves(served, lambda: True)


def test_a_body_that_is_announced_is_asked_for(served: Served) -> None:
    """Programs that send `Expect: 100-continue` wait for the word, and signed mail gets it."""
    body = build_body(letter("x" * 2_000_000))
    signed = lines_of({"Content-Type": CONTENT_TYPE, **served.key.sign(body)})
    for lines, status in ((signed, b"200"), ([], b"403")):
        start = head(INBOUND, *lines, f"Content-Length: {len(body)}", "Expect: 100-continue")
        with served.connect() as connection:
            connection.sendall(start)
            answer = connection.recv(1024)
            if lines:
                assert answer == b"HTTP/1.1 100 Continue\r\n\r\n"
                connection.sendall(body)
                answer = connection.recv(1024)
            assert answer.split()[1] == status


def test_connections_are_kept_and_pipelined_requests_are_not_mixed_up(served: Served) -> None:
    with served.connect() as connection:
        for _ in range(3):
            connection.sendall(head("/healthz", method="GET"))
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert (answer.status, answer.read()) == (200, b"alive\n")
        connection.sendall(head("/healthz", method="GET") + head("/readyz", method="GET"))
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert (answer.status, answer.read()) == (200, b"alive\n")
        assert answer.getheader("Connection") == "close"


def test_an_order_is_taken_with_its_token(served: Served) -> None:
    answer = served.post("/webhooks/stripe", b"{}", {"Stripe-Signature": f"t=1,v1={'0' * 64}"})
    assert answer.status == 400
    headers = {"Authorization": f"Bearer {ORDERS_TOKEN}", "Transfer-Encoding": "chunked"}
    connection = http.client.HTTPConnection("127.0.0.1", served.web.port, timeout=20)
    connection.request("PUT", "/api/orders/W1", iter([b"{", b"}"]), headers, encode_chunked=True)
    assert connection.getresponse().status == 422
    connection.close()
