"""The Model port over two formats: Anthropic's Messages and OpenAI's Chat Completions.

The HTTP client is in `holdfast.models.wire`, loaded by the first call (0.2 s) in a thread, so that nothing else waits for
it; what a failed call means is `holdfast.models.provider_call`.

Never here: a price, a retry, what stands in a request.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeVar

from holdfast.core.values import policies
from holdfast.errors import ModelRefused
from holdfast.models.family import GOOGLE, ProviderName, base_url_variable, provider_of
from holdfast.models.forwarded.requests import provider_of as forwarded_provider
from holdfast.platform.border import text_of
from holdfast.ports import (
    EmbeddingReply,
    EmbeddingRequest,
    ForwardedReply,
    ForwardedRequest,
    ModelDelta,
    ModelReply,
    ModelRequest,
)

if TYPE_CHECKING:
    from holdfast.models.provider_call import ProviderCall
    from holdfast.models.wire import Line

A = TypeVar("A", ModelRequest, EmbeddingRequest)
R = TypeVar("R")

VARIABLES: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
)
"""The variables of the environment that say how providers are called:

- `ANTHROPIC_API_KEY`: Key for the models of Anthropic.
- `ANTHROPIC_BASE_URL`: Address that is called instead of Anthropic's.
- `GEMINI_API_KEY`: Key for the models of Google, where `GOOGLE_API_KEY` is not set.
- `GOOGLE_API_KEY`: Key for the models of Google that programs call.
- `GOOGLE_GEMINI_BASE_URL`: Address that is called instead of Google's.
- `OPENAI_API_KEY`: Key for the models of OpenAI.
- `OPENAI_BASE_URL`: Address that is called instead of OpenAI's; any server that speaks its Chat Completions.
- `OPENAI_ORG_ID`: Organization that OpenAI charges.
- `OPENAI_PROJECT_ID`: Project that OpenAI charges.
"""


class Providers:
    """Keeps the Model port. One HTTP client per provider, made by the first call and closed by `aclose`."""

    def __init__(self, providers: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None) -> None:
        """`providers` says who serves models whose names do not tell. `environment` (the process's own) holds VARIABLES."""
        self._declared = dict(providers or {})
        self._environment = os.environ if environment is None else environment
        self._lines: dict[ProviderName, Line] = {}
        self._connecting = asyncio.Lock()

    async def prepare(self, model: str) -> None:
        """Load what a call of `model` needs, so that the call itself need not wait for it. Raises ModelRefused."""
        provider: ProviderName = "google" if model.startswith(GOOGLE) else provider_of(model, self._declared)[0]
        await self._line(provider)

    async def request(self, request: ModelRequest) -> ModelReply:
        """Send `request` exactly once; see ports.Model. `timeout_s` counts from when the client is loaded."""
        return await self._answer(request, lambda line: line.ask)

    async def embed(self, request: EmbeddingRequest) -> EmbeddingReply:
        """The same for vectors."""
        provider, _ = provider_of(request.model, self._declared)
        if provider != "openai":
            raise ModelRefused(
                f"{provider} makes no embeddings. Nothing was called: name a model of openai's, or of a server that speaks"
                " its format at OPENAI_BASE_URL.",
                error_class=policies.VALIDATION,
            )
        return await self._answer(request, lambda line: line.embed)

    async def _answer(self, request: A, ask: Callable[[Line], Callable[[str, A, ProviderCall], Awaitable[R]]]) -> R:
        provider, name = provider_of(request.model, self._declared)
        line = await self._line(provider)
        call = line.call()
        try:
            async with asyncio.timeout(request.timeout_s):
                return await ask(line)(name, request, call)
        except Exception as error:  # noqa: BLE001 - whatever is raised, the money held for the call needs an answer
            call.timed_out |= isinstance(error, TimeoutError)
            failure = call.failure(request.model, error)
        raise failure  # out of the handler: the traceback may hold what the provider echoed of a key

    async def forward(self, request: ForwardedRequest, tell: Callable[[str], None]) -> ForwardedReply:
        """The same for a program's request, in its own format; see ports.Model."""
        line = await self._line(forwarded_provider(request))
        call = line.call()
        try:
            return await line.forward(request, call, asyncio.get_running_loop().time() + request.timeout_s, tell)
        except Exception as error:  # noqa: BLE001 - as above
            call.timed_out |= isinstance(error, TimeoutError)
            failure = call.failure(request.model, error)
        raise failure

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """The same with the reply in pieces; see ports.Model."""
        provider, name = provider_of(request.model, self._declared)
        line = await self._line(provider)
        call = line.call()
        until_s = asyncio.get_running_loop().time() + request.timeout_s
        try:
            async with aclosing(line.stream(name, request, call, until_s)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        except Exception as error:  # noqa: BLE001 - as above
            call.timed_out |= isinstance(error, TimeoutError)
            failure = call.failure(request.model, error)
        raise failure

    async def aclose(self) -> None:
        """Close every connection. Calls in flight fail."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            await line.aclose()

    async def _line(self, provider: ProviderName) -> Line:
        async with self._connecting:
            if provider not in self._lines:
                self._lines[provider] = await asyncio.to_thread(_connect, provider, self._environment)
            return self._lines[provider]


def _connect(provider: ProviderName, environment: Mapping[str, str]) -> Line:
    try:
        from holdfast.models import wire

        return wire.connect(provider, environment)
    except ModelRefused:
        raise
    except Exception as error:  # noqa: BLE001 - a base URL, a proxy or a certificate file that is none
        raise ModelRefused(
            f"No client for {provider} can be made from the environment ({text_of(error)})."
            f" Nothing was called. Check {base_url_variable(provider)} and the proxy variables.",
            error_class=policies.VALIDATION,
        ) from None
