"""Who judges what comes of models besides one that is asked by its name: vectors, models that a router chooses or that are asked in
the place of another, and answers that were given before.

Never here: money, which is the auditor's; how an answer is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from holdfast.core.facts import events as ev
from holdfast.core.nouns.routing import Complexity
from holdfast.ports import EmbeddingRequest, ModelRequest
from tests.simulation.books import Books
from tests.simulation.world import Answer, Asking, World, meaning

CACHE: Final = "!cache/"
SEEN: Final = (
    "vectors",
    "a model chosen by a router",
    "another model asked",
    "the same question answered again",
    "a question answered that means the same",
)
ANY: Final = "ANY"
"""What a system prompt says whose call a router sends to any model; else it names a level."""
TOOLLESS: Final = "tiny"
"""The model of the router that calls no tools."""
ROUTER: Final = "router"
_EASY: Final = (Complexity.TRIVIAL, Complexity.SIMPLE)
_FOR: Final = {
    "tiny": _EASY,
    "small": (*_EASY, Complexity.MODERATE),
    "large": (Complexity.MODERATE, Complexity.COMPLEX, Complexity.EXPERT),
}
"""What each model of the router is for."""
_SLACK_S: Final = 300.0
"""How long after an answer was found its step may go on with it: a process may stand still meanwhile."""


class Answers:
    """What models have come to in one program."""

    def __init__(self, runs: Mapping[str, Books], fault: Callable[[str, str, str], None], now_s: Callable[[], float]) -> None:
        self.world: World
        self._books = runs
        self._fault = fault
        self._now_s = now_s
        self._asked: set[tuple[str, str, str]] = set()
        """Where a model was really asked, by run, step and place."""
        self._kept_s: dict[tuple[str, str], float] = {}
        """When an answer was kept last, by tenant and what it says."""
        self._given: set[tuple[tuple[Any, ...], str]] = set()
        self.seen: Counter[str] = Counter()

    def called(self, run: str, request: ModelRequest | EmbeddingRequest, asking: Asking | None) -> None:
        """A model is asked."""
        self.seen["vectors"] += isinstance(request, EmbeddingRequest)
        if isinstance(request, EmbeddingRequest):
            return
        if asking is not None:
            self._asked.add((asking.run, asking.step, asking.place))
            return
        for level in request.system.split(" ")[2:]:
            is_able = level == ANY or Complexity[level] in _FOR[request.model]
            if not is_able or (request.tools and request.model == TOOLLESS):
                self._fault("a router asks a model that can answer", run, f"{request.model} for {request.system}")

    def held(self, books: Books, run: str, event: ev.ModelCallHeld) -> None:
        """A call is about to be made: nobody else is asked until it is known, or known to be unknown, what came of the first."""
        self.seen["a model chosen by a router"] += event.model == ROUTER
        operation = event.call.rpartition(":")[0]  # what is asked for anew where a journal was dropped is another
        for id_, call in books.calls.items():
            if call.kind == "model" and id_.rpartition(":")[0] == operation:
                if call.answered:
                    self._fault("what was answered is not asked again", run, f"{event} after {call}")
                if not (call.closed or call.doubted):
                    self._fault("one model is asked at a time", run, f"{event} beside {call}")
                self.seen["another model asked"] += call.tool != event.sent_to

    def written(self, books: Books, event: ev.SharedValueWritten) -> None:
        """An answer is kept."""
        text = event.outcome.value()["value"]["reply"]["text"]
        answer = self.world.answers.get(text)
        if answer is None or not answer.is_whole:
            self._fault("what is kept was answered, and not cut off", answer.asking.run if answer else "?", f"{event}")
        self._kept_s[books.tenant, text] = self._now_s()

    def found(self, books: Books, run: str, event: ev.ValueRecorded) -> None:
        """A cache was looked into."""
        assert event.payload is not None
        for hit in event.payload.value():
            answer = self.world.answers[hit["reply"]["text"]]
            told = (hit["question"], hit["run"], hit["saved_nanousd"])
            if told != (answer.asking.question, answer.asking.run, answer.cost_nanousd):
                self._fault("a record says whose answer it is", run, f"{told} of {answer}")

    def embedded(self, run: str, texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
        """Code got vectors of texts."""
        for text, vector in zip(texts, vectors, strict=True):
            if any(abs(one - other) > 1e-6 for one, other in zip(meaning(text), vector, strict=True)):
                self._fault("a vector is that of its text", run, f"{vector} of {text}")

    def answered(self, asking: Asking, text: str, *, clocks_agree: bool) -> None:
        """Code got an answer."""
        answer = self.world.answers.get(text)
        if answer is None:
            self._fault("an answer was given by a model", asking.run, text)
        elif answer.asking[:3] != asking[:3] and not self._books[asking.run].kinds["RunForked"]:
            self._answered_before(text, answer, asking)
            if clocks_agree and (asking[:3], text) not in self._given:
                self._check_age(text, asking)
            self._given.add((asking[:3], text))

    def _answered_before(self, text: str, answer: Answer, asking: Asking) -> None:
        first, run = answer.asking, asking.run
        if self._books[first.run].tenant != self._books[run].tenant or first.terms != asking.terms:
            self._fault("an answer is of the same tenant, prompt, model and version", run, f"{first} for {asking}")
        has_embedder = asking.terms[-1] is not None
        if first.about != asking.about or (not has_embedder and first.question != asking.question):
            self._fault("an answer is to a question that means the same", run, f"{first} for {asking}")
        if asking[:3] in self._asked and asking.step not in self._books[run].changed:
            self._fault("an answer that was given before costs nothing", run, f"{asking}: {text}")
        self.seen["the same question answered again" if first.question == asking.question else SEEN[-1]] += 1

    def _check_age(self, text: str, asking: Asking) -> None:
        kept_s = self._kept_s.get((self._books[asking.run].tenant, text))
        if kept_s is None or (asking.max_age_s is not None and self._now_s() - kept_s > asking.max_age_s + _SLACK_S):
            self._fault("an answer that is too old is none", asking.run, f"{text} of {kept_s} at {self._now_s()}")
