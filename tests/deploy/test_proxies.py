"""The proxies that the documentation shows: they take in slow and large requests before the app sees them."""

from __future__ import annotations

import re

import pytest

from mailagent.buffering import HEAD_SECONDS
from mailagent.web.webhooks.body import LARGEST_BYTES
from tests.deploy.files import UNITS

DOCUMENT = (UNITS.parents[1] / "deploy.md").read_text("utf-8")
(SECTION,) = re.findall(r"^## The reverse proxy\n(.*?)^## ", DOCUMENT, re.MULTILINE | re.DOTALL)
NGINX, CADDY = re.findall(r"^```\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
LARGEST = LARGEST_BYTES // 1024 // 1024


@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        (
            NGINX,
            [
                f"client_max_body_size {LARGEST}m;",
                f"client_header_timeout {HEAD_SECONDS:.0f}s;",
                "client_body_timeout 15s;",
                "proxy_request_buffering on;",
                "limit_conn per_address 64;",
                "limit_conn_status 503;",
            ],
        ),
        (
            CADDY,
            [
                f"read_header {HEAD_SECONDS:.0f}s",
                "read_body 5m",
                f"request_buffers {LARGEST}MiB",
            ],
        ),
    ],
    ids=["nginx", "caddy"],
)
def test_the_proxy_buffers_has_time_outs_and_limits(shown: str, lines: list[str]) -> None:
    for line in lines:
        assert line in shown
    assert shown.count("{") == shown.count("}")
