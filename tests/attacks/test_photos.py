"""Photos that are bombs: web decodes none of them, and a worker ends with a row that says why."""

from __future__ import annotations

import gc
import io
import os
import re
from pathlib import Path

from PIL import Image

from mailagent.workflows.steps.maintenance.housekeeping import make_previews
from tests.attacks.conftest import Served, pss_bytes
from tests.cast import a_photo
from tests.harness import open_shop
from tests.small_png import huge_png
from tests.web.mail_with_files import ask, mail_with

PADDING = bytes(10_000)  # what is smaller is taken for a logo


def saved(image: Image.Image, kind: str, **how: object) -> bytes:
    written = io.BytesIO()
    image.save(written, kind, **how)
    return written.getvalue() + PADDING


def with_more_scans(data: bytes, count: int) -> bytes:
    """Return a progressive JPEG with its last scan some times more."""
    end = data.rindex(b"\xff\xd9")
    last = data[data.rindex(b"\xff\xda", 0, end) : end]
    return data[:end] + last * count + data[end:]


def many_frames(count: int) -> bytes:
    frames = [Image.new("P", (8, 8), number % 256) for number in range(count)]
    return saved(frames[0], "GIF", save_all=True, append_images=frames[1:])


def progressive(side: int) -> bytes:
    return saved(Image.new("L", (side, side)), "JPEG", progressive=True)


def make_bombs() -> dict[str, tuple[bytes, str | None]]:
    """Return files, and what is said of each; None of one that is shown."""
    return {
        "webp.webp": (saved(Image.new("RGB", (5000, 5001)), "WEBP"), "25 million pixels"),
        "large.webp": (saved(Image.new("RGBA", (4990, 4990)), "WEBP"), "memory"),
        "scans.jpg": (with_more_scans(progressive(4000), 40), "20 scans"),
        "progressive.jpg": (progressive(6000), None),
        "png.png": (huge_png() + PADDING, "25 million pixels"),
        "gif.gif": (many_frames(3000), None),
        "cut.jpg": (a_photo()[:15_000], "broken"),
        "honest.jpg": (a_photo(), None),
    }


def test_photos_that_are_bombs_end_as_rows_and_cost_the_processes_nothing(
    served: Served, tmp_path: Path
) -> None:
    bombs = make_bombs()
    files = [(name, f"image/{name.rpartition('.')[2]}", data) for name, (data, _) in bombs.items()]
    settings = {"SECRET_KEY": served.environment["SECRET_KEY"]}
    with open_shop(tmp_path, served.database_url, settings) as harness:
        desk = ask(harness, mail_with(*files, message_id="bombs@example.com"))
        gc.collect()
        web, worker = served.memory_bytes(), pss_bytes(os.getpid())
        photos = [f"{desk.link()}/photos/{desk.mail_id}/{number}" for number in range(len(files))]
        for photo in photos:
            assert "The preview is being made" in served.get(photo).text
        assert make_previews() >= len(bombs)
        assert make_previews() == 0  # once
        rows = harness.rows(
            "SELECT picture, problem FROM photo_previews WHERE mail_id = :it ORDER BY number",
            it=desk.mail_id,
        )
        for (name, (_, why)), row, photo in zip(bombs.items(), rows, photos, strict=True):
            assert (row.picture is not None) == (why is None), (name, row.problem)
            assert why is None or re.search(why, row.problem), (name, row.problem)
            answer = served.get(photo)
            assert answer.status == (404 if why else 200)
            assert why is None or row.problem in answer.text
        assert pss_bytes(os.getpid()) - worker < 128 << 20  # decoded here they would take gigabytes
        assert served.memory_bytes() - web < 32 << 20
        assert served.get("/healthz").seconds < 2
