"""The state of one model call on the wire, and what its failure means for the money held for it.

The facts are read off the connection, not off an exception: did the request begin to leave, did a status come back? A call
certainly cost nothing only if it never left or was answered with a refusal. The cost of every other failed call is in doubt.

Never here: a provider's format, a retry, a key in a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.core.values import policies
from holdfast.errors import ModelError, ModelRateLimited, ModelRefused, ModelUncertain
from holdfast.models.family import base_url_variable
from holdfast.platform.border import text_of
from holdfast.ports import Usage

_REFUSALS: Final[Mapping[int, tuple[str, bool]]] = {
    **dict.fromkeys((401, 402, 403), (policies.AUTHORIZATION, False)),
    **dict.fromkeys((409, 500, 503, 529), (policies.MODEL_TRANSIENT, True)),
}
"""What a status that says "no" is called, and whether another try may help."""

_LOST_REPLIES: Final[Mapping[int, str]] = {408: policies.TIMEOUT, 504: policies.TIMEOUT}
"""Statuses by which a proxy between here and the model gave up on it, like all 5xx that are no refusal (502, 520 …)."""

_QUOTED_CHARACTERS: Final = 500
_SHORTEST_SECRET: Final = 8
"""Shorter keys are placeholders for servers that need none."""


class UnusableReply(Exception):
    """A reply came, and is not one that can be gone on with."""


class ProviderCall:
    """One request to `url` with `key`, as far as it got."""

    def __init__(self, provider: str, url: str, key: str) -> None:
        self.provider = provider
        self.url = url
        self._key = key
        self.begun = False
        """The request was put in the provider's format and handed to the HTTP client."""
        self.left = False
        """A connection was there, and the request's first byte may be on its way."""
        self.status: int | None = None
        self.error_text = ""
        """The provider's own words about an error."""
        self.excess = ""
        """What there was too much of in a reply that nobody read."""
        self.usage: Usage | None = None
        self.retry_after_s: float | None = None
        self.timed_out = False
        self.out_of_credit = False

    async def trace(self, event: str, _: Mapping[str, Any]) -> None:
        """Called by the HTTP client for each thing it does."""
        if event.endswith("send_request_headers.started"):
            self.left = True

    def failure(self, model: str, error: Exception) -> ModelError:
        """Return the ModelError for `error`, raised by this call during a call of `model`."""
        cause = self._quoted(text_of(error))
        if self.status is None:
            return self._unanswered(model, cause)
        if self.excess:
            return ModelUncertain(
                f"{self.provider} answered a call of {model}, and its reply was not taken: {self.excess}. What it cost is"
                " unknown and counts as spent. No answer of a model is so large: see who answers at"
                f" {self.url} ({base_url_variable(self.provider)}).",
                status_code=self.status,
            )
        if self.status < 300:
            return ModelUncertain(
                f"{self.provider} answered a call of {model} with something unreadable, so what it cost is unknown and"
                f" counts as spent. {cause}",
                status_code=self.status,
            )
        quoted = f" It says: {self._quoted(self.error_text)}" if self.error_text and self.status != 401 else ""
        if self.status in _LOST_REPLIES or (self.status >= 500 and self.status not in _REFUSALS):
            return ModelUncertain(
                f"The reply of {self.provider} to a call of {model} was lost on the way (HTTP {self.status}); what it"
                f" cost is unknown and counts as spent.{quoted}",
                error_class=_LOST_REPLIES.get(self.status, policies.MODEL_TRANSIENT),
                status_code=self.status,
            )
        return self._refusal_of(model, self.status, quoted)

    def _unanswered(self, model: str, cause: str) -> ModelError:
        if self.left:
            lost = "did not reply in time" if self.timed_out else "was cut off before its reply was complete"
            return ModelUncertain(
                f"{self.provider} {lost} to a call of {model}; what it cost is unknown and counts as spent. {cause}",
                error_class=policies.TIMEOUT if self.timed_out else policies.NETWORK,
            )
        if self.begun or self.timed_out:
            return ModelRefused(
                f"No connection to {self.provider} at {self.url} ({base_url_variable(self.provider)}), so the call of"
                f" {model} was not sent. {cause}",
                error_class=policies.NETWORK,
                retryable=True,
            )
        return ModelRefused(
            f"The call of {model} cannot be put in {self.provider}'s format, so it was not sent. {cause}",
            error_class=policies.VALIDATION,
        )

    def _refusal_of(self, model: str, status: int, message: str) -> ModelError:
        if self.out_of_credit or status == 402:
            return ModelRefused(
                f"The account at {self.provider} has no credit left for a call of {model}. Nothing was spent.{message}",
                error_class=policies.AUTHORIZATION,
                status_code=status,
            )
        if status == 429:
            wait = "" if self.retry_after_s is None else f" before {self.retry_after_s:g} s have passed"
            return ModelRateLimited(
                f"{self.provider} takes no more calls of {model}{wait}. Nothing was spent.{message}",
                retry_after_s=self.retry_after_s,
                status_code=status,
            )
        error_class, retryable = _REFUSALS.get(status, (policies.VALIDATION, False))
        advice = f" Check {self.provider.upper()}_API_KEY." if error_class == policies.AUTHORIZATION else ""
        return ModelRefused(
            f"{self.provider} refused a call of {model} (HTTP {status}). Nothing was spent.{advice}{message}",
            error_class=error_class,
            retryable=retryable,
            status_code=status,
        )

    def _quoted(self, words: str) -> str:
        words = words.replace(self._key, "[key]") if len(self._key) >= _SHORTEST_SECRET else words
        return words if len(words) <= _QUOTED_CHARACTERS else f"{words[:_QUOTED_CHARACTERS]} …"
