"""Payloads as they leave the house in spans, where the settings allow it: without personal data.

Values of secrets were taken out when the payload was stored, and sensitive fields are sealed. Never here: whether they leave.
"""

from __future__ import annotations

from holdfast.core.values.payload import Payload
from holdfast.platform.redaction import PersonalData
from holdfast.telemetry.otlp import encode_json


class PayloadReader:
    """Returns payloads as texts of JSON; equal personal data is replaced by equal marks."""

    def __init__(self) -> None:
        self._personal = PersonalData()

    def __call__(self, payload: Payload) -> str:
        if payload.blob is not None:
            return f"({payload.size_bytes} bytes, kept beside the history)"
        return encode_json(self._personal.data(payload.value())).decode()
