"""Claimed identities, and when two names belong to the same person.

Nothing here is verified: a command line on a store is trusted, and so is a program that uses the Python API. Never here: what a
person may do (gates), where the name comes from (cli, wire).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import Final, Literal, NamedTuple, TypeAlias


class Actor(NamedTuple):
    """The person or service that asks for something."""

    name: str | None = None
    """Name of the person or service; None without one."""
    os_user: str = ""
    """The operating system's user, at a command line."""
    client: str = ""
    """Owner of the token, over gRPC."""
    trace_id: str | None = None
    """Trace of the request."""
    maker: str | None = None
    """Maker of the key or link that was used. The maker acts along with it."""
    roles: tuple[str, ...] = ()
    """Roles in which the person or service acts."""
    traceparent: str = ""
    """Header that named the trace of the request, if one did."""

    @property
    def event_fields(self) -> tuple[str | None, str, str]:
        """Return the parts that events carry, in this order. The store keeps the trace, beside each event that follows."""
        return self[:3]

    def __str__(self) -> str:
        """For people: `grace (unverified, by OS user deploy)`."""
        if self.name is None:
            return "an unnamed person"
        if self.name in (self.os_user, self.client):
            return self.name
        if is_verified(self.name, self.client):
            return f"{self.name} (verified by {self.client})"
        how = f", by OS user {self.os_user}" if self.os_user else f", by {self.client}" if self.client else ""
        return f"{self.name} (unverified{how})"


NOBODY: Final = Actor()

HOOK: Final = "hook:"
"""Before the name of a hook, as a client. It acts as a person only after a signature has vouched for one that it declares."""


def is_verified(name: str | None, client: str) -> bool:
    """True if a name is that of the token or key, or of a person for whom a signed request vouches; any other is a claim."""
    return name is not None and client != "" and (name == client or client.startswith(HOOK))


_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What a text is shown without: Default_Ignorable_Code_Point of the Unicode Character Database (DerivedCoreProperties.txt), and
the blank pattern of Braille."""


def folded(name: str | None) -> str:
    """Return the part of a name that tells two people apart: without case, the spelling in Unicode, blanks, and invisible
    signs."""
    shown = _UNSEEN.sub("", name or "")
    seen = "".join(each for each in shown if each.isspace() or unicodedata.category(each) not in ("Cc", "Cf"))
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold()).split())


ROLE: Final = "role:"
"""Before the name of a reviewer that is a role and no person: `role:legal`."""


def is_among(reviewers: Iterable[str], name: str | None, roles: Iterable[str]) -> bool:
    """True if a person of this name, in these claimed roles, is one of `reviewers`, persons or roles."""
    acts_as = {each for role in roles for each in (folded(role), folded(f"{ROLE}{role}"))}
    if not (person := folded(name)).startswith(ROLE):
        acts_as.add(person)
    return not acts_as.isdisjoint(map(folded, reviewers))


Asked: TypeAlias = Literal["me", "team", "anyone"]
"""The person whom a gate asks, as one person sees it: that person by name, a role or team of theirs, or anyone."""


def asked_as(reviewers: Collection[str], name: str | None, roles: Iterable[str]) -> Asked | None:
    """Return how `reviewers`, persons or roles, include a person of this name in these roles; None if they do not."""
    if not reviewers:
        return "anyone"
    if name is not None and is_among(reviewers, name, ()):
        return "me"
    return "team" if is_among(reviewers, None, roles) else None


def suffices(reviewers: Iterable[str], barred: Iterable[str | None], quorum: int) -> bool:
    """Return True if as many of the `reviewers` as `quorum` may be others than these persons. A name that is no `role:NAME`
    counts as one person."""
    names, others = {*map(folded, barred)}, {*map(folded, reviewers)}
    return any(each.startswith(ROLE) for each in others) or len(others - names) >= quorum
