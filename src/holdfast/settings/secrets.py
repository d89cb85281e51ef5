"""Secrets by name: the type of a setting that names one, their values from the environment or a file, and their
removal.

Never here: the value of a secret in a repr, a message or a file of ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator

from holdfast.errors import MissingSecret, UsageError
from holdfast.platform import privacy
from holdfast.platform.masking import SHORTEST, Mask, Masking, MaskingOfTexts, passwords, share

_NUL_SHOWN: Final = "\u2400"
"""The sign for NUL, in its place: no text of PostgreSQL holds the character itself."""
AUDIT_KEY: Final = "HOLDFAST_AUDIT_KEY"
"""Secret with which the audit log is signed; several with commas between, the newest first."""
_SHORTEST_AUDIT_KEY: Final = 32
"""Bytes: as many as SHA-256 gives, below which a key of HMAC is discouraged (RFC 2104, section 3)."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROVIDER_KEYS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class SecretName(str):
    """The name of a secret, in the type of each setting that takes one (`NameOfSecret`)."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        """Raises ValueError for what can be no name, without repeating it: it may be the value."""
        if not _VARIABLE.fullmatch(value):
            raise ValueError(
                "it takes the name of a secret, of letters, digits and _, like API_TOKEN. Set the value in the environment"
                " variable of that name, or in HOLDFAST_SECRETS_FILE"
            )
        return super().__new__(cls, value)


NameOfSecret = Annotated[str, AfterValidator(SecretName)]


class Secrets:
    """Secrets by name, from the environment or a file of `NAME=value` lines; and the removal of their values from
    whatever is stored, logged or shown."""

    def __init__(self, file: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._file = _read(file) if file is not None else {}
        self._mask = Mask()
        share(self._mask)  # logs show none of them
        self.redact_bytes: Final = self._mask.apply
        """Returns text or JSON, encoded, without the value of any known secret. The same object if there was none."""
        self._mask.add([*self._file.values(), *(self._environment.get(name, "") for name in _PROVIDER_KEYS)])

    def __repr__(self) -> str:
        return f"<{len(self._mask)} secrets>"

    def know_passwords(self, *addresses: str | None) -> None:
        """Have the passwords in these URLs replaced as well."""
        for address in addresses:
            self._mask.add(passwords(address or ""))

    def get(self, name: str) -> str:
        """The secret's value. From now on it is replaced wherever it would be stored. Raises MissingSecret."""
        value = self._file.get(name) or self._environment.get(name)
        if not value:
            try:
                SecretName(name)
            except ValueError as problem:
                raise MissingSecret(f"There is no such secret: {problem}.") from None
            raise MissingSecret(f"There is no secret {name!r}. Set the environment variable {name}, or HOLDFAST_SECRETS_FILE.")
        if len(value) < SHORTEST:
            raise MissingSecret(
                f"The secret {name!r} is shorter than {SHORTEST} characters, so it cannot be distinguished from"
                " ordinary text when it is to be removed. Use a longer one."
            )
        self._mask.add([value])
        return value

    def audit_keys(self) -> tuple[bytes, ...]:
        """The keys with which the audit log is signed, the newest first, as the secret HOLDFAST_AUDIT_KEY has them with commas
        between; none where it is not set. Raises UsageError for one that could be guessed."""
        if not self.has(AUDIT_KEY):
            return ()
        keys = [each.strip() for each in self.get(AUDIT_KEY).split(",")]
        self._mask.add(keys)
        if any(len(each.encode()) < _SHORTEST_AUDIT_KEY for each in keys):
            raise UsageError(
                f"Each key in {AUDIT_KEY} needs {_SHORTEST_AUDIT_KEY} bytes or more: `openssl rand -hex 32` makes one."
                " Nothing was started."
            )
        return tuple(each.encode() for each in keys)

    def has(self, name: str) -> bool:
        """Return True if a secret of that name exists."""
        return bool(self._file.get(name) or self._environment.get(name))

    def masking(self) -> Masking:
        """The same of a text that comes in pieces."""
        return Masking(self._mask)

    def masking_of_texts(self) -> MaskingOfTexts:
        """Return the same for texts that come one after the other."""
        return MaskingOfTexts(self._mask)

    def redact(self, text: str) -> str:
        """`text` as it may be stored and shown: without secrets, and without what not every database can hold."""
        return self.redact_bytes(text.encode("utf-8", "replace")).decode().replace("\0", _NUL_SHOWN)


def _read(path: Path) -> dict[str, str]:
    try:
        lines = privacy.read_secret(path, "secrets file").decode().splitlines()
    except UnicodeDecodeError as problem:
        raise UsageError(f"The secrets file {path} is no text in UTF-8: {problem.reason}. Nothing was started.") from None
    pairs = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}
