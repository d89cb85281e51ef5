"""Signatures: the vectors that vendors publish, official packages on the other side, rotation, time, and forgeries."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import standardwebhooks.webhooks as official
from slack_sdk.signature import Clock, SignatureVerifier
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from holdfast.errors import UsageError
from holdfast.notify.signatures import (
    SCHEMES,
    TOLERANCE_S,
    SchemeName,
    Verified,
    WrongSignature,
    keys_of,
    sign,
    verify,
    verify_secret,
)

STANDARD = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
ID, AT_S, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)

VECTORS: dict[SchemeName, tuple[str, dict[str, str], bytes, int]] = {
    "standard": (
        STANDARD,
        {
            "webhook-id": ID,
            "webhook-timestamp": f"{AT_S}",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        BODY,
        AT_S,
    ),
    "github": (
        "It's a Secret to Everybody",
        {
            "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        },
        b"Hello, World!",
        0,
    ),
    "slack": (
        "8f742231b10e8888abcd99yyyzzz85a5",
        {
            "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            "x-slack-request-timestamp": "1531420618",
        },
        SLACK_BODY,
        1531420618,
    ),
    "stripe": (
        "whsec_test_secret",
        {"stripe-signature": "t=1492774577,v1=691252e266ce41cb94d709c84e9580d4172b117a510bbc81723f657d2cd5d215"},
        b'{"id":"evt_test","object":"event"}',
        1492774577,
    ),
}


class Frozen(Clock):
    def __init__(self, at_s: int) -> None:
        self.at_s = at_s

    def now(self) -> float:
        return float(self.at_s)


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The official package asks the machine for the time."""

    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.fromtimestamp(AT_S, tz=UTC)

    monkeypatch.setattr(official, "datetime", Then)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_vectors_of_each_vendor_are_signed_and_verified(scheme: SchemeName) -> None:
    secret, headers, body, at_s = VECTORS[scheme]
    keys = keys_of(scheme, [secret])
    id_ = headers.get(SCHEMES[scheme].id, "")
    assert sign(scheme, keys, id_, at_s, body) == headers
    assert verify(scheme, keys, headers, body, at_s) == Verified(id_ or None, at_s or None)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_changed_byte_key_id_or_time_is_no_signature(scheme: SchemeName) -> None:
    secret, headers, body, at_s = VECTORS[scheme]
    rules, keys = SCHEMES[scheme], keys_of(scheme, [secret])
    forged = [
        (headers, body + b" "),
        (headers, body.replace(b" ", b"") if b" " in body else body[:-1]),
        ({**headers, rules.header: ""}, body),
        ({**headers, rules.header: headers[rules.header].replace("=", "=\u00e9")}, body),
        ({**headers, rules.header: headers[rules.header].upper()}, body),
        ({name: value for name, value in headers.items() if name != rules.header}, body),
    ]
    if rules.time and rules.time != "t=":
        forged += [
            ({**headers, rules.time: each}, body) for each in ("", "x", f"{at_s + 1}", f"0{at_s}", f"{at_s}.0", "\u0661")
        ]
    if rules.time == "t=":
        at = f"t={at_s}"
        forged += [
            ({rules.header: headers[rules.header].replace(at, each)}, body) for each in (f"t={at_s + 1}", "", f"{at},{at}")
        ]
    if scheme == "standard":
        forged += [({**headers, "webhook-id": "msg_other"}, body), ({**headers, "webhook-id": ""}, body)]
    for wrong, sent in forged:
        with pytest.raises(WrongSignature):
            verify(scheme, keys, wrong, sent, at_s)
    with pytest.raises(WrongSignature):
        verify(scheme, keys_of(scheme, [OTHER]), headers, body, at_s)


@pytest.mark.parametrize("scheme", ["standard", "stripe", "slack"])
@pytest.mark.parametrize(("off_s", "counts"), [(-301, False), (-300, True), (300, True), (301, False)])
def test_a_signature_counts_for_five_minutes(scheme: SchemeName, off_s: int, counts: bool) -> None:
    secret, headers, body, at_s = VECTORS[scheme]
    assert TOLERANCE_S == 300
    if counts:
        verify(scheme, keys_of(scheme, [secret]), headers, body, at_s + off_s)
        return
    with pytest.raises(WrongSignature):
        verify(scheme, keys_of(scheme, [secret]), headers, body, at_s + off_s)


@pytest.mark.parametrize("scheme", ["standard", "stripe"])
def test_during_a_rotation_both_keys_sign_and_either_verifies(scheme: SchemeName) -> None:
    headers = sign(scheme, keys_of(scheme, [OTHER, STANDARD]), ID, AT_S, BODY)
    for secrets in ([OTHER], [STANDARD], [STANDARD, OTHER]):
        verify(scheme, keys_of(scheme, secrets), headers, BODY, AT_S)
    old = sign(scheme, keys_of(scheme, [STANDARD]), ID, AT_S, BODY)
    verify(scheme, keys_of(scheme, [OTHER, STANDARD]), old, BODY, AT_S)


def test_other_versions_beside_are_no_signatures() -> None:
    signature = VECTORS["standard"][1]["webhook-signature"]
    headers = VECTORS["standard"][1]
    keys = keys_of("standard", [STANDARD])
    verify("standard", keys, {**headers, "webhook-signature": f"v1a,x {signature} v2,y"}, BODY, AT_S)
    for wrong in (signature.replace("v1,", "v1a,"), signature.replace("v1,", ""), " ".join(["v1,x"] * 20 + [signature])):
        with pytest.raises(WrongSignature):
            verify("standard", keys, {**headers, "webhook-signature": wrong}, BODY, AT_S)
    stripe = VECTORS["stripe"][1]["stripe-signature"]
    with pytest.raises(WrongSignature):
        verify("stripe", keys_of("stripe", ["whsec_test_secret"]), {"stripe-signature": stripe.replace("v1", "v0")}, BODY, AT_S)


@pytest.mark.usefixtures("frozen")
def test_the_official_package_verifies_ours_and_ours_verifies_theirs() -> None:
    ours = sign("standard", keys_of("standard", [OTHER, STANDARD]), ID, AT_S, BODY)
    for secret in (OTHER, STANDARD):
        assert Webhook(secret).verify(BODY, ours) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 32).verify(BODY, ours)
    theirs = Webhook(OTHER).sign(ID, datetime.fromtimestamp(AT_S, tz=UTC), BODY.decode())
    headers = {"webhook-id": ID, "webhook-timestamp": f"{AT_S}", "webhook-signature": theirs}
    assert verify("standard", keys_of("standard", [OTHER]), headers, BODY, AT_S) == Verified(ID, AT_S)


def test_slacks_package_agrees_with_ours() -> None:
    secret, _, body, at_s = VECTORS["slack"]
    ours = sign("slack", keys_of("slack", [secret]), "", at_s, body)
    theirs = SignatureVerifier(secret, Frozen(at_s))
    assert theirs.is_valid(body, ours["x-slack-request-timestamp"], ours["x-slack-signature"])
    made = theirs.generate_signature(timestamp=f"{at_s}", body=body)
    assert made is not None
    verify("slack", keys_of("slack", [secret]), {"x-slack-request-timestamp": f"{at_s}", "x-slack-signature": made}, body, at_s)


def test_a_shared_secret_stands_in_its_header() -> None:
    secrets = keys_of("secret", ["new secret", "old secret"])
    for each in ("new secret", "old secret"):
        assert verify_secret(secrets, {"authorization": f"bearer {each}"}) == Verified()
        assert verify_secret(secrets, {"x-gitlab-token": each}, "x-gitlab-token") == Verified()
    for wrong in ({}, {"authorization": "new secret"}, {"authorization": "Bearer "}, {"authorization": "Bearer new"}):
        with pytest.raises(WrongSignature):
            verify_secret(secrets, wrong)
    with pytest.raises(WrongSignature):
        verify_secret(secrets, {"x-gitlab-token": ""}, "x-gitlab-token")


@pytest.mark.parametrize("secret", ["whsec_", "whsec_QUJD", "whsec_" + "A" * 88, "plain text", "whsec_MfKQ9r8G!!!"])
def test_a_secret_of_standard_webhooks_is_whole(secret: str) -> None:
    with pytest.raises(UsageError, match="24 to 64 bytes"):
        keys_of("standard", [secret])
