"""What somebody may do: grants, and for which workflows and tools they hold.

    viewer     looks
    operator   looks, starts runs and tells them what is no decision
    reviewer   looks, and decides what people are asked
    author     looks, and submits workflow files: what they say is run
    admin      does all of it, and says what may be spent, how much there is, and who has a key

Never here: how somebody is known (service.identity), what a command is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

Grant: TypeAlias = Literal["viewer", "operator", "reviewer", "author", "admin"]
GRANTS: Final[tuple[Grant, ...]] = get_args(Grant)
ANY: Final = ("*",)
_WILDCARDS: Final = "*?["

_IMPLIED: Final[dict[Grant, frozenset[Grant]]] = {
    "viewer": frozenset({"viewer"}),
    "operator": frozenset({"viewer", "operator"}),
    "reviewer": frozenset({"viewer", "reviewer"}),
    "author": frozenset({"viewer", "author"}),
    "admin": frozenset(GRANTS),
}


class Access(NamedTuple):
    """What somebody was granted, for workflows and tools whose names fit one of these patterns (`order*`)."""

    may: tuple[Grant, ...] = ("admin",)
    workflows: tuple[str, ...] = ANY
    tools: tuple[str, ...] = ANY
    unoffered: bool = False
    """True if the operator of the fleet has written down these workflows: those that a pattern names are there also where no
    process offers them."""

    def allows(self, grant: Grant) -> bool:
        return any(grant in _IMPLIED[each] for each in self.may)

    def reaches(self, workflow: str) -> bool:
        """Whether runs of this workflow are there for them."""
        return _fits(self.workflows, workflow)

    def names(self, workflow: str) -> bool:
        """True if the operator of the fleet has named this workflow for them. A pattern that begins with a wildcard names
        none: it could be anything, however that is spelled."""
        return self.unoffered and _fits((each for each in self.workflows if each[:1] not in _WILDCARDS), workflow)

    def reaches_all(self, patterns: Iterable[str]) -> bool:
        """True if they reach every workflow whose name fits one of these; False where that cannot be seen at once."""
        return all(_hold_all(self.workflows, each) for each in patterns)

    def holds(self, other: Access) -> bool:
        """True if they may do all that somebody with `other` may: grants, workflows and tools."""
        return (
            all(map(self.allows, other.may))
            and self.reaches_all(other.workflows)
            and all(map(self.handles_all, other.tools))
            and (self.unoffered or not other.unoffered)
        )

    def handles(self, tool: str) -> bool:
        """Whether they may decide about calls of this tool."""
        return _fits(self.tools, tool)

    def handles_all(self, pattern: str) -> bool:
        """Whether they may decide about calls of every tool whose name fits; False where that cannot be seen at once."""
        return _hold_all(self.tools, pattern)


EVERYTHING: Final = Access()


def problem(may: Iterable[str]) -> str | None:
    """What is wrong with grants that somebody wrote down, in words; None where nothing is."""
    given = list(may)
    if not given:
        return "it grants nothing"
    wrong = next((each for each in given if each not in GRANTS), None)
    return None if wrong is None else f"there is no grant {wrong!r:.80}; there are {', '.join(GRANTS)}"


def _fits(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _hold_all(patterns: Iterable[str], narrow: str) -> bool:
    return any(_holds_all(each, narrow) for each in patterns)


def _holds_all(wide: str, narrow: str) -> bool:
    """Whether all that fits `narrow` fits `wide`. A pattern is looked at as text, as a name is, where `wide` has no wildcard
    but `*` and `narrow` no set of characters: then each letter of the one stands for the same letter of the other."""
    is_name, is_plain = not {*"*?["} & {*narrow}, not {*"?["} & {*wide} and "[" not in narrow
    return wide == narrow or ((is_name or is_plain) and fnmatchcase(narrow, wide))
