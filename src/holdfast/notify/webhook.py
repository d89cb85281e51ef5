"""Webhooks by the specification of Standard Webhooks: a signed POST, with an id that stays the same in each try.

Never here: the signature itself (signatures), when a message is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.errors import UsageError
from holdfast.notify.posting import Address
from holdfast.notify.signatures import keys_of, sign
from holdfast.ports.channel import Message, SendResult


class WebhookChannel:
    """A receiver of signed requests."""

    def __init__(
        self,
        url: str,
        secrets: Sequence[str],
        now_ms: Callable[[], int],
        *,
        allow_private: bool | Sequence[str] = False,
        ca_file: str | None = None,
    ) -> None:
        """`secrets` are those with which each request is signed, the newest first: several while they are rotated. Raises
        UsageError."""
        if not secrets:
            raise UsageError("a webhook needs a secret, with which its requests are signed")
        self._address = Address(url, allow_private=allow_private, ca_file=ca_file)
        self._keys = keys_of("standard", secrets)
        self._now_ms = now_ms

    async def send(self, message: Message) -> SendResult:
        """Try to deliver one message. The time in the signature is that of the try."""
        headers = sign("standard", self._keys, message.id, self._now_ms() // 1000, message.body)
        return await self._address.post(message.body, headers)

    async def aclose(self) -> None:
        """Each request has a connection of its own."""
