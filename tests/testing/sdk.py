"""The providers' own SDKs and pydantic-ai. Each is imported when a test first asks for something of it: that takes seconds,
and whoever only collects the tests needs none.
"""

from __future__ import annotations

import ssl
from importlib import import_module
from typing import Any, Final

_PLACES: Final = {
    "anthropic": ("AsyncAnthropic",),
    "openai": ("APIConnectionError", "AsyncOpenAI", "InternalServerError", "OpenAI"),
    "pydantic_ai": ("Agent", "NativeOutput"),
    "pydantic_ai.direct": ("model_request", "model_request_stream", "model_request_sync"),
    "pydantic_ai.exceptions": (
        "ModelAPIError",
        "ModelConnectionError",
        "ModelHTTPError",
        "ModelOverloadedError",
        "ModelRateLimitError",
        "ModelTimeoutError",
        "UnexpectedModelBehavior",
    ),
    "pydantic_ai.messages": ("ModelRequest", "ModelResponse", "TextPart", "ToolReturnPart"),
    "pydantic_ai.models": ("Model", "ModelRequestParameters"),
    "pydantic_ai.models.anthropic": ("AnthropicModel",),
    "pydantic_ai.models.openai": ("OpenAIChatModel", "OpenAIResponsesModel"),
    "pydantic_ai.providers.anthropic": ("AnthropicProvider",),
    "pydantic_ai.providers.openai": ("OpenAIProvider",),
    "pydantic_ai.tools": ("ToolDefinition",),
}


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(name)


_NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no authority: to load those of the machine takes longer than most tests of a server on loopback."""


def claude(**options: Any) -> Any:
    """Return Anthropic's client, for a server without TLS."""
    anthropic = import_module("anthropic")
    return anthropic.AsyncAnthropic(http_client=anthropic.DefaultAsyncHttpxClient(verify=_NOBODY), **options)


def gpt(**options: Any) -> Any:
    """Return OpenAI's client, for a server without TLS."""
    openai = import_module("openai")
    return openai.AsyncOpenAI(http_client=openai.DefaultAsyncHttpxClient(verify=_NOBODY), **options)
