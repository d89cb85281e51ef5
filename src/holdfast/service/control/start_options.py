"""What a start takes: a flow that needs no input, and the options as a type checker sees them, with how a term of them is read.

Never here: what an option means (command, core).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Protocol, TypedDict, TypeVar, get_args

from holdfast.authoring.context import Context
from holdfast.core.nouns.labels import checked, expect_few, merged
from holdfast.core.rules.limits import whole_tokens
from holdfast.core.values.claim import Claim
from holdfast.core.values.policies import OnLimit
from holdfast.errors import InvalidInput
from holdfast.service.control.base import word

Returned_co = TypeVar("Returned_co", covariant=True)

MOST_TAGS: Final = 20
MOST_OF_TAG: Final = 100
"""Characters."""


class WithoutInput(Protocol[Returned_co]):
    """A flow whose parameters besides `ctx` all have a default, or that has none."""

    @property
    def hash(self) -> str: ...

    def __call__(self, ctx: Context, /) -> Coroutine[Any, Any, Returned_co]: ...


class TermOptions(TypedDict, total=False):
    """The options that a run carries unchanged, as its terms (core.facts.terms)."""

    max_tokens: int | None
    max_model_calls: int | None
    max_tool_calls: int | None
    max_wall_s: float | None
    on_limit: OnLimit | None
    tags: Sequence[str]
    labels: Mapping[str, str]


class StartOptions(TermOptions, total=False):
    """The options of `Engine.start`."""

    version: int | None
    tenant: str
    cost_limit_usd: float | str | Decimal | None
    team: str | None
    team_budget: str | None
    agent: str | None
    key: str | None
    by: str | Claim | None
    queue: bool


def read_terms(options: Mapping[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    """Return the terms that are given, as a run carries them. Raises InvalidInput."""
    if unknown := sorted(options.keys() - _READ.keys()):
        raise TypeError(f"start() got an unexpected keyword argument {unknown[0]!r}")
    return {name: _READ[name](given, redact) for name, given in options.items() if given is not None}


def _tokens(given: Any, _: Any) -> int:
    try:
        return whole_tokens(given)
    except ValueError as problem:
        words = f"The limit on tokens cannot be used: {problem}. No run was started."
        raise InvalidInput(words, field="max_tokens") from None


def _calls(name: str) -> Callable[[Any, Any], int]:
    def read(given: Any, _: Any) -> int:
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise InvalidInput(f"{name} is {given!r:.80}; it is a whole number of calls, at least 1. No run was started.")
        return given

    return read


def _wall_s(given: Any, _: Any) -> float:
    if not isinstance(given, int | float) or not 0 < given < math.inf:
        raise InvalidInput(f"max_wall_s is {given!r:.80}; it is seconds, above zero. No run was started.")
    return float(given)


def _on_limit(given: Any, _: Any) -> OnLimit:
    if given not in get_args(OnLimit):
        raise InvalidInput(f"on_limit is {given!r:.80}; it is one of {', '.join(get_args(OnLimit))}. No run was started.")
    how: OnLimit = given
    return how


def _tags(given: Any, redact: Callable[[str], str]) -> tuple[str, ...]:
    """Words by which a run is found, each once, in their order."""
    tags = sorted({redact(word("tag", tag)) for tag in ([given] if isinstance(given, str) else given)})
    for tag in tags:
        if not tag.strip() or len(tag) > MOST_OF_TAG:
            raise InvalidInput(f"The tag {tag!r:.50} is no word of 1 to {MOST_OF_TAG} characters. No run was started.")
    if len(tags) > MOST_TAGS:
        raise InvalidInput(f"{len(tags)} tags: a run has up to {MOST_TAGS}. No run was started.")
    return tuple(tags)


def _labels(given: Any, redact: Callable[[str], str]) -> dict[str, str]:
    found = merged({}, checked(given, redact))
    expect_few(found)
    return found


_READ: Final[Mapping[str, Callable[[Any, Callable[[str], str]], Any]]] = {
    "max_tokens": _tokens,
    "max_model_calls": _calls("max_model_calls"),
    "max_tool_calls": _calls("max_tool_calls"),
    "max_wall_s": _wall_s,
    "on_limit": _on_limit,
    "tags": _tags,
    "labels": _labels,
}
"""How each term is read."""
