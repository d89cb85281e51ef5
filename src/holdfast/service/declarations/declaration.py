"""What a command or query takes, declared once on its class: where HTTP has it, a grant, the things that it is about, how it is
answered. One that declares nothing cannot be served: what serves it does not import.

    @command("POST /schedules", "operator", about={"name": Thing.SCHEDULE, "workflow": Thing.WORKFLOW}, makes="name")
    class SetSchedule(Command, frozen=True): ...

Never here: whose a thing is (ownership), refusing somebody (permission), doing it (handler).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from holdfast.core.values.access import GRANTS, Grant

_Kind = TypeVar("_Kind", bound=type[msgspec.Struct])


class Command(msgspec.Struct, frozen=True):
    """Something to do."""


class Query(msgspec.Struct, frozen=True):
    """Something to find out."""


class Answer(Enum):
    """What comes back, as the description of the API says it."""

    PAGE = "A page of a list, and where it goes on."
    ROW = "The row."
    RUN = "The run, as it stands afterwards."
    NOTHING = "Done."


class Thing(Enum):
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
    TOOLS = "the tools whose names fit a pattern"


class Whole(Enum):
    """What a command or query is about that names no thing."""

    TENANT = "what a tenant has as a whole: for a caller who reaches all of its workflows"
    ROWS = "a list: each row says which workflow it is about"
    COUNTS = "what the fleet shares: a caller who acts for a tenant is given its own rows, and counts of the others"
    FLEET = "what the fleet shares: for a caller who acts for every tenant"


class Declaration(NamedTuple):
    """What one command or query takes. It is `at` these routes of the HTTP API (`GET /runs/{run}`). A caller needs one of the
    `grants`, and those that the fields of `also` take where they are given. `about` says which field names which thing; the
    one that `makes` names may be a new one. `whole` is what it is about where no field names a thing; in a list the field
    `rows` of a row names its workflow, its workflows or its run, or with `reach` the patterns of those that it reaches."""

    at: tuple[str, ...]
    grants: tuple[Grant, ...]
    answers: Answer
    about: Mapping[str, Thing]
    whole: Whole
    is_command: bool
    rows: str = ""
    also: Mapping[str, Grant] = {}
    makes: str = ""
    repeats: bool = False
    """True where the same command again comes to what it came to once: it sets something, or is refused where it was done."""
    key: str = ""
    """The field by which the engine knows the same command again."""
    any_tool: Mapping[str, tuple[str, ...]] = {}
    """The fields and values with which a command decides about calls of tools that nobody looks up."""
    reach: bool = False
    ends: bool = True
    """False for a list that goes on for ever."""
    offers: bool = False
    """True for a list of code: a caller sees what they may start."""
    creates: bool = False
    """True where something new is answered with."""
    keeps: bool = True
    """False where the answer is not kept to be given again: it holds a secret, or is large."""
    runs: str = ""
    """The field of a row that holds rows of runs: a caller sees those of the workflows that they reach."""
    tag: str = ""
    """The row that a precondition (`If-Match`) is about, as the path at which it is read."""


_DECLARED: Final[dict[type[msgspec.Struct], Declaration]] = {}


def command(
    at: str,
    *grants: Grant,
    about: Mapping[str, Thing] = {},
    whole: Whole = Whole.TENANT,
    answers: Answer = Answer.NOTHING,
    **more: Any,
) -> Callable[[_Kind], _Kind]:
    """Declare a command: its route (`POST /runs`), the grants of which a caller needs one, and more (`Declaration`). Raises
    TypeError for what means nothing."""
    more["repeats"] = more.get("repeats", False) or bool(more.get("key"))
    return _declaring(Declaration((at,), grants, answers, about, whole, True, **more))


def query(
    at: str | tuple[str, ...],
    *grants: Grant,
    about: Mapping[str, Thing] = {},
    whole: Whole = Whole.TENANT,
    answers: Answer = Answer.PAGE,
    rows: str = "",
    **more: Any,
) -> Callable[[_Kind], _Kind]:
    """The same for a query, which may have several routes. A list names its `rows`."""
    whole = Whole.ROWS if rows else whole
    return _declaring(Declaration((at,) if isinstance(at, str) else at, grants, answers, about, whole, False, rows, **more))


def doc(text: str) -> msgspec.Meta:
    """Return a field's description, as OpenAPI shows it: `name: Annotated[str, doc("Name of the schedule.")]`."""
    return msgspec.Meta(description=text)


def declaration_of(kind: type) -> Declaration:
    """Return what a command or query takes. Raises TypeError for one that does not declare it."""
    found = _DECLARED.get(kind)
    if found is None:
        raise TypeError(f"Declare what {kind.__name__} takes, with @command or @query: without that nobody may use it.")
    return found


def declared() -> Mapping[type[msgspec.Struct], Declaration]:
    """Return every command and query with what it takes."""
    return dict(_DECLARED)


def _declaring(declaration: Declaration) -> Callable[[_Kind], _Kind]:
    def declare(kind: _Kind) -> _Kind:
        named = filter(None, [declaration.makes, declaration.key])
        fields = {*declaration.about, *declaration.also, *declaration.any_tool, *named}
        if unknown := sorted(fields - {*kind.__struct_fields__}):
            raise TypeError(f"{kind.__name__} has no field {unknown[0]!r} that could name something.")
        if not declaration.grants or not {*declaration.grants, *declaration.also.values()} <= {*GRANTS}:
            raise TypeError(f"{kind.__name__} takes one grant at least, of: {', '.join(GRANTS)}.")
        _DECLARED[kind] = declaration
        return kind

    return declare
