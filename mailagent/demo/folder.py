"""The folder that a demo lives in: database, mailboxes, keys and the app's log. One demo at a time."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from io import TextIOWrapper
from pathlib import Path

from mailagent.demo.webhook_key import WebhookKey


class FolderInUse(Exception):
    """Another demo is running in this folder; the text says what to do."""


class DemoFolder:
    """Holds the folder until `release`.

    Raises FolderInUse, because two apps of one name on one SQLite file would take each other's runs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _locked(self.path / "lock")
        self.database = self.path / "mailagent.db"
        self.mailboxes = self.path / "mailboxes.jsonl"
        self.app_log = self.path / "app.log"
        self.orders = self.path / "orders.jsonl"
        self.crash_marker = self.path / "crashed"
        self._seeded = self.path / "seeded"

    @property
    def database_url(self) -> str:
        return f"sqlite:///{self.database}"

    @property
    def is_seeded(self) -> bool:
        return self._seeded.exists()

    def record_seeded(self) -> None:
        self._seeded.touch()

    def clear(self) -> None:
        """Remove everything from earlier demos."""
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != "lock":
                entry.unlink()

    @property
    def lock_descriptor(self) -> int:
        """The open lock. A process that inherits it keeps the folder for as long as it lives."""
        return self._lock.fileno()

    def release(self) -> None:
        """Let another demo have the folder."""
        self._lock.close()

    def secret_key(self) -> str:
        """Return the key that signs links: the same after a restart, so that mailed links still work."""
        path = self.path / "secret-key"
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(48))
        return path.read_text("ascii")

    def webhook_key(self, name: str) -> WebhookKey:
        return WebhookKey(self.path / f"{name}.pem")


def _locked(path: Path) -> TextIOWrapper:
    file = path.open("a", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as taken:
        file.close()
        raise FolderInUse(
            f"Another demo is running in {path.parent}. Stop it first, or start this one elsewhere. "
            "If it was killed, its app may have outlived it: end the gunicorn process."
        ) from taken
    return file
