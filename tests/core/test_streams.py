"""Who watches a run is told each piece once, however it came to be known and however often he comes back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.facts import events as ev
from holdfast.core.facts.streams import TOOLS, Cursor, Follower, StreamEvent, request_of, result_of, source_of
from holdfast.core.values.ids import Path, RunId, StepId, call_id
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import ErrorRecord
from holdfast.engine.operations.stream import MAX_BYTES
from holdfast.errors import InvalidInput

RUN, STEP, LOST = RunId("r"), StepId("draft#1"), ErrorRecord("draft", "lost", "gone", True, 0)


def call(number: int, place: int = 0) -> str:
    return source_of(call_id(RUN, STEP, Path(str(place)), number))


def held(number: int, place: int = 0) -> ev.Event:
    id_ = call_id(RUN, STEP, Path(str(place)), number)
    return ev.ModelCallHeld(id_, STEP, 1, Path(str(place)), "m", "", 1)


def settled(number: int, place: int = 0) -> ev.Event:
    return ev.ModelCallSettled(call_id(RUN, STEP, Path(str(place)), number), 1, 1, 1, inline({}))


def doubted(number: int, place: int = 0) -> ev.Event:
    return ev.ModelCallInDoubt(call_id(RUN, STEP, Path(str(place)), number), LOST, reopens=True)


def answered(number: int, text: str, *, is_error: bool = False) -> tuple[str, int, bytes]:
    """A piece: what a model is told in answer to a request of its first call."""
    result = result_of(call_id(RUN, STEP, Path("0"), 1), "look_up", f"toolu_{number}", text, is_error=is_error)
    return "tools", number, msgspec.json.encode(result)


def said(told: Iterator[StreamEvent] | list[StreamEvent]) -> list[tuple[str, str, int, str]]:
    return [(each.kind, each.source, each.offset, each.text) for each in told]


def test_a_reply_goes_on_where_the_pieces_ended() -> None:
    watching = Follower(RUN, Cursor())
    assert said(watching.event(1, held(1), None)) == []
    assert said(watching.chunk(call(1), 0, b"Dear ")) == [("text", "draft#1:0:1", 0, "Dear ")]
    assert said(watching.chunk(call(1), 0, b"Dear A")) == [("text", "draft#1:0:1", 5, "A")]
    assert said(watching.event(2, settled(1), "Dear Ada")) == [("text", "draft#1:0:1", 6, "da"), ("end", "draft#1:0:1", 8, "")]
    assert said(watching.chunk(call(1), 6, b"da")) == []
    assert str(watching.cursor) == "@2"


def test_a_repeated_call_voids_only_text_that_was_streamed() -> None:
    watching = Follower(RUN, Cursor())
    list(watching.event(1, held(1), None))
    list(watching.event(2, doubted(1), None))
    assert said(watching.event(3, held(2), None)) == []
    list(watching.chunk(call(2), 0, b"Dea"))
    assert said(watching.event(4, doubted(2), "Dear")) == [("text", "draft#1:0:2", 3, "r"), ("end", "draft#1:0:2", 4, "")]
    back = Follower(RUN, Cursor.read(str(watching.cursor)))
    assert said(back.event(5, held(3), None)) == [("reset", "draft#1:0:2", 4, "")]
    assert said(back.chunk(call(2), 4, b"late words")) == []


def test_what_a_model_thinks_and_calls_tools_with_have_their_own_places() -> None:
    thinking, arguments = f"{call(1)}:thinking", f"{call(1)}:look_up:toolu_1"
    besides = {"look_up:toolu_1": '{"a":1}', "thinking": "Hm, so"}
    watching = Follower(RUN, Cursor())
    list(watching.event(1, held(1), None))
    assert said(watching.chunk(thinking, 0, b"Hm")) == [("thinking", thinking, 0, "Hm")]
    assert said(watching.chunk(arguments, 0, b'{"a')) == [("arguments", arguments, 0, '{"a')]
    again = Follower(RUN, Cursor.read(str(watching.cursor)))
    for each in (watching, again):
        assert said(each.event(2, settled(1), "Dear", besides)) == [
            ("thinking", thinking, 2, ", so"),
            ("text", call(1), 0, "Dear"),
            ("arguments", arguments, 3, '":1}'),
            ("end", call(1), 4, ""),
        ]
        assert str(each.cursor) == "@2"
    for only, kinds in ((thinking, {"thinking", "end"}), (call(1), {"thinking", "text", "arguments", "end"})):
        late = Follower(RUN, Cursor(), only)
        told = [*late.event(1, held(1), None), *late.event(2, settled(1), "Dear", besides)]
        assert {each.kind for each in told} == kinds


def test_what_became_of_a_request_is_sent_once_at_a_place_of_its_own() -> None:
    watching = Follower(RUN, Cursor())
    told = [*watching.chunk(*answered(0, "found")), *watching.chunk(*answered(0, "found"))]
    told += watching.chunk(*answered(1, "", is_error=True))
    assert [(each.kind, each.stream, each.source, each.offset, each.text, each.outcome) for each in told] == [
        ("result", "tools", f"{call(1)}:look_up:toolu_0:result", 0, "found", "completed"),
        ("result", "tools", f"{call(1)}:look_up:toolu_1:result", 0, "", "failed"),
    ]
    back = Follower(RUN, Cursor.read(told[0].cursor))
    assert [each.source for number in (0, 1) for each in back.chunk(*answered(number, ""))] == [told[1].source]
    assert request_of(told[1].source) == f"{call(1)}:look_up:toolu_1"
    for only, tells in ((TOOLS, True), (call(1), True), (call(2), False), ("model", False), (None, True)):
        assert [*Follower(RUN, Cursor(), only).chunk(*answered(0, "found"))] != [] or not tells
        assert tells or [*Follower(RUN, Cursor(), only).chunk(*answered(0, "found"))] == []


def test_of_what_is_long_the_beginning_is_sent_and_fits_into_a_piece() -> None:
    _, _, piece = answered(0, "\x00" * 1_000_000)
    assert len(piece) < MAX_BYTES
    (told,) = Follower(RUN, Cursor()).chunk("tools", 0, piece)
    assert told.text == "\x00" * 8_000 + "… (992,000 characters more)"
    whole = "y" * 8_000
    assert [each.text for each in Follower(RUN, Cursor()).chunk(*answered(0, whole))] == [whole]


def test_who_wants_one_stream_or_one_call_hears_of_no_other() -> None:
    news = [(1, held(1), None), (2, held(1, 1), None), (3, settled(1), "one"), (4, settled(1, 1), "two")]
    for only, heard in (("model", ["one", "two"]), ("draft#1:1:1", ["two"]), ("progress", []), (None, ["one", "two"])):
        watching = Follower(RUN, Cursor(), only)
        told = [each for event in news for each in watching.event(*event)]
        assert [each.text for each in told if each.kind == "text"] == heard
        assert [each.value for each in watching.chunk("progress", 0, b"1")] == [1] * (only in ("progress", None))


@pytest.mark.parametrize("text", ["", "1", "@", "@-1", "@1,", "@1,a", "@1,=2", "@1,a=b", "@1,a=1,", "@\u0661", "@" + "9" * 16])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="no place in the streams"):
        Cursor.read(text)


@given(st.integers(0, 10**9), st.dictionaries(st.text(min_size=1), st.integers(0, 10**9)))
def test_a_cursor_reads_back_as_it_was_written(seq: int, sources: dict[str, int]) -> None:
    assert Cursor.read(str(Cursor(seq, sources))) == Cursor(seq, sources)
    assert not set(" ;&|'\"") & set(str(Cursor(seq, sources)))


class Thread:
    """Two operations, each called until a call has its reply, a stream of values, and results."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.texts: dict[str, str] = {}
        self.pieces: dict[str, list[tuple[int, bytes]]] = {"progress": [], "tools": []}
        self.history: list[tuple[int, ev.Event, str | None, dict[str, str]]] = []
        self._numbers = {0: 0, 1: 0}
        self.replied: set[str] = set()

    def go_on(self) -> None:
        chance, place = self._chance, self._chance.choice([0, 1])
        if chance.random() < 0.3:
            values = self.pieces["progress"]
            values.append((len(values), msgspec.json.encode(len(values))))
        elif chance.random() < 0.1:
            results = self.pieces["tools"]
            results.append(answered(len(results), "found")[1:])
        elif (source := call(self._numbers[place], place)) not in self.texts:
            self._begin(place)
        elif source not in self.replied:
            part = chance.choice(["", ":thinking", ":look_up:toolu_1"])
            self._say(source + part) if chance.random() < 0.7 else self._end(source, place)

    def _begin(self, place: int) -> None:
        self._numbers[place] += 1
        source = call(self._numbers[place], place)
        for part in ("", ":thinking", ":look_up:toolu_1"):
            self.texts[source + part] = "".join(self._chance.choices("abé😀", k=self._chance.randrange(6)))
            self.pieces[source + part] = []
        self._tell(held(self._numbers[place], place), None)

    def _say(self, source: str) -> None:
        size, text = self._said(source), self.texts[source]
        if size < len(text):
            self.pieces[source].append((size, text[size : size + self._chance.randint(1, 3)].encode()))

    def _end(self, source: str, place: int) -> None:
        if self._chance.random() < 0.6:
            self.replied.add(source)
            besides = {name: self.texts[f"{source}:{name}"] for name in ("look_up:toolu_1", "thinking")}
            self._tell(settled(self._numbers[place], place), self.texts[source], besides)
        else:
            parts = {name: self.texts.pop(name) for name in [*self.texts] if name.startswith(source)}
            said = {name: text[: self._chance.randint(self._said(name), len(text))] for name, text in parts.items()}
            text = said.pop(source)
            besides = {name.removeprefix(f"{source}:"): part for name, part in said.items()}
            is_kept = self._chance.random() < 0.5
            self._tell(doubted(self._numbers[place], place), text if is_kept else None, besides if is_kept else {})
        if self._chance.random() < 0.5:
            self.pieces = {name: pieces for name, pieces in self.pieces.items() if not name.startswith(source)}

    def _said(self, source: str) -> int:
        return sum(len(piece.decode()) for _, piece in self.pieces[source])

    def _tell(self, event: ev.Event, text: str | None, besides: dict[str, str] = MappingProxyType({})) -> None:
        self.history.append((len(self.history) + 1, event, text, besides))


def look(talk: Thread, watching: Follower, after: int) -> Iterator[StreamEvent]:
    for event in talk.history[after:]:
        yield from watching.event(*event)
    for source, pieces in talk.pieces.items():
        for piece in pieces:
            yield from watching.chunk(source, *piece)


@given(st.randoms(use_true_random=False))
def test_however_often_a_reader_comes_back_it_gets_each_piece_once(chance: random.Random) -> None:
    told: list[StreamEvent] = []
    talk, watching = Thread(chance), Follower(RUN, Cursor())
    for _ in range(40):
        talk.go_on()
        if chance.random() < 0.3:
            watching = Follower(RUN, Cursor.read(str(watching.cursor)))
        if chance.random() < 0.5:
            told += look(talk, watching, chance.randint(0, watching.cursor.seq))
        elif told and chance.random() < 0.5:  # he leaves in the middle of what there is
            pieces = [*islice(look(talk, watching, 0), chance.randint(0, 3))]
            told += pieces
            watching = Follower(RUN, Cursor.read(told[-1].cursor))
    told += look(talk, watching, 0)
    assert [each.value for each in told if each.kind == "value"] == list(range(len(talk.pieces["progress"])))
    results = [each.source for each in told if each.kind == "result"]
    assert results == [f"{call(1)}:look_up:toolu_{number}:result" for number in range(len(talk.pieces["tools"]))]
    heard: dict[str, str] = {}
    for each in told:
        if each.kind in ("text", "thinking", "arguments"):
            assert each.offset == len(heard.get(each.source, ""))
            heard[each.source] = heard.get(each.source, "") + each.text
        assert each.kind != "reset" or any(source.startswith(each.source) for source in heard)
    for source in talk.replied:
        parts = [source, f"{source}:thinking", f"{source}:look_up:toolu_1"]
        for part in parts:
            assert heard.get(part, "") == talk.texts[part]
        said = any(talk.texts[part] for part in parts)
        assert sum(each.kind == "end" and each.source == source for each in told) == said
