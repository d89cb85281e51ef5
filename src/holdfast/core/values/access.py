"""Grants, and the workflows and tools they are for.

    viewer     looks
    operator   looks, starts runs and sends them commands other than decisions
    reviewer   looks, and decides what people are asked
    author     looks, and submits workflow files: what they say is run
    admin      does all of it, sets budgets and capacity, and manages keys

Never here: how a caller is known (service.access), names of commands.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

Grant: TypeAlias = Literal["viewer", "operator", "reviewer", "author", "admin"]
GRANTS: Final[tuple[Grant, ...]] = get_args(Grant)
ANY: Final = ("*",)
SignInWay: TypeAlias = Literal["token", "oidc"]
"""The way in which a browser signs in: with a token or key, or at an identity provider (OpenID Connect)."""
_WILDCARDS: Final = "*?["

_IMPLIED: Final[dict[Grant, frozenset[Grant]]] = {
    "viewer": frozenset({"viewer"}),
    "operator": frozenset({"viewer", "operator"}),
    "reviewer": frozenset({"viewer", "reviewer"}),
    "author": frozenset({"viewer", "author"}),
    "admin": frozenset(GRANTS),
}


class Access(NamedTuple):
    """A caller's grants, for workflows and tools whose names match one of these patterns (`order*`)."""

    may: tuple[Grant, ...] = ("admin",)
    workflows: tuple[str, ...] = ANY
    tools: tuple[str, ...] = ANY
    unoffered: bool = False
    """True if the operator of the fleet has written down these workflows: those that a pattern names are there also where no
    process offers them."""

    def allows(self, grant: Grant) -> bool:
        return any(grant in _IMPLIED[each] for each in self.may)

    def reaches(self, workflow: str) -> bool:
        """True if runs of this workflow are visible to the caller."""
        return _fits(self.workflows, workflow)

    def names(self, workflow: str) -> bool:
        """True if the operator of the fleet has named this workflow for them. A pattern that begins with a wildcard names
        none: it could be anything, however that is spelled."""
        return self.unoffered and _fits((each for each in self.workflows if each[:1] not in _WILDCARDS), workflow)

    def reaches_all(self, patterns: Iterable[str]) -> bool:
        """True if they reach every workflow whose name fits one of these; False where that cannot be seen at once."""
        return all(_hold_all(self.workflows, each) for each in patterns)

    def holds(self, other: Access) -> bool:
        """True if they may do all that a caller with `other` may: grants, workflows and tools."""
        return (
            all(map(self.allows, other.may))
            and self.reaches_all(other.workflows)
            and all(map(self.handles_all, other.tools))
            and (self.unoffered or not other.unoffered)
        )

    def handles(self, tool: str) -> bool:
        """True if the caller may decide about calls of this tool."""
        return _fits(self.tools, tool)

    def handles_all(self, pattern: str) -> bool:
        """True if the caller may decide about calls of every tool whose name matches; False if that cannot be seen at once."""
        return _hold_all(self.tools, pattern)


EVERYTHING: Final = Access()


def problem(may: Iterable[str]) -> str | None:
    """Return the problem of grants as they were written down, in words; None if there is none."""
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
    """True if everything that matches `narrow` matches `wide`. A pattern is compared as text, like a name, if `wide` has no
    wildcard but `*` and `narrow` no set of characters: then each letter of the one stands for the same letter of the other."""
    is_name, is_plain = not {*"*?["} & {*narrow}, not {*"?["} & {*wide} and "[" not in narrow
    return wide == narrow or ((is_name or is_plain) and fnmatchcase(narrow, wide))
