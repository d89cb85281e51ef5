"""The words in which others read spans, and metrics of model calls: OpenTelemetry's semantic conventions for generative AI,
and Holdfast's own beside them.

The conventions are in development and have moved twice, so every name of theirs stands here and nowhere else: those of the
last release within the core conventions, and by a switch those of the first release of their own. For waits, costs and what
else no convention knows, names begin with `holdfast.`; a wait is `interrupt.waiting`. Never here: an encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from holdfast.core.values.ids import NodeName, is_item, map_of
from holdfast.core.views.span_parts import Span, SpanKind
from holdfast.ports.metric import Distribution, Metric, Sample

ConventionName: TypeAlias = Literal["1.41.0", "genai-0.1"]
Attributes: TypeAlias = dict[str, str | int | float | bool]

INTERNAL, CLIENT, PRODUCER = 1, 3, 4
"""Kinds of spans, by OTLP's numbers."""


class Convention(NamedTuple):
    """The names of one release of the conventions."""

    schema_url: str
    workflow: str
    """Attribute with the workflow's name: the later release has merged workflows into agents."""
    cache_written: str
    duration: str
    """Metric of the duration of model calls."""
    tokens: Mapping[str, str]
    """Metrics of the tokens of model calls, by type: one histogram with an attribute, or a counter of each."""


_TOKEN_USAGE: Final = "gen_ai.client.token.usage"
_TOKENS_USED: Final = "gen_ai.client.inference.usage"
CONVENTIONS: Final[Mapping[ConventionName, Convention]] = {
    "1.41.0": Convention(
        "https://opentelemetry.io/schemas/1.41.0",
        "gen_ai.workflow.name",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.client.operation.duration",
        dict.fromkeys(("input", "output"), _TOKEN_USAGE),
    ),
    "genai-0.1": Convention(
        "",
        "gen_ai.agent.name",
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.client.inference.duration",
        {
            "input": f"{_TOKENS_USED}.input_tokens",
            "output": f"{_TOKENS_USED}.output_tokens",
            "cache_read": f"{_TOKENS_USED}.cache_read.input_tokens",
            "cache_write": f"{_TOKENS_USED}.cache_write.input_tokens",
        },
    ),
}
"""The later release has no schema address of its own yet, so none is named."""

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
_MODEL: Final = "gen_ai.request.model"
_TOOL: Final = "gen_ai.tool.name"
_CALL: Final = "gen_ai.tool.call.id"
_ERROR: Final = "error.type"
_TOKEN_TYPE: Final = "gen_ai.token.type"
_CHAT: Final = "chat"
_USAGE: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
}
_UNKNOWN_PROVIDER: Final = "unknown"

WAITING: Final = "interrupt.waiting"
"""Name of the span of a wait."""
WAIT_TIME: Final = "interrupt.wait_time"
"""Its length in seconds."""

PAYLOADS: Final[Mapping[SpanKind, tuple[str, str]]] = {
    "model_call": ("gen_ai.input.messages", "gen_ai.output.messages"),
    "tool_call": ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
}
"""Attributes with what a span has received and returned, where payloads are wanted."""
OTHER_PAYLOADS: Final = ("holdfast.input", "holdfast.output")

_PERSONAL: Final = frozenset({"by"})
"""Facts that name a person: only with payloads."""
_SAID: Final = frozenset({"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "model", "wait_ms"})
"""Facts that have a name of a convention."""


class Run(NamedTuple):
    """The run whose spans are named."""

    run: str
    tenant: str
    workflow: str
    version: int


class Naming:
    """The names of spans and attributes by one convention."""

    def __init__(self, convention: ConventionName, provider_of: Callable[[str], str]) -> None:
        """`provider_of` returns the provider of a model; an empty text if it is unknown."""
        self._names = CONVENTIONS[convention]
        self._provider_of = provider_of

    @property
    def schema_url(self) -> str:
        return self._names.schema_url

    def name(self, span: Span) -> str:
        """Return the span's name. It has few values: no id and no key of an item."""
        match span.kind:
            case "run":
                return f"invoke_workflow {span.name}"
            case "model_call":
                return f"{_CHAT} {span.name}"
            case "tool_call":
                return f"execute_tool {span.name}"
            case "wait":
                return WAITING
            case "child":
                return f"start {span.name}"
            case "step" | "map_item" | "attempt" | "placement":
                return f"{span.kind} {_without_key(span.name)}"
            case kind:
                return f"{kind} {span.name}"

    def kind(self, span: Span) -> int:
        """Return the kind of the span by OTLP's numbers."""
        return CLIENT if span.kind in ("model_call", "remote_job") else PRODUCER if span.kind in ("child", "map") else INTERNAL

    def attributes(self, span: Span, run: Run, *, with_people: bool = False) -> Attributes:
        """Return the span's attributes, without payloads; with the names of people if wanted."""
        named: Attributes = {
            "holdfast.kind": span.kind,
            "holdfast.run.id": run.run,
            "holdfast.tenant": run.tenant,
            "holdfast.outcome": span.outcome,
        }
        if span.error:
            named[_ERROR] = span.error
        self._add(span, run, named)
        for name, value in span.facts.items():
            if value is None or name in _SAID or (name in _PERSONAL and not with_people):
                continue
            named[f"holdfast.{name}"] = value
        return named

    def metrics(self, usage: Iterable[Sample]) -> Iterator[Sample]:
        """Return measurements of model calls, labelled by model and one thing more, as the metrics of the convention."""
        for each in usage:
            metric, (model, what), value = each
            about = _CHAT, self._provider_of(model) or _UNKNOWN_PROVIDER, model
            if "error" in metric.labels:
                yield Sample(_renamed(metric, self._names.duration, _ERROR), (*about, what), value)
            elif (name := self._names.tokens.get(what)) == _TOKEN_USAGE:
                yield Sample(_renamed(metric, name, _TOKEN_TYPE), (*about, what), value)
            elif name is not None and isinstance(value, Distribution):
                counter = _renamed(metric, name)._replace(kind="counter", bounds=())
                yield Sample(counter, about, int(value.total))

    def _add(self, span: Span, run: Run, named: Attributes) -> None:
        """Add what the convention has names for."""
        facts: dict[str, Any] = span.facts
        match span.kind:
            case "run":
                named[OPERATION] = "invoke_workflow"
                named[self._names.workflow] = span.name
                named["holdfast.workflow.version"] = run.version
            case "model_call":
                named[OPERATION] = _CHAT
                named[PROVIDER] = self._provider_of(span.name) or _UNKNOWN_PROVIDER
                named[_MODEL] = span.name
            case "tool_call":
                named[OPERATION] = "execute_tool"
                named[_TOOL], named[_CALL] = span.name, facts["call"]
                named["gen_ai.tool.type"] = "function"
            case "wait":
                named[WAIT_TIME] = facts.get("wait_ms", 0) / 1000
                named["interrupt.reason"] = span.name
            case _:
                pass
        for fact, name in _USAGE.items():
            if fact in facts:
                named[name] = facts[fact]
        if (written := facts.get("cache_write_tokens")) is not None:
            named[self._names.cache_written] = written


def _renamed(metric: Metric, name: str, *more: str) -> Metric:
    return metric._replace(name=name, labels=(OPERATION, PROVIDER, _MODEL, *more))


def _without_key(node: str) -> str:
    return f"{map_of(NodeName(node))}[]" if is_item(NodeName(node)) else node
