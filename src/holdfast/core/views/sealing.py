"""The form in which a store keeps what users have stored: as it is, or encrypted by a codec under a key of its tenant.

What is encrypted is a JSON string in base64, so it stands where JSON or a text did; a blob is bytes. Both begin with a mark;
what has none is read as it stands: so a store may be encrypted from some day on. Content of users that begins with the mark by
itself is escaped.

Never here: a key, an algorithm, a database; which columns there are is each store's.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from holdfast.core.nouns.shared_values import SharedIndex
from holdfast.core.values.payload import SEALED, Payload
from holdfast.core.views.projection import (
    Changes,
    DeadLetter,
    EffectChange,
    EffectRow,
    GateRow,
    KeyClaim,
    KeyOutcome,
    SharedChange,
)
from holdfast.errors import CorruptHistory, KeyMissing

if TYPE_CHECKING:
    from holdfast.ports import Codec

T = TypeVar("T")

_MARK: Final = b'"hf1:'
_ESCAPED: Final = b'"hf0:'
_BLOB_MARK: Final = b"\0hf1"
_BLOB_ESCAPED: Final = b"\0hf0"
_CANARY: Final = b"holdfast"
GONE: Final = "[encrypted, and its key is gone]"
"""Stands in lists in the place of a text that cannot be read any more."""

_replace = msgspec.structs.replace
_decode_field = msgspec.json.Decoder(tuple[str, str]).decode


class Sealing:
    """A store's treatment of content on its way in and out. Without a codec it encrypts nothing; without `seals` it only reads
    what was encrypted before."""

    def __init__(self, codec: Codec | None = None, *, seals: bool | None = True) -> None:
        """`seals` is None if it is not set whether all payloads are encrypted: they are not, and a store whose payloads are
        encrypted is not opened."""
        self._codec = codec
        self.is_on = codec is not None and bool(seals)
        self.is_undecided = seals is None
        self.has_keys = codec is not None

    # --- Keys ---------------------------------------------------------------------------------------------------------

    def canary(self, tenant: str) -> str | None:
        """Return a known text, sealed for a tenant: the same in each process with its key. None without keys. Raises
        KeyMissing."""
        if self._codec is None:
            return None
        return base64.b64encode(self._codec.encrypt(tenant, _CANARY, alike=True)).decode()

    def opens(self, canary: str) -> bool:
        """Return True if the key is here with which another process has sealed that text."""
        try:
            return self._decrypted(base64.b64decode(canary)) == _CANARY
        except (CorruptHistory, binascii.Error):
            return False

    # --- Content ------------------------------------------------------------------------------------------------------

    def seal(self, tenant: str, content: bytes) -> bytes:
        """Return JSON or a text as it is kept. Raises KeyMissing."""
        if self._codec is not None and self.is_on:
            return _framed(_MARK, self._codec.encrypt(tenant, content), len(content))
        return _framed(_ESCAPED, content, len(content)) if content.startswith((_MARK, _ESCAPED)) else content

    def seal_blob(self, tenant: str, content: bytes) -> bytes:
        """Return a blob as it is kept, the same bytes for the same content. Raises KeyMissing."""
        if self._codec is not None and self.is_on:
            return _BLOB_MARK + self._codec.encrypt(tenant, content, alike=True)
        return _BLOB_ESCAPED + content if content.startswith((_BLOB_MARK, _BLOB_ESCAPED)) else content

    def open(self, stored: bytes) -> bytes:
        """Return what was sealed, or what was never. Raises KeyMissing, CorruptHistory."""
        if stored.startswith(_MARK):
            return self._decrypted(_unframed(stored))
        return _unframed(stored) if stored.startswith(_ESCAPED) else stored

    def open_blob(self, stored: bytes) -> bytes:
        """Return what was sealed as a blob, or what was never. Raises KeyMissing, CorruptHistory."""
        if stored.startswith(_BLOB_MARK):
            return self._decrypted(stored[len(_BLOB_MARK) :])
        return stored.removeprefix(_BLOB_ESCAPED)

    def _decrypted(self, encrypted: bytes) -> bytes:
        if self._codec is None:
            raise KeyMissing("This is encrypted in the store, and no key file is set here (HOLDFAST_KEY_FILE).")
        return self._codec.decrypt(encrypted)

    # --- Texts and payloads -------------------------------------------------------------------------------------------

    def seal_text(self, tenant: str, text: str) -> str:
        """Return a text as it is kept."""
        return self.seal(tenant, text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def open_text(self, stored: str) -> str:
        """Return a text of a list; words in its place where it cannot be read."""
        try:
            return self.open_hash(stored)
        except CorruptHistory:
            return GONE

    def open_hash(self, stored: str) -> str:
        """Return a text that another is compared with. Raises KeyMissing, CorruptHistory: no answer is better than a wrong
        one."""
        return self.open(stored.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def seal_payload(self, tenant: str, payload: Payload) -> Payload:
        """Return a payload as it is kept; one in a blob is sealed there."""
        if payload.blob is not None:
            return payload
        return _replace(payload, json=msgspec.Raw(self.seal(tenant, bytes(payload.json))))

    def open_payload(self, payload: Payload) -> Payload:
        """Return a payload of a list; words in its place where it cannot be read."""
        if payload.blob is not None:
            return payload
        try:
            return _replace(payload, json=msgspec.Raw(self.open(bytes(payload.json))))
        except CorruptHistory:
            return Payload(json=msgspec.Raw(msgspec.json.encode(GONE)))

    def seal_field(self, tenant: str, text: str) -> str:
        """Return a sensitive text as it is stored: the same text of a tenant alike, so that a replay asks for the same. Raises
        KeyMissing."""
        if self._codec is None:
            raise KeyMissing("A sensitive field is stored encrypted, and no key file is set here (HOLDFAST_KEY_FILE).")
        content = msgspec.json.encode([tenant, text])
        return f"{SEALED}{base64.urlsafe_b64encode(self._codec.encrypt(tenant, content, alike=True)).decode()}]"

    def open_field(self, tenant: str, sealed: str) -> str:
        """Return the text of a tenant's own field. Raises KeyMissing, CorruptHistory for what is no such text."""
        try:
            encrypted = base64.urlsafe_b64decode(sealed.removeprefix(SEALED).removesuffix("]"))
        except (binascii.Error, ValueError):
            encrypted = b""
        if not encrypted:
            raise CorruptHistory("This is no sealed text.")
        owner, text = _decode_field(self._decrypted(encrypted))
        if owner != tenant:
            raise CorruptHistory("This sealed text is another tenant's.")
        return text

    def seal_hash(self, tenant: str, digest: str) -> str:
        """Return a hash of what may hold sensitive fields as it is kept: encrypted as soon as there are keys."""
        if self._codec is None or self.is_on:
            return self.seal_text(tenant, digest)
        return _framed(_MARK, self._codec.encrypt(tenant, digest.encode()), len(digest)).decode()

    def readable(self, decode: Callable[[bytes], T], stored: bytes) -> T | None:
        """Return what a body of a list says; None where its key is gone: one that was erased keeps no other from being seen."""
        try:
            return decode(self.open(stored))
        except KeyMissing:
            return None

    # --- What a commit changes ----------------------------------------------------------------------------------------

    def seal_changes(self, changes: Changes) -> Changes:
        """Return the rows beside a history as they are kept. Names, states, times and money stay as they are."""
        tenant = changes.run.tenant
        start, letters = changes.start_key, changes.dead_letters
        beside = changes.effects or changes.effect_changes or changes.effect_keys or changes.shared_values
        if not beside and start is None and not letters and not changes.gates:
            return changes
        return _replace(
            changes,
            gates=tuple(self._gate(tenant, each) for each in changes.gates),
            start_key=start and _replace(start, input_digest=self.seal_text(tenant, start.input_digest)),
            effects=tuple(self._effect(tenant, each) for each in changes.effects),
            effect_changes=tuple(self._effect_change(tenant, each) for each in changes.effect_changes),
            effect_keys=tuple(self._effect_key(tenant, each) for each in changes.effect_keys),
            dead_letters=None if letters is None else tuple(self._letter(each) for each in letters),
            shared_values=tuple(self.seal_shared(each) for each in changes.shared_values),
        )

    def seal_shared(self, change: SharedChange) -> SharedChange:
        """Return a version of a shared value as it is kept. Its words and its vector would tell what it says."""
        if not self.is_on:
            return change
        index = None if change.index is None else SharedIndex()
        return _replace(change, body=self.seal(change.tenant, change.body), index=index)

    def _maybe(self, tenant: str, text: str | None) -> str | None:
        return None if text is None else self.seal_text(tenant, text)

    def _gate(self, tenant: str, row: GateRow) -> GateRow:
        evidence = tuple(self.seal_text(tenant, each) for each in row.evidence_ids)
        action, title = self._maybe(tenant, row.proposed_action), self._maybe(tenant, row.title)
        return _replace(row, proposed_action=action, title=title, evidence_ids=evidence)

    def open_gate(self, row: GateRow) -> GateRow:
        """Return a row of a list of gates as it was projected."""
        action = None if row.proposed_action is None else self.open_text(row.proposed_action)
        title = None if row.title is None else self.open_text(row.title)
        return _replace(row, proposed_action=action, title=title, evidence_ids=tuple(map(self.open_text, row.evidence_ids)))

    def _effect(self, tenant: str, row: EffectRow) -> EffectRow:
        return _replace(row, request=self.seal_payload(tenant, row.request))

    def _effect_change(self, tenant: str, change: EffectChange) -> EffectChange:
        answer = change.response and self.seal_payload(tenant, change.response)
        return _replace(change, response=answer, error=self._maybe(tenant, change.error))

    def _effect_key(self, tenant: str, change: KeyClaim | KeyOutcome) -> KeyClaim | KeyOutcome:
        if isinstance(change, KeyClaim):
            return _replace(change, args_hash=self.seal_text(tenant, change.args_hash))
        return _replace(change, response=change.response and self.seal_payload(tenant, change.response))

    def _letter(self, letter: DeadLetter) -> DeadLetter:
        return _replace(letter, message=self.seal_text(letter.tenant, letter.message))


PLAIN: Final = Sealing()
"""That of a store in which nothing is encrypted."""


def size_of(head: bytes, kept_bytes: int) -> int:
    """The bytes of a content that is kept in so many, of which `head` are the first twenty: the mark, and the size."""
    if not head.startswith((_MARK, _ESCAPED)):
        return kept_bytes
    return int(head[len(_MARK) :].partition(b":")[0])


def _framed(mark: bytes, content: bytes, size: int) -> bytes:
    return b'%b%d:%b"' % (mark, size, base64.b64encode(content))


def _unframed(stored: bytes) -> bytes:
    try:
        return base64.b64decode(stored[len(_MARK) : -1].partition(b":")[2], validate=True)
    except binascii.Error as problem:
        raise CorruptHistory(f"An encrypted value in the store is damaged ({problem}).") from problem
