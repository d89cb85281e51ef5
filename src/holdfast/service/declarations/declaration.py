"""A command or query is declared once, on its class: its answer, where HTTP has it, a grant, the things that it is about. One
that declares nothing cannot be served: what serves it does not import.

    @command("POST /schedules/{name}/backfill", "operator", about={"name": Thing.SCHEDULE}, repeats=True)
    class Backfill(Command["Rows[view.BackfilledRow]"], frozen=True): ...

An answer is named in quotes: rows are made of what an engine loads, and a client must not wait for that.

Never here: whose a thing is (ownership), refusing a caller (permission), doing it (handler).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, get_args

import msgspec
from typing_extensions import TypeVar

from holdfast.core.values.access import GRANTS, Grant

_Kind = TypeVar("_Kind", bound=type[msgspec.Struct])
Row = TypeVar("Row", default=Any)
Result = TypeVar("Result", default=Any)


class Rows(NamedTuple, Generic[Row]):
    """Some rows of a list, and where it goes on; `cursor` is None at its end."""

    rows: list[Row]
    cursor: str | None


class Command(msgspec.Struct, Generic[Result], frozen=True):
    """Something to do, and its answer: None, a row, some rows, or `RunStatusRow` for the run as it stands afterwards."""


class Query(msgspec.Struct, Generic[Row], frozen=True):
    """Something to find out, and the row that answers it."""


class ListQuery(Query[Row], frozen=True):
    """A list to find out, and its row; it is answered in pages."""


class Answer(Enum):
    """The kind of an answer, as the description of the API names it."""

    PAGE = "A page of a list, and where it goes on."
    ROW = "The row."
    RUN = "The run, as it stands afterwards."
    NOTHING = "Done."


class Subject(Enum):
    """A kind of thing that belongs to a tenant, and mostly to a workflow of it."""

    RUN = "a run"
    FAILED = "a run, with the tools whose calls it failed of"
    GATE = "a gate of a run"
    GATES = "gates of the run that another field names"
    TOOL_CALL = "the call of a tool"
    MODEL_CALL = "the call of a model"
    LETTER = "a dead letter of a run"
    WORKFLOW = "a workflow, to start runs of it"
    RUNS = "all runs of a workflow"
    SCHEDULE = "a schedule"
    CONVERSATION = "a conversation"
    SUPERVISOR = "a supervisor"
    EVALUATION = "an evaluation"
    APPROVAL = "a standing approval"
    KEY = "a key"
    DELIVERY = "a delivery of a notification"
    TOOLS = "the tools whose names fit a pattern"


class GeneralSubject(Enum):
    """The subject of a command or query that names no thing."""

    TENANT = "what a tenant has as a whole: for a caller who reaches all of its workflows"
    ROWS = "a list: each row says which workflow it is about"
    COUNTS = "what the fleet shares: a caller who acts for a tenant is given its own rows, and counts of the others"
    FLEET = "what the fleet shares: for a caller who acts for every tenant"


class Declaration(NamedTuple):
    """The declaration of one command or query. It is `at` these routes of the HTTP API (`GET /runs/{run}`). A caller needs one
    of the `grants`, and those that the fields of `also` take if they are given. `about` maps each field that names a thing
    to its kind; the one that `makes` names may be a new one. `whole` is the subject if no field names a thing; in a list the
    field `rows` of a row names its workflow, its workflows or its run, or with `reach` the patterns of those that it
    reaches."""

    at: tuple[str, ...]
    grants: tuple[Grant, ...]
    about: Mapping[str, Subject]
    whole: GeneralSubject
    is_command: bool
    answers: Answer = Answer.NOTHING
    answer: tuple[str, ...] = ()
    """The rows of `service.view` that are answered: several where it is one of them."""
    rows: str = ""
    also: Mapping[str, Grant] = {}
    makes: str = ""
    repeats: bool = False
    """True where the same command again comes to what it came to once: it sets something, or is refused where it was done."""
    names: tuple[str, ...] = ()
    """The fields of which the audit log names the first that is given; by default those of `about`."""
    key: str = ""
    """The field by which the engine knows the same command again."""
    any_tool: Mapping[str, tuple[str, ...]] = {}
    """Fields and values with which a command decides about calls of tools that are not looked up."""
    reach: bool = False
    ends: bool = True
    """False for a list that goes on for ever."""
    offers: bool = False
    """True for a list of code: a caller sees what they may start."""
    creates: bool = False
    """True where something new is answered with."""
    keeps: bool = True
    """False where the answer is not kept to be given again: it holds a secret, or is large."""
    beyond: str = ""
    """The field with which a list about a thing has rows of others too: then a caller sees those that they reach."""
    runs: str = ""
    """The field of a row that holds rows of runs: a caller sees those of the workflows that they reach."""
    tag: str = ""
    """The row that a precondition (`If-Match`) is about, as the path at which it is read."""


_DECLARED: Final[dict[type[msgspec.Struct], Declaration]] = {}


def command(
    at: str, *grants: Grant, about: Mapping[str, Subject] = {}, whole: GeneralSubject = GeneralSubject.TENANT, **more: Any
) -> Callable[[_Kind], _Kind]:
    """Declare a command: its route (`POST /runs`), the grants of which a caller needs one, and more (`Declaration`). Raises
    TypeError for what means nothing."""
    more["repeats"] = more.get("repeats", False) or bool(more.get("key"))
    return _declaring(at=(at,), grants=grants, about=about, whole=whole, is_command=True, **more)


def query(
    at: str | tuple[str, ...],
    *grants: Grant,
    about: Mapping[str, Subject] = {},
    whole: GeneralSubject = GeneralSubject.TENANT,
    rows: str = "",
    **more: Any,
) -> Callable[[_Kind], _Kind]:
    """The same for a query, which may have several routes. A list names its `rows`."""
    whole = GeneralSubject.ROWS if rows else whole
    at = (at,) if isinstance(at, str) else at
    return _declaring(at=at, grants=grants, about=about, whole=whole, is_command=False, rows=rows, **more)


def declaration_of(kind: type) -> Declaration:
    """Return what a command or query takes. Raises TypeError for one that does not declare it."""
    found = _DECLARED.get(kind)
    if found is None:
        raise TypeError(f"Declare what {kind.__name__} takes, with @command or @query: without that no caller may use it.")
    return found


def declared() -> Mapping[type[msgspec.Struct], Declaration]:
    """Return every command and query with what it takes."""
    return dict(_DECLARED)


def _answered(kind: type[msgspec.Struct]) -> tuple[Answer, tuple[str, ...]]:
    """Return how a command or query is answered, and with which rows, as its base says."""
    base = next(iter(getattr(kind, "__orig_bases__", ())), kind)
    (argument, *_) = get_args(base) or [Any]
    if argument is Any:
        raise TypeError(f'Name the answer of {kind.__name__} in its base, like Command["view.RunRow"] or Command[None].')
    words = getattr(argument, "__forward_arg__", "")
    rows = tuple(_ROW.findall(words))
    if issubclass(kind, ListQuery) or words.startswith("Rows["):
        return Answer.PAGE, rows
    return Answer.RUN if rows == ("RunStatusRow",) else Answer.ROW if rows else Answer.NOTHING, rows


_ROW: Final = re.compile(r"view\.(\w+)")


def _declaring(**declared: Any) -> Callable[[_Kind], _Kind]:
    def declare(kind: _Kind) -> _Kind:
        declaration = Declaration(**declared)
        named = filter(None, [declaration.makes, declaration.key, *declaration.names])
        fields = {*declaration.about, *declaration.also, *declaration.any_tool, *named, *filter(None, [declaration.beyond])}
        if unknown := sorted(fields - {*kind.__struct_fields__}):
            raise TypeError(f"{kind.__name__} has no field {unknown[0]!r} that could name something.")
        if not declaration.grants or not {*declaration.grants, *declaration.also.values()} <= {*GRANTS}:
            raise TypeError(f"{kind.__name__} takes one grant at least, of: {', '.join(GRANTS)}.")
        names = declaration.names or (*declaration.about,)
        if declaration.is_command and kind.__struct_fields__ and not names:
            raise TypeError(f"{kind.__name__} names nothing for the audit log: declare a field, in `about` or in `names`.")
        answers, answer = _answered(kind)
        _DECLARED[kind] = declaration._replace(answers=answers, answer=answer, names=names)
        return kind

    return declare
