"""Reviewers of a gate: the persons and roles whom it asks, who of them may decide, and to whom it may be given.

The names that it compares are not verified. Never here: which decisions a gate takes, what follows from one (gates).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import MAX_AUTHORS, MAX_CONTRIBUTORS, contributors
from holdfast.core.facts.state import OTHERS, State
from holdfast.core.rules.decision import Decision
from holdfast.core.values.actor import Actor, folded, is_among, suffices
from holdfast.core.values.ids import run_of
from holdfast.errors import DecisionRefused, InvalidInput

MAX_REVIEWERS: Final = 100
"""Maximum number of reviewers of an open gate: a longer list would not be read."""


_WHY_UNKNOWN: Final = (
    f"more than {MAX_CONTRIBUTORS} persons did, or more than {MAX_AUTHORS} to its schedule, its conversation or a value that"
    " it has read"
)
_MEND: Final = "start another, of a schedule that was removed and set again, or once one person has written the value again"


# --- Who may decide ---------------------------------------------------------------------------------------------------


def describe_reviewers(opened: ev.GateOpened) -> str:
    """Return whom a gate asks, in words."""
    anyone = f"anyone but {', '.join(opened.not_by)}" if opened.not_by else "anyone"
    return ", ".join(opened.reviewers) or ("anyone who did not ask for the run" if opened.four_eyes else anyone)


def check_person(
    opened: ev.GateOpened,
    name: str | None,
    roles: Iterable[str],
    *,
    of: State | None = None,
    maker: str | None = None,
    kin: Sequence[str] | None = (),
) -> None:
    """Raise DecisionRefused unless the person who decides is among those who are asked and, with four eyes, certainly did not
    ask for the run or contribute to it, as its state `of` it says, nor, as one of `kin`, to a run under way above or
    below. The `maker` of a key or link that is used is held to four eyes too. Names are compared, which nobody has verified."""
    if not (opened.reviewers or opened.four_eyes or opened.not_by or opened.quorum > 1):
        return
    gate = opened.gate
    if not folded(name):
        raise DecisionRefused(
            f"Gate {gate} asks {describe_reviewers(opened)}, so it must be known who decides. It is still open:"
            " say who you are."
        )
    if opened.reviewers and not is_among(opened.reviewers, name, roles):
        raise DecisionRefused(
            f"Gate {gate} asks {describe_reviewers(opened)}, and {name!r} is not among them. It is still open."
            " Decide as one who is, or in a role that is (by=NAME, roles=[ROLE])."
        )
    if opened.not_by and (is_among(opened.not_by, name, ()) or is_among(opened.not_by, maker, ())):
        by_key = "" if is_among(opened.not_by, name, ()) else _by_key(maker)
        raise DecisionRefused(
            f"Gate {gate} asks anyone but {', '.join(opened.not_by)}, and {name!r} cannot decide it. It is still open,"
            f" for another person.{by_key}"
        )
    if not opened.four_eyes:
        _check_not_edited_by(opened, name, maker)
        _check_asked_first(opened, name, roles, maker, of)
        return
    if not folded(opened.requester):
        raise DecisionRefused(
            f"Gate {gate} needs a second pair of eyes, and it is unknown who asked for this run. It is still open, and no"
            f" decision can count: cancel the run (`holdfast runs cancel {run_of(gate)}`) and start it again under the"
            " name of the person who asks for it (by=NAME)."
        )
    if folded(name) == folded(opened.requester):
        raise DecisionRefused(
            f"Gate {gate} needs a second pair of eyes; {name!r} is who asked for the run ({opened.requester!r}) and cannot"
            " decide it. It is still open, for another person."
        )
    if kin is None:
        raise DecisionRefused(
            f"Gate {gate} needs a second pair of eyes, and too many runs are under way above or below this one to know who"
            " contributed to them. It is still open: decide it when fewer are."
        )
    involved = {*map(folded, (opened.requester, *kin, *(opened.contributors if of is None else contributors(of, opened))))}
    if OTHERS in involved:
        raise DecisionRefused(
            f"Gate {gate} needs a second pair of eyes, and not all who contributed to the run are known: {_WHY_UNKNOWN}. It is"
            f" still open, and no decision can count: cancel the run (`holdfast runs cancel {run_of(gate)}`), and {_MEND}."
        )
    for each in (name, maker):
        if folded(each) and folded(each) in involved:
            raise DecisionRefused(
                f"Gate {gate} needs a second pair of eyes; {each!r} contributed to the run (started, edited, resolved,"
                " replayed, signalled or forked it, or answered an earlier question of it with data or a reason, which it has"
                " gone by since) and cannot decide it. It is still open: another person decides it, or it is reassigned to one"
                f" (`holdfast gates reassign {gate} --to NAME`).{'' if each is name else _by_key(maker)}"
            )


def _by_key(maker: str | None) -> str:
    """Return why a key counts as its maker, and what to use instead."""
    return (
        f" The key that is used counts as {maker!r}: as the person who was shown it, or as itself. Decide with a signed token,"
        " or with a key that was made for you (by a program, or with `holdfast keys create --as NAME`)."
    )


def _check_not_edited_by(opened: ev.GateOpened, name: str | None, maker: str | None) -> None:
    """Raise DecisionRefused for a person who has edited what a gate with a quorum shows."""
    for each in (name, maker):
        if folded(each) and folded(each) in map(folded, opened.contributors):
            raise DecisionRefused(
                f"Gate {opened.gate} asks about an edit of {each!r}, who cannot decide it. It is still open, for"
                " another person."
            )


def _check_asked_first(
    opened: ev.GateOpened, name: str | None, roles: Iterable[str], maker: str | None, of: State | None
) -> None:
    """Raise DecisionRefused for a person with a hand in the run whom a gate asks only because it was given to them, in whatever
    name, key or role."""
    if opened.asked_first is None or _asked_at_first(opened, name, roles):
        return
    involved = {*map(folded, (opened.requester, *(() if of is None else contributors(of))))}
    for each in (name, maker):
        if folded(each) and folded(each) in involved:
            raise DecisionRefused(
                f"Gate {opened.gate} was given to {', '.join(opened.reviewers)}, and {each!r}, who asked for the run or"
                " contributed to it, was not asked before. It is still open, for another person."
            )


def makers_of(state: State, names: Iterable[str]) -> tuple[str, ...]:
    """Return those who made the keys with which these have decided something, in the run or in one that it has heard of: a key
    is its maker's hand."""
    return tuple(dict.fromkeys(maker for name in (*names, OTHERS) for maker in state.makers.get(folded(name), ())))


def barred(state: State, opened: ev.GateOpened) -> tuple[str, ...]:
    """Return the names of those who cannot decide an open gate."""
    involved = (opened.requester or "", *contributors(state, opened)) if opened.four_eyes else opened.contributors
    return (*involved, *opened.not_by)


def check_distinct(state: State, opened: ev.GateOpened, by: Actor) -> None:
    """Raise DecisionRefused for a second approval of one person, under whatever key."""
    names = {folded(by.name), folded(by.maker)} - {""}
    for each in state.gates[opened.gate].approvals:
        if not names.isdisjoint({folded(each.by), folded(each.maker)}):
            is_same = folded(by.name) == folded(each.by) or by.maker is None
            raise DecisionRefused(
                f"Gate {opened.gate} needs {opened.quorum} different persons, and {each.by!r} has approved it already. It is"
                f" still open, for another person.{'' if is_same else _by_key(by.maker)}"
            )


def check_somebody_can_decide(d: Decision, c: commands.OpenGate, names: Sequence[str]) -> None:
    """Raise InvalidInput for a question whose reviewers have a part in what it asks about, or are fewer than its quorum."""
    if c.four_eyes and OTHERS in names:
        raise InvalidInput(
            f"This question needs a second pair of eyes, and not all who contributed to the run are known: {_WHY_UNKNOWN}."
            f" No question was asked: {_MEND}."
        )
    those = (*((d.state.by, *names) if c.four_eyes else ()), *c.not_by)
    if c.quorum > 1 and c.reviewers and not suffices(c.reviewers, those, c.quorum):
        raise InvalidInput(
            f"Name {c.quorum} reviewers who may decide: {', '.join(c.reviewers)} can never be {c.quorum} different persons"
            f"{' who did not contribute to the run' if c.four_eyes else ''}. Write one that is a role as role:NAME. No question"
            " was asked."
        )
    if c.four_eyes and c.reviewers and not suffices(c.reviewers, those, 1):
        raise InvalidInput(
            f"Name a reviewer who did not contribute to the run: {', '.join(c.reviewers)} cannot decide a question that needs"
            " a second pair of eyes, because each of them started, edited, resolved, replayed or signalled it, or is"
            " in not_by. No question was asked."
        )


def check_another_can_decide(d: Decision, opened: ev.GateOpened, c: commands.DecideGate) -> None:
    """Raise DecisionRefused for an edit after which none of the reviewers could decide."""
    those = (*barred(d.state, opened), c.by.name, c.by.maker)
    if opened.reviewers and not suffices(opened.reviewers, those, opened.quorum):
        raise DecisionRefused(
            f"Reassign gate {opened.gate} first: what you edit is decided by {opened.quorum} other, and it asks"
            f" {describe_reviewers(opened)}, too few of whom could. It is still open, and nothing was edited."
        )


# --- To whom it is given ----------------------------------------------------------------------------------------------


def check_assigned(state: State, opened: ev.GateOpened, c: commands.AssignGate) -> None:
    """Raise DecisionRefused for a gate that is given to a person who cannot decide it, or by one who is not asked."""
    if c.delegates:
        _check_delegate(opened, c)
    if opened.four_eyes and folded(opened.requester) in map(folded, c.to):
        raise DecisionRefused(
            f"Gate {c.gate} needs a second pair of eyes, and {opened.requester!r} is who asked for the run. It still asks"
            f" {describe_reviewers(opened)}."
        )
    if _is_new(opened, opened.requester, c.to):
        raise DecisionRefused(
            f"Gate {c.gate} is about a run that {opened.requester!r} asked for, and is not given to them. It still asks"
            f" {describe_reviewers(opened)}: name another person."
        )
    others = (*contributors(state, opened), *(c.kin or ()))
    for name in others:
        if folded(name) in map(folded, c.to) and (opened.four_eyes or _is_new(opened, name, c.to)):
            raise DecisionRefused(
                f"Gate {c.gate} is about a run that {name!r} contributed to, and is not given to them. It still asks"
                f" {describe_reviewers(opened)}: name another person."
            )
    involved = {folded(opened.requester), *map(folded, others)}
    acting = next((each for each in (c.by.name, c.by.maker) if folded(each) and folded(each) in involved), None)
    is_theirs = is_among(c.to, c.by.name, c.by.roles) and not _asked_anybody(opened)
    if not c.delegates and acting is not None and is_theirs:
        raise DecisionRefused(
            f"Gate {c.gate} is about a run that {acting!r} asked for or contributed to, and is not given to a role of"
            f" theirs. It still asks {describe_reviewers(opened)}: name another person."
        )
    if any(is_among(opened.not_by, name, ()) for name in c.to):
        raise DecisionRefused(
            f"Gate {c.gate} cannot be decided by {', '.join(opened.not_by)}. It still asks {describe_reviewers(opened)}."
        )


def _check_delegate(opened: ev.GateOpened, c: commands.AssignGate) -> None:
    """Raise DecisionRefused for one who is not asked, and so has nothing to hand on."""
    if not opened.reviewers:
        raise DecisionRefused(f"Gate {c.gate} asks anyone, so there is nothing to hand on: they decide it themselves.")
    if not folded(c.by.name) or not is_among(opened.reviewers, c.by.name, c.roles):
        raise DecisionRefused(
            f"Gate {c.gate} asks {describe_reviewers(opened)}, and {c.by.name or 'an unnamed person'!r} is not among them, so"
            " it is not theirs to hand on. Nothing was changed: a reviewer may give it to others."
        )


def _is_new(opened: ev.GateOpened, name: str | None, to: Sequence[str]) -> bool:
    """Return True if a person who has not been asked is among those who are to be."""
    is_asked = is_among(opened.reviewers, name, ()) or _asked_at_first(opened, name, ())
    return bool(folded(name)) and folded(name) in map(folded, to) and not is_asked


def _asked_at_first(opened: ev.GateOpened, name: str | None, roles: Iterable[str]) -> bool:
    """Return True if a gate asked a person before it was given to others."""
    return _asked_anybody(opened) or is_among(opened.asked_first or (), name, roles)


def _asked_anybody(opened: ev.GateOpened) -> bool:
    """Return True if a gate named no reviewers at first; four eyes and `not_by` hold all the same."""
    return not (opened.reviewers if opened.asked_first is None else opened.asked_first)
