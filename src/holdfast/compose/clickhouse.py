"""The sinks of ClickHouse that the settings ask for. Never here: what they write."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.analytics import OF_ARCHIVES
from holdfast.analytics.clickhouse import Address, ClickHouse
from holdfast.platform.redaction import PersonalData
from holdfast.settings import ClickHouseRules, Secrets


def redaction(secrets: Secrets) -> Callable[[bytes], bytes]:
    """Return what takes secrets, e-mail addresses and long numbers out of an event."""
    personal = PersonalData()

    def redact(event: bytes) -> bytes:
        return msgspec.json.encode(personal.data(msgspec.json.decode(secrets.redact_bytes(event))))

    return redact


def clickhouse_sinks(rules: ClickHouseRules, secrets: Secrets) -> list[ClickHouse]:
    """Return the sink of new events, and that of archived ones. Raises MissingExtra."""

    def password() -> str:
        return "" if rules.secret is None else secrets.get(rules.secret)

    address = Address(rules.url, rules.database, rules.user, password)
    redact = redaction(secrets) if rules.payloads else None
    return [ClickHouse(name, address, rules.batch, redact) for name in ("clickhouse", OF_ARCHIVES)]
