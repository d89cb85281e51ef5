"""Headers of images and recordings: the media type, the pixels, the seconds.

It is strict, because it decides what a model bills: content that is not laid out as its format says has no size here. The
formats: PNG (W3C, 2003), JPEG (ITU-T T.81), GIF89a, WebP (RFC 9649), RIFF WAVE, MPEG audio (ISO 11172-3 and 13818-3).

Never here: decoding pictures or sound, tokens.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple


class Pixels(NamedTuple):
    width: int
    height: int


_PNG: Final = b"\x89PNG\r\n\x1a\n"
_JPEG: Final = b"\xff\xd8\xff"
_GIFS: Final = (b"GIF87a", b"GIF89a")
_WITH_SIZE: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG that begin a frame; the three are tables."""
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
"""Markers of a JPEG without a length."""
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_ID3V1_BYTES: Final = 128


def media_type_of(content: bytes) -> str | None:
    """Return the media type that `content` begins as; None for none of these formats, as for a text."""
    if content.startswith(_PNG):
        return "image/png"
    if content.startswith(_JPEG):
        return "image/jpeg"
    if content.startswith(_GIFS):
        return "image/gif"
    if content.startswith(b"RIFF") and content[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if content[8:12] == b"WEBP" else "audio/wav"
    if content.startswith(b"%PDF-"):
        return "application/pdf"
    if content.startswith(b"ID3") or _frame(content, 0) is not None:
        return "audio/mpeg"
    return None


def pixels_of(content: bytes) -> Pixels | None:
    """The size of an image; None where its header does not say it."""
    reader = _PIXELS.get(media_type_of(content) or "")
    try:
        found = reader(content) if reader is not None else None
    except (struct.error, IndexError):  # it ends too early
        return None
    return found if found is not None and min(found) > 0 else None


def seconds_of(content: bytes) -> float | None:
    """Return the longest possible duration of a recording: WAV of plain samples, or MP3, which is followed from frame to frame.
    None if that cannot be known."""
    reader = _SECONDS.get(media_type_of(content) or "")
    try:
        return reader(content) if reader is not None else None
    except (struct.error, IndexError):
        return None


def _png(content: bytes) -> Pixels | None:
    length, name, width, height = struct.unpack_from(">I4sII", content, 8)
    return Pixels(width, height) if (length, name) == (13, b"IHDR") else None


def _jpeg(content: bytes) -> Pixels | None:
    at = 2
    while content[at] == 0xFF:
        marker = content[at + 1]
        if marker == 0xFF:  # a byte of filling
            at += 1
        elif marker in _ALONE:
            at += 2
        elif marker in _WITH_SIZE:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return Pixels(width, height)
        else:
            (length,) = struct.unpack_from(">H", content, at + 2)
            if length < 2 or marker in (0xD9, 0xDA):  # the end, or what is shown, before any size
                return None
            at += 2 + length
    return None


def _gif(content: bytes) -> Pixels | None:
    """The screen, or more where the first picture lies beyond it, as some decoders let it."""
    width, height, flags = struct.unpack_from("<HHB", content, 6)
    at = 13 + _colours(flags)
    while content[at] == 0x21:  # an extension: its label, then blocks up to an empty one
        at += 2
        while size := content[at]:
            at += 1 + size
        at += 1
    if content[at] != 0x2C:
        return None
    left, top, wide, high = struct.unpack_from("<HHHH", content, at + 1)
    return Pixels(max(width, left + wide), max(height, top + high))


def _colours(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _webp(content: bytes) -> Pixels | None:
    kind = content[12:16]
    if kind == b"VP8X":
        return Pixels(1 + int.from_bytes(content[24:27], "little"), 1 + int.from_bytes(_whole(content, 27, 3), "little"))
    if kind == b"VP8L" and content[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", content, 21)
        return Pixels(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    if kind == b"VP8 " and content[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", content, 26)
        return Pixels(width & 0x3FFF, height & 0x3FFF)
    return None


def _whole(content: bytes, at: int, size: int) -> bytes:
    if len(content) < at + size:
        raise IndexError
    return content[at : at + size]


def _wav(content: bytes) -> float | None:
    """As if every byte of the file were a sample."""
    at, a_second = 12, 0
    while at + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, at)
        if name == b"data":
            return len(content) / a_second if a_second else None
        if name == b"fmt ":
            if a_second:
                return None
            a_second = _samples(content, at + 8, size)
            if not a_second:
                return None
        at += 8 + size + size % 2
    return None


def _samples(content: bytes, at: int, size: int) -> int:
    """The bytes of a second; 0 where the samples are not plain ones."""
    kind, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", content, at)
    if kind == _EXTENSIBLE and size >= 26:
        (kind,) = struct.unpack_from("<H", content, at + 24)
    plain = kind in (_PCM, _FLOAT) and channels > 0 and bits in (8, 16, 24, 32, 64)
    return rate * block if plain and block == channels * bits // 8 else 0


def _mp3(content: bytes) -> float | None:
    at, end, seconds = _after_tag(content), len(content), 0.0
    if content[-_ID3V1_BYTES:].startswith(b"TAG"):
        end -= _ID3V1_BYTES
    while at < end:
        frame = _frame(content, at)
        if frame is None:
            return None
        size, lasts_s = frame
        at += size
        seconds += lasts_s
    return seconds or None


def _after_tag(content: bytes) -> int:
    """Return the end of an ID3v2 tag, whose length is four times seven bits."""
    if not content.startswith(b"ID3"):
        return 0
    footer = 10 if content[5] & 0x10 else 0
    return 10 + footer + sum((byte & 0x7F) << shift for byte, shift in zip(_whole(content, 6, 4), (21, 14, 7, 0), strict=True))


_KBIT_S: Final = {
    1: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Of layer III, by the version; the first of the table is free format, whose frames say no length, the last is none."""
_RATES: Final = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
"""Samples a second, by the two bits of the version."""


def _frame(content: bytes, at: int) -> tuple[int, float] | None:
    """The bytes and the seconds of a frame of layer III; None where none begins."""
    if len(content) < at + 4 or content[at] != 0xFF or content[at + 1] & 0xE6 != 0xE2:
        return None
    version, third = content[at + 1] >> 3 & 3, content[at + 2]
    bitrate, rate = third >> 4, third >> 2 & 3
    if version == 1 or bitrate in (0, 15) or rate == 3:
        return None
    samples = 1152 if version == 3 else 576
    a_second = _RATES[version][rate]
    kbit_s = _KBIT_S[1 if version == 3 else 2][bitrate - 1]
    return samples // 8 * kbit_s * 1000 // a_second + (third >> 1 & 1), samples / a_second


_PIXELS: Final[Mapping[str, Callable[[bytes], Pixels | None]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
_SECONDS: Final[Mapping[str, Callable[[bytes], float | None]]] = {"audio/wav": _wav, "audio/mpeg": _mp3}
