"""Senders of webhooks, each as its vendor signs: by its package, or by hand from its documentation. Nothing of ours signs here."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from slack_sdk.signature import SignatureVerifier
from standardwebhooks.webhooks import Webhook

from holdfast.settings import HookRules
from tests.http.kit import MAX_S, NO_TLS

SAMPLES = Path(__file__).parent / "samples"
GITHUB, STRIPE, SLACK = "It's a Secret to Everybody", "whsec_test_secret_of_stripe", "8f742231b10e8888abcd99yyyzzz85a5"
STANDARD, BEFORE = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
SHARED = "a shared secret of 32 characters"
SECRETS = {
    "GITHUB_SECRET": GITHUB,
    "STRIPE_SECRET": STRIPE,
    "SLACK_SECRET": SLACK,
    "STANDARD_SECRET": STANDARD,
    "STANDARD_BEFORE": BEFORE,
    "SHARED_SECRET": SHARED,
}
FORM = "application/x-www-form-urlencoded"


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def rules(scheme: str, *secrets: str, **more: Any) -> HookRules:
    return HookRules.model_validate({"scheme": scheme, "secrets": secrets or (f"{scheme.upper()}_SECRET",), **more})


def github(body: bytes, delivery: str = "72d3162e-cc78-11e3-81ab-4c9367dc0958", event: str = "pull_request") -> dict[str, str]:
    signature = hmac.new(GITHUB.encode(), body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json",
        "user-agent": "GitHub-Hookshot/044aadd",
        "x-github-delivery": delivery,
        "x-github-event": event,
        "x-hub-signature-256": f"sha256={signature}",
    }


def stripe(body: bytes, at_s: int | None = None) -> dict[str, str]:
    at = int(time.time()) if at_s is None else at_s
    signature = hmac.new(STRIPE.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json; charset=utf-8",
        "stripe-signature": f"t={at},v1={signature},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39",
    }


def slack(body: bytes, kind: str = FORM, at_s: int | None = None) -> dict[str, str]:
    at = f"{int(time.time()) if at_s is None else at_s}"
    signature = SignatureVerifier(SLACK).generate_signature(timestamp=at, body=body)
    assert signature is not None
    return {"content-type": kind, "x-slack-request-timestamp": at, "x-slack-signature": signature}


def standard(body: bytes, id_: str = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", secret: str = STANDARD) -> dict[str, str]:
    at_s = int(time.time())
    signature = Webhook(secret).sign(id_, datetime.fromtimestamp(at_s, tz=UTC), body.decode())
    return {
        "content-type": "application/json",
        "webhook-id": id_,
        "webhook-timestamp": f"{at_s}",
        "webhook-signature": signature,
    }


def shared() -> dict[str, str]:
    return {"content-type": "application/json", "authorization": f"Bearer {SHARED}"}


async def send(address: str, hook: str, body: bytes, headers: dict[str, str], method: str = "POST") -> httpx2.Response:
    async with httpx2.AsyncClient(verify=NO_TLS, timeout=MAX_S) as http:
        return await http.request(method, f"{address}/hooks/{hook}", content=body, headers=headers)


def interaction(action: str, value: Any, **more: Any) -> bytes:
    """A button that was pressed, as Slack's documentation shows the request."""
    payload = {
        "type": "block_actions",
        "user": {"id": "U061F7AUR", "username": "ann.lee", "name": "ann.lee", "team_id": "T024BE7LD"},
        "api_app_id": "A0MDYCDME",
        "token": "9s8d9as89d8as9d8as989",
        "container": {"type": "message", "message_ts": "1548261231.000200", "channel_id": "CBR2V3XEX", "is_ephemeral": False},
        "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
        "team": {"id": "T024BE7LD", "domain": "example"},
        "enterprise": None,
        "is_enterprise_install": False,
        "channel": {"id": "CBR2V3XEX", "name": "review-updates"},
        "message": {
            "type": "message",
            "text": "Approve?",
            "blocks": [{"type": "section"}, {"type": "actions", "elements": []}],
        },
        "state": {"values": {}},
        "response_url": "https://hooks.slack.com/actions/T024BE7LD/123/abc",
        "actions": [
            {
                "action_id": action,
                "block_id": "msg_1",
                "text": {"type": "plain_text", "text": "Approve", "emoji": True},
                "value": value if isinstance(value, str) else json.dumps(value),
                "style": "primary",
                "type": "button",
                "action_ts": "1548426417.840180",
            }
        ],
        **more,
    }
    return httpx2.QueryParams({"payload": json.dumps(payload)}).__str__().encode()
