"""Standing approvals: what people say beforehand about calls of tools, what is left of it, and that it no longer holds.

Never here: which call an approval covers (core.nouns.tool_policy), its use (engine.attempts.standing_approvals).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core.nouns.shared_values import APPROVALS, SharedValue
from holdfast.core.nouns.tool_policy import StandingApproval, When
from holdfast.core.values.actor import Actor
from holdfast.core.views.projection import SharedChange
from holdfast.engine.attempts.standing_approvals import MAX_STANDING
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.service.control.base import ControlBase, word

_TENANT: Final = "default"
_LONGEST_S: Final = 366 * 86_400
_MAX_USES: Final = 1_000_000
_MAX_BYTES: Final = 8_192
"""All that stand are read for a call that would be asked about."""
_TRIES: Final = 50


class StandingApprovals(ControlBase):
    """They hold at once and for every process."""

    async def grant_approval(
        self,
        tool: str,
        *,
        for_s: float,
        by: str | Actor,
        max_calls: int | None = None,
        when: Sequence[When] = (),
        workflow: str | None = None,
        run_id: str | None = None,
        roles: Sequence[str] = (),
        reason: str = "",
        tenant: str = _TENANT,
    ) -> str:
        """Grant a standing approval: matching tool calls are approved in advance. Calls that the workflow denies stay denied.
        Return its id.

        Of more than 1,000 approvals, the oldest that no longer hold are dropped.

        Args:
            tenant: Tenant whose calls it approves.
            run_id: Only calls of this run; by default of all.

        Raises:
            InvalidInput: An option cannot be used.
            Conflict: The tenant has 1,000 approvals that hold.
        """
        if not 0 < for_s <= _LONGEST_S:
            words = (
                f"for_s must be above 0 and up to {_LONGEST_S:,} seconds (366 days); it is {for_s!r:.80}. Nothing was granted."
            )
            raise InvalidInput(words, field="for_s")
        if max_calls is not None and not 1 <= max_calls <= _MAX_USES:
            words = f"max_calls must be 1 to {_MAX_USES:,}; it is {max_calls!r:.80}. Nothing was granted."
            raise InvalidInput(words, field="max_calls")
        claim = self._claim(by)
        if claim.name is None:
            raise InvalidInput("An approval needs an author (by=NAME). Nothing was granted.")
        if problem := next((each.problem for each in when if each.problem is not None), None):
            raise InvalidInput(f"The approval of {tool!r}: {problem}. Nothing was granted.")
        run = None if run_id is None else await self.find(run_id)
        owner, now_ms = word("tenant", tenant if run is None else run.tenant), self.store.clock.now_ms()
        known = await self._page(owner)
        over = sorted((each.granted_at_ms, key) for key, (each, _) in known.items() if not each.stands(now_ms))
        dropped = tuple(key for _, key in over[: max(0, len(known) + 1 - MAX_STANDING)])
        if len(known) - len(dropped) >= MAX_STANDING:
            raise Conflict(f"{MAX_STANDING:,} approvals of tenant {owner!r} stand. Nothing was granted: revoke some of them.")
        approval = StandingApproval(
            word("tool", tool),
            claim.name,
            now_ms,
            now_ms + int(for_s * 1000),
            max_calls,
            tuple(when),
            None if workflow is None else word("workflow", workflow),
            None if run is None else run.run,
            self._roles(roles),
            self._clean(reason) or "",
            maker=claim.maker,
        )
        key = self.runtime.runs.new_approval()
        written = SharedValue(msgspec.to_builtins(approval), 1, now_ms, claim.name)
        if len(body := msgspec.json.encode(written)) > _MAX_BYTES:
            raise InvalidInput(
                f"This approval has {len(body):,} bytes, and one has {_MAX_BYTES:,} at most. Nothing was granted: say less."
            )
        change = SharedChange(owner, APPROVALS, key, 0, body, dropped=dropped)
        await self.store.shared_values.put(change)
        return key

    async def standing_approvals(self, *, tenant: str = _TENANT) -> Mapping[str, StandingApproval]:
        """Return a tenant's standing approvals by id, expired, used-up and revoked ones included."""
        return {key: approval for key, (approval, _) in (await self._page(word("tenant", tenant))).items()}

    async def revoke_approval(self, id_: str, *, by: str | Actor, tenant: str = _TENANT) -> None:
        """Revoke a standing approval. Calls that were already made stay made.

        Args:
            id_: Id of the standing approval.

        Raises:
            NotFound: The approval does not exist.
        """
        claim = self._claim(by)
        if claim.name is None:
            raise InvalidInput("Say who revokes it (by=NAME). Nothing was revoked.")
        for _ in range(_TRIES):
            known = (await self._page(word("tenant", tenant))).get(id_)
            if known is None:
                raise no_approval(id_, tenant)
            approval, version = known
            if approval.revoked_by is not None:
                return
            revoked = msgspec.to_builtins(msgspec.structs.replace(approval, revoked_by=claim.name))
            body = msgspec.json.encode(SharedValue(revoked, version + 1, self.store.clock.now_ms(), claim.name))
            if await self.store.shared_values.put(SharedChange(tenant, APPROVALS, id_, version, body)):
                return
        raise Conflict(f"The approval {id_!r} was used {_TRIES} times in a row meanwhile. Nothing was revoked: try again.")

    async def _page(self, tenant: str) -> dict[str, tuple[StandingApproval, int]]:
        found = await self.store.shared_values.page(tenant, APPROVALS, None, MAX_STANDING)
        return {
            each.key: (msgspec.convert(each.latest.value, StandingApproval), each.latest.version)
            for each in found
            if not each.latest.gone
        }

    def _roles(self, roles: Sequence[str]) -> tuple[str, ...]:
        given = [roles] if isinstance(roles, str) else roles
        return tuple(self.payloads.redact(role) for role in given)


def no_approval(id_: str, tenant: str) -> NotFound:
    """Return the refusal for a standing approval that is not there, or is hidden from the caller."""
    return NotFound(
        f"Tenant {tenant!r:.130} has no standing approval {id_!r:.200}; `holdfast approvals list` shows those that are."
    )
