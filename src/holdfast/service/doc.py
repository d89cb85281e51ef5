"""Descriptions of fields, as OpenAPI and help show them. Never here: a field."""

from __future__ import annotations

import msgspec


def doc(text: str) -> msgspec.Meta:
    """Return a field's description: `name: Annotated[str, doc("Name of the schedule.")]`."""
    return msgspec.Meta(description=text)
