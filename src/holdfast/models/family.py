"""The provider of a model, found by the model's name.

Never here: a line to a provider, a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeGuard

from holdfast.core.values import policies
from holdfast.errors import ModelRefused

ProviderName = Literal["anthropic", "openai", "google"]
"""Providers. Google's models are only called for programs, in Google's own format."""

GOOGLE: Final = "google:"
"""Prefix of the names of Google's models."""
_BASE_URLS: Final[Mapping[str, str]] = {"google": "GOOGLE_GEMINI_BASE_URL"}

_FAMILIES: Final[Mapping[ProviderName, re.Pattern[str]]] = {
    "anthropic": re.compile(r"claude-"),
    "openai": re.compile(r"(ft:)?(gpt-|chatgpt-|o\d)"),
}


def provider_of(model: str, providers: Mapping[str, str]) -> tuple[ProviderName, str]:
    """Return the provider of `model` and the model's name there. A prefix (`openai:my-model`) goes first, then a declaration,
    then a known family.

    Raises ModelRefused for a name that none of these fits, and for a declared provider that is not supported.
    """
    prefix, _, name = model.partition(":")
    if _is_provider(prefix) and name:
        return prefix, name
    if (served_by := providers.get(model)) is not None:
        if _is_provider(served_by):
            return served_by, model
        raise ModelRefused(
            f"{model} is declared to be served by {served_by}, which is neither anthropic nor openai. Nothing was called.\n"
            "Declare openai, with OPENAI_BASE_URL, for any server that speaks OpenAI's Chat Completions.",
            error_class=policies.VALIDATION,
        )
    for provider, family in _FAMILIES.items():
        if family.match(model):
            return provider, model
    raise ModelRefused(
        f"The provider of {model} is unknown. Nothing was called.\n"
        f'Write anthropic:{model} or openai:{model}, or declare its provider in holdfast.toml under [models."{model}"].',
        error_class=policies.VALIDATION,
    )


def base_url_variable(provider: str) -> str:
    """The variable with the address that is called instead of the provider's own."""
    return _BASE_URLS.get(provider, f"{provider.upper()}_BASE_URL")


def family_of(model: str) -> str:
    """Return the provider of `model` as its name gives it; an empty text if it gives none."""
    try:
        return provider_of(model, {})[0]
    except ModelRefused:
        return ""


def _is_provider(name: str) -> TypeGuard[ProviderName]:
    return name in _FAMILIES
