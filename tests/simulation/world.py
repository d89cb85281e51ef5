"""The world outside: the models and tools that programs call, with a journal of what really happened there.

It knows what reached it and what it answered, and nothing of what Holdfast believes. Never here: a look into a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from holdfast.actions.shell import Script
from holdfast.core.nouns.shared_values import packed
from holdfast.core.values import policies
from holdfast.errors import ModelRateLimited, ModelRefused, ModelUncertain, OutcomeUnknown, ToolFailed
from holdfast.ports import (
    EmbeddingReply,
    EmbeddingRequest,
    ForwardedReply,
    ForwardedRequest,
    ModelDelta,
    ModelReply,
    ModelRequest,
    ToolRequest,
    Usage,
)
from holdfast.testing.pieces import streamed
from tests.simulation.chance import Chance, spread_s
from tests.simulation.fault import Faults
from tests.simulation.loop import Lane, SimulatedLoop, current_lane
from tests.simulation.process import EMBEDS, Process

T = TypeVar("T")
Asked: TypeAlias = ModelRequest | EmbeddingRequest

RATES_NANOUSD: Final = {"large": (10_000, 50_000), "small": (1_000, 5_000), "tiny": (100, 500), EMBEDS: (20, 0)}
"""What a token in and a token out really cost."""
DIMENSIONS: Final = 3
SETTLES_S: Final = 5.0
"""How long after the request an effect of the `verify` policy may still happen."""

_here: ContextVar[World] = ContextVar("simulated_world")
_asking: ContextVar[Asking | None] = ContextVar("asking", default=None)


def here() -> World:
    """The world in which the caller is simulated."""
    return _here.get()


class Asking(NamedTuple):
    """A call of a model whose words do not say whose it is: the place of which step makes it, and on what terms an answer that
    was given before may be given again."""

    run: str
    step: str
    place: str
    question: str = ""
    about: int = 0
    """What the question means, however it is put."""
    terms: tuple[Any, ...] = ()
    max_age_s: float | None = None


class Answer(msgspec.Struct):
    """What a model has said to a question that may be asked again."""

    asking: Asking
    request: ModelRequest
    cost_nanousd: int
    """What its usage comes to, as far as the provider told it."""
    is_whole: bool


@contextlib.contextmanager
def asks(asking: Asking) -> Iterator[None]:
    """For as long as this is open, the models that the caller asks are asked so."""
    before = _asking.set(asking)
    try:
        yield
    finally:
        _asking.reset(before)


class Sending(msgspec.Struct):
    """One request that reached, or may have reached, a tool. `said` is what its sender was told, None if nothing."""

    tool: str
    policy: str
    key: str
    arguments: dict[str, Any]
    process: str
    at_s: float
    happens: bool = True
    happened: bool = False
    pending: bool = True
    said: str | None = None
    excused: bool = False
    """A person who looked has said that it may be called again."""
    answer: dict[str, Any] | None = None
    """What somebody who looks finds that it did, where that is not what every tool answers."""


class Execution(msgspec.Struct):
    """One time that a script of a workflow file ran. `token` is its name, which what it leaves has in it."""

    token: str
    run: str
    job: str
    step: str
    combination: str | None
    """The combination, as JSON; None where there is no matrix."""
    env: Mapping[str, str]
    process: str
    life: int
    """Which of the process's lives."""
    is_here: bool
    """Whether it ran in the process itself, and not at a worker that is connected to it."""
    began_s: float
    ended_s: float | None = None
    ending: Literal["succeeded", "failed", "unknown", "cancelled"] | None = None
    outputs: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}


class Witness(Protocol):
    """Who hears of everything that reaches the world."""

    def tool_called(self, process: Process, sending: Sending, before: Sequence[Sending]) -> None: ...

    def model_called(
        self, process: Process, run: str, request: ModelRequest | EmbeddingRequest, asking: Asking | None
    ) -> None: ...

    def billed(self, run: str, nanousd: int) -> None: ...

    def handler_began(
        self, process: Process, run: str, step: str, attempt: int, seen: dict[str, str], before: dict[str, str]
    ) -> None: ...

    def operation_gave(self, run: str, step: str, attempt: int, place: str, kind: str, value: Any) -> None: ...

    def code_changed(self, run: str, step: str) -> None: ...

    def embedded(self, run: str, texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> None: ...

    def answered(self, asking: Asking, text: str) -> None: ...

    def script_began(self, process: Process, execution: Execution) -> None: ...

    def flow_passed(self, run: str, attempt: int, number: int, what: Any, time_s: float) -> None: ...

    def flow_slept(self, run: str, asked_s: float, from_s: float, until_s: float) -> None: ...

    def function_began(self, run: str, number: int) -> None: ...


class World:
    """Everything that is not Holdfast."""

    def __init__(self, loop: SimulatedLoop, chance: Chance, faults: Faults, witness: Witness) -> None:
        self.loop = loop
        self.chance = chance
        self.faults = faults
        self.witness = witness
        self.processes: dict[str, Process] = {}
        self.sendings: dict[str, list[Sending]] = {}
        """By effect key."""
        self.effects: dict[str, list[Sending]] = {}
        """What happened, by effect key, in its order."""
        self.lookups: dict[str, list[float]] = {}
        """When the lookup of a key answered that nothing had happened."""
        self.bills: dict[str, int] = {}
        """Nano-dollars by run."""
        self.executions: dict[str, Execution] = {}
        """By token."""
        self.answers: dict[str, Answer] = {}
        """What models have said to questions that may be asked again, by what they said."""
        loop.tell(_here, self)

    def process(self) -> Process:
        """The process whose code is running."""
        lane: Lane = current_lane()
        return self.processes[lane.name.partition(".")[0]]

    # --- Tools --------------------------------------------------------------------------------------------------------

    async def act(self, tool: str, policy: str, key: str, arguments: dict[str, Any]) -> Any:
        """What a tool does: a request travels, something happens, an answer travels back."""
        process = self.process()
        sending = self.send(tool, policy, key, arguments)
        stream = self.chance.stream(f"tool/{tool}")
        travels_s, answers_s = spread_s(stream, 0.001, 4.0), spread_s(stream, 0.001, 4.0)
        half = stream.random() < 0.5
        if self.faults.kills("crash_while_sending"):
            sending.happens = half
            self.loop.later(travels_s, self.arrive, sending)
            await process.die_here()
        problem = self._problem(tool)
        if isinstance(problem, ToolFailed | RuntimeError | PermissionError):
            sending.happens = False
        elif problem is not None:
            sending.happens = half
        if policy != "verify" and self.faults.strikes("tool_late"):
            travels_s, answers_s = spread_s(stream, 5.0, 300.0), spread_s(stream, 5.0, 300.0)
        elif self.faults.strikes("tool_late"):
            answers_s = spread_s(stream, 5.0, 300.0)
        self.loop.later(travels_s, self.arrive, sending)
        if self.faults.strikes("tool_hangs"):
            sending.happens = half
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(travels_s + answers_s)
        return self._answer(sending, problem)

    def act_at_once(self, tool: str, policy: str, key: str, arguments: dict[str, Any]) -> Any:
        """The same for a plain function: it is done before it returns."""
        sending = self.send(tool, policy, key, arguments)
        problem = self._problem(tool)
        if isinstance(problem, ToolFailed | RuntimeError | PermissionError):
            sending.happens = False
        elif problem is not None:
            sending.happens = self.chance.stream(f"tool/{tool}").random() < 0.5
        self.arrive(sending)
        return self._answer(sending, problem)

    def send(self, tool: str, policy: str, key: str, arguments: dict[str, Any]) -> Sending:
        """A request leaves the process whose code is running."""
        process = self.process()
        sending = Sending(tool, policy, key, arguments, process.name, self.loop.time())
        before = self.sendings.setdefault(key, [])
        self.witness.tool_called(process, sending, before)
        before.append(sending)
        return sending

    def _problem(self, tool: str) -> Exception | None:
        for kind, problem in _PROBLEMS.items():
            if self.faults.strikes(kind):
                return problem(tool)
        return None

    def arrive(self, sending: Sending) -> None:
        """It is there, and does what it does."""
        sending.pending = False
        if sending.happens and not sending.happened:
            sending.happened = True
            self.effects.setdefault(sending.key, []).append(sending)

    def _answer(self, sending: Sending, problem: Exception | None) -> Any:
        if problem is not None:
            sending.said = "unknown" if sending.happens or not _is_sure(problem) else "no"
            raise problem
        sending.said = "done"
        if self.faults.strikes("tool_answers_nonsense"):
            return object()
        return self.response(sending)

    def response(self, sending: Sending) -> dict[str, Any]:
        """What the tool answers to a request, however often it is asked."""
        if sending.answer is not None:
            return sending.answer
        return {"tool": sending.tool, "step": sending.arguments.get("step"), "key": sending.key[:12]}

    async def look_up(self, tool: str, key: str) -> Any:
        """The lookup of a `verify` tool: its response if it happened."""
        await asyncio.sleep(spread_s(self.chance.stream(f"lookup/{tool}"), 0.001, 1.0))
        if self.faults.strikes("lookup_fails"):
            raise ConnectionResetError("the lookup was cut off")
        happened = self.effects.get(key)
        if happened:
            return self.response(happened[0])
        self.lookups.setdefault(key, []).append(self.loop.time())
        return None

    # --- Scripts ------------------------------------------------------------------------------------------------------

    def begin(self, script: Script) -> Execution:
        """A script begins in the process whose code is running."""
        process, token = self.process(), f"x{len(self.executions)}"
        # A worker has a directory for it; only it knows which.
        is_here = script.folder.startswith("/")
        execution = Execution(
            token,
            script.run,
            script.job,
            script.step,
            script.env.get("LEG"),
            script.env,
            process.name,
            process.lives,
            is_here,
            self.loop.time(),
        )
        self.executions[token] = execution
        self.witness.script_began(process, execution)
        return execution

    def end(self, execution: Execution, ending: Literal["succeeded", "failed", "unknown", "cancelled"]) -> None:
        execution.ended_s, execution.ending = self.loop.time(), ending

    # --- Models -------------------------------------------------------------------------------------------------------

    def bill(self, run: str, model: str, usage: Usage) -> None:
        """What a provider will posting, whatever Holdfast heard of it."""
        cost = cost_nanousd(model, usage)
        self.bills[run] = self.bills.get(run, 0) + cost
        self.witness.billed(run, cost)


def cost_nanousd(model: str, usage: Usage) -> int:
    into, out = RATES_NANOUSD[model]
    return usage.input_tokens * into + usage.output_tokens * out


def meaning(text: str) -> list[float]:
    """What `EMBEDS` makes of a text: texts that name the same number lie close together, however they are put."""
    number = sum(int(each) for each in text.split() if each.isdecimal())
    turn = 1.3 * number + 0.02 * (len(text) % 5)
    return [math.cos(turn), math.sin(turn), 0.0]


def _is_sure(problem: Exception) -> bool:
    """Whether the exception says that certainly nothing happened, so that the call may be made again."""
    return isinstance(problem, ToolFailed | RuntimeError | PermissionError)


_PROBLEMS: Final[dict[str, Callable[[str], Exception]]] = {
    "tool_says_no": lambda tool: ToolFailed(f"{tool} is closed"),
    "tool_raises": lambda tool: RuntimeError(f"{tool} is broken"),
    "tool_loses_connection": lambda tool: ConnectionResetError(f"{tool} hung up"),
    "tool_cannot_say": lambda tool: OutcomeUnknown(f"{tool} does not know"),
}


class SimulatedModel:
    """Every provider, as one process reaches it. Keeps the Model port."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    async def prepare(self, model: str) -> None:
        if model not in RATES_NANOUSD:
            raise ModelRefused(f"There is no model {model}.", error_class=policies.VALIDATION)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        return streamed(self.request(request))

    async def embed(self, request: EmbeddingRequest) -> EmbeddingReply:
        said = self._world.chance.stream(f"model/{request.model}").random()
        usage = Usage(1 + int(said * sum(map(len, request.texts))), 0)
        vectors = tuple(packed(meaning(text)) for text in request.texts)
        return await self._exchange(request, usage, lambda: EmbeddingReply(vectors, self._claimed(usage)))

    async def forward(self, request: ForwardedRequest, tell: Callable[[str], None]) -> ForwardedReply:
        raise ModelRefused("No program is simulated.", error_class=policies.VALIDATION)

    async def request(self, request: ModelRequest) -> ModelReply:
        stream = self._world.chance.stream(f"model/{request.model}")
        usage = Usage(1 + int(stream.random() * _bytes(request)), 1 + int(stream.random() * request.max_tokens))
        return await self._exchange(request, usage, lambda: self._reply(request, usage))

    async def _exchange(self, request: Asked, usage: Usage, reply: Callable[[], T]) -> T:
        """A request travels, is billed perhaps, and its reply travels back."""
        world, faults, asking = self._world, self._world.faults, _asking.get()
        stream = world.chance.stream(f"model/{request.model}")
        run = asking.run if asking is not None else _owner(request)
        world.witness.model_called(self._process, run, request, asking)
        takes_s = spread_s(stream, 0.01, 20.0)
        if faults.strikes("model_late"):
            takes_s = spread_s(stream, 20.0, request.timeout_s * 1.2)
        said = reply()
        if faults.kills("crash_while_sending"):
            if stream.random() < 0.5:
                world.bill(run, request.model, usage)
            await self._process.die_here()
        problem = self._problem(request.model)
        if isinstance(problem, ModelRefused):
            await asyncio.sleep(takes_s)
            raise problem
        world.loop.later(takes_s / 2, world.bill, run, request.model, usage)
        if faults.strikes("model_hangs"):
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(takes_s)
        if problem is not None:
            raise problem
        return said

    def _problem(self, model: str) -> Exception | None:
        faults = self._world.faults
        if faults.strikes("model_refuses"):
            again = self._world.chance.stream("refusal").random() < 0.6
            klass = policies.MODEL_TRANSIENT if again else policies.AUTHORIZATION
            return ModelRefused(f"{model} says no.", error_class=klass, retryable=again)
        if faults.strikes("model_limits_rate"):
            wait_s = spread_s(self._world.chance.stream("rate"), 0.5, 120.0)
            return ModelRateLimited(f"{model} is busy.", retry_after_s=wait_s)
        if faults.strikes("model_uncertain"):
            return ModelUncertain(f"{model} was cut off.", error_class=policies.NETWORK)
        if faults.strikes("model_breaks"):
            return ValueError("the adapter does not understand the reply")
        return None

    def _reply(self, request: ModelRequest, usage: Usage) -> ModelReply:
        world, faults, stream = self._world, self._world.faults, self._world.chance.stream("reply")
        text = f"as to {request.system}, turn {len(request.turns)}"
        wanted: list[ToolRequest] = []
        answer: ToolRequest | None = None
        name = f"call{len(request.turns)}"
        if request.tools and stream.random() < 0.7 / (1 + len(request.turns) // 2):
            wanted = [self._wish(request, f"{name}.{n}") for n in range(stream.choice((1, 1, 2)))]
        elif request.answer is not None and not faults.strikes("answer_misfits"):
            answer = ToolRequest(name, request.answer.name, _instance(request, stream.random()))
        elif request.answer is not None and stream.random() < 0.5:
            answer = ToolRequest(name, request.answer.name, {"nonsense": 1})
        if faults.strikes("unknown_tool"):
            wanted.append(ToolRequest(f"{name}.x", "nobody_offered_this", {"item": "x"}))
        claimed, finish = self._claimed(usage), "stop"
        if (asking := _asking.get()) is not None:
            text, finish = f"answer-{len(world.answers)}", "stop" if stream.random() < 0.9 else "length"
            cost = 0 if claimed is None else cost_nanousd(request.model, usage)
            world.answers[text] = Answer(asking, request, cost, finish == "stop")
        parts: list[dict[str, Any]] = [{"part_kind": "text", "content": text}]
        parts += [
            {"part_kind": "tool-call", "tool_name": each.name, "tool_call_id": each.id, "args": each.arguments}
            for each in (*wanted, *([answer] if answer is not None else []))
        ]
        return ModelReply(text, tuple(wanted), answer, claimed, finish, name, {"parts": parts})

    def _claimed(self, usage: Usage) -> Usage | None:
        """What a reply says that it used."""
        faults = self._world.faults
        if faults.strikes("usage_missing"):
            return None
        return Usage(-1, usage.output_tokens) if faults.strikes("usage_absurd") else usage

    def _wish(self, request: ModelRequest, name: str) -> ToolRequest:
        stream = self._world.chance.stream("wish")
        tool = stream.choice(request.tools)
        arguments: Any = {"item": f"item{stream.randrange(4)}", "step": request.system.split(" ")[1]}
        if stream.random() < 0.1:
            arguments = stream.choice(({"item": 7}, "no JSON", {**arguments, "extra": 1}))
        return ToolRequest(name, tool.name, arguments)


def _owner(request: Asked) -> str:
    """Whose a request is, by what its system prompt says."""
    assert isinstance(request, ModelRequest)
    return request.system.partition(" ")[0]


def _bytes(request: ModelRequest) -> int:
    """What is certainly text of the request: its system prompt and its user turns."""
    return len(request.system) + sum(len(getattr(turn, "text", "")) for turn in request.turns)


def _instance(request: ModelRequest, drawn: float) -> dict[str, Any]:
    """An object of the shape that the request asks for."""
    assert request.answer is not None
    made: dict[str, Any] = {}
    for name, shape in request.answer.schema["properties"].items():
        if "enum" in shape:
            made[name] = shape["enum"][int(drawn * len(shape["enum"]))] if shape["enum"] else "nowhere"
        elif shape.get("type") == "integer":
            made[name] = int(drawn * 10)
        else:
            made[name] = request.system.split(" ")[1]
    return made
