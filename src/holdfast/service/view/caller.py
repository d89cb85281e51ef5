"""Keys of services, and the audit log. Never here: what a key is, printing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.values.audit import Entry, Head, Link
from holdfast.core.values.ids import GateId, run_of
from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.ports import ApiKey, Opens


def of_key(key: ApiKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "tenant": key.tenant,
        "may": list(key.may),
        "roles": list(key.roles),
        "teams": list(key.teams),
        "workflows": list(key.workflows),
        "tools": list(key.tools),
        "made_by": key.made_by,
        "made_at": iso(key.made_at_ms),
        "expires_at": iso(key.expires_at_ms),
        "revoked_at": iso(key.revoked_at_ms),
        "opens": _of_opens(key.opens),
    }


def _of_opens(opens: Opens | None) -> dict[str, Any] | None:
    """What a link is for."""
    if opens is None:
        return None
    if isinstance(opens, tuple):
        return {"run_id": opens[0], "signal": opens[1]}
    run = run_of(GateId(opens.gate))
    return {"run_id": run, "gate_id": opens.gate, "shown_hash": opens.shown_hash, "reviewer": opens.by}


def of_link(link: Link) -> dict[str, Any]:
    """An entry of the audit log; `hash` is of it and of the one before, `kept_for` the tenant whose row it is, and `signature`
    None where the process that added it had no key."""
    entry = link.entry
    return {
        "number": link.number,
        "at": iso(entry.at_ms),
        "name": entry.name or None,
        "verified": entry.verified,
        "client": entry.client or None,
        "os_user": entry.os_user or None,
        "origin": entry.origin or None,
        "tenant": entry.tenant or None,
        "deed": entry.deed,
        "about": entry.about or None,
        "outcome": entry.outcome,
        "trace_id": entry.trace_id or None,
        "at_ms": entry.at_ms,
        "hash": link.hash,
        "kept_for": link.tenant or None,
        "signature": link.signature or None,
    }


def of_audit_head(head: Head) -> dict[str, Any]:
    """Which entry is the last."""
    return {"number": head.number, "hash": head.hash, "signature": head.signature or None}


def audit_head_of(row: dict[str, Any]) -> Head:
    """The same back."""
    return Head(row["number"], row["hash"], row["signature"] or "")


def link_of(row: dict[str, Any]) -> Link:
    """The same back."""
    fields: dict[str, Any] = {name: "" if row[name] is None else row[name] for name in Entry._fields}
    return Link(row["number"], Entry(**fields), row["hash"], row["kept_for"] or "", row["signature"] or "")
