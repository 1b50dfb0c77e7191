"""Makes a preview of a photo that a stranger sent: decodes it, makes it smaller, and writes a new JPEG.

The new file has no place, device or script of the photo. A hostile file can make a decoder use much memory and
time, or use a bug in it. So each photo is decoded in a process of its own, with limits and without our
environment variables: `python -m mailagent.adapters.mime.photo_preview < photo > preview.jpg`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PREVIEW_PIXELS = 1024  # of the longer side
QUALITY = 80

# The formats that phones and mail programs send. Files in other formats get no preview.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
# Of a JPEG we decode only as much as the preview needs. Other formats must be decoded whole, so their limit is
# lower.
JPEG_MAX_PIXELS = 220_000_000
OTHERS_MAX_PIXELS = 25_000_000
# Programs write about ten scans. Each is a pass over all pixels, even if it has few bytes.
JPEG_MAX_SCANS = 20

# The limit of the process, with Python and Pillow. A worker may have 768 MB in all.
MEMORY_BYTES = 400 * 1024 * 1024
CPU_SECONDS, SECONDS = 8, 15
PICTURE_MAX_BYTES = 2 * 1024 * 1024

_ROOT = Path(__file__).resolve().parents[3]
_REFUSED = 3  # the exit code; the reason is on standard output
# A marker of a JPEG whose segment says how long it is (ITU T.81, B.1.1): not an escaped byte (00), not TEM
# (01), not a restart (D0 to D7).
_MARKER = re.compile(rb"\xff+([^\x00\x01\xff\xd0-\xd7])")
_SCAN, _END = 0xDA, 0xD9


@dataclass(frozen=True, slots=True)
class Preview:
    """A picture, or a text that says why there is none. Exactly one of the two is set."""

    picture: bytes | None = None
    problem: str | None = None


class _NoPreviewError(Exception):
    """The file gets no preview; the text says why."""


def make_preview(data: bytes) -> Preview:
    """Return the preview of a photo, a JPEG of at most `PREVIEW_PIXELS` a side, or why there is none.

    Bad bytes never make it raise.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter with our own module
            [sys.executable, "-m", __name__],
            cwd=_ROOT,
            env={
                name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ
            },
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Preview(problem="it takes too long to decode")
    if done.returncode == 0 and 0 < len(done.stdout) <= PICTURE_MAX_BYTES:
        return Preview(picture=done.stdout)
    if done.returncode == _REFUSED:
        return Preview(problem=done.stdout.decode("ascii", "replace")[:200])
    return Preview(problem="it takes too much time or memory to decode")


def main() -> None:
    """Decode the photo on standard input within the limits, and write its preview to standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # not everywhere allowed, and only a courtesy
        os.nice(10)
    try:
        sys.stdout.buffer.write(_decode(sys.stdin.buffer.read()))
    except _NoPreviewError as problem:
        _refuse(str(problem))
    except MemoryError:
        _refuse("it takes too much memory to decode")
    except Exception:  # noqa: BLE001 - decoders of strangers' bytes fail in every way there is
        _refuse("the file is broken, or no photo of a kind that is shown")


def _refuse(why: str) -> None:
    sys.stdout.write(why)
    sys.stdout.flush()
    sys.exit(_REFUSED)


def _decode(data: bytes) -> bytes:
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = (
        None  # its own limit is for programs that have none; ours follows at once
    )
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        most = JPEG_MAX_PIXELS if image.format == "JPEG" else OTHERS_MAX_PIXELS
        if image.width * image.height > most:
            raise _NoPreviewError(f"it has more than {most // 1_000_000} million pixels")
        if image.format == "JPEG" and count_scans(data) > JPEG_MAX_SCANS:
            raise _NoPreviewError(f"it has more than {JPEG_MAX_SCANS} scans")
        image.draft("RGB", (PREVIEW_PIXELS, PREVIEW_PIXELS))
        image.thumbnail((PREVIEW_PIXELS, PREVIEW_PIXELS))
        upright = ImageOps.exif_transpose(image)
        # Show transparent parts on white.
        shown = Image.new("RGB", upright.size, "white")
        layer = upright.convert("RGBA")
        shown.paste(layer, mask=layer)
        written = io.BytesIO()
        shown.save(written, "JPEG", quality=QUALITY)
        return written.getvalue()


def count_scans(data: bytes) -> int:
    """Return how many scans a JPEG has before its end marker. Decoders do not read what follows it."""
    scans, at = 0, 2
    while (marker := _MARKER.search(data, at)) is not None and marker[1][0] != _END:
        scans += marker[1][0] == _SCAN
        # Skip each segment by its length, so that a camera's small picture inside a segment does not count.
        at = marker.end() + int.from_bytes(data[marker.end() : marker.end() + 2], "big")
    return scans


if __name__ == "__main__":
    main()
