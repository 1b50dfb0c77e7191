"""Which attached files count as a photo of what is wrong. Nobody looks at what is on it."""

from __future__ import annotations

from mailagent.domain.mail.message import Attachment

# Some mail programs send a picture as application/octet-stream; then its name has to do.
_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".heic", ".heif", ".gif", ".bmp", ".tif", ".tiff")

# Logos in signatures and counting pixels are pictures too, but smaller than any photo.
PHOTO_MIN_BYTES = 10_000
# Pages show six.
PREVIEWS_OF_MAIL_MAX = 20


def is_photo(file: Attachment) -> bool:
    """Say whether a file may be a photo: a picture by its type or its name, and not a tiny one."""
    kind = file.content_type.partition(";")[0].strip().lower()
    drawn = kind == "image/svg+xml"
    picture = kind.startswith("image/") or (
        kind in ("", "application/octet-stream") and file.name.lower().endswith(_ENDINGS)
    )
    return picture and not drawn and file.size_bytes >= PHOTO_MIN_BYTES
