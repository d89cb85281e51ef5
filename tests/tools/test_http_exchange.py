"""One exchange over HTTP: what is sent where, what is followed, how much is read, and which addresses are refused."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tracemalloc
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.values.policies import DENIED, LOST, NETWORK, RATE_LIMIT, TIMEOUT, VALIDATION
from holdfast.errors import OutcomeUnknown, ToolFailed
from holdfast.platform.address import EVERYWHERE, may_be_called, networks
from holdfast.platform.http_exchange import MAX_REDIRECTS, Bounds, Reply, Request, exchange, retry_after_s
from holdfast.tools.http_reply import answer
from tests.engine.kit import eventually
from tests.tools.server import Server, bomb, do, does_and_drips, does_and_hangs, raw, says, sends

PEM = Path(__file__).with_name("localhost.pem")
OPEN = Bounds(timeout_s=5.0, max_response_bytes=10_000, private=EVERYWHERE)


def to(server: Server, method: str = "GET", target: str = "/", *, host: str = "127.0.0.1") -> Request:
    body = b"{}" if method == "POST" else None
    return Request(method, ("https" if server.tls else "http", host, server.port), target, {"X-Mine": "1"}, body)


def facts(problem: Any) -> tuple[type, str]:
    return type(problem.value), problem.value.error_class


# --- Redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_read_follows_a_redirect_within_its_server(code: int) -> None:
    with Server(says(code, Location="/there?x=1")) as server:
        reply = await exchange(to(server), OPEN)
    assert reply.status == 200
    assert [asked.target for asked in server.asked] == ["/", "/there?x=1"]
    assert server.asked[1].headers["x-mine"] == "1"


@pytest.mark.parametrize("code", [307, 308])
async def test_a_changing_request_follows_a_redirect_only_if_the_server_has_not_acted(code: int) -> None:
    with Server(says(code, Location="/there")) as server:
        assert (await exchange(to(server, "POST"), OPEN)).status == 200
    assert [(asked.method, asked.target, asked.body) for asked in server.asked] == [
        ("POST", "/", b"{}"),
        ("POST", "/there", b"{}"),
    ]
    assert len(server.effects) == 1


@pytest.mark.parametrize(
    ("code", "policy", "means"),
    [
        (301, "once", (OutcomeUnknown, VALIDATION)),
        (303, "idempotent", (OutcomeUnknown, VALIDATION)),
        (302, "read", (ToolFailed, DENIED)),
    ],
)
async def test_a_post_follows_no_other_redirect_and_is_unknown_unless_it_only_reads(code: int, policy: Any, means: Any) -> None:
    with Server(says(code, Location="/there")) as server:
        request = to(server, "POST")
        reply = await exchange(request, OPEN)
    assert len(server.asked) == 1
    with pytest.raises((ToolFailed, OutcomeUnknown), match="a redirect to /there, which is not followed") as problem:
        answer(request, reply, policy, ())
    assert facts(problem) == means


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "location", ["{other}/", "//127.0.0.1:{port}/", "https://{here}/", "http://u:p@{here}/", "http://[bad"]
)
async def test_a_redirect_to_another_host_port_or_scheme_is_refused_by_name(method: str, location: str) -> None:
    with Server() as other, Server() as server:
        place = location.format(other=other.url, port=other.port, here=f"127.0.0.1:{server.port}")
        server.plan.append(says(307, Location=place))
        request = to(server, method)
        reply = await exchange(request, OPEN)
    assert (len(server.asked), len(other.asked)) == (1, 0)
    with pytest.raises(ToolFailed, match="not followed") as problem:
        answer(request, reply, "once", ())
    assert facts(problem) == (ToolFailed, DENIED)
    assert place in str(problem.value)


async def test_redirects_end() -> None:
    endless = [says(302, Location=f"/{number}") for number in range(50)]
    with Server(*endless) as server, pytest.raises(ToolFailed, match=f"more than {MAX_REDIRECTS} times"):
        await exchange(to(server), OPEN)
    assert len(server.asked) == MAX_REDIRECTS + 1


# --- Bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [does_and_hangs, does_and_drips])
async def test_the_deadline_is_hard_and_says_what_is_known(how: Any) -> None:
    with Server(how) as server:
        started = asyncio.get_running_loop().time()
        with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.3 s") as problem:
            await exchange(to(server, "POST"), OPEN._replace(timeout_s=0.3))
        assert asyncio.get_running_loop().time() - started < 2
    assert facts(problem) == (OutcomeUnknown, TIMEOUT)


async def test_a_connection_that_is_never_accepted_was_certainly_not_used() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(8)]
        for each in fillers:
            each.setblocking(False)
            each.connect_ex(address)
        request = Request("POST", ("http", *address), "/", {}, b"{}")
        with pytest.raises(ToolFailed, match="Nothing was sent"):
            await exchange(request, OPEN._replace(timeout_s=0.4))
        for each in fillers:
            each.close()


async def test_an_answer_is_read_up_to_its_limit_and_no_further() -> None:
    with Server(sends(raw(200, b'"' + b"x" * 9_998 + b'"')), sends(raw(200, b'"' + b"x" * 9_999 + b'"'))) as server:
        assert len((await exchange(to(server), OPEN)).body) == 10_000
        assert (await exchange(to(server), OPEN)).unreadable == "it is larger than 10000 bytes"


async def test_of_a_refusal_only_some_words_are_read_unless_its_status_is_accepted() -> None:
    page = raw(404, b"x" * 50_000, kind="text/plain")
    wide = OPEN._replace(max_response_bytes=100_000)
    with Server(sends(page), sends(page)) as server:
        assert (await exchange(to(server), wide)).body == b""
        assert len((await exchange(to(server), wide._replace(accepted={404}))).body) == 50_000


async def test_a_small_answer_that_unpacks_to_a_large_one_is_not_unpacked() -> None:
    with Server(bomb(200_000_000)) as server:
        tracemalloc.start()
        try:
            reply = await exchange(to(server), OPEN)
            _, most_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert reply.unreadable == "it is larger than 10000 bytes"
    assert most_bytes < 20_000_000


async def test_a_packed_answer_is_unpacked_and_a_broken_one_is_said_to_be() -> None:
    broken = raw(200, b"this is not gzip", Content_Encoding="gzip")
    with Server(bomb(5_000), sends(broken)) as server:
        assert len((await exchange(to(server), OPEN)).body) == 5_002
        assert "cannot be unpacked" in str((await exchange(to(server), OPEN)).unreadable)


async def test_nothing_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as proxy, Server() as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert (await exchange(to(server), OPEN)).status == 200
    assert (len(proxy.asked), len(server.asked)) == (0, 1)


async def test_a_process_that_lost_its_lease_while_it_connected_sends_nothing() -> None:
    with Server() as server:
        with pytest.raises(ToolFailed, match="Nothing was sent") as problem:
            await exchange(to(server, "POST"), OPEN, lambda: False)
        await eventually(lambda: server.connections)
    assert facts(problem) == (ToolFailed, LOST)
    assert server.asked == []


# --- Addresses --------------------------------------------------------------------------------------------------------

REFUSED = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "168.63.129.16",
    "192.88.99.1",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:a00:1::",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "100::1",
]

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


# Every line of iana.org/assignments/iana-ipv4-special-registry and of iana-ipv6-special-registry,
# and what else is nobody's place.
# The two lines that carry an IPv4 address, 64:ff9b::/96 (RFC 6052) and 2002::/16 (RFC 3056), mean that address.
REGISTRY_4 = """
    0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.0/29
    192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24
    192.88.99.0/24 192.88.99.2/32 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4
    255.255.255.255/32 224.0.0.0/4 192.0.0.192/32
""".split()  # noqa: SIM905 - as it is read
REGISTRY_6 = """
    ::1/128 ::/128 ::ffff:0:0/104 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128 2001:1::2/128
    2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32
    2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8
""".split()  # noqa: SIM905 - as it is read


@pytest.mark.parametrize("line", REGISTRY_4)
def test_no_line_of_the_registry_of_ipv4_is_public_in_any_of_its_disguises(line: str) -> None:
    network = ip_network(line)
    for number in (int(network[0]), int(network[-1])):
        teredo = 0x2001 << 112 | 0x4136E378 << 64 | number ^ 0xFFFF_FFFF
        disguises = [0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80 | 1, number, teredo]
        assert not may_be_called(IPv4Address(number))
        assert [str(each) for each in map(IPv6Address, disguises) if may_be_called(each)] == []


@pytest.mark.parametrize("line", REGISTRY_6)
def test_no_line_of_the_registry_of_ipv6_is_public(line: str) -> None:
    network = ip_network(line)
    assert not may_be_called(network[0])
    assert not may_be_called(network[-1] if line != "::ffff:0:0/104" else network[1])


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not may_be_called(ip_address(address))
    assert may_be_called(ip_address(address), EVERYWHERE)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_called(address: str) -> None:
    assert may_be_called(ip_address(address))


def test_a_network_that_is_allowed_lets_in_what_is_in_it_and_no_more() -> None:
    allowed = networks(["10.1.0.0/16", "fd00::/8"])
    assert may_be_called(ip_address("10.1.2.3"), allowed)
    assert may_be_called(ip_address("::ffff:10.1.2.3"), allowed)
    assert may_be_called(ip_address("fd12::1"), allowed)
    assert not may_be_called(ip_address("10.2.0.1"), allowed)
    assert not may_be_called(ip_address("127.0.0.1"), allowed)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
async def test_a_private_address_is_refused_in_every_notation_without_a_connection(host: str) -> None:
    with Server() as server:
        with pytest.raises(ToolFailed, match="is at no public address") as problem:
            await exchange(to(server, host=host), OPEN._replace(private=()))
        assert server.connections == 0
    assert facts(problem) == (ToolFailed, DENIED)


async def test_an_unknown_name_was_not_called() -> None:
    with pytest.raises(ToolFailed, match="cannot be resolved") as problem:
        await exchange(Request("GET", ("http", "nobody.invalid", 80), "/", {}), OPEN)
    assert facts(problem) == (ToolFailed, NETWORK)


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: Sequence[str]) -> list[str]:
    """What a hostile name server does: it answers each question otherwise. Returns the questions."""
    questions: list[str] = []

    def lie(host: Any, port: Any, *rest: Any, **more: Any) -> list[Any]:
        questions.append(str(host))
        addresses = answers[min(len(questions), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, int(port))) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", lie)
    return questions


async def test_a_name_that_changes_its_meaning_after_the_check_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as server:
        listener = socket.create_server(("127.0.0.2", server.port))
        listener.setblocking(False)
        questions = resolving(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        server.plan.append(says(302, Location="/again"))
        reply = await exchange(to(server, host="rebinding.example"), OPEN._replace(private=networks(["127.0.0.1/32"])))
        assert reply.status == 200
        with listener, pytest.raises(BlockingIOError):
            listener.accept()
    assert [asked.headers["host"] for asked in server.asked] == [f"rebinding.example:{server.port}"] * 2
    assert questions == ["rebinding.example"]


async def test_a_name_with_one_private_address_among_its_addresses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, ["8.8.8.8", "127.0.0.1"])
    with Server() as server:
        with pytest.raises(ToolFailed, match=r"'two\.example' is at no public address"):
            await exchange(to(server, host="two.example"), OPEN._replace(private=()))
        assert server.connections == 0


async def test_another_address_of_the_name_is_tried_where_one_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, ["127.0.0.9", "127.0.0.1"])
    with Server() as server:
        assert (await exchange(to(server, "POST", host="two.example"), OPEN)).status == 200
    assert len(server.effects) == 1


# --- TLS --------------------------------------------------------------------------------------------------------------


def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


TRUSTING = OPEN._replace(ca_file=str(PEM))


async def test_the_certificate_must_be_the_names_and_the_connection_goes_to_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Server(tls=tls()) as server:
        resolving(monkeypatch, ["127.0.0.1"])
        assert (await exchange(to(server, host="localhost"), TRUSTING)).status == 200
        assert server.asked[0].headers["host"] == f"localhost:{server.port}"
        for host in ("127.0.0.1", "other.example"):
            with pytest.raises(ToolFailed, match=r"(?i)certificate.*Nothing was sent"):
                await exchange(to(server, "POST", host=host), TRUSTING)
    assert len(server.asked) == 1


async def test_a_certificate_without_a_known_authority_is_refused_before_anything_is_sent() -> None:
    with Server(tls=tls()) as server, pytest.raises(ToolFailed, match="Nothing was sent") as problem:
        await exchange(to(server, "POST", host="localhost"), OPEN)
    assert facts(problem) == (ToolFailed, NETWORK)
    assert server.asked == []


# --- Replies ----------------------------------------------------------------------------------------------------------


def reply(status: int = 200, body: bytes = b"", **headers: str) -> Reply:
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body, "http://x/")


ASKED = Request("POST", ("http", "x", 80), "/", {})


@pytest.mark.parametrize(
    ("kind", "body", "seen"),
    [
        ("application/json", b'{"a": [1, null]}', {"a": [1, None]}),
        ("application/problem+json; charset=utf-8", b"1", 1),
        ("text/plain; charset=latin-1", b"\xe9", "é"),
        ("application/xml", b"<a/>", "<a/>"),
        ("", b"plain", "plain"),
        ("image/png", b"", None),
    ],
)
def test_json_becomes_data_and_text_becomes_text(kind: str, body: bytes, seen: Any) -> None:
    given = reply(body=body, content_type=kind) if kind else reply(body=body)
    assert answer(ASKED, given, "once", ())["body"] == seen


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"NaN"),
        ("application/json", b"[" * 100_000),
        ("application/octet-stream", b"abc"),
        ("text/plain", b"\xff"),
        ("text/plain; charset=klingon", b"x"),
        ("", b"\xff\xfe"),
    ],
)
def test_what_is_neither_is_refused_clearly(kind: str, body: bytes) -> None:
    given = reply(body=body, content_type=kind) if kind else reply(body=body)
    with pytest.raises(OutcomeUnknown, match="of no use"):
        answer(ASKED, given, "once", ())
    with pytest.raises(ToolFailed, match="of no use") as problem:
        answer(ASKED, given, "read", ())
    assert facts(problem) == (ToolFailed, VALIDATION)


def test_a_status_that_is_accepted_is_an_answer() -> None:
    assert answer(ASKED, reply(404), "idempotent", {404}) == {"status": 404, "headers": {}, "body": None}


def test_only_the_headers_that_say_something_about_the_answer_are_kept() -> None:
    given = reply(content_type="text/plain", etag='"1"', set_cookie="session=1", server="x")
    assert answer(ASKED, given, "once", ())["headers"] == {"content-type": "text/plain", "etag": '"1"'}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "999999999"}, 31 * 86_400.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, None),
        ({"retry-after": "9" * 5000}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon", "date": "now"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_by_the_servers_own_clock_and_bounded(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


def test_not_now_carries_how_long_to_wait() -> None:
    with pytest.raises(ToolFailed) as problem:
        answer(ASKED, reply(429, retry_after="7"), "once", ())
    assert facts(problem) == (ToolFailed, RATE_LIMIT)
    assert problem.value.retry_after_s == 7.0  # type: ignore[attr-defined]


async def test_each_exchange_has_a_connection_of_its_own() -> None:
    with Server(do, do) as server:
        for _ in range(2):
            await exchange(to(server), OPEN)
        assert server.connections == 2
        assert all(asked.headers["connection"] == "close" for asked in server.asked)
