"""Signatures of webhooks, in one table of schemes: Standard Webhooks, Stripe, GitHub, Slack, and a shared secret.

A signature is over the bytes that were sent: verify before anything is parsed. All known keys are compared, each in constant
time, so that a rotated key is accepted and nothing is learned from the time it takes. Sources: the specification of Standard
Webhooks 1.0 and the documentation of each vendor. Never here: a connection, where a secret is kept.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from holdfast.errors import UsageError

SchemeName: TypeAlias = Literal["standard", "stripe", "github", "slack", "secret"]

TOLERANCE_S: Final = 300
"""Greatest difference between the time in a signature and ours: as all vendors advise."""
_MAX_SIGNATURES: Final = 20
"""Signatures of a header that are looked at: a sender that rotates keys has two."""
_KEY_BYTES: Final = range(24, 65)
"""Length of a key of Standard Webhooks."""
_TIME: Final = re.compile(r"\d{1,12}", re.ASCII)
_ID: Final = re.compile(r"[\x21-\x7e]{1,256}")
_BEARER: Final = "Bearer "
AUTHORIZATION: Final = "authorization"


class WrongSignature(Exception):
    """A request without a valid signature. Its text is for our own log: the sender learns nothing."""


class Scheme(NamedTuple):
    """The rules of a vendor. `signed` is the text before the body, of which `{id}` and `{time}` are filled in."""

    header: str
    """Header with the signatures."""
    version: str
    """Text before each signature that counts."""
    signed: str = ""
    time: str = ""
    """Header with the time; `t=` if it is in the same header as the signatures."""
    id: str = ""
    """Header with the id of the delivery, which stays the same if it is sent again."""
    separator: str = ""
    encode: Callable[[bytes], str] = bytes.hex
    key: Callable[[str], bytes] = str.encode


class Verified(NamedTuple):
    """The parts of a request that its signature vouches for; `id` is None in a scheme without."""

    id: str | None = None
    at_s: int | None = None


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _standard_key(secret: str) -> bytes:
    """Return the key in a secret of Standard Webhooks. Raises UsageError."""
    try:
        key = b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) not in _KEY_BYTES:
        raise UsageError(
            "A secret of Standard Webhooks is whsec_ and 24 to 64 bytes in base64, as in"
            ' `echo "whsec_$(openssl rand -base64 32)"`. Nothing was done.'
        )
    return key


SCHEMES: Final[Mapping[str, Scheme]] = {
    "standard": Scheme(
        "webhook-signature",
        "v1,",
        signed="{id}.{time}.",
        time="webhook-timestamp",
        id="webhook-id",
        separator=" ",
        encode=_base64,
        key=_standard_key,
    ),
    "stripe": Scheme("stripe-signature", "v1=", signed="{time}.", time="t=", separator=","),
    "github": Scheme("x-hub-signature-256", "sha256=", id="x-github-delivery"),
    "slack": Scheme("x-slack-signature", "v0=", signed="v0:{time}:", time="x-slack-request-timestamp"),
}
"""Of Stripe the key is the whole secret, `whsec_` included. GitHub's id is not signed."""


def keys_of(scheme: SchemeName, secrets: Sequence[str]) -> tuple[bytes, ...]:
    """Return the keys in secrets, the newest first. Raises UsageError for one that the scheme does not take."""
    make = SCHEMES[scheme].key if scheme in SCHEMES else str.encode
    return tuple(make(each) for each in secrets)


def sign(scheme: SchemeName, keys: Sequence[bytes], id_: str, at_s: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request, signed with each of the keys: during a rotation with the new and the old one."""
    rules = SCHEMES[scheme]
    signatures = [f"{rules.version}{_signature(rules, key, id_, f'{at_s}', body)}" for key in keys]
    parts = [f"t={at_s}"] if rules.time == "t=" else []
    headers = {rules.header: rules.separator.join([*parts, *signatures]) if rules.separator else signatures[0]}
    if rules.time and not parts:
        headers[rules.time] = f"{at_s}"
    if rules.id:
        headers[rules.id] = id_
    return headers


def verify(scheme: SchemeName, keys: Sequence[bytes], headers: Mapping[str, str], body: bytes, now_s: float) -> Verified:
    """Return what the signature of a request vouches for; `headers` are in lower case. Raises WrongSignature."""
    rules = SCHEMES[scheme]
    given = headers.get(rules.header, "")
    parts = [each.strip() for each in (given.split(rules.separator) if rules.separator else [given])]
    time = _time_of(rules, headers, parts) if rules.time else ""
    id_ = headers.get(rules.id, "") if rules.id else ""
    if rules.id and not _ID.fullmatch(id_):
        raise WrongSignature(f"no header {rules.id}")
    signatures = [each.removeprefix(rules.version) for each in parts if each.startswith(rules.version)][:_MAX_SIGNATURES]
    if not signatures:
        raise WrongSignature(f"no signature in {rules.header}")
    expected = [_signature(rules, key, id_, time, body) for key in keys]
    matches = [hmac.compare_digest(each.encode(), one.encode("utf-8", "replace")) for each in expected for one in signatures]
    if not any(matches):
        raise WrongSignature(f"a wrong signature in {rules.header}")
    if time and abs(now_s - int(time)) > TOLERANCE_S:
        raise WrongSignature(f"a signature of another time: {now_s - int(time):.0f} s ago")
    return Verified(id_ or None, int(time) if time else None)


def verify_secret(secrets: Sequence[bytes], headers: Mapping[str, str], header: str = AUTHORIZATION) -> Verified:
    """Verify a shared secret in a header; in `Authorization` it stands behind `Bearer`. Raises WrongSignature."""
    given = headers.get(header, "")
    if header == AUTHORIZATION:
        given = given[len(_BEARER) :] if given[: len(_BEARER)].lower() == _BEARER.lower() else ""
    matches = [hmac.compare_digest(each, given.encode("utf-8", "replace")) for each in secrets]
    if not given or not any(matches):
        raise WrongSignature(f"no secret, or a wrong one, in {header}")
    return Verified()


def _time_of(rules: Scheme, headers: Mapping[str, str], parts: Sequence[str]) -> str:
    """Return the time as the request has it: it is signed in that form. Raises WrongSignature."""
    times = [each[2:] for each in parts if each.startswith("t=")] if rules.time == "t=" else [headers.get(rules.time, "")]
    if len(times) != 1 or not _TIME.fullmatch(times[0]):
        raise WrongSignature("no time")
    return times[0]


def _signature(rules: Scheme, key: bytes, id_: str, time: str, body: bytes) -> str:
    signed = rules.signed.replace("{id}", id_).replace("{time}", time).encode()
    return rules.encode(hmac.new(key, signed + body, hashlib.sha256).digest())
