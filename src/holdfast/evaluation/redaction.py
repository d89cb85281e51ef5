"""Takes what is personal out of a record: each value is replaced by another of its kind, the same everywhere in a file.

Secrets are no matter of this: they are never stored. Never here: which fields are personal, but for those of the engine's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import Definition, Node
from holdfast.core.values.actor import ROLE
from holdfast.core.values.payload import Payload, inline
from holdfast.evaluation.rewriting import rewrite
from holdfast.platform.redaction import PersonalData

_PEOPLE: Final = frozenset(
    {
        "asked_first",
        "by",
        "client",
        "contributors",
        "edited_by",
        "maker",
        "makers",
        "not_by",
        "os_user",
        "requester",
        "reviewers",
    }
)
"""Fields of events with names of persons."""
_WORDS: Final = frozenset(
    {"evidence_ids", "form", "key", "keys", "labels", "message", "proposed_action", "reason", "tags", "trace", "words"}
)
"""Fields of events with texts of users. The others have names in code, ids and hashes, by which a replay finds its way."""


class Redaction:
    """Redaction rules for the records of one file. They replace e-mail and IP addresses, telephone, card and account numbers,
    and names of actors.

    Args:
        fields: Names of fields whose whole values are replaced, in any letter case, also where they stand in texts of the run.
    """

    def __init__(self, fields: Collection[str] = ()) -> None:
        self._personal = PersonalData(fields)

    def learn(self, events: Iterable[ev.Event]) -> None:
        """Look for the values of declared fields of a run in all of its texts.

        Args:
            events: Events of the run.
        """
        collected: list[Any] = []
        for event in events:
            rewrite(event, lambda _, value: _collect(value, collected))
        self._personal.learn(*collected)

    def of(self, event: ev.Event) -> ev.Event:
        if isinstance(event, ev.ModelCallHeld):  # a prompt says in words what the input says in fields
            event = msgspec.structs.replace(event, request=None)
        elif isinstance(event, ev.ContributorNamed):
            event = msgspec.structs.replace(event, name=self._person(event.name))
        elif isinstance(event, ev.MakersLearned):
            event = msgspec.structs.replace(event, makers={self._person(name): each for name, each in event.makers.items()})
        return rewrite(event, self._leaf)

    def of_definition(self, definition: Definition) -> Definition:
        """Return the definition of a workflow without the names of the persons whom it asks.

        Args:
            definition: The definition.
        """
        nodes = tuple(self._node(node) for node in definition.nodes)
        rules = tuple(
            msgspec.structs.replace(rule, reviewers=tuple(map(self._person, rule.reviewers))) for rule in definition.tool_rules
        )
        return msgspec.structs.replace(definition, nodes=nodes, tool_rules=rules)

    def _node(self, node: Node) -> Node:
        options = node.options
        if reviewers := options.get("reviewers"):
            options = {**options, "reviewers": [*map(self._person, reviewers)]}
        return msgspec.structs.replace(node, options=options, each=None if node.each is None else self._node(node.each))

    def _person(self, name: str) -> str:
        return name if name.startswith(ROLE) else f"redacted-{self._personal.mark(name)}"

    def _leaf(self, name: str, value: Any) -> Any:
        if isinstance(value, Payload):
            return inline(self._personal.data(value.value()))
        if not isinstance(value, str):
            return self._personal.data(value)
        if name in _PEOPLE and value:
            return self._person(value)
        return self._personal.without(value) if name in _WORDS else value


def _collect(value: Any, collected: list[Any]) -> Any:
    """Note plain data and payloads, and leave them as they are."""
    if isinstance(value, Payload):
        collected.append(value.value())
    elif not isinstance(value, str):
        collected.append(value)
    return value
