"""Validators: what a draft must keep to before it goes on, checked by rules that no model can talk round.

Each is made of functions that say what of the run's state it looks at, and finds what is wrong in words. The five kinds are
those of "Agent Workflow Orchestration" §7.5. They look at words: none of them knows whether a sentence is true.
Never here: a model call, what becomes of a run whose check fails (the graph says it).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel, ValidationError

from holdfast.authoring.node import NodeDefinition, check
from holdfast.authoring.values.arguments import describe
from holdfast.authoring.values.view import StateView
from holdfast.core.values import schema as schemas
from holdfast.errors import InvalidInput, UsageError

Look: TypeAlias = Callable[[StateView], Any]
"""Selects the part of a run that a validator checks."""
Validator: TypeAlias = Callable[[StateView], Iterable[str]]
"""Yields a sentence for each fault of a run."""

RISKS: Final = ("low", "medium", "high", "critical")
DEFAULT_SUPPORT: Final = 0.5
"""Share of a claim's words that its evidence must have."""
_SHORTEST_WORD: Final = 4
_STEM: Final = 5
"""Letters of a word that are compared, so that an ending makes no difference."""
_MAX_FINDINGS: Final = 20
"""Maximum number of findings that one check reports."""
_MAX_QUOTED: Final = 80
_MARK: Final = re.compile(r"\s*\[([\w.:/-]+(?:\s*[,;]\s*[\w.:/-]+)*)\]")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?!\[)|\n+")
_WORD: Final = re.compile(r"\w+(?:[.,]\d+)*")
_LOOK_ALIKES: Final = str.maketrans("авеікмнорстухѕјԁɡαβεηικνορτυχ0134@$", "abeikmhopctyxsjdgabenikvoptuxoieaas")
"""Letters of other alphabets, and figures, that pass for Latin ones."""


class Claim(NamedTuple):
    """One sentence of a draft, and the evidence that the draft names for it."""

    text: str
    evidence_ids: tuple[str, ...]


def validated(*validators: Validator) -> NodeDefinition:
    """A `check` that passes where none of `validators` finds anything: `wf.node("validate")(validated(citation(...), ...))`.
    Its reason has what they found. Where it does not pass it goes back along a loop, or fails, as any check."""
    if not validators:
        raise UsageError("A check of no validators would let everything pass; give it at least one.")

    def validate(state: StateView) -> tuple[bool, str | None]:
        found = [finding for validator in validators for finding in validator(state)]
        more = [f"and {len(found) - _MAX_FINDINGS} more"] if len(found) > _MAX_FINDINGS else []
        return not found, " ".join([*found[:_MAX_FINDINGS], *more]) or None

    return check(validate)


def claims(draft: Any) -> list[Claim]:
    """The claims of a draft: of a text its sentences, which name evidence in brackets (`[policy-7, case-2]`); or those of a
    list of objects with `text` and `evidence_ids`. Raises InvalidInput."""
    if isinstance(draft, str):
        sentences = [part.strip() for part in _SENTENCE.split(draft)]
        found = [
            Claim(_MARK.sub("", each).strip(), tuple(id_ for mark in _MARK.findall(each) for id_ in _ids(mark)))
            for each in sentences
        ]
        return [claim for claim in found if _WORD.search(claim.text)]
    if isinstance(draft, Sequence):
        return [Claim(str(_of(each, "text")), tuple(map(str, _of(each, "evidence_ids") or ()))) for each in draft]
    raise InvalidInput(f"A draft is a text, or a list of claims with `text` and `evidence_ids`, not {type(draft).__name__}.")


def citation(draft: Look, evidence: Look, *, required: bool = True) -> Validator:
    """Each piece of evidence that the draft names is there, and with `required` each claim names one."""

    def find(state: StateView) -> Iterator[str]:
        known = _evidence(evidence(state))
        for claim in claims(draft(state)):
            if required and not claim.evidence_ids:
                yield f"{_quoted(claim)} names no evidence."
            for id_ in claim.evidence_ids:
                if id_ not in known:
                    yield f"{_quoted(claim)} names the evidence {id_!r}, which is not there."

    return find


def grounding(draft: Look, evidence: Look, *, support: float = DEFAULT_SUPPORT) -> Validator:
    """The words of each claim come from the evidence that it names, or, where it names none, from any: each of its numbers, and
    at least the part `support` of its other words of four letters and more, compared by their first five.

    This shows where a claim's words come from. It does not notice that a claim denies what its evidence says.
    """
    if not 0 < support <= 1:
        raise UsageError(f"support={support!r}: it is the part of a claim's words, above 0 and at most 1.")

    def find(state: StateView) -> Iterator[str]:
        known = _evidence(evidence(state))
        for claim in claims(draft(state)):
            named = [known[id_] for id_ in claim.evidence_ids if id_ in known] if claim.evidence_ids else known.values()
            numbers, words = _words(claim.text)
            there_numbers, there = _words(" ".join(named))
            if missing := sorted(numbers - there_numbers):
                yield f"{_quoted(claim)} says {', '.join(missing)}, which its evidence does not."
            elif words and len(words & there) < support * len(words):
                yield f"{_quoted(claim)} is not supported: {len(words & there)} of its {len(words)} words are in its evidence."

    return find


def schema(value: Look, shape: type[BaseModel] | Mapping[str, Any]) -> Validator:
    """It fits a Pydantic model, or a JSON Schema. Raises UsageError for a schema that nothing can be held against."""
    if isinstance(shape, Mapping) and (flaw := schemas.flaw(shape)) is not None:
        raise UsageError(f"This is no JSON Schema that can be used: {flaw}.")

    def find(state: StateView) -> Iterator[str]:
        given = value(state)
        if isinstance(shape, Mapping):
            yield from (f"{problem}." for problem in schemas.problems(shape, given))
            return
        try:
            shape.model_validate(given)
        except ValidationError as problem:
            yield f"It does not fit {shape.__name__}: {describe(problem)}."

    return find


def risk(text: Look, declared: Look, words: Mapping[str, Sequence[str]]) -> Validator:
    """The risk that is declared is at least the one that the words of `text` call for:
    `words={"high": ["sanction"], "critical": ["delete evidence"]}`. A risk that is none of low, medium, high, critical is found
    too. Raises UsageError for words of a risk that is none."""
    wanted = {level: _phrases(words[level]) for level in words if _rank(level) is not None}
    if unknown := [level for level in words if level not in wanted]:
        raise UsageError(f"There is no risk {unknown[0]!r}; a risk is one of {', '.join(RISKS)}.")

    def find(state: StateView) -> Iterator[str]:
        said = declared(state)
        rank = _rank(said)
        if rank is None:
            yield f"The risk is {said!r}, and no such is known; it is one of {', '.join(RISKS)}."
            return
        plain = _normal(text(state))
        for level, phrases in wanted.items():
            if rank < RISKS.index(level):
                yield from (
                    f"It says {phrase!r}, which is of {level} risk, and is declared as {RISKS[rank]}."
                    for phrase in _named_in(plain, phrases)
                )

    return find


def prohibited_action(text: Look, actions: Sequence[str]) -> Validator:
    """It names none of `actions`, however it is written: capitals, signs between the words, accents, invisible characters and
    letters of other alphabets that look the same make no difference. Another wording of the same is not noticed: what must
    not happen is not among the node's tools."""
    phrases = _phrases(actions)

    def find(state: StateView) -> Iterator[str]:
        yield from (f"It names the prohibited action {phrase!r}." for phrase in _named_in(_normal(text(state)), phrases))

    return find


def _of(claim: Any, name: str) -> Any:
    return claim.get(name) if isinstance(claim, Mapping) else getattr(claim, name, None)


def _ids(mark: str) -> list[str]:
    return re.split(r"\s*[,;]\s*", mark)


def _evidence(value: Any) -> dict[str, str]:
    """Return the known evidence by its id. An object is taken as it is; each item of a list has an `evidence_id` and a
    `summary`."""
    if isinstance(value, Mapping):
        return {str(id_): str(text) for id_, text in value.items()}
    return {str(_of(each, "evidence_id")): str(_of(each, "summary") or "") for each in value or ()}


def _quoted(claim: Claim) -> str:
    text = claim.text
    return f"'{text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + '…'}'"


def _words(text: str) -> tuple[set[str], set[str]]:
    """The numbers of a text, and the beginnings of its longer words."""
    found = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    numbers = {word for word in found if any(sign.isdigit() for sign in word)}
    return numbers, {word[:_STEM] for word in found if word not in numbers and len(word) >= _SHORTEST_WORD}


def _rank(level: Any) -> int | None:
    level = getattr(level, "value", level)
    return RISKS.index(level) if level in RISKS else None


def _phrases(phrases: Sequence[str]) -> dict[str, str]:
    """Each phrase as it is looked for, and as it was given. Raises UsageError for one of no letters."""
    if isinstance(phrases, str) or not all(map(_normal, phrases)):
        raise UsageError(f"{phrases!r:.200}: give a list of phrases, each with letters in it.")
    return {_normal(each): each for each in phrases}


def _named_in(plain: str, phrases: Mapping[str, str]) -> Iterator[str]:
    return (given for phrase, given in phrases.items() if f" {phrase} " in f" {plain} ")


def _normal(value: Any) -> str:
    """A text as one line of plain Latin letters and figures, a blank between two words."""
    text = value if isinstance(value, str) else str(value)
    text = "".join(sign for sign in unicodedata.normalize("NFKD", text) if unicodedata.category(sign) not in ("Mn", "Cf"))
    return " ".join(re.findall(r"[^\W_]+", text.casefold().translate(_LOOK_ALIKES)))
