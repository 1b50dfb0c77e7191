"""A picture of ours of a photo that a stranger sent: decoded, made smaller, and written anew.

What comes out is a plain JPEG: no place, device or script that the file carried is in it.
"""

from __future__ import annotations

import io
import warnings

PREVIEW_PIXELS = 1024  # of the longer side
QUALITY = 80

# What phones and mail programs send. Others stay files to be saved.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
# Of a JPEG only as much is decoded as the preview needs; the others must be decoded whole.
JPEG_MAX_PIXELS = 220_000_000
OTHERS_MAX_PIXELS = 25_000_000


def make_preview(data: bytes) -> bytes | None:
    """Return a JPEG of at most `PREVIEW_PIXELS` a side that shows what a file shows.

    None for what is no photo in one of `FORMATS`, is broken, or would take too much memory. Never
    raises, whatever the bytes: they are a stranger's.
    """
    # Imported where it is used: most processes never show a photo.
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            # Its own limit is for whoever has none; ours follows at once.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            opened = Image.open(io.BytesIO(data), formats=FORMATS)
        with opened as image:
            most = JPEG_MAX_PIXELS if image.format == "JPEG" else OTHERS_MAX_PIXELS
            if image.width * image.height > most:
                return None
            image.draft("RGB", (PREVIEW_PIXELS, PREVIEW_PIXELS))
            image.thumbnail((PREVIEW_PIXELS, PREVIEW_PIXELS))
            upright = ImageOps.exif_transpose(image)
            # What is transparent is shown on white, as a page of paper would.
            shown = Image.new("RGB", upright.size, "white")
            layer = upright.convert("RGBA")
            shown.paste(layer, mask=layer)
            written = io.BytesIO()
            shown.save(written, "JPEG", quality=QUALITY)
            return written.getvalue()
    except Exception:  # noqa: BLE001 - decoders of strangers' bytes fail in every way there is
        return None
