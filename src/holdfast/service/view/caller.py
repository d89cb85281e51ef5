"""Keys of services, and the audit log. Never here: what a key is, printing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

from holdfast.core.values.access import Grant, SignInWay
from holdfast.core.values.audit import Entry, Head, Link
from holdfast.core.values.ids import GateId, run_of
from holdfast.core.views.status import Status
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.ports import ApiKey, Opens, SignIn
    from holdfast.service.principal import Principal


class OpensRow(TypedDict):
    """The single use of a link: it sends a signal or decides a gate."""

    run_id: Annotated[str, doc("Id of the run that gets the signal, or whose gate is decided.")]
    signal: NotRequired[Annotated[str, doc("The name of the signal.")]]
    gate_id: NotRequired[Annotated[str, doc("Id of the gate that is decided.")]]
    shown_hash: NotRequired[Annotated[str, doc("The hash of what the gate showed when the link was made.")]]
    reviewer: NotRequired[Annotated[str, doc("The person in whose name the link decides.")]]


class KeyRow(TypedDict):
    """An API key or a link, without its secret."""

    name: Annotated[str, doc("Name of the key; a link has one that was generated.")]
    tenant: Annotated[str | None, doc("The tenant it acts for; null for all.")]
    may: Annotated[list[Grant], doc("The grants it holds.")]
    roles: Annotated[list[str], doc("The roles in which it acts.")]
    teams: Annotated[list[str], doc("The teams to which it belongs.")]
    workflows: Annotated[list[str], doc("Patterns of the workflows it reaches; `*` is any text.")]
    tools: Annotated[list[str], doc("Patterns of the tools it reaches; `*` is any text.")]
    made_by: Annotated[str, doc("Person or key that created it.")]
    made_at: Annotated[Time, doc("Time at which it was created.")]
    expires_at: Annotated[Time | None, doc("When it stops working; null for never.")]
    revoked_at: Annotated[Time | None, doc("When it was revoked, or when the link was used.")]
    opens: Annotated[OpensRow | None, doc("Thing that a link does once; null for a key.")]


class NewKeyRow(KeyRow):
    """An API key with its new secret."""

    key: Annotated[str, doc("The secret. It is shown here only.")]


class NewLinkRow(KeyRow):
    """A link with its new secret."""

    link: Annotated[str, doc("The secret that ends the link's address. It is shown here only.")]


class CallerRow(TypedDict):
    """The holder of a token, and what it allows."""

    name: Annotated[str | None, doc("Person or program who acts; null if the token names none.")]
    verified: Annotated[bool, doc("True if the name is that of the token or key; otherwise the caller claims it.")]
    client: Annotated[str | None, doc("The token or key that is used.")]
    tenant: Annotated[str | None, doc("The tenant it acts for; null for all.")]
    roles: Annotated[list[str], doc("The roles in which it acts.")]
    teams: Annotated[list[str], doc("The teams to which it belongs.")]
    may: Annotated[list[Grant], doc("The grants it holds.")]
    workflows: Annotated[list[str], doc("Patterns of the workflows it reaches; `*` is any text.")]
    tools: Annotated[list[str], doc("Patterns of the tools about whose calls it decides; `*` is any text.")]
    signed_in_with: Annotated[
        SignInWay | None, doc("Way in which the browser signed in; null if the request itself carries a token, or needs none.")
    ]
    session_expires_at: Annotated[Time | None, doc("When the browser has to sign in again.")]


class SignInWayRow(TypedDict):
    """A way to sign in with a browser."""

    way: Annotated[SignInWay, doc("`token`: with a token or key. `oidc`: at an identity provider.")]
    title: Annotated[str, doc("Name of the way for people.")]
    address: Annotated[str, doc("Address that takes the token by POST, or that the browser opens.")]


class SignInErrorRow(TypedDict):
    """An error of a sign-in at the identity provider, or with a printed code: it leads to the page `/sign-in?error=CODE`."""

    code: Annotated[str, doc("Code in the page's address.")]
    words: Annotated[str, doc("Explanation of the error, and what to do.")]


class SignedOutRow(TypedDict):
    """The end of a browser's session."""

    continue_at: Annotated[str | None, doc("Address at which the browser signs out at the identity provider too.")]


class SignInRow(TypedDict):
    """The ways to sign in with a browser."""

    signed_in: Annotated[bool, doc("True if the browser has a session, or needs none.")]
    ways: Annotated[list[SignInWayRow], doc("Ways to sign in; empty if the port asks for no token.")]
    errors: Annotated[list[SignInErrorRow], doc("Errors to which a sign-in at the provider, or with a printed code, can lead.")]


def of_ways(
    *, is_open: bool, signed_in: bool, provider: str | None = None, errors: Mapping[Any, str] | None = None
) -> SignInRow:
    """Return the ways; `provider` is the title of the identity provider."""
    ways: list[SignInWayRow] = []
    if provider is not None:
        ways.append({"way": "oidc", "title": provider, "address": "/api/v1/sign-in/oidc"})
    if not is_open:
        ways.append({"way": "token", "title": "API token", "address": "/api/v1/session"})
    explained: list[SignInErrorRow] = [{"code": code, "words": words} for code, words in (errors or {}).items()]
    return {"signed_in": signed_in, "ways": ways, "errors": explained}


def of_caller(principal: Principal, sign_in: SignIn | None = None) -> CallerRow:
    access = principal.access
    return {
        "name": principal.name,
        "verified": principal.verified,
        "client": principal.client or None,
        "tenant": principal.tenant,
        "roles": list(principal.roles),
        "teams": list(principal.teams),
        "may": list(access.may),
        "workflows": list(access.workflows),
        "tools": list(access.tools),
        "signed_in_with": None if sign_in is None else sign_in.way,
        "session_expires_at": None if sign_in is None else iso(sign_in.expires_at_ms),
    }


class SessionRow(TypedDict):
    """A session of a browser that is signed in."""

    session: Annotated[str, doc("Id of the session.")]
    name: Annotated[str, doc("Person, token or key that signed in.")]
    tenant: Annotated[str | None, doc("The tenant it acts for; null for all.")]
    way: Annotated[SignInWay, doc("Way in which the browser signed in.")]
    origin: Annotated[str | None, doc("The network address from which the browser signed in.")]
    began_at: Annotated[Time, doc("Time of the sign-in.")]
    expires_at: Annotated[Time, doc("When the browser has to sign in again.")]
    current: Annotated[bool, doc("True for the session of the caller's own browser.")]


class SessionsEndedRow(TypedDict):
    """The end of all sessions of a person, token or key."""

    name: Annotated[str, doc("Name of the person, token or key.")]
    ended: Annotated[int, doc("Number of sessions that were ended.")]


def of_session(sign_in: SignIn, current: str) -> SessionRow:
    """Return the row of a session; `current` is the id of the caller's own."""
    return {
        "session": sign_in.id,
        "name": sign_in.name,
        "tenant": sign_in.tenant,
        "way": sign_in.way,
        "origin": sign_in.origin or None,
        "began_at": iso(sign_in.began_at_ms),
        "expires_at": iso(sign_in.expires_at_ms),
        "current": sign_in.id == current,
    }


class LinkUsedRow(TypedDict):
    """The run that a link was used on."""

    run_id: field.RunId
    status: Annotated[Status, doc("The run's status afterwards.")]


def of_key(key: ApiKey) -> KeyRow:
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


def _of_opens(opens: Opens | None) -> OpensRow | None:
    """Return the row of a link's action; None if it has none."""
    if opens is None:
        return None
    if isinstance(opens, tuple):
        return {"run_id": opens[0], "signal": opens[1]}
    run = run_of(GateId(opens.gate))
    return {"run_id": run, "gate_id": opens.gate, "shown_hash": opens.shown_hash, "reviewer": opens.by}


class AuditRow(TypedDict):
    """An entry of the audit log."""

    number: Annotated[int, doc("Its place in the log; the first entry has 1.")]
    at: Annotated[Time, doc("Time of the request.")]
    name: Annotated[str | None, doc("Person or program that acted.")]
    verified: Annotated[bool, doc("True if the name is that of the token or key; otherwise the caller claims it.")]
    client: Annotated[str | None, doc("The token or key that was used.")]
    os_user: Annotated[str | None, doc("The operating system's user who ran the command.")]
    origin: Annotated[str | None, doc("The network address of the caller.")]
    tenant: Annotated[str | None, doc("The tenant for which the caller acted; null for all.")]
    action: Annotated[str, doc("The action: a command, like `Decide`.")]
    about: Annotated[str | None, doc("The run, gate or name that the command was about.")]
    outcome: Annotated[str, doc("`done`, or the code of the error that refused it.")]
    trace_id: Annotated[str | None, doc("Trace of the request, in which its logs and events are found.")]
    at_ms: Annotated[int, doc("The time in milliseconds since 1970, as it is hashed.")]
    hash: Annotated[str, doc("SHA-256 of this entry and the hash before it, in hexadecimal digits.")]
    kept_for: Annotated[str | None, doc("The tenant who sees this entry.")]
    signature: Annotated[str | None, doc("HMAC of the hash; null where the process had no signing key.")]


class AuditHeadRow(TypedDict):
    """The last entry of the audit log."""

    number: Annotated[int, doc("The number of the last entry; 0 for an empty log.")]
    hash: Annotated[str, doc("The hash of the last entry.")]
    signature: Annotated[str | None, doc("HMAC of the hash; null where the process had no signing key.")]


def of_link(link: Link) -> AuditRow:
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
        "action": entry.action,
        "about": entry.about or None,
        "outcome": entry.outcome,
        "trace_id": entry.trace_id or None,
        "at_ms": entry.at_ms,
        "hash": link.hash,
        "kept_for": link.tenant or None,
        "signature": link.signature or None,
    }


def of_audit_head(head: Head) -> AuditHeadRow:
    """Return the row of the last audit entry."""
    return {"number": head.number, "hash": head.hash, "signature": head.signature or None}


def audit_head_of(row: Mapping[str, Any]) -> Head:
    """The same back."""
    return Head(row["number"], row["hash"], row["signature"] or "")


def link_of(row: Mapping[str, Any]) -> Link:
    """The same back."""
    fields: dict[str, Any] = {name: "" if row[name] is None else row[name] for name in Entry._fields}
    return Link(row["number"], Entry(**fields), row["hash"], row["kept_for"] or "", row["signature"] or "")
