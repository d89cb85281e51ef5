"""An object store on the loopback interface that speaks as much of S3 as large payloads need: PUT, with `If-None-Match`,
GET and HEAD of objects in buckets, listing them page by page, deleting many at once, signed requests, and S3's errors.

It checks every signature (AWS Signature Version 4), writes nothing down but what it was asked, and fails on demand
(`ObjectRule`). It is no part of what it tests: nothing of Holdfast outside the test kit may be imported here.

    with ObjectServer(buckets=["payloads"], rules=[ObjectRule(method="PUT", times=2, status=503)]) as server:
        os.environ.update(server.environment)
        ...
        assert list(server.objects["payloads"]) == ["acme/2026-11/…"]
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import parse_qsl, quote
from xml.sax.saxutils import escape, unescape

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.testing.http_server import HttpServer
from holdfast.testing.loopback_server import LOOPBACK
from holdfast.testing.script import Script

ACCESS_KEY = "AKIAOBJECTSERVER"
SECRET_KEY = "the-secret-of-the-object-server"
REGION = "us-east-1"
MAX_LISTED = 3
"""Names on one page: so few that a listing has to turn pages."""

STATUS = {
    "NoSuchKey": 404,
    "NoSuchBucket": 404,
    "AccessDenied": 403,
    "InvalidAccessKeyId": 403,
    "SignatureDoesNotMatch": 403,
    "XAmzContentSHA256Mismatch": 400,
    "PreconditionFailed": 412,
}
CODES = {403: "AccessDenied", 500: "InternalError", 503: "SlowDown"}

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<scope>(?P<day>\d{8})/(?P<region>[^/]+)/s3/aws4_request), ?"
    r"SignedHeaders=(?P<headers>[^,]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


class ObjectRequest(NamedTuple):
    """A request that arrived, and the status it was answered with."""

    method: str
    bucket: str
    key: str
    status: int


class ObjectRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition and its effects: if all of the first part holds, the rest happens. Only the first rule that applies
    counts."""

    why: str = ""

    method: str = ""
    """Any, if empty."""
    nth: int | None = None
    times: int | None = None

    status: int | None = None
    """The request is refused with this status and has no effect."""
    drops_reply: bool = False
    """The request has its effect and the connection is closed: the client cannot know."""

    def matches(self, request: Request) -> bool:
        return self.method in ("", request.method)


class ObjectServer(HttpServer):
    """The server, in this process but in a thread of its own. Everything here may be used from any thread."""

    def __init__(self, *, buckets: Iterable[str], rules: Iterable[ObjectRule] = (), port: int = 0) -> None:
        super().__init__(port)
        self.script = Script(rules)
        self.objects: dict[str, dict[str, bytes]] = {bucket: {} for bucket in buckets}
        self.asked: list[ObjectRequest] = []

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of S3 clients, pointing at this server."""
        return {
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }

    def _application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/{bucket}", self._answer, methods=["GET", "POST"]),
                Route("/{bucket}/{key:path}", self._answer, methods=["PUT", "GET", "HEAD"]),
            ]
        )

    async def _answer(self, request: Request) -> Response:
        try:
            body = await request.body()
        except ClientDisconnect:
            return Response(status_code=400)
        bucket, key = request.path_params["bucket"], request.path_params.get("key", "")
        rule = next(self.script.applying(request), ObjectRule())
        if rule.status is not None:
            reply = _error(CODES[rule.status], rule.status)
        elif (problem := _unsigned(request, body)) is not None:
            reply = _error(problem)
        else:
            reply = self._act(request, bucket, key, body)
        self.asked.append(ObjectRequest(request.method, bucket, key, reply.status_code))
        if rule.drops_reply and request.client is not None:
            self.drop((request.client.host, request.client.port))
        return reply

    def _act(self, request: Request, bucket: str, key: str, body: bytes) -> Response:
        objects = self.objects.get(bucket)
        if objects is None:
            return _error("NoSuchBucket")
        if request.method == "PUT":
            if request.headers.get("if-none-match") == "*" and key in objects:
                return _error("PreconditionFailed")
            objects[key] = body
            return Response(headers={"ETag": _etag(body)})
        if not key:
            return _delete(objects, body) if request.method == "POST" else _list(objects, request)
        content = objects.get(key)
        if content is None:
            return _error("NoSuchKey")
        return Response(
            content,
            headers={"ETag": _etag(content), "Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT"},
            media_type="application/octet-stream",
        )


def _list(objects: dict[str, bytes], request: Request) -> Response:
    """One page. https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html"""
    asked = request.query_params
    after = asked.get("continuation-token", asked.get("start-after", ""))
    names = sorted(name for name in objects if name.startswith(asked.get("prefix", "")) and name > after)
    page = names[: min(int(asked.get("max-keys", MAX_LISTED)), MAX_LISTED)]
    entries = "".join(
        f"<Contents><Key>{escape(name)}</Key><Size>{len(objects[name])}</Size><ETag>{escape(_etag(objects[name]))}</ETag>"
        f"<LastModified>2026-11-21T00:00:00.000Z</LastModified></Contents>"
        for name in page
    )
    more = len(names) > len(page)
    next_page = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
    body = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{next_page}{entries}</ListBucketResult>"
    return Response(body, media_type="application/xml")


def _delete(objects: dict[str, bytes], body: bytes) -> Response:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html"""
    names = [unescape(name) for name in re.findall(r"<Key>(.*?)</Key>", body.decode())]
    for name in names:
        objects.pop(name, None)
    told = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
    return Response(f"<DeleteResult>{told}</DeleteResult>", media_type="application/xml")


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _error(code: str, status: int | None = None) -> Response:
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return Response(body, status if status is not None else STATUS[code], media_type="application/xml")


def _canonical(query: str) -> str:
    """A query as it is signed: its names in order, each with a value."""
    pairs = sorted(parse_qsl(query, keep_blank_values=True))
    return "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in pairs)


def _unsigned(request: Request, body: bytes) -> str | None:
    """Return S3's error code for the signature of a request; None if the signature is right.

    https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
    """
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if found is None:
        return "AccessDenied"
    if found["key"] != ACCESS_KEY:
        return "InvalidAccessKeyId"
    said = request.headers.get("x-amz-content-sha256", "")
    if said not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
        return "XAmzContentSHA256Mismatch"
    headers = "".join(f"{name}:{request.headers.get(name, '').strip()}\n" for name in found["headers"].split(";"))
    path, query = request.scope["raw_path"].decode(), _canonical(request.scope["query_string"].decode())
    asked = "\n".join([request.method, path, query, headers, found["headers"], said])
    to_sign = "\n".join(
        ["AWS4-HMAC-SHA256", request.headers["x-amz-date"], found["scope"], hashlib.sha256(asked.encode()).hexdigest()]
    )
    key = f"AWS4{SECRET_KEY}".encode()
    for word in (found["day"], found["region"], "s3", "aws4_request", to_sign):
        key = hmac.digest(key, word.encode(), "sha256")
    return None if hmac.compare_digest(key.hex(), found["signature"]) else "SignatureDoesNotMatch"
