"""What headers say of images and recordings: exactly, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.values.media import Pixels, media_type_of, pixels_of, seconds_of
from tests import media

IMAGES = {
    "image/png": media.png(640, 480),
    "image/jpeg": media.jpeg(640, 480, before=b"\xff\xe1\x00\x06\xff\xc0\xff\xd8\xff\x01"),
    "image/gif": media.gif(640, 480),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_the_size_of_an_image_stands_in_its_header(kind: str) -> None:
    assert media_type_of(IMAGES[kind]) == kind
    assert pixels_of(IMAGES[kind]) == Pixels(640, 480)


@pytest.mark.parametrize("content", [media.LOSSY, media.LOSSLESS, media.WITH_ALPHA])
def test_so_does_that_of_each_kind_of_webp(content: bytes) -> None:
    assert media_type_of(content) == "image/webp"
    assert pixels_of(content) == Pixels(1, 1)


def test_sizes_of_webp_are_read_where_they_stand() -> None:
    """The fields as RFC 9649 lays them out, with sizes that tell them apart."""
    lossy = media.LOSSY[:26] + (0x4000 | 300).to_bytes(2, "little") + (200).to_bytes(2, "little")
    lossless = media.LOSSLESS[:21] + ((300 - 1) | (200 - 1) << 14 | 7 << 28).to_bytes(4, "little")
    extended = media.WITH_ALPHA[:24] + (300 - 1).to_bytes(3, "little") + (200 - 1).to_bytes(3, "little")
    assert {pixels_of(each) for each in (lossy, lossless, extended)} == {Pixels(300, 200)}


def test_a_picture_beyond_its_screen_makes_that_larger() -> None:
    assert pixels_of(media.gif(10, 10, left=5, wide=4_000)) == Pixels(4_005, 10)


@pytest.mark.parametrize("content", [media.png(0, 5), media.jpeg(5, 0), b"\xff\xd8\xff\xd9", b"plain", b"", media.PDF])
def test_what_says_no_size_has_none(content: bytes) -> None:
    assert pixels_of(content) is None


@pytest.mark.parametrize("content", [*IMAGES.values(), media.LOSSY, media.LOSSLESS, media.WITH_ALPHA])
def test_a_header_that_was_cut_says_nothing_or_the_same(content: bytes) -> None:
    assert {pixels_of(content[:size]) for size in range(len(content))} == {None, pixels_of(content)}


@pytest.mark.parametrize(("rate", "channels", "width"), [(8_000, 1, 2), (44_100, 2, 2), (48_000, 6, 3), (11_025, 1, 1)])
def test_a_recording_of_samples_lasts_as_long_as_its_bytes(rate: int, channels: int, width: int) -> None:
    content = media.wav(2, rate=rate, channels=channels, width=width)
    assert media_type_of(content) == "audio/wav"
    assert 2 <= (seconds_of(content) or 0) < 2.01


def test_packed_samples_and_two_formats_have_no_length() -> None:
    content = media.wav(1)
    packed = content[:20] + b"\x02\x00" + content[22:]  # ADPCM
    twice = content[:36] + content[12:36] + content[36:]
    assert (seconds_of(packed), seconds_of(twice)) == (None, None)


def test_mp3_is_followed_from_frame_to_frame() -> None:
    content = media.mp3(100)
    assert media_type_of(content) == "audio/mpeg"
    assert seconds_of(content) == pytest.approx(100 * 1152 / 44_100)
    tagged = b"ID3\x04\x00\x00\x00\x00\x02\x01" + bytes(257) + content + b"TAG" + bytes(125)
    assert media_type_of(tagged) == "audio/mpeg"
    assert seconds_of(tagged) == seconds_of(content)
    assert seconds_of(content + b"\0" + content) is None  # nobody knows what a decoder makes of a gap


@given(st.binary(max_size=200), st.sampled_from([b"", *(content[:30] for content in IMAGES.values()), b"ID3", b"\xff\xfb"]))
def test_no_bytes_are_too_strange(content: bytes, start: bytes) -> None:
    pixels, seconds = pixels_of(start + content), seconds_of(start + content)
    assert pixels is None or min(pixels) > 0
    assert seconds is None or seconds > 0
