"""`Image`, `Audio`, `Document`: what a message to a model may hold besides text.

Light to import, as all that a file of handlers names. Never here: where the bytes are kept, what a provider makes of them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from holdfast.core.values.content import MAX_BYTES
from holdfast.core.values.media import media_type_of

_PDF: Final = "application/pdf"
_BY_SUFFIX: Final[Mapping[str, str]] = {
    ".csv": "text/csv",
    ".htm": "text/html",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".xml": "text/xml",
}
"""Of documents that are text; of any other file the bytes say what it is."""


def _of_base64(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("data is no base64, as bytes are in JSON") from None


Data: TypeAlias = Annotated[
    bytes,
    BeforeValidator(_of_base64),
    PlainSerializer(lambda data: base64.b64encode(data).decode(), when_used="json"),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]


class _Part(BaseModel):
    """Its bytes, in JSON as base64; or the address that Holdfast gets them from; or the hash by which it keeps them."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # most processes see none of these

    type: str
    data: Data | None = Field(default=None, repr=False)
    """Content, if the part has it itself."""
    url: Annotated[str, Field(max_length=4096)] | None = None
    """Address of the content, if the part has one instead."""
    media_type: Annotated[str, Field(pattern=r"^[a-z]+/[a-z0-9.+-]{1,100}$")] | None = None
    """Media type, by default found from the content."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of kept content, set by Holdfast."""
    size_bytes: Annotated[int, Field(ge=0)] | None = None
    """Size of kept content in bytes, set by Holdfast."""
    month: Annotated[str, Field(pattern=r"^\d{4}-\d\d$")] | None = None
    """Month in which the content was kept, set by Holdfast."""

    @classmethod
    def read(cls, file: str | Path) -> Self:
        """Return a part with the present content of a file.

        Args:
            file: Path of the file.

        Raises:
            OSError: The file cannot be read.
            ValueError: The content has another type, or is too large.
        """
        path = Path(file)
        with path.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        known = cls is Document and media_type_of(content) is None
        return cls(data=content, media_type=_BY_SUFFIX.get(path.suffix.lower()) if known else None)  # type: ignore[call-arg]

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(each is not None for each in (self.data, self.url, self.sha256)) != 1:
            raise ValueError("it takes data or a url, one of them")
        if self.data is not None:
            self.__dict__["media_type"] = _media_type(self.type, self.data, self.media_type)
        elif self.sha256 is not None and None in (self.media_type, self.size_bytes, self.month):
            raise ValueError("what is kept by its hash has a media_type, a size_bytes and a month too")
        return self

    @model_serializer(mode="wrap")
    def _brief(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class Image(_Part):
    """A picture: PNG, JPEG, GIF (its first picture) or WebP."""

    type: Literal["image"] = "image"
    """Kind of the part."""


class Audio(_Part):
    """A recording: WAV or MP3."""

    type: Literal["audio"] = "audio"
    """Kind of the part."""


class Document(_Part):
    """A PDF, or a text in UTF-8."""

    type: Literal["document"] = "document"
    """Kind of the part."""


def attached(file: str | Path) -> Image | Audio | Document:
    """A file as the part that its bytes say it is. Raises OSError, ValidationError."""
    with Path(file).open("rb") as opened:
        kind = (media_type_of(opened.read(MAX_BYTES)) or "").partition("/")[0]
    if kind == "image":
        return Image.read(file)
    return Audio.read(file) if kind == "audio" else Document.read(file)


Part: TypeAlias = Annotated[Image | Audio | Document, Field(discriminator="type")]
KINDS: Final = frozenset({"image", "audio", "document"})
_SOURCES: Final = frozenset({"data", "url", "sha256"})


def part_of(value: Any) -> Image | Audio | Document:
    """A part, or what the JSON of one says. Raises ValidationError."""
    return _adapter().validate_python(value)


@cache
def _adapter() -> TypeAdapter[Image | Audio | Document]:
    return TypeAdapter(Part)


def is_part(value: Any) -> bool:
    """Return True if `value` is a part, or the JSON of one."""
    if isinstance(value, _Part):
        return True
    if not isinstance(value, dict) or not isinstance(kind := value.get("type"), str) or kind not in KINDS:
        return False
    return not _SOURCES.isdisjoint(value) and value.keys() <= _Part.model_fields.keys()


def _media_type(kind: str, data: bytes, media_type: str | None) -> str:
    """Return the media type of the bytes. Raises ValueError where that is not what they are called."""
    if not data:
        raise ValueError(f"the {kind} is empty")
    if len(data) > MAX_BYTES:
        raise ValueError(f"the {kind} has more than {MAX_BYTES} bytes, and a part of a message has no more")
    found = media_type_of(data)
    if kind == "document" and found is None:
        return _text_type(data, media_type)
    if found is None or (found != _PDF if kind == "document" else not found.startswith(f"{kind}/")):
        raise ValueError(f"these bytes are no {kind} of a known format, but {found or 'something else'}")
    if media_type not in (None, found):
        raise ValueError(f"the {kind} is called {media_type} and is {found}")
    return found


def _text_type(data: bytes, media_type: str | None) -> str:
    try:
        data.decode()
    except UnicodeDecodeError:
        raise ValueError("the document is neither a PDF nor a text in UTF-8") from None
    if (
        media_type is not None
        and not media_type.startswith("text/")
        and media_type not in ("application/json", "application/xml")
    ):
        raise ValueError(f"the document is called {media_type} and is a text")
    return media_type or "text/plain"
