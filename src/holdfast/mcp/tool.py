"""The tools: which command or query each is, with the fields that a model may give.

Never here: the protocol, carrying a command out.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Final

import msgspec

from holdfast.errors import InvalidInput
from holdfast.service.declarations import command, field, query
from holdfast.service.declarations.declaration import Command, declaration_of

MAX_WAIT_S: Final = 50
"""The longest that one call waits for a run: clients give a call up after a minute."""
_REF: Final = "#/$defs/{name}"


class FollowRun(msgspec.Struct, frozen=True):
    """Wait until a run has ended or waits for a person, for a while at most, and show how it stands then. Call it again while
    the run is still running."""

    run: field.RunId
    wait_s: Annotated[int, msgspec.Meta(description="Maximum seconds to wait.", ge=0, le=MAX_WAIT_S)] = 20


class ValidateWorkflow(msgspec.Struct, frozen=True):
    """Check the text of a YAML workflow and list every mistake with its line. Starts nothing."""

    yaml: Annotated[str, msgspec.Meta(description="Text of the workflow file.")]


class Tool:
    """One tool: a command or query of the service, or one of the two above."""

    def __init__(self, kind: type[msgspec.Struct], *fields: str, about: str = "") -> None:
        """`fields` are those that a model may give, all if none is named; `about` takes the place of the kind's own words."""
        self.kind = kind
        self.fields = fields or kind.__struct_fields__
        self.about = " ".join((about or inspect.getdoc(kind) or "").split())

    @property
    def is_command(self) -> bool:
        """True if it changes something."""
        return issubclass(self.kind, Command)

    @property
    def is_repeatable(self) -> bool:
        """True if a repeated call changes nothing more."""
        return not self.is_command or declaration_of(self.kind).repeats

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        _, shapes = msgspec.json.schema_components([self.kind], ref_template=_REF)
        own = shapes.pop(self.kind.__name__)
        fields = {name: own["properties"][name] for name in self.fields}
        found = {
            "type": "object",
            "properties": fields,
            "required": [name for name in own.get("required", ()) if name in fields],
            "additionalProperties": False,
        }
        named = msgspec.json.encode(fields).decode()
        return found | ({"$defs": shapes} if _REF.format(name="") in named else {})

    def message(self, arguments: Mapping[str, Any]) -> Any:
        """Return the command or query that the arguments make. Raises InvalidInput."""
        if unknown := sorted(arguments.keys() - {*self.fields}):
            allowed = ", ".join(self.fields) or "none"
            raise InvalidInput(f"The tool takes no argument {unknown[0]!r:.80}; it takes: {allowed}. Nothing was done.")
        try:
            return msgspec.convert(arguments, self.kind)
        except msgspec.ValidationError as problem:
            raise InvalidInput(f"The arguments do not fit the tool: {problem}. Nothing was done.") from None


_TERMS: Final = ("input", "key", "cost_limit_usd", "max_tokens", "tags", "labels", "tenant")

TOOLS: Final[Mapping[str, Tool]] = {
    "start_run": Tool(
        command.Start,
        "workflow",
        "version",
        *_TERMS,
        about="Start a run of a workflow that a process serves. Give a `key` so that a repeated call starts nothing twice.",
    ),
    "submit_workflow": Tool(
        command.Start,
        "yaml",
        *_TERMS,
        about="Start a run of a YAML workflow from its text. Check the text with validate_workflow first.",
    ),
    "validate_workflow": Tool(ValidateWorkflow),
    "list_workflows": Tool(query.Workflows),
    "list_runs": Tool(query.Runs, "status", "workflow", "parent", "prefix", "tenant", "cursor", "limit"),
    "show_run": Tool(query.Run),
    "follow_run": Tool(FollowRun),
    "explain_run": Tool(query.Explanation),
    "signal_run": Tool(command.Signal),
    "list_gates": Tool(query.Gates, "run", "tenant", "cursor", "limit"),
    "show_gate": Tool(query.Gate),
    "decide_gate": Tool(
        command.Decide,
        about="Decide a gate of a run. A client that supports elicitation shows it to the person, who decides. Otherwise pass"
        " the decision that the person has given you.",
    ),
}
"""The tools by their names, in the order in which they are listed."""
