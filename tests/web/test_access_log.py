"""Who reads the access log gets in nowhere: no line of it has the token of a link."""

from __future__ import annotations

import pytest
from gunicorn.config import Config

from mailagent.serving import ServerLog, without_tokens
from mailagent.web.guard import Guard
from tests.harness import Harness
from tests.web.doors import doors, furnish


def test_no_line_about_a_request_has_the_token_of_a_link(fullest: Harness) -> None:
    case = furnish(fullest)
    secrets = [case.values["token"], case.values["secret"]]
    found = [door for door in doors(fullest) if door.guard is Guard.LINK]
    assert found
    for door in found:
        path = door.path(case.values)
        for line in (
            path,
            f"{door.method} {path}?x=1 HTTP/1.1",
            f"https://agent.shop.example{path}",
        ):
            if any(secret in line for secret in secrets):
                told = without_tokens(line)
                assert not [secret for secret in secrets if secret in told], door.name
                assert line.endswith(told.rpartition("…")[2]), "more than the token is gone"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_about_an_error_has_the_token_of_a_link(
    log_format: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOG_FORMAT", log_format)
    log = ServerLog(Config())
    try:
        for path in ("/approvals/secret.of-a_link?x=1", "/ops/login/secret"):
            log.exception("Error handling request %s %s", "GET", path)
        log.warning("Invalid request line: 'GET /approvals/secret HTTP/9'")
    finally:
        log.error_log.handlers.clear()
    told = capsys.readouterr().err
    assert told.count("/approvals/…") == 2 or told.count("/approvals/\\u2026") == 2
    assert "secret" not in told
