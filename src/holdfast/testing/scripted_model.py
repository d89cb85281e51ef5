"""The model behind the server: what it says to a call, by the rules or, where they are silent, by itself.

Deterministic: the same calls in the same order get the same answers and the same usage. No clock, no chance, no
connection.
"""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.testing.model_rule import Fault, FaultKind, Rule, ToolCall
from holdfast.testing.schema_instance import instance
from holdfast.testing.script import Script
from holdfast.testing.wire import BYTES_PER_TOKEN, Answer, Call, EndedBy, ToolUse, Usage, canonical, sha256, tokens

UNKNOWN_TOOL = "a_tool_nobody_offered"
MISFIT = {"a_field_nobody_asked_for": ["misfit"]}
NEGATIVE = Usage(input_tokens=-7, output_tokens=-1)
EXCERPT = 80
MAX_CACHED_PREFIXES = 10_000

Kind = Literal["text", "tool_calls", "output", "nothing"]


class _Answer(Struct, frozen=True):
    kind: Kind
    text: str
    uses: tuple[ToolUse, ...]


class Reply(Struct, frozen=True):
    """A reply to send. `used` is the truth, `answer.usage` is the usage that the reply claims; both None without an answer."""

    kind: Kind
    answer: Answer | None
    used: Usage | None
    fault: Fault | None
    latency_s: float
    pause_s: float = 0.0


class ScriptedModel:
    def __init__(self, script: Script[Rule], latency_s: float) -> None:
        self._script = script
        self._latency_s = latency_s
        self._cache = _PromptCache()

    def reply(self, call: Call, number: int) -> Reply:
        """The reply to the server's call of that number; counts for the rules that were asked."""
        rule = self._rule(call)
        fault = rule.fault
        latency_s = self._latency_s if rule.latency_s is None else rule.latency_s
        if fault and fault.silences(call):
            return Reply("nothing", None, None, fault, latency_s)
        whole = _answer_of(rule, call)
        if fault:
            whole = _spoiled(whole, fault.kind, call)
        said = _capped(whole, call.max_tokens)
        used = rule.usage or self._cache.usage(call, _output_tokens(said))
        claimed = {"missing_usage": None, "negative_usage": NEGATIVE}.get(fault.kind, used) if fault else used
        ended_by: EndedBy = "length" if said != whole else "tools" if said.uses else "turn"
        identity = sha256(f"{number} {call.request_sha256}")[:24]
        answer = Answer(identity, said.text, said.uses, ended_by, claimed)
        return Reply(said.kind, answer, used, fault, latency_s, rule.pause_s or 0.0)

    def _rule(self, call: Call) -> Rule:
        """All that applies to the call, as one rule: what is said first counts, the first answer ends it."""
        found = Rule()
        for rule in self._script.applying(call):
            found = replace(
                found,
                text=rule.text,
                tool_calls=rule.tool_calls,
                output=rule.output,
                fault=found.fault or rule.fault,
                usage=found.usage or rule.usage,
                latency_s=rule.latency_s if found.latency_s is None else found.latency_s,
                pause_s=rule.pause_s if found.pause_s is None else found.pause_s,
            )
            if found.answers or (found.fault and found.fault.silences(call)):
                break
        return found


class _PromptCache:
    """The marked prefixes of prompts that each model has seen. Nothing expires; at the bound the oldest go."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}

    def usage(self, call: Call, output_tokens: int) -> Usage:
        """The longest known prefix before a mark is read, what follows it up to the last mark is written."""
        total = known = read = marked = 0
        prefix = call.model
        for segment in call.segments:
            total += tokens(segment.text)
            prefix = sha256(prefix + segment.text)
            if prefix in self._seen:
                known = total
            if segment.cache_ttl:
                read, marked = known, total
                self._seen[prefix] = None
        while len(self._seen) > MAX_CACHED_PREFIXES:
            del self._seen[next(iter(self._seen))]
        return Usage(call.input_tokens, output_tokens, cache_read_tokens=read, cache_write_tokens=marked - read)


def _answer_of(rule: Rule, call: Call) -> _Answer:
    """Return the model's answer as if nothing goes wrong and no limit is reached."""
    text = _fill(rule.text or "", call)
    uses = _uses(rule.tool_calls, call)
    value = rule.output
    if not rule.answers:
        if call.demand is None:
            return _Answer("text", f"I have read: {_excerpt(call)}", ())
        value = instance(call.demand.schema, call.user)
    if value is None:
        return _Answer("tool_calls" if uses else "text", text, uses)
    if call.demand and call.demand.tool:
        return _Answer("output", text, (*uses, _use(call, len(uses), call.demand.tool, value)))
    return _Answer("output", canonical(value), uses)


def _spoiled(reply: _Answer, fault: FaultKind, call: Call) -> _Answer:
    """The same with a fault of the model's own; other faults leave it as it is."""
    uses = reply.uses
    match fault:
        case "wrong_schema" if reply.kind == "output" and uses:
            return replace(reply, uses=(*uses[:-1], replace(uses[-1], arguments=canonical(MISFIT))))
        case "wrong_schema" if reply.kind == "output":
            return replace(reply, text=canonical(MISFIT))
        case "unknown_tool":
            first = replace(uses[0], name=UNKNOWN_TOOL) if uses else _use(call, 0, UNKNOWN_TOOL, {})
            return replace(reply, kind="tool_calls", uses=(first, *uses[1:]))
        case "invalid_arguments" | "malformed_arguments":
            uses = uses or _uses(tuple(ToolCall(tool.name) for tool in call.tools[:1]), call)
            kind: Kind = "tool_calls" if uses and not reply.uses else reply.kind
            return replace(reply, kind=kind, uses=tuple(_misfit(use, fault) for use in uses))
        case _:
            return reply


def _misfit(use: ToolUse, fault: FaultKind) -> ToolUse:
    misfit = canonical(MISFIT)
    return replace(use, arguments=misfit if fault == "invalid_arguments" else misfit[: len(misfit) // 2])


def _capped(reply: _Answer, max_tokens: int | None) -> _Answer:
    """As much of it as fits, so that no reply ever used more than it was allowed."""
    if max_tokens is None:
        return reply
    text = _truncate(reply.text, max_tokens)
    left = max_tokens - tokens(text)
    uses = []
    for use in reply.uses:
        left -= tokens(use.name)
        if left <= 0:
            break
        uses.append(replace(use, arguments=_truncate(use.arguments, left)))
        left -= tokens(use.arguments)
    return replace(reply, text=text, uses=tuple(uses))


def _truncate(text: str, max_tokens: int) -> str:
    return text.encode(errors="replace")[: max_tokens * BYTES_PER_TOKEN].decode(errors="ignore")


def _output_tokens(reply: _Answer) -> int:
    return max(1, tokens(reply.text) + sum(tokens(use.name) + tokens(use.arguments) for use in reply.uses))


def _uses(calls: tuple[ToolCall, ...], call: Call) -> tuple[ToolUse, ...]:
    schemas = {tool.name: tool.schema for tool in call.tools}
    return tuple(
        _use(call, at, each.name, instance(schemas[each.name], call.user) if each.arguments is None else each.arguments)
        for at, each in enumerate(calls)
    )


def _use(call: Call, index: int, name: str, arguments: Any) -> ToolUse:
    # The id comes from the request alone: the next one carries it back, and must have the same hash each time.
    return ToolUse(f"call_{sha256(f'{index} {call.request_sha256}')[:24]}", name, canonical(_fill(arguments, call)))


def _fill(value: Any, call: Call) -> Any:
    match value:
        case str():
            return value.replace("{user}", _excerpt(call))
        case dict():
            return {key: _fill(each, call) for key, each in value.items()}
        case list():
            return [_fill(each, call) for each in value]
        case _:
            return value


def _excerpt(call: Call) -> str:
    return " ".join(call.user.split())[:EXCERPT]
