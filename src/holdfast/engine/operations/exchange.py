"""A step's request to a model: its options as one value, checked before anything is called.

Never here: asking (conversation), what a node declares (authoring.node).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel

from holdfast.authoring.agents import compaction
from holdfast.authoring.agents.cache import SemanticCache, expect_cache
from holdfast.authoring.agents.chat import Chat
from holdfast.authoring.agents.compaction import Compaction
from holdfast.authoring.agents.memory import MemoryTool
from holdfast.authoring.agents.offer import ANSWER, Handoff, ToolOffer
from holdfast.authoring.agents.offer import check as check_offers
from holdfast.authoring.agents.router import Route, Router, expect_complexity, expect_latency
from holdfast.authoring.agents.skill import introduced, skills_of, tools_of
from holdfast.authoring.node import DEFAULT_MAX_TOKENS, DEFAULT_MAX_TURNS, check_turns
from holdfast.authoring.options import AgentOptions, ModelOptions
from holdfast.authoring.tool import Tool
from holdfast.authoring.workflow import Workflow
from holdfast.core.nouns import client_tools
from holdfast.core.nouns.client_tools import ClientContext, ClientTool
from holdfast.core.nouns.routing import Complexity, ModelNeeds
from holdfast.engine.attempts.attempt import Attempt
from holdfast.errors import InvalidInput, UsageError
from holdfast.ports import AnswerSpec

OfferedTool: TypeAlias = Tool | Workflow | Handoff | MemoryTool | ClientTool
"""What a model may ask for."""
_NOTHING: Final[Mapping[str, OfferedTool]] = {}


class RequestOptions(NamedTuple):
    """One exchange with a model about a prompt, or with what is `offered` a loop of `max_turns`. `answer` is a bare schema in
    the place of `output`."""

    prompt: Any
    model: str | Router
    max_tokens: int | None = None
    output: type[BaseModel] | None = None
    answer: AnswerSpec | None = None
    temperature: float | None = None
    offered: Mapping[str, OfferedTool] = _NOTHING
    max_turns: int = 1
    cheaper_models: Sequence[str] = ()
    min_tokens: int | None = None
    stream: bool = False
    compact: Compaction | None = None
    tell_budget: bool = False
    """True if the model sees at each call what is left of the run's limits."""
    fallback_models: Sequence[str] = ()
    complexity: Complexity | None = None
    max_latency_s: float | None = None
    cache: SemanticCache | None = None

    @property
    def name(self) -> str:
        """The model, or the router in its place, as the history has it."""
        return self.model if isinstance(self.model, str) else self.model.name

    @property
    def compaction(self) -> Compaction | None:
        """Return when older turns are summed up, and by which model: by default a router's first."""
        if self.compact is None or self.compact.model is not None or isinstance(self.model, str):
            return self.compact
        return self.compact._replace(model=self.model.models[0].model)

    @property
    def route(self) -> Route | None:
        """Return what a router gets of the request to choose a model; None without a router."""
        return None if isinstance(self.model, str) else Route(self.model, ModelNeeds(self.complexity, self.max_latency_s))


def of_call(model: str | Router, user: Any, output: type[BaseModel] | None, options: ModelOptions) -> RequestOptions:
    """Return the request of `ctx.model`. Raises InvalidInput, and TypeError for an unknown option."""
    _expect_known("model", options, ModelOptions)
    return _exchange(model, user, output, options)


def of_loop(
    attempt: Attempt, model: str | Router, user: Any, output: type[BaseModel] | None, options: AgentOptions
) -> RequestOptions:
    """Return the request of `ctx.agent`. Raises InvalidInput, also for an offer that the step may not make, and TypeError for
    an unknown option."""
    _expect_known("agent", options, AgentOptions)
    max_turns, tools = options.get("max_turns", DEFAULT_MAX_TURNS), options.get("tools", ())
    max_tokens = options.get("max_tokens") or DEFAULT_MAX_TOKENS
    try:
        check_turns(max_turns, max_tokens)
        skills = skills_of(options.get("skills", ()))
        lessons = tools_of(skills)
        check_offers((*tools, *lessons), answers=output is not None)
    except UsageError as problem:
        raise InvalidInput(f"{problem.message} Nothing was called.") from None
    own = {each.name: each for each in (*(_offered(attempt, each) for each in tools), *lessons)}
    offered = {**own, **_client_tools(user, {*own, ANSWER})}
    return _exchange(model, user, output, options, introduced(skills))._replace(
        max_tokens=max_tokens,
        offered=offered,
        max_turns=max_turns if offered else 1,
        cheaper_models=tuple(options.get("cheaper_models", ())),
        min_tokens=options.get("min_tokens"),
        tell_budget=options.get("tell_budget", False),
    )


def _exchange(
    model: str | Router, user: Any, output: type[BaseModel] | None, options: Mapping[str, Any], words: str = ""
) -> RequestOptions:
    """Return the part that both have in common; `words` are added to the system's."""
    said: dict[str, Any] = {"user": user}
    if isinstance(user, Chat):
        said = {"messages": user.messages, **({"context": _context(user)} if user.context else {})}
    prompt = {"system": "\n\n".join(filter(None, (options.get("system", ""), words))), **said}
    return RequestOptions(
        prompt,
        model,
        options.get("max_tokens"),
        output,
        temperature=options.get("temperature"),
        stream=options.get("stream", False),
        compact=_compaction(options),
        fallback_models=tuple(options.get("fallback_models", ())),
        cache=_cache(model, options),
        **_needs(options),
    )


def _client_tools(user: Any, own: Collection[str]) -> Mapping[str, ClientTool]:
    """The tools of the front end that speaks. Raises InvalidInput for what is not taken, and for the name of one of `own`."""
    if not isinstance(user, Chat) or not user.tools:
        return {}
    tools = [ClientTool(each.name, each.description, each.parameters) for each in user.tools]
    client_tools.checked(tools, ())
    client_tools.expect_apart(tools, own)
    return {each.name: each for each in tools}


def _context(chat: Chat) -> str:
    """Return the front end's context as the model reads it. Raises InvalidInput for context that is refused."""
    context = [ClientContext(each.description, each.value) for each in chat.context]
    client_tools.checked((), context)
    return client_tools.words(context)


def _compaction(options: Mapping[str, Any]) -> Compaction | None:
    try:
        return compaction.of(options.get("compact_above_tokens"), options.get("compact_with"))
    except UsageError as problem:
        raise InvalidInput(f"{problem.message} Nothing was called.") from None


def _cache(model: str | Router, options: Mapping[str, Any]) -> SemanticCache | None:
    alone = isinstance(model, str) and not options.get("tools") and not options.get("skills")
    try:
        return expect_cache(options.get("cache"), answers_alone=alone)
    except UsageError as problem:
        raise InvalidInput(f"{problem.message} Nothing was called.") from None


def _needs(options: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {
            "complexity": expect_complexity(options.get("complexity")),
            "max_latency_s": expect_latency(options.get("max_latency_s")),
        }
    except UsageError as problem:
        raise InvalidInput(f"{problem.message} Nothing was called.") from None


def _expect_known(name: str, options: Mapping[str, Any], type_: type) -> None:
    for option in options:
        if option not in type_.__annotations__:
            raise TypeError(f"ctx.{name} has no option {option!r}; it has {', '.join(type_.__annotations__)}")


def allowed(attempt: Attempt, tool: Tool) -> Mapping[str, Tool]:
    """The tools that may be called where `tool` itself is asked for: a flow may call what it has at hand."""
    definition = attempt.definition
    if definition is None or not definition.is_flow:
        return attempt.tools
    return {tool.name: definition.called(tool)}


def _offered(attempt: Attempt, offer: ToolOffer) -> OfferedTool:
    """Return what a model may ask for. Raises InvalidInput for a tool that the step may not call."""
    if isinstance(offer, Workflow | Handoff | MemoryTool):
        return offer
    assert isinstance(offer, str | Tool)
    callable_ = attempt.tools if isinstance(offer, str) else allowed(attempt, offer)
    name = offer if isinstance(offer, str) else offer.name
    if name not in callable_:
        raise InvalidInput(
            f"The model cannot be offered {name!r}, which this step does not list: name it among its tools=[...]. Nothing"
            " was called."
        )
    return callable_[name]
