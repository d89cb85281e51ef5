"""Who watches a conversation: hears of every change of it and of every run that answers, and keeps books of its own.

What must hold is written here a second time, in other words, as the auditor of runs has it. Never here: a decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.nouns.conversations import ON_BUSY, Change, ConversationTurn
from tests.simulation.books import Books

SEEN: Final = (
    *(
        f"a message that may {how} has {fate}"
        for how in ON_BUSY
        for fate in ("begun at once", "waited")
        if (how, fate) not in (("reject", "waited"), ("steer", "waited"))
    ),
    "answered",
    "not answered",
    "left",
    "a branch",
    "steered",
    "came too late to steer",
)
_KEY: Final = "conversation/"
_ENDS: Final = {"completed": "RunCompleted", "failed": "RunFailed", "cancelled": "RunCancelled"}


class TalkAuditor:
    """Judges one conversation."""

    def __init__(self, runs: Mapping[str, Books], fault: Callable[[str, str, str], None]) -> None:
        self._books = runs
        self._fault = fault
        self._exchanges: dict[int, ConversationTurn] = {}
        self._runs: dict[int, str] = {}
        self._tip: int | None = None
        self._line: list[int] = []
        """What waits, in its order."""
        self._lasting: dict[str, dict[str, str]] = {}
        """The calls of each run that did to the world what cannot be undone, as far as its history tells."""
        self._read: dict[str, set[int]] = {}
        """What was said to each run while it was at work, and has come into a call."""
        self.seen: Counter[str] = Counter()

    # --- Runs ---------------------------------------------------------------------------------------------------------

    def event(self, books: Books, run: str, event: ev.Event) -> None:
        match event:
            case ev.RunStarted() if event.key is not None and event.key.startswith(_KEY):
                self._started(run, event)
            case ev.MessageRead():
                self._read.setdefault(run, set()).add(event.number)
            case ev.EffectIntended() if event.policy != "read" and not (event.compensation or event.compensates):
                self._lasting.setdefault(run, {})[event.call] = event.tool
            case ev.EffectFailed() | ev.EffectReleased():
                self._lasting.get(run, {}).pop(event.call, None)
            case _:
                pass

    def _started(self, run: str, event: ev.RunStarted) -> None:
        number = int(str(event.key).rpartition("/")[2])
        exchange = self._exchanges.get(number)
        if exchange is None or exchange.status != "active":
            self._fault("only a message whose turn it is has a run", run, f"{number}: {exchange}")
        if number in self._runs:
            self._fault("one run answers a message", run, f"{number} has {self._runs[number]}")
        self._runs[number] = run
        if event.input.json:
            given = msgspec.json.decode(event.input.json)["messages"]
            if [(each["role"], each["text"]) for each in given] != self._told(number):
                self._fault("an agent is told what was said before it", run, f"{given}, not {self._told(number)}")

    def _told(self, number: int) -> list[tuple[str, str]]:
        at: int | None = number
        told: list[tuple[str, str]] = []
        while at is not None:
            each = self._exchanges[at]
            if at != number:
                told += [] if each.reply is None else [("assistant", each.reply)]
                parts = [part.text for part in self._exchanges.values() if part.steers == at]
                told += [("user", text) for text in reversed(parts)]
            told.append(("user", each.text))
            at = each.parent
        return told[::-1]

    # --- The conversation ---------------------------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        try:
            known = dict(self._exchanges)
            for each in change.exchanges:
                self._exchange(known, each)
                self._exchanges[each.number] = each
            late = [each.number for each in change.exchanges if each.steers is None and _steered(known, each)]
            self._line[:0] = sorted(late)
            for each in change.exchanges:
                if _is_at_work(each) and (each.number not in known or not _is_at_work(known[each.number])):
                    self._begun(known, each)
                elif each.status == "waiting" and each.number not in known:
                    self._line.insert(0 if each.on_busy in ("interrupt", "rollback") else len(self._line), each.number)
            if change.conversation.active is None:
                self._line.clear()  # none of them can be answered, as each of them says
            at_work = [each.number for each in self._exchanges.values() if _is_at_work(each)]
            if at_work != ([] if change.conversation.active is None else [change.conversation.active]):
                self._fault("one message is answered at a time", "?", f"{at_work}: {change.conversation}")
            waiting = sorted(each.number for each in self._exchanges.values() if each.status == "waiting")
            if waiting != sorted(change.conversation.waiting) or (waiting and not at_work):
                self._fault("nothing that was said is lost", "?", f"{waiting}: {change.conversation}")
        except (LookupError, ValueError) as problem:
            self._fault("a conversation makes sense", "?", f"{problem!r} in {change}")

    def _exchange(self, known: Mapping[int, ConversationTurn], new: ConversationTurn) -> None:
        old = known.get(new.number)
        if old is None:
            if new.number != len(self._exchanges) + 1 or new.key in {each.key for each in known.values()}:
                self._fault("a message is said once", "?", f"{new} after {sorted(self._exchanges)}")
            if new.status == "waiting" and new.on_busy == "reject":
                self._fault("what is refused does not wait", "?", f"{new}")
            told = "begun at once" if _is_at_work(new) else "waited"
            self.seen["steered" if new.steers else f"a message that may {new.on_busy} has {told}"] += 1
            return
        if old.steers is not None:
            self._part(old, new)
            return
        if _words(old) != _words(new):
            self._fault("what was said stays as it was said", "?", f"{old} became {new}")
        if old.status not in ("waiting", "active") and old != new:
            self._fault("a message is answered once", "?", f"{old} became {new}")
        if old.run is not None and new.run != old.run:
            self._fault("one run answers a message", new.run or "?", f"{old} became {new}")
        if new.run is not None and self._runs.get(new.number) != new.run:
            self._fault("the run of a message was started for it", new.run, f"{new}")
        if new.status not in ("waiting", "active"):
            self._over(new)

    def _part(self, old: ConversationTurn, new: ConversationTurn) -> None:
        """What became of a message that was to steer the run of another."""
        if new.steers is None:
            self.seen["came too late to steer"] += 1
            if old.run is not None and old.number in self._read.get(old.run, ()):
                self._fault("what an agent has read is not said again", old.run, f"{new}")
        elif new.steers != old.steers or (new.status != "active" and new.status != self._exchanges[new.steers].status):
            self._fault("what steers a run is over when that is", new.run or "?", f"{old} became {new}")

    def _over(self, new: ConversationTurn) -> None:
        self.seen["answered" if new.reply is not None else "not answered"] += 1
        self.seen["left"] += new.left
        if new.run is None:
            if new.status != "failed" or not new.problem:
                self._fault("who gets no reply is told why", "?", f"{new}")
            return
        books = self._books[new.run]
        if not books.kinds[_ENDS[new.status]]:
            self._fault("a message is over when its run is", new.run, f"{new}")
        if (new.status == "completed") != (new.reply is not None):
            self._fault("the reply is what the run returned", new.run, f"{new}")
        elif new.reply is not None and books.ended == "RunCompleted" and _text(books) not in (None, new.reply):
            self._fault("the reply is what the run returned", new.run, f"{new}, not {_text(books)}")
        if new.left and self._lasting.get(new.run):
            self._fault("what cannot be undone is not hidden", new.run, f"{self._lasting[new.run]}")

    def _begun(self, known: Mapping[int, ConversationTurn], new: ConversationTurn) -> None:
        """Whose turn it is, and what it follows."""
        before = known.get(new.number)
        done = [each for each in self._exchanges.values() if each.number == self._tip and each.left]
        tip = done[0].parent if done else self._tip
        branch = new.text.partition(" after ")[2]
        if before is None and branch:
            tip = int(branch)
            self.seen["a branch"] += 1
        if new.parent != tip:
            self._fault("a message follows what was said last", "?", f"{new}, not after {tip}")
        if self._line[:1] != ([] if before is None else [new.number]):
            self._fault("messages are answered in their order", "?", f"{new.number} of {self._line}")
        del self._line[:1]
        self._tip = new.number

    # --- The end ------------------------------------------------------------------------------------------------------

    def close(self, said: Mapping[str, str], *, over: bool) -> None:
        """`said`: what somebody was told is said, by its key. With `over` all of it has been answered by now."""
        kept = {each.key: each for each in self._exchanges.values()}
        for key, text in said.items():
            if key not in kept or kept[key].text != text:
                self._fault("what was acknowledged is kept", "?", f"{key}: {kept.get(key)}")
        for number, run in self._runs.items():
            each = self._exchanges[number]
            if each.status not in ("waiting", "active") and each.run != run:
                self._fault("no run is started for nothing", run, f"{each}")
            if over and each.status in ("waiting", "active"):
                self._fault("what was said is answered", run, f"{each}")


def _is_at_work(each: ConversationTurn) -> bool:
    return each.status == "active" and each.steers is None


def _steered(known: Mapping[int, ConversationTurn], each: ConversationTurn) -> bool:
    return each.number in known and known[each.number].steers is not None


def _words(each: ConversationTurn) -> tuple[Any, ...]:
    return each.number, each.text, each.at_ms, each.on_busy, each.by, each.key


def _text(books: Books) -> str | None:
    """What a run has returned, as text; None where it is too large to stand in its history."""
    state = books.state
    if state.parts or state.output.blob is not None:
        return None
    value = msgspec.json.decode(state.output.json)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
