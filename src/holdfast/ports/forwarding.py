"""The model calls of a program that a step runs, between its HTTP server and the journal of the step.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.core.values.ids import RunId, StepId
from holdfast.ports.model import ForwardedReply, ForwardedRequest


class ReplyWriter(Protocol):
    """Receives a streamed reply for a program that may have gone. Both methods return at once and raise nothing."""

    def begin(self, max_tokens: int | None) -> None:
        """Called once before the first event, with the maximum that was bought; None where it is the program's own."""
        ...

    def tell(self, piece: str) -> None:
        """Take the next event of the stream, with the line breaks that end it."""
        ...


class ForwardedCalls(Protocol):
    """One attempt's model calls by a program. Several may be under way at once; each is answered from the journal or made."""

    run: RunId
    step: StepId

    async def forward(self, request: ForwardedRequest, writer: ReplyWriter) -> ForwardedReply:
        """Return the whole reply to a request, recorded or new. `writer` also gets a streamed reply, event by event.

        If it is cancelled, nothing more is written. A call that has left is finished and journaled all the same, and its reply
        answers the next identical request.

        Raises CallsStopped where this call and every later one is refused: at a limit, or where the program asks for something
        else than before. Raises OperationFailed, whose `error` is recorded, where the provider refused the call or its reply
        was lost: if the writer has begun, the reply is to be cut off.
        """
        ...

    def undelivered(self, request: ForwardedRequest) -> None:
        """Take note that a reply was returned and could not be given to the program: the next identical request gets it."""
        ...
