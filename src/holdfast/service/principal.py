"""The actor, on whose behalf, and with which grants.

Never here: how an identity is known (access), what a command takes (permission), what a gate asks of the actor
(core.people.gates).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.core.values.access import EVERYTHING, Access
from holdfast.core.values.actor import Actor, folded, is_verified
from holdfast.errors import NotPermitted


class Principal(NamedTuple):
    """A person or a program. `name` is who they say they are, in which `roles` they act, of which `teams` they are;
    `os_user` is the operating system's user who typed it, `client` whose token or key it came with, `origin` from which
    address, `trace_id` the trace in which they ask, `traceparent` the header that named it. One with a `tenant` sees and
    touches the runs of that tenant only, and changes nothing that several tenants share; one without acts for all tenants.
    `access` is what they may do; `is_person` that their token says who they are; `maker` who has made the key or link that
    they come with; `vouches` that they act in other roles than their own at their word, for those for whom they speak;
    `session` the id of the browser's session."""

    name: str | None = None
    tenant: str | None = None
    roles: tuple[str, ...] = ()
    os_user: str = ""
    client: str = ""
    trace_id: str | None = None
    teams: tuple[str, ...] = ()
    access: Access = EVERYTHING
    origin: str = ""
    is_person: bool = False
    maker: str | None = None
    vouches: bool = True
    session: str = ""
    traceparent: str = ""

    @property
    def claim(self) -> Actor:
        """The actor and the trace, as the engine takes them."""
        return Actor(self.name, self.os_user, self.client, self.trace_id, self.maker, self.acts_as, self.traceparent)

    @property
    def verified(self) -> bool:
        """True if the name is that of the token or key, or one that a signed request vouches for, and not a claim."""
        return is_verified(self.name, self.client)

    @property
    def acts_as(self) -> tuple[str, ...]:
        """Roles and teams: a gate's reviewers may be either."""
        return (*self.roles, *self.teams)

    def may_speak_for(self, name: str) -> bool:
        """True if the caller may act under that name: as themselves; as any, if it is a program that has not named the person
        for whom it acts."""
        is_open = not self.is_person and self.name in (None, self.client)
        return is_open or folded(name) == folded(self.name)

    @property
    def answers_for_callers(self) -> bool:
        """True for a person who decides what others may do: with a key of their making they could act as anyone."""
        return self.is_person and self.access.allows("admin")

    def lacks(self, roles: Iterable[str]) -> str | None:
        """Return a role of these in which they do not act, and which they cannot hand on. Who comes with no token or key may
        act in any."""
        return next((each for each in roles if each not in self.acts_as), None) if self.client else None

    def of_tenant(self, tenant: str | None) -> str | None:
        """Return the tenant that is meant, None for any. Raises NotPermitted for another's."""
        if self.tenant is not None and tenant not in (None, self.tenant):
            raise NotPermitted(f"{self.claim} acts for the tenant {self.tenant!r} only. Nothing was done.")
        return self.tenant or tenant
