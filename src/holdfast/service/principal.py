"""Who acts, and for whom.

Never here: how it is known that somebody is who he says (a transport's affair), what a gate asks of him (core.gates).
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.claim import Claim
from holdfast.errors import NotPermitted


class Principal(NamedTuple):
    """A person or a program. `name` is who they say they are, in which `roles` they act; `os_user` is the operating system's
    user who typed it, `client` whose token it came with, `trace_id` the trace in which they
    ask. One with a `tenant` sees and touches the runs of that tenant only, and changes nothing that several tenants share; one
    without may do everything."""

    name: str | None = None
    tenant: str | None = None
    roles: tuple[str, ...] = ()
    os_user: str = ""
    client: str = ""
    trace_id: str | None = None

    @property
    def claim(self) -> Claim:
        """Who acts, and in which trace, as the engine takes it."""
        return Claim(self.name, self.os_user, self.client, self.trace_id)

    def of_tenant(self, asked: str | None) -> str | None:
        """The tenant that is meant, None for any. Raises NotPermitted for somebody else's."""
        if self.tenant is not None and asked not in (None, self.tenant):
            raise NotPermitted(f"{self.claim} acts for the tenant {self.tenant!r} only. Nothing was done.")
        return self.tenant or asked

    def expect_everybody(self, what: str) -> None:
        """Raises NotPermitted for one who acts for a single tenant."""
        if self.tenant is not None:
            raise NotPermitted(
                f"{what} is shared by all tenants, and {self.claim} acts for {self.tenant!r} only. Nothing was done."
            )
