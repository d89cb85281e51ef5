"""Pictures, recordings and documents for tests: whole files of the size that is asked for, as small as they can be.

Never here: a promise.
"""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib

PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
LOSSY = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
LOSSLESS = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
WITH_ALPHA = base64.b64decode(
    "UklGRkoAAABXRUJQVlA4WAoAAAAQAAAAAAAAAAAAQUxQSAwAAAARBxAR/Q9ERP8DAABWUDggGAAAABQBAJ0BKgEAAQAAAP4AAA3AAP7mtQAAAA=="
)
"""WebP of one pixel, of each kind."""


def png(width: int = 1, height: int = 1) -> bytes:
    rows = zlib.compress((b"\0" + b"\x7f" * width) * height, 9)
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b""))
    chunks = (struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def jpeg(width: int, height: int, *, before: bytes = b"") -> bytes:
    """Its headers, with other segments `before` the one that says the size; nothing is shown."""
    start = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    frame = b"\xff\xff\xc2\x00\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\x00"
    return start + before + frame + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\xff\xd9"


def gif(width: int, height: int, *, left: int = 0, wide: int = 1) -> bytes:
    """A screen, a comment, and a picture on it of one row."""
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    picture = b"\x2c" + struct.pack("<HHHHB", left, 0, wide, 1, 0) + b"\x02\x02\x44\x01\x00"
    return screen + b"\x21\xfe\x03abc\x01d\x00" + picture + b"\x3b"


def wav(seconds: float, *, rate: int = 8_000, channels: int = 1, width: int = 2) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as opened:
        opened.setnchannels(channels)
        opened.setsampwidth(width)
        opened.setframerate(rate)
        opened.writeframes(bytes(int(seconds * rate) * channels * width))
    return file.getvalue()


def mp3(frames: int) -> bytes:
    """So many frames of 1,152 samples at 44,100 a second, 128 kbit/s."""
    return (b"\xff\xfb\x90\x00" + bytes(417 - 4)) * frames
