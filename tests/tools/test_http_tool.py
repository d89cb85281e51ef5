"""What `http_tool` makes of its declaration: a tool with a schema and a policy, requests of its arguments, or an error."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from holdfast import Tool, Workflow, http_lookup, http_tool, secret, tool_node
from holdfast.errors import SchemaMismatch, ToolFailed, UsageError
from holdfast.tools.url_template import UrlTemplate
from tests.engine.kit import opened
from tests.tools.server import Server

HOME = "https://api.example.com"
LOOPBACK = ["127.0.0.0/8"]
KEY = "0123456789abcdef" * 4
ANY = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}


# --- Declarations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "policy"),
    [("GET", "read"), ("HEAD", "read"), ("PUT", "idempotent"), ("DELETE", "idempotent"), ("POST", "once"), ("PATCH", "once")],
)
def test_the_policy_is_what_the_method_promises(method: Any, policy: str) -> None:
    made = http_tool("call", method, HOME)
    assert isinstance(made, Tool)
    assert made.policy == policy


def test_a_lookup_makes_the_policy_verify_and_a_declared_effect_is_the_policy() -> None:
    assert http_tool("call", "POST", HOME, verify=http_lookup(f"{HOME}/{{key}}")).policy == "verify"
    assert http_tool("call", "POST", HOME, verify=lambda key: None).policy == "verify"
    assert http_tool("call", "POST", HOME, effect="idempotent").policy == "idempotent"
    assert http_tool("call", "POST", HOME, effect="read").policy == "read"


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("a name is up to 64", {"name": "no name"}),
    ("method='FETCH' is none of GET", {"method": "FETCH"}),
    ("method='get' is none of GET", {"method": "get"}),
    ("must begin with https:// or http://", {"url": "ftp://x/"}),
    ("must begin with https:// or http://", {"url": "/path"}),
    ("it names no host", {"url": "https:///path"}),
    ("holds a user or a password", {"url": "https://me:pass@x/"}),
    ("what follows # is never sent", {"url": "https://x/#here"}),
    ("no URL", {"url": "https://x:99999/"}),
    ("no URL", {"url": "https://[::1/"}),
    ("no port 0", {"url": "https://x:0/"}),
    ("write it in ASCII", {"url": "https://bücher.example/"}),
    ("without spaces", {"url": "https://x/a b"}),
    ("{host} would choose the host", {"url": "https://{host}/"}),
    ("{port} would choose the host|no URL", {"url": "https://x:{port}/"}),
    ("a brace belongs to no {placeholder}", {"url": "https://x/{a"}),
    ("a brace belongs to no {placeholder}", {"url": "https://x/{}"}),
    ("{a} of the URL needs a required parameter", {"url": "https://x/{a}", "parameters": {"type": "object"}}),
    ("{b} of the URL needs a required parameter", {"url": "https://x/{b}", "parameters": ANY}),
    ("'type': 'object'|\"type\": \"object\"", {"parameters": {"type": "string"}}),
    ("no JSON Schema", {"parameters": {"type": "object", "properties": 7}}),
    ("a Pydantic model or a JSON Schema", {"parameters": int}),
    ("cannot be called 'key'", {"parameters": {"type": "object", "properties": {"key": {}}}}),
    ("cannot be called 'ctx'", {"url": "https://x/{ctx}"}),
    ("query names 'c'", {"parameters": ANY, "query": ["c"]}),
    ("and GET sends none", {"method": "GET", "encoding": "json"}),
    ("encoding='xml' is none of json, form", {"encoding": "xml"}),
    ("effect='maybe' is none of", {"effect": "maybe"}),
    ("belong together", {"effect": "verify"}),
    ("belong together", {"effect": "once", "verify": http_lookup("https://x/{key}")}),
    ("{b} of the lookup's URL is no parameter", {"verify": http_lookup("https://x/{b}")}),
    ("must begin with https://", {"verify": http_lookup("by-key/{key}")}),
    ("settles_within_s is about a lookup", {"settles_within_s": 5.0}),
    ("is no time", {"settles_within_s": -1.0, "verify": http_lookup("https://x/{key}")}),
    ("cannot name a header", {"headers": {"a b": "x"}}),
    ("is set by the request itself", {"headers": {"Host": "x"}}),
    ("is set by the request itself", {"headers": {"content-LENGTH": "3"}}),
    ("carries the effect's key", {"headers": {"idempotency-key": "mine"}}),
    ("no line of visible ASCII", {"headers": {"X-A": "a\r\nB: c"}}),
    ("no line of visible ASCII", {"headers": {"X-A": 7}}),
    ("in the clear", {"url": "http://x/", "headers": {"Authorization": secret("TOKEN")}}),
    ("a call needs an end", {"timeout_s": 0.0}),
    ("a call needs an end", {"timeout_s": float("inf")}),
    ("an answer needs room", {"max_response_bytes": 0}),
    ("only 4xx can be answers", {"accept_statuses": [500]}),
    ("names no network", {"allow_private": ["10.0.0.0/99"]}),
    ("is one string", {"allow_private": "10.0.0.0/8"}),
    ("key_format='raw' is none of hex, quoted, uuid", {"key_format": "raw"}),
    ("ca_file='nowhere.pem' holds no certificates", {"ca_file": "nowhere.pem"}),
    ("holds no certificates that can be read", {"ca_file": __file__}),
]


@pytest.mark.parametrize(("message", "given"), WRONG)
def test_what_no_request_can_be_made_of_ends_at_its_declaration(message: str, given: dict[str, Any]) -> None:
    declared = {"name": "call", "method": "POST", "url": HOME, **given}
    with pytest.raises(UsageError, match=message.replace("{", r"\{").replace("}", r"\}")) as problem:
        http_tool(**declared)
    assert str(problem.value).startswith(f"HTTP tool {declared['name']!r}: ")


# --- Arguments --------------------------------------------------------------------------------------------------------


def test_undeclared_the_placeholders_are_the_arguments() -> None:
    made = http_tool("call", "GET", f"{HOME}/a/{{customer}}?since={{since}}&by={{key}}")
    assert made.schema["required"] == ["customer", "since"]
    assert made.arguments({"customer": "x", "since": 5}) == {"customer": "x", "since": 5}
    with pytest.raises(SchemaMismatch, match=r"more: .*It was not called"):
        made.arguments({"customer": "x", "since": 5, "more": 1})


def test_a_json_schema_is_what_a_model_sees_and_lets_nothing_else_in() -> None:
    made = http_tool("call", "POST", HOME, parameters=ANY)
    assert made.schema == {**ANY, "additionalProperties": False}
    assert made.arguments({"a": [1], "b": None}) == {"a": [1], "b": None}
    for wrong in ({"b": 1}, {"a": 1, "c": 2}, [], None, "a"):
        with pytest.raises(SchemaMismatch, match="It was not called"):
            made.arguments(wrong)


def test_a_schema_that_refers_to_somewhere_else_fetches_nothing() -> None:
    elsewhere = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema"}}}
    made = http_tool("call", "POST", HOME, parameters=elsewhere)
    with pytest.raises(SchemaMismatch, match="which is not in it"):
        made.arguments({"a": 1})


class Payment(BaseModel):
    amount_cents: int = Field(alias="amountCents", gt=0)
    currency: str = "EUR"
    note: str | None = None


def test_fields_are_sent_by_alias_with_their_defaults_and_without_an_unset_none() -> None:
    made = http_tool("call", "POST", HOME, parameters=Payment)
    assert set(made.schema["properties"]) == {"amountCents", "currency", "note"}
    assert made.arguments({"amountCents": 5}) == {"amountCents": 5, "currency": "EUR"}
    assert made.arguments({"amountCents": 5, "note": None})["note"] is None
    with pytest.raises(SchemaMismatch, match="amountCents"):
        made.arguments({"amountCents": 0})


# --- Requests ---------------------------------------------------------------------------------------------------------


async def sent(method: Any, path: str, values: dict[str, Any], **more: Any) -> Any:
    """What a server gets of these arguments."""
    with Server() as server:
        made = http_tool("call", method, server.url + path, allow_private=LOOPBACK, **more)
        ctx = SimpleNamespace(key=KEY, trace_headers={}, secret=lambda name: f"value of {name}", may_send=lambda: True)
        await made(ctx=ctx, **made.typed(made.arguments(values)))
    (asked,) = server.asked
    return asked


async def test_each_argument_goes_where_it_is_named() -> None:
    every = {"type": "object", "properties": {name: {} for name in "abcd"}, "required": ["a"]}
    values = {"a": "x/y", "b": ["1", "2"], "c": {"d": None}, "d": True}
    asked = await sent("POST", "/{a}", values, parameters=every, query=["b"])
    assert asked.target == "/x%2Fy?b=1&b=2"
    assert json.loads(asked.body) == {"c": {"d": None}, "d": True}
    assert asked.headers["content-type"] == "application/json"
    asked = await sent("DELETE", "/{a}?z=1", {**values, "c": None}, parameters=every)
    assert (asked.target, asked.body) == ("/x%2Fy?z=1&b=1&b=2&d=true", b"")


@pytest.mark.parametrize(
    ("key_format", "header"), [("hex", KEY), ("quoted", f'"{KEY}"'), ("uuid", "01234567-89ab-4def-8123-456789abcdef")]
)
async def test_the_key_is_sent_as_the_service_takes_it(key_format: Any, header: str) -> None:
    asked = await sent("PUT", "/by/{key}", {}, key_format=key_format, key_header="X-Request-Key")
    assert asked.headers["x-request-key"] == header
    assert asked.target == f"/by/{header.strip(chr(34))}"


async def test_a_read_sends_no_key_and_a_secret_is_sent_where_it_is_named() -> None:
    asked = await sent("GET", "/", {}, headers={"X-Token": secret("TOKEN", prefix="v1 ")})
    assert asked.key is None
    assert asked.headers["x-token"] == "v1 value of TOKEN"


async def test_a_secret_that_would_break_a_header_is_not_sent_and_not_shown() -> None:
    made = http_tool("call", "GET", HOME, headers={"X-Token": secret("TOKEN")})
    with pytest.raises(ToolFailed, match="'TOKEN' holds what cannot stand in the header X-Token") as problem:
        await made(ctx=SimpleNamespace(key=KEY, trace_headers={}, secret=lambda name: "canary\r\nX: y"))
    assert "canary" not in str(problem.value)


MOVES = ["..", ".", "", "../admin", "a/../../admin", "..\\admin", "a\r\nHost: x", "a\x00b"]


@pytest.mark.parametrize("value", MOVES)
async def test_a_value_that_would_name_another_path_is_not_sent(value: str) -> None:
    with pytest.raises(ToolFailed, match="Nothing was sent"):
        await sent("GET", "/a/{x}/b", {"x": value})


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
async def test_a_value_that_has_no_place_in_a_url_is_not_sent(value: Any) -> None:
    anything = {"type": "object", "properties": {"x": {}}, "required": ["x"]}
    with pytest.raises(ToolFailed, match="Nothing was sent"):
        await sent("GET", "/a/{x}", {"x": value}, parameters=anything)


@given(value=st.text())
def test_whatever_the_value_host_and_path_stay_as_they_are_declared(value: str) -> None:
    template = UrlTemplate("https://api.example.com/a/{x}/b?q={x}")
    try:
        target = template.target({"x": value}, {})
    except ToolFailed:
        return
    path, _, query = target.partition("?")
    assert path.split("/")[:2] == ["", "a"]
    assert path.split("/")[3:] == ["b"]
    assert path.count("/") == 3
    assert query.startswith("q=")
    assert not set(query[2:]) & set("&=#?/ ")
    assert target.isascii()


# --- In a workflow ----------------------------------------------------------------------------------------------------


def looks_here(url: str) -> tuple[Workflow, Tool]:
    wf = Workflow("here")
    look = http_tool("look", "GET", f"{url}/here", allow_private=LOOPBACK)
    wf.node("look")(tool_node(name="look")(lambda state: {}))
    return wf, look


def looks_there(url: str) -> tuple[Workflow, Tool]:
    wf = Workflow("there")
    look = http_tool("look", "GET", f"{url}/there", allow_private=LOOPBACK)
    wf.node("look")(tool_node(name="look")(lambda state: {}))
    return wf, look


async def test_a_name_means_the_http_tool_that_is_declared_beside_it(store: str) -> None:
    with Server() as server:
        declared = [make(server.url) for make in (looks_here, looks_there)]
        async with opened(store) as engine:
            seen = [(await (await engine.start(wf)).result())["body"]["seen"] for wf, _ in declared]
    assert seen == ["/here", "/there"]
