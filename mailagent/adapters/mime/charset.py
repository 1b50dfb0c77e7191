"""Bytes to text whatever the charset says, and text that every database takes. Never raises."""

from __future__ import annotations

import codecs
import re
from encodings.aliases import aliases

# Codecs that are not charsets, or whose cost or result an attacker could abuse.
_NOT_CHARSETS = {
    *("base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"),
    *("idna", "mbcs", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"),
}
# Codecs that Python lists under no other name.
_UNALIASED = ("koi8_t", "koi8_u", "cp720", "cp737", "cp856", "cp1006", "mac_croatian")
# Each of these names is used in mail for the wider set that contains it.
_WIDER = {
    **{"ascii": "utf_8", "latin_1": "cp1252", "iso2022_jp": "iso2022_jp_2", "euc_kr": "cp949"},
    **{"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "big5": "big5hkscs"},
}
# What real mail says and Python does not know.
_MAIL_NAMES = {
    **{"iso_8859_8_i": "iso8859_8", "iso_8859_8_e": "iso8859_8", "iso_8859_6_i": "iso8859_6"},
    **{"sjis": "cp932", "utf8mb4": "utf_8", "unicode_1_1_utf_7": "utf_7", "windows_874": "cp874"},
}
_CHARSETS = {
    name: _WIDER.get(codec, codec)
    for name, codec in (
        *((codec, codec) for codec in (*aliases.values(), *_UNALIASED)),
        *aliases.items(),
        *_MAIL_NAMES.items(),
    )
    if codec not in _NOT_CHARSETS
}
# All 256 bytes, as browsers read windows-1252: the five it leaves open are control characters.
_WINDOWS_1252 = "".join(
    bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256)
)
# Repairing byte by byte costs a Python call each: beyond this the text was never UTF-8.
_REPAIRS_MAX = 2_000

_CHARSET_NAME = re.compile(r"[a-z0-9][a-z0-9_:.+()-]{0,39}")
_UNWANTED = re.compile("[\x00\ud800-\udfff]")


def _repair(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return codecs.charmap_decode(wrong, "strict", _WINDOWS_1252)[0], error.end


codecs.register_error("mailagent.windows1252", _repair)


def decode(data: bytes, charset: str | None) -> str:
    """Return bytes as text: the declared charset, then UTF-8, then windows-1252.

    Bytes that are not UTF-8 in a text that otherwise is are read as windows-1252 one by one, so
    one stray byte does not garble the rest. The result is clean (see `clean`).
    """
    codec = _CHARSETS.get(_normal_name(charset)) if charset else None
    if codec is not None and codec != "utf_8":
        try:
            return clean(_decode_strict(data, codec))
        except (UnicodeError, LookupError):
            pass
    try:
        return clean(data.decode("utf-8"))
    except UnicodeDecodeError:
        return clean(_decode_mixed(data))


def _decode_strict(data: bytes, codec: str) -> str:
    if codec == "cp1252":
        return codecs.charmap_decode(data, "strict", _WINDOWS_1252)[0]
    return data.decode(codec)


def _decode_mixed(data: bytes) -> str:
    if data.decode("utf-8", "replace").count("\ufffd") > _REPAIRS_MAX:
        return codecs.charmap_decode(data, "strict", _WINDOWS_1252)[0]
    return data.decode("utf-8", "mailagent.windows1252")


def _normal_name(charset: str) -> str:
    name = charset.strip(" \t\"'").partition("*")[0].lower()
    if not _CHARSET_NAME.fullmatch(name):
        return ""
    name = re.sub("[^a-z0-9]+", "_", name).strip("_")
    return re.sub(r"^cp_(?=\d)", "cp", name.removeprefix("x_"))


def clean(text: str) -> str:
    """Return `text` without byte-order marks, NUL and lone surrogates, which PostgreSQL refuses."""
    if text.isascii():
        return text.replace("\x00", "")
    return _UNWANTED.sub("", text.removeprefix("\ufeff"))
