"""What follows from a message, while the agent rests and while it is at work."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.nouns import conversations as rule
from holdfast.core.nouns.conversations import Change, Conversation, ConversationTurn, OnBusy, Outcome
from holdfast.core.values.ids import RunId
from holdfast.errors import Conflict, InvalidInput, NotFound


class Play:
    """A conversation as a store would have it."""

    def __init__(self) -> None:
        self.now = Conversation(id="c", tenant="acme", workflow="agent", made_at_ms=0)
        self.said: dict[int, ConversationTurn] = {}

    def _keep(self, change: Change) -> None:
        self.now = change.conversation
        self.said |= {each.number: each for each in change.exchanges}

    def say(self, text: str, on_busy: OnBusy = "enqueue", *, after: int | None = None, lasting: tuple[str, ...] = ()) -> int:
        message = ConversationTurn(number=0, text=text, at_ms=1, on_busy=on_busy)
        self._keep(rule.take_message(self.now, self.said, message, after=after, cannot_be_undone=lasting))
        return self.now.said

    def start(self) -> None:
        self._keep(rule.started(self.now, self.said, RunId(f"run-{self.now.active}")))

    def end(self, reply: str | None = None, status: str = "completed", lasting: tuple[str, ...] = (), **more: Any) -> None:
        self._keep(rule.ended(self.now, self.said, Outcome(status=status, reply=reply, **more), lasting))

    def heard(self, number: int) -> list[str]:
        """What the run of a message is told."""
        messages = rule.input_of(self.now, self.said, number)["messages"]
        return [f"{each['role'][0]}:{each['text']}" for each in messages]


def busy() -> Play:
    """Its agent has answered one message, and is at the second."""
    play = Play()
    play.say("one")
    play.start()
    play.end("first")
    play.say("two")
    play.start()
    return play


def test_an_agent_is_given_all_that_was_said_before() -> None:
    play = busy()
    assert (play.now.active, play.now.run, play.said[2].parent) == (2, "run-2", 1)
    assert play.heard(2) == ["u:one", "a:first", "u:two"]
    play.end("second")
    assert (play.now.active, play.now.run, play.now.tip) == (None, None, 2)
    assert rule.key_of(play.now, 2) == "conversation/c/0/2"


def test_a_message_that_is_written_down_is_pending_until_its_run_is_there() -> None:
    play = Play()
    play.say("one")
    assert play.now.is_pending
    play.start()
    assert not play.now.is_pending


@pytest.mark.parametrize(
    ("on_busy", "status", "heard", "cancelling", "left"),
    [
        ("enqueue", "completed", ["u:one", "a:first", "u:two", "a:second", "u:three"], False, False),
        ("interrupt", "cancelled", ["u:one", "a:first", "u:two", "u:three"], True, False),
        ("rollback", "cancelled", ["u:one", "a:first", "u:three"], True, True),
    ],
)
def test_while_the_agent_is_at_work(on_busy: OnBusy, status: str, heard: list[str], cancelling: bool, left: bool) -> None:
    play = busy()
    assert play.say("three", on_busy) == 3
    assert (play.now.waiting, play.now.cancelling) == ((3,), cancelling)
    play.end("second" if status == "completed" else None, status)
    assert (play.now.active, play.now.waiting, play.now.cancelling) == (3, (), False)
    assert play.heard(3) == heard
    assert play.said[2].left is left


def test_what_is_refused_is_not_said() -> None:
    play = busy()
    before = play.now
    with pytest.raises(Conflict, match="wait for its reply"):
        play.say("three", "reject")
    with pytest.raises(Conflict, match="send_mail did what cannot be undone"):
        play.say("three", "rollback", lasting=("send_mail",))
    with pytest.raises(Conflict, match="a branch begins when it is done"):
        play.say("three", after=1)
    assert play.now == before
    for _ in range(rule.MAX_WAITING):
        play.say("more")
    with pytest.raises(Conflict, match="wait already"):
        play.say("more")


def test_what_was_done_for_good_meanwhile_is_never_hidden() -> None:
    play = busy()
    play.say("three", "rollback")
    play.end(None, "cancelled", lasting=("send_mail",))
    assert play.heard(3) == ["u:one", "a:first", "u:two", "u:three"]
    assert not play.said[2].left


def test_one_who_interrupts_goes_first_and_the_others_wait_on() -> None:
    play = busy()
    play.say("later")
    assert play.say("now", "interrupt") == 4
    assert play.now.waiting == (4, 3)


def test_what_steers_the_agent_is_part_of_what_it_is_at() -> None:
    play = busy()
    play.say("later")
    assert (play.say("shorter", "steer"), play.say("in English", "steer")) == (4, 5)
    assert (play.now.steering, play.now.waiting, play.now.is_pending) == ((4, 5), (3,), True)
    assert [(play.said[number].steers, play.said[number].run) for number in (4, 5)] == [(2, "run-2")] * 2
    assert play.heard(2) == ["u:one", "a:first", "u:two"], "its run is told them while it is at work"
    play._keep(rule.deliver_steering(play.now))
    assert not play.now.is_pending
    play.end("second", unread=(5,))
    assert [play.said[number].status for number in (2, 3, 4, 5)] == ["completed", "waiting", "completed", "active"]
    assert play.heard(5) == ["u:one", "a:first", "u:two", "u:shorter", "a:second", "u:in English"]
    play.start()
    play.end("third")
    assert play.heard(3)[-2:] == ["a:third", "u:later"]
    play.start()
    play.end("fourth")
    with pytest.raises(Conflict, match="begin a branch after 2"):
        play.say("otherwise", after=4)
    assert play.heard(play.say("otherwise", after=2)) == ["u:one", "a:first", "u:two", "u:shorter", "a:second", "u:otherwise"]


def test_what_steers_before_the_run_is_there_is_sent_to_it() -> None:
    play = Play()
    play.say("one")
    play.say("more", "steer")
    assert play.now.is_pending
    play.start()
    assert (play.said[2].run, play.now.steering) == ("run-1", (2,))


def test_what_was_to_steer_an_exchange_that_is_left_is_left_with_it() -> None:
    play = busy()
    play.say("read", "steer")
    play.say("unread", "steer")
    play.say("anew", "rollback")
    assert play.say("then", "steer") == 6
    assert play.now.waiting == (5, 6), "there is nothing to steer any more"
    play.end(None, "cancelled", unread=(4,))
    assert [number for number, each in play.said.items() if each.left] == [2, 3, 4]
    assert play.heard(5) == ["u:one", "a:first", "u:anew"]


def test_a_run_takes_only_so_many_messages() -> None:
    play = busy()
    for _ in range(rule.MAX_STEERING):
        play.say("more", "steer")
    with pytest.raises(Conflict, match="has received 100 messages"):
        play.say("more", "steer")
    with pytest.raises(InvalidInput, match="no model reads"):
        busy().say("a" * rule.MAX_CHARACTERS, "steer")


def test_later_runs_read_the_summary_and_an_earlier_branch_reads_every_message() -> None:
    play = busy()
    play.end("second", summary="once", covers=2, given=3)
    third = play.say("three")
    assert play.heard(third) == ["s:once", "u:two", "a:second", "u:three"]
    play.start()
    play.end("third", summary="twice", covers=2, given=4)
    fourth = play.say("four")
    assert play.heard(fourth) == ["s:twice", "a:second", "u:three", "a:third", "u:four"]
    play.start()
    play.end("fourth", summary="of something else", covers=1, given=2)
    assert play.heard(play.say("five"))[0] == "s:twice"
    play.end("fifth")
    assert play.heard(play.say("otherwise", after=1)) == ["u:one", "a:first", "u:otherwise"]
    play.end("instead")
    assert play.heard(play.say("beside", after=2))[:2] == ["s:once", "u:two"]
    assert [each.text for each in rule.path(play.said, third)] == ["one", "two", "three"], "nothing is lost of it"


def test_a_branch_begins_after_any_exchange_and_the_other_stays() -> None:
    play = busy()
    play.end("second")
    third = play.say("otherwise", after=1)
    assert play.heard(third) == ["u:one", "a:first", "u:otherwise"]
    assert play.heard(2) == ["u:one", "a:first", "u:two"]
    play.end("instead")
    assert play.heard(play.say("and")) == ["u:one", "a:first", "u:otherwise", "a:instead", "u:and"]
    play.end("ok")
    with pytest.raises(NotFound, match="no message 9"):
        play.say("nowhere", after=9)


def test_what_no_model_reads_is_refused_and_so_is_what_waits_behind_it() -> None:
    play = busy()
    third, fourth = play.say("a" * rule.MAX_CHARACTERS), play.say("b")
    play.end("second")
    assert {play.said[third].status, play.said[fourth].status} == {"failed"}
    assert "no model reads" in str(play.said[third].problem)
    assert (play.now.active, play.now.waiting) == (None, ())


@given(st.lists(st.tuples(st.sampled_from(get_args(OnBusy)), st.booleans(), st.booleans(), st.integers(0, 3)), max_size=40))
def test_every_message_is_answered_once_or_refused_in_its_order(moves: list[tuple[OnBusy, bool, bool, int]]) -> None:
    play, accepted = Play(), 0
    for on_busy, ends, lasts, read in moves:
        if ends and play.now.active is not None:
            if play.now.run is None:
                play.start()
            unread = tuple(each.number for each in rule.steering(play.said, play.now.active)[read:])
            play.end("ok", "completed", ("mail",) if lasts else (), unread=unread)
        try:
            play.say("x", on_busy, lasting=("mail",) if lasts else ())
            accepted += 1
        except Conflict:
            assert on_busy == "reject" or (on_busy == "rollback" and lasts) or len(play.now.waiting) >= rule.MAX_WAITING
        assert play.now.said == accepted == len(play.said)
        open_ = [each.number for each in play.said.values() if each.status in ("waiting", "active") and not each.steers]
        assert sorted(open_) == sorted([*play.now.waiting, *([play.now.active] if play.now.active else [])])
    while play.now.active is not None:
        play.start()
        play.end("ok")
    assert all(each.status == "completed" for each in play.said.values())
    for number, each in play.said.items():
        assert each.parent is None or each.parent != number
        assert len({one.number for one in rule.path(play.said, number)}) == len(rule.path(play.said, number))
