"""The description of the API (OpenAPI 3.1), made of the routes and of the structs that they mean.

Never here: a path, a rule.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from holdfast import __version__
from holdfast.http import enumeration, problem, sse
from holdfast.http.route import BASE, ROUTES, Route
from holdfast.service.declarations import query
from holdfast.service.declarations.declaration import Answer, declaration_of
from holdfast.service.handler import rows_of
from holdfast.service.view import CallerRow, EventRow, LinkUsedRow, RunStatusRow, SignedOutRow, SignInRow, TailRow

_REF: Final = "#/components/schemas/{name}"
_PROBLEMS: Final = {
    HTTPStatus.BAD_REQUEST: "The request is malformed.",
    HTTPStatus.UNAUTHORIZED: "The token is missing or wrong.",
    HTTPStatus.FORBIDDEN: "The token does not allow this.",
    HTTPStatus.NOT_FOUND: "It does not exist, or it belongs to another tenant.",
    HTTPStatus.CONFLICT: "Another request came first, or the run's state does not allow this.",
    HTTPStatus.GONE: "The events after this cursor are no longer known.",
    HTTPStatus.PRECONDITION_FAILED: "It has changed: its ETag is not the one in If-Match.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not JSON.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A field is wrong; `errors` say which.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests: try again after Retry-After.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The store or the server is unavailable for a moment.",
}
_ENDLESS: Final = "/events"
_STREAMED: Final = ("/runs/{run}/events", "/runs/{run}/stream", _ENDLESS)
_LAST_OF_A_RUN: Final = RunStatusRow
_EVENTS_IN_WORDS: Final = (
    "Data of an event. An event without a name has a row of the list, one named `problem` an error, and one named `end` the run"
    " as it stands; after these two nothing follows."
)


@functools.cache
def document() -> Mapping[str, Any]:
    """The whole description. A generator of clients finds in it a name for each operation and each schema that is sent or
    answered, and none that is not."""
    schemas, rows = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(f"{BASE}{route.path}", {})[route.method.lower()] = _operation(route, schemas)
    paths[f"{BASE}/me"] = {"get": _about_me()}
    paths[f"{BASE}/session"] = {"post": _about_signing_in(), "delete": _about_signing_out()}
    paths[f"{BASE}/sign-in"] = {"get": _about_ways()}
    paths[f"{BASE}/links/{{token}}"] = {"post": _about_links()}
    paths[f"{BASE}/agui/{{workflow}}"] = {"post": _about_agui()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "Durable runs of agents and workflows. Money is dollars as text,"
            " times are RFC 3339, ids are opaque.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": enumeration.schemas() | rows | {"Problem": _PROBLEM},
            "responses": {
                status.name.title().replace("_", ""): {
                    "description": words,
                    "content": {problem.MEDIA_TYPE: {"schema": _named("Problem")}},
                }
                for status, words in _PROBLEMS.items()
            },
        },
    }


def _schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the shapes of all commands and queries, which requests hold piece by piece, and the shapes of what is within them
    and of all answers, by name."""
    kinds = sorted({route.what for route in ROUTES}, key=lambda kind: kind.__name__)
    answered = [row for kind in kinds for row in rows_of(kind)]
    _, components = msgspec.json.schema_components(
        [*kinds, *answered, CallerRow, LinkUsedRow, SignInRow, SignedOutRow], ref_template=_REF
    )
    for row in (EventRow, TailRow):
        components[row.__name__]["additionalProperties"] = True
    shown = {name: _public_schema(schema) for name, schema in components.items()}
    asked = {kind.__name__: shown.pop(kind.__name__) for kind in kinds}
    for field in (field for schema in shown.values() for field in schema["properties"].values()):
        field.pop("default", None)  # what has one is always there, says the generator of types for TypeScript
    return asked, shown | {f"{kind.__name__}Page": _page(kind) for kind in kinds if _answers(kind) is Answer.PAGE}


def _public_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its description in one line, as generators take it."""
    described = schema | {"description": _one_line(schema.get("description", ""))}
    named: dict[str, Any] = enumeration.with_names(_open(described), _REF)
    return named


def _open(schema: Any) -> Any:
    """Return a schema in which an object of any fields says so; TypeScript's generator would take it for one of none."""
    if isinstance(schema, list):
        return [_open(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_bare = schema.get("type") == "object" and "properties" not in schema
    return ({"additionalProperties": True} if is_bare else {}) | {key: _open(value) for key, value in schema.items()}


def _answers(kind: type[msgspec.Struct]) -> Answer:
    return declaration_of(kind).answers


def _shape_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    shapes = [_named(row.__name__) for row in rows_of(kind)]
    return shapes[0] if len(shapes) == 1 else {"anyOf": shapes}


def _page(kind: type[msgspec.Struct]) -> dict[str, Any]:
    cursor = {"type": ["string", "null"], "description": "Cursor at which the list goes on; null at its end."}
    rows = {"type": "array", "items": _shape_of(kind), "description": "Rows of this page."}
    properties = {"rows": rows, "cursor": cursor}
    return {"type": "object", "description": "A page of a list.", "properties": properties, "required": ["rows", "cursor"]}


def _named(name: str) -> dict[str, Any]:
    return {"$ref": _REF.format(name=name)}


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    about = _one_line(inspect.getdoc(route.what) or "")
    fields = schemas[route.what.__name__]["properties"]
    needed = schemas[route.what.__name__].get("required", ())
    found: dict[str, Any] = {
        "operationId": _operation_id(route),
        "tags": [route.path.split("/")[1]],
        "summary": about.split(". ")[0].rstrip("."),
        "description": about,
        "parameters": [_parameter(name, "path", fields[name]["description"], _NAME, required=True) for name in route.in_path],
        "responses": _responses(route),
    }
    if route.method == "POST":
        found["requestBody"] = {
            "required": any(name in needed for name in route.elsewhere),
            "content": {"application/json": {"schema": _body(route, fields, needed)}},
        }
    else:
        found["parameters"] += [
            _parameter(
                name,
                "query",
                fields[name]["description"],
                {key: fields[name][key] for key in fields[name] if key != "description"} | _BOUNDS.get(name, {}),
                required=name in needed,
            )
            for name in route.elsewhere
        ]
    found["parameters"] += [_header(name, words) for name, words in _headers(route).items()]
    return found


def _operation_id(route: Route) -> str:
    """Return the name of the function that a generator makes: `start`, `get_run`, `list_gates`. Where a query has a second
    route, that of the list at its end: `list_children`."""
    noun = _CAPITAL.sub("_", route.what.__name__).lower()
    if route.takes.is_command:
        return noun
    if route.takes.at[0] != f"{route.method} {route.path}":
        noun = route.path.rpartition("/")[2]
    return f"list_{noun}" if route.takes.answers is Answer.PAGE else f"get_{noun}"


_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


def _parameter(name: str, place: str, words: str, schema: Mapping[str, Any], *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "description": words, "schema": schema}


_NAME: Final = {"type": "string", "minLength": 1}
_BOUNDS: Final = {"limit": {"minimum": 1, "maximum": query.MOST}, "wait_s": {"minimum": 0, "maximum": 30}}


def _body(route: Route, fields: Mapping[str, Any], needed: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: fields[name] for name in route.elsewhere},
        "additionalProperties": False,
    }
    if required := [name for name in route.elsewhere if name in needed]:
        schema["required"] = required
    return schema


def _headers(route: Route) -> dict[str, str]:
    found = {}
    if route.method == "POST":
        found["Holdfast-As"] = "Name of the person who acts. It is a claim of the token's holder and is not verified."
        found["Holdfast-Roles"] = "Roles in which the person acts, separated by commas. They are not verified either."
        if route.takes.keeps:
            found[_KEY] = "The same request with the same key is carried out once and gets the same answer, for 24 hours."
    if route.takes.answers is Answer.RUN or route.path == "/runs/{run}":
        found["Prefer"] = "`wait=20` answers when the run has ended or waits for a person, or after 20 seconds; at most 30."
    if tag := route.takes.tag:
        found["If-Match"] = f"Carry it out only if `GET {tag}` still has this ETag."
    if route.path in _STREAMED:
        found["Last-Event-ID"] = "Id of the last event that was received; events go on after it."
    return found


_KEY: Final = "Idempotency-Key"


def _header(name: str, words: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": words, "schema": {"type": "string"}}


def _responses(route: Route) -> dict[str, Any]:
    answers, kind = route.takes.answers, route.what
    done: dict[str, Any] = {"description": answers.value}
    if answers is not Answer.NOTHING:
        shape = _named(f"{kind.__name__}Page") if answers is Answer.PAGE else _shape_of(kind)
        done["content"] = {"application/json": {"schema": shape}}
    if route.path in _STREAMED:
        last = [] if route.path == _ENDLESS else [_LAST_OF_A_RUN]
        shapes = {"anyOf": [_shape_of(kind), *(_named(row.__name__) for row in last), _named("Problem")]}
        event = {"type": "string", "contentMediaType": "application/json", "contentSchema": shapes}
        done["content"][sse.MEDIA_TYPE] = {"schema": event | {"description": _EVENTS_IN_WORDS}}
    status = HTTPStatus.NO_CONTENT if answers is Answer.NOTHING else HTTPStatus.OK
    status = HTTPStatus.CREATED if route.takes.creates else status
    return {str(status.value): done} | _problems()


def _problems() -> dict[str, Any]:
    return {
        str(status.value): {"$ref": f"#/components/responses/{status.name.title().replace('_', '')}"} for status in _PROBLEMS
    }


def _about_me() -> dict[str, Any]:
    return {
        "operationId": "get_me",
        "tags": ["me"],
        "summary": "Show who you are, and what your token allows",
        "responses": {
            "200": {"description": Answer.ROW.value, "content": {"application/json": {"schema": _named("CallerRow")}}},
            **_problems(),
        },
    }


def _about_signing_in() -> dict[str, Any]:
    said = {"token": _text("Token or key.", minLength=1)}
    schema = {"type": "object", "properties": said, "required": ["token"], "additionalProperties": False}
    return {
        "operationId": "sign_in",
        "tags": ["session"],
        "summary": "Sign in with a browser: the answer sets a cookie that stands for the token",
        "description": "A page of this server sends it. The cookie counts for 12 hours at most, and ends with the token.",
        "security": [],
        "parameters": [_header("Origin", "Origin of the page, which is this server's.")],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "201": {"description": Answer.ROW.value, "content": {"application/json": {"schema": _named("CallerRow")}}},
            **_problems(),
        },
    }


def _about_signing_out() -> dict[str, Any]:
    return {
        "operationId": "sign_out",
        "tags": ["session"],
        "summary": "Sign out: the session of the browser ends",
        "security": [],
        "parameters": [_header("Origin", "Origin of the page, which is this server's.")],
        "responses": {
            "200": {"description": Answer.ROW.value, "content": {"application/json": {"schema": _named("SignedOutRow")}}},
            **_problems(),
        },
    }


def _about_ways() -> dict[str, Any]:
    return {
        "operationId": "get_sign_in",
        "tags": ["session"],
        "summary": "Ways to sign in with a browser, and whether it is signed in",
        "security": [],
        "responses": {
            "200": {"description": Answer.ROW.value, "content": {"application/json": {"schema": _named("SignInRow")}}},
            **_problems(),
        },
    }


def _about_links() -> dict[str, Any]:
    said = {
        "data": {"description": "Data of the signal or of the decision."},
        "decision": _text("Decision that the gate allows; by default `approve`."),
        "reason": {"type": ["string", "null"], "description": "Reason of the decision, kept in the run's history."},
    }
    schema = {"type": "object", "properties": said, "additionalProperties": False}
    return {
        "operationId": "use_link",
        "tags": ["links"],
        "summary": "Send the signal that a link is for, or decide its gate, once, without any other token",
        "security": [],
        "parameters": [_parameter("token", "path", "Secret of the link, which ends its address.", _NAME, required=True)],
        "requestBody": {"required": False, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "200": {"description": Answer.ROW.value, "content": {"application/json": {"schema": _named("LinkUsedRow")}}},
            **_problems(),
        },
    }


def _about_agui() -> dict[str, Any]:
    return {
        "operationId": "run_agent",
        "tags": ["agui"],
        "summary": "Say something to an agent, or answer what it asks, over AG-UI 1.0",
        "description": "The body is the protocol's RunAgentInput, of which the newest user message and `resume` are taken,"
        " and the answer is the protocol's events: https://docs.ag-ui.com/spec/1.0.",
        "parameters": [
            _parameter("workflow", "path", "Name of the agent's workflow.", _NAME, required=True),
            _header(_KEY, "The same request with the same key gets the same answer from its beginning, for 24 hours."),
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _RUN_AGENT_INPUT}}},
        "responses": {
            "200": {"description": "Events, as they come.", "content": {sse.MEDIA_TYPE: {"schema": {"type": "string"}}}},
            **_problems(),
        },
    }


def _text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": words, **more}


def _object(title: str, words: str, properties: Mapping[str, Any], required: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return the schema of an object that stands within another; a generator names its type after the title."""
    return {"type": "object", "title": title, "description": words, "properties": properties, "required": required, **more}


_MESSAGE: Final = _object(
    "Message",
    "A message of the user.",
    {
        "id": _text("Id of the message, chosen by the front end."),
        "role": _text("Role of the author; messages of other roles are not read.", const="user"),
        "content": _text("Text of the message."),
    },
    ["id", "role", "content"],
)
_DECISION: Final = _object(
    "Decision",
    "Decision of the gate that an interrupt stands for.",
    {
        "decision": _text("Decision that the gate allows, unless the interrupt is cancelled."),
        "shown_hash": _text("Hash of what the gate showed, as the interrupt brings it."),
        "data": {"description": "Data of the decision: the fields of the form."},
        "reason": _text("Reason of the decision."),
    },
    ["shown_hash"],
    additionalProperties=False,
)
_RESUME: Final = _object(
    "Resume",
    "Answer to an interrupt.",
    {
        "interruptId": _text("Id of the interrupt, which is the id of its gate."),
        "status": _text("`resolved` with a payload, or `cancelled`.", enum=["resolved", "cancelled"]),
        "payload": _DECISION,
    },
    ["interruptId", "status"],
)
_RUN_AGENT_INPUT: Final = {
    "type": "object",
    "properties": {
        "threadId": _text("Name of the conversation.", minLength=1),
        "runId": _text("Id of this exchange, chosen by the front end."),
        "messages": {"type": "array", "description": "Messages, of which the newest by the user is sent.", "items": _MESSAGE},
        "resume": {"type": "array", "description": "Answers to interrupts.", "items": _RESUME},
    },
    "required": ["threadId", "runId", "messages"],
}
_FIELD_ERROR: Final = _object(
    "FieldError",
    "A field of the request that is wrong.",
    {"pointer": _text("JSON Pointer to the field (RFC 6901)."), "detail": _text("Error of the field, in words.")},
    ["pointer", "detail"],
)
_PROBLEM: Final = {
    "type": "object",
    "description": "An error, as RFC 9457 describes it.",
    "properties": {
        "type": _text("Identifier of the kind of error, as a URI."),
        "title": _text("Kind of error, in words."),
        "status": {"type": "integer", "description": "HTTP status of the response."},
        "detail": _text("Explanation of the error, and what to do."),
        "code": _text("Kind of error as a code, stable across versions: `not_found`, `invalid_input`."),
        "errors": {"type": "array", "description": "Fields of the request that are wrong.", "items": _FIELD_ERROR},
        "trace_id": _text("Trace of the request, by which the server's logs find it."),
    },
    "required": ["type", "title", "status", "detail", "code", "errors", "trace_id"],
}
