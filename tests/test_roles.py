"""What a process that serves HTTP only does without: the model's client, the mail's, the workflow engine."""

from __future__ import annotations

from pathlib import Path

from mailagent.demo.fakes.webhooks import WebhookKey
from tests.databases import postgres_copy
from tests.processes import base_environment, in_a_process
from tests.programs.bench.flows import QUESTION, prepare
from tests.programs.bench.loaded import look


def test_a_web_process_receives_mail_without_model_client_and_engine(
    tmp_path: Path, postgres_url: str, migrated_postgres: str
) -> None:
    key = WebhookKey(tmp_path / "inbound.pem")
    with postgres_copy(postgres_url, migrated_postgres) as url:
        [post] = prepare(QUESTION, 1, url, key)
        environment = {
            **base_environment(),
            "MAILAGENT_ROLE": "web",
            "DATABASE_URL": url,
            "SECRET_KEY": "a key for tests only",
            "SENDGRID_INBOUND_PUBLIC_KEY": key.public_text(),
            # With all that a worker needs set, too: it is the role that decides.
            "OPENAI_API_KEY": "test",
            "SENDGRID_API_KEY": "test",
        }
        loaded = in_a_process(look, environment, post.body, post.headers)
    assert loaded.statuses == [200, 200, 404, 200]
    assert {"openai", "httpx2", "sendgrid"}.isdisjoint(loaded.modules)
    assert not loaded.engine
