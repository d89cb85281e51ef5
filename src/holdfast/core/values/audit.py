"""The audit log: who did what from outside, from where, and what came of it, each entry chained to the one before by its hash.

An entry that was changed, taken out or put in between breaks the chain from there on. The head, kept beside the log from before
the first entry on, says which entry is the last: a log that was cut short or emptied does not agree with it. The next entry
follows the head; where that is not the last row it follows nothing, so the break stays in the chain for ever. One who can write
the store can write chain and head again. With a key that is not in the store, each entry and the head are signed (HMAC with
SHA-256, RFC 2104), which only a holder of the key can do. Never here: where it is kept (ports.caller).
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

FIRST: Final = "0" * 64
"""What stands before the first entry."""
BROKEN: Final = "f" * 64
"""What stands before an entry that follows a log which was not as it was left: no entry has this hash."""
DONE: Final = "done"
MAX_CHARACTERS: Final = 200
"""Of each text of an entry: who is refused writes here too."""


class Entry(NamedTuple):
    """An action from outside. `outcome` is `done`, or the code of the error with which it was refused."""

    at_ms: int
    action: str
    """The command, like `Decide`."""
    about: str
    """What it was done to: a run, a gate, a name."""
    outcome: str
    name: str
    """Who acts."""
    verified: bool
    """Whether the name is that of the token or key, and not a claim of its holder."""
    client: str = ""
    """Whose token or key it came with."""
    os_user: str = ""
    """The operating system's user who typed it."""
    origin: str = ""
    """From where: the address of the connection."""
    tenant: str = ""
    """Tenant for which they act; empty for all."""
    trace_id: str = ""

    def bounded(self) -> Entry:
        """The same, with no text longer than an entry may have."""
        texts: dict[str, Any] = {name: _cut(each) for name, each in self._asdict().items() if isinstance(each, str)}
        return self._replace(**texts)


class Link(NamedTuple):
    """An entry in its place. `tenant` is the tenant whose row it is, which is that of the entry; `signature` is empty where the
    process that added it had no key."""

    number: int
    entry: Entry
    hash: str
    tenant: str
    signature: str = ""


class Head(NamedTuple):
    """The last entry: number 0 before the first one."""

    number: int
    hash: str
    signature: str = ""


Keys: TypeAlias = tuple[bytes, ...]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def link(before: Head | None, entry: Entry, key: bytes = b"") -> Link:
    """The entry that follows the last one, signed with a key if there is one."""
    number = 1 if before is None else before.number + 1
    hash_ = _hash(FIRST if before is None else before.hash, number, entry)
    return Link(number, entry, hash_, entry.tenant, _signed(key, "entry", number, hash_))


def head_of(last: Link, key: bytes = b"") -> Head:
    """The head of a log that ends so."""
    return Head(last.number, last.hash, _signed(key, "head", last.number, last.hash))


def before_next(head: Head | None, last: Head | None, previous: Head, is_known_there: bool, keys: Keys = ()) -> Head:
    """Return what the next entry follows: the head, if that is the last row and was not put there by hand.

    `last` is the last row. `previous` is the last entry that this process has seen, `is_known_there` whether it is still there:
    so a log that was put back as it once stood is noticed. `keys` are those that this process has, the newest first."""
    last = Head(0, FIRST) if last is None else last
    if head is not None and is_known_there and head[:2] == last[:2] and _is_signed_alike(head, last, keys):
        return head
    return Head(max(each.number for each in (head, last, previous) if each), BROKEN)


def _is_signed_alike(head: Head, last: Head, keys: Keys) -> bool:
    """True if a head is signed with one of the keys; a head without a signature stands after a row without one only."""
    if not head.signature:
        return not last.signature
    return not keys or any(hmac.compare_digest(head.signature, _signed(key, "head", head.number, head.hash)) for key in keys)


def _hash(before: str, number: int, entry: Entry) -> str:
    return hashlib.sha256(msgspec.json.encode((before, number, *entry))).hexdigest()


def _signed(key: bytes, name: str, number: int, hash_: str) -> str:
    """Sign an entry or head with a key, if there is one: a signature of either says nothing about the other."""
    return hmac.digest(key, f"holdfast audit {name} {number} {hash_}".encode(), "sha256").hex() if key else ""


class Verification:
    """A reading of the log from its first entry on, which says in words what is not as it was written.

    With `keys`, the newest first, signatures are compared too: an older key counts only until a newer one was used. Entries
    from `signed_from` on must have a signature."""

    def __init__(self, keys: Keys = (), signed_from: int = 1) -> None:
        self.last = Head(0, FIRST)
        self._keys = keys
        self._signed_from = signed_from

    def problem(self, next_: Link) -> str | None:
        """Return what is wrong with the entry that follows; None where nothing is."""
        number = self.last.number + 1
        if next_.number != number:
            return f"Entry {number} of the audit log is missing."
        if next_.hash != _hash(self.last.hash, number, next_.entry):
            return f"The audit log is not as it was written from entry {number} on."
        if next_.tenant != next_.entry.tenant:
            return f"Entry {number} of the audit log was moved to another tenant's."
        if (wrong := self._problem_of_signature("entry", number, next_.hash, next_.signature)) is not None:
            return wrong
        self.last = Head(number, next_.hash)
        return None

    def problem_at_end(self, head: Head | None) -> str | None:
        """Return what is wrong with the log's end, after its last entry, by the head that is kept beside it."""
        last = self.last.number
        if head is None:
            return "The audit log has no head: it was taken away, or the log emptied."
        if head.number > last:
            return f"Entries {last + 1} to {head.number} of the audit log are missing at its end."
        if (head.number, head.hash) != (last, self.last.hash):
            return f"The audit log should end with entry {head.number}: what follows was put there."
        return self._problem_of_signature("head", head.number, head.hash, head.signature)

    def _problem_of_signature(self, name: str, number: int, hash_: str, signature: str) -> str | None:
        if not self._keys:
            return None
        shown = f"Entry {number} of the audit log" if name == "entry" else "The head of the audit log"
        if not signature:
            if name == "entry" and number < self._signed_from:
                return None  # from before there was a key
            return f"{shown} is not signed: it was written by a process without the key, or before there was one, or forged."
        for place, key in enumerate(self._keys):
            if hmac.compare_digest(signature, _signed(key, name, number, hash_)):
                self._keys = self._keys[: place + 1]
                return None
        return f"{shown} is not signed with the key: it was forged, or the key is another."
