"""What all subjects of an engine's control stand on, and what a name that somebody gives must be.

Never here: a command.
"""

from __future__ import annotations

from unicodedata import category

from holdfast.control.inquiry import Inquiries
from holdfast.core.claim import Claim
from holdfast.core.graph import Graph
from holdfast.core.ids import MOST_NAME_BYTES
from holdfast.engine.executor import Executor
from holdfast.errors import InvalidInput


class ControlBase(Inquiries):
    """One subject of an engine's control: commands, and the questions that may be asked besides."""

    def __init__(self, executor: Executor, trace_id: str | None = None) -> None:
        """`trace_id`: in which trace things are told, unless a claim says so itself."""
        super().__init__(executor.services.runtime.store)
        self.executor = executor
        self.runtime = executor.services.runtime
        self.payloads = executor.services.payloads
        self._trace_id = trace_id

    async def graph_of(self, graph_hash: str) -> Graph:
        return await self.runtime.catalog.graph_of(graph_hash)

    def _claim(self, by: str | Claim | None) -> Claim:
        """Who acts, as he says, without the values of secrets; a name of blanks is none."""
        claim = by if isinstance(by, Claim) else Claim(by)
        name = self._clean(claim.name)
        name = name and word("name of who acts", name)
        name = name if name and name.strip() else None
        return claim._replace(name=name, trace_id=claim.trace_id or self._trace_id)

    def _clean(self, text: str | None) -> str | None:
        """What a person typed, without the values of secrets."""
        return None if text is None else self.payloads.redact(text)


def word(what: str, text: str) -> str:
    """`text`, which must be one that can be stored: what others would look for must be what was meant."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"The {what} {text!r} is not valid Unicode text. Nothing was done.") from None
    if "\0" in text:
        raise InvalidInput(
            f"The {what} {text!r} holds the character NUL, which no store keeps in a name. Nothing was done."
        )
    if (size := len(text.encode())) > MOST_NAME_BYTES:
        raise InvalidInput(
            f"The {what} {text[:20]!r}… has {size} bytes; a name has {MOST_NAME_BYTES} at most. Nothing was done."
        )
    if any(category(sign) in ("Cc", "Zl", "Zp") for sign in text):
        raise InvalidInput(f"The {what} {text!r} holds a control character or a line break. Nothing was done.")
    return text
