"""The instructions for a test kit's server: rules in order, changeable while it runs.

A script only finds the rules that apply; what a rule means is its server's business.
"""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

MAX_RULES = 10_000  # a loop that adds rules for ever fails where it is, not as a server that grows slow


class ScriptRule(Protocol):
    """A condition on requests, and how often meeting it counts."""

    @property
    def nth(self) -> int | None:
        """Applies to the nth request that matches only, counted from 1."""

    @property
    def times(self) -> int | None:
        """Applies to the first so many requests that match."""

    def matches(self, request: Any, /) -> bool:
        """Return True if the request meets the condition, however often others did before."""


RuleT = TypeVar("RuleT", bound=ScriptRule)


class _Entry(Generic[RuleT]):
    """A rule with the number of requests that have met its condition."""

    def __init__(self, rule: RuleT) -> None:
        self.rule = rule
        self._met = 0

    def applies(self, request: Any) -> bool:
        if not self.rule.matches(request):
            return False
        self._met += 1
        return self.rule.nth in (None, self._met) and (self.rule.times is None or self._met <= self.rule.times)


class Script(Generic[RuleT]):
    """Rules asked in order. Any thread may change them; only the server's own thread asks."""

    def __init__(self, rules: Iterable[RuleT] = ()) -> None:
        self._changing = threading.Lock()
        self._entries: tuple[_Entry[RuleT], ...] = ()
        self.add(*rules)

    def add(self, *rules: RuleT) -> None:
        """Put `rules`, in their order, in front of those already there: what a test adds overrides what a file said."""
        with self._changing:
            if len(self._entries) + len(rules) > MAX_RULES:
                raise ValueError(f"A script holds at most {MAX_RULES} rules. Nothing was added.")
            self._entries = (*map(_Entry, rules), *self._entries)

    def clear(self) -> None:
        with self._changing:
            self._entries = ()

    def applying(self, request: Any) -> Iterator[RuleT]:
        """Yield the rules that apply to this request, lazily: a rule that was not asked has not counted it."""
        return (entry.rule for entry in self._entries if entry.applies(request))


class _RuleFile(Struct, forbid_unknown_fields=True):
    rules: list[dict[str, Any]]
    about: str = ""


def load_rules(path: Path, kind: type[RuleT]) -> tuple[RuleT, ...]:
    """The rules of a file, JSON as `{"about": ..., "rules": [...]}`. Raises ValueError that names file and field."""
    try:
        return read_rules(path.read_bytes(), kind)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_rules(text: bytes, kind: type[RuleT]) -> tuple[RuleT, ...]:
    """Raises ValueError that names the rule and its field."""
    rules = []
    for number, rule in enumerate(msgspec.json.decode(text, type=_RuleFile).rules, start=1):
        try:
            rules.append(msgspec.convert(rule, kind))
        except msgspec.ValidationError as error:
            raise ValueError(f"rule {number}: {error}") from error
    return tuple(rules)
