"""Takes what is personal out of a record: each value is replaced by another of its kind, the same everywhere in a file.

Secrets are no matter of this: they are never stored. Never here: which fields are personal, but for those of the engine's own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.values.payload import Payload, inline
from holdfast.evaluation.rewriting import rewrite
from holdfast.platform.redaction import PersonalData

_PEOPLE: Final = frozenset({"by", "os_user", "client"})
_WORDS: Final = frozenset({"message", "reason", "key", "trace"})


class Redaction:
    """Redaction rules for the records of one file. They replace e-mail addresses, telephone, card and account numbers, and
    names of actors.

    Args:
        fields: Names of fields whose whole values are replaced, in any letter case.
    """

    def __init__(self, fields: Collection[str] = ()) -> None:
        self._personal = PersonalData(fields)

    def of(self, event: ev.Event) -> ev.Event:
        if isinstance(event, ev.ModelCallHeld):  # a prompt says in words what the input says in fields
            event = msgspec.structs.replace(event, request=None)
        return rewrite(event, self._leaf)

    def _leaf(self, name: str, value: Any) -> Any:
        if isinstance(value, Payload):
            return inline(self._personal.data(value.value()))
        if not isinstance(value, str):
            return self._personal.data(value)
        if name in _PEOPLE and value:
            return f"redacted-{self._personal.mark(value)}"
        return self._personal.without(value) if name in _WORDS else value
