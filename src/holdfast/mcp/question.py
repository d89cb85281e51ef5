"""A gate as a form that a client shows its person (elicitation), and the decision that the filled form makes.

A form of the protocol is flat: texts, numbers, booleans and choices. Data of another shape is given as JSON text.
Never here: the protocol's messages, who may decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidInput
from holdfast.service.declarations.command import Decide

_FLAT: Final = frozenset({"string", "number", "integer", "boolean"})
_DECISION, _REASON, _DATA = "decision", "reason", "data"
_MAX_SHOWN: Final = 4_000
"""Characters of what a gate shows that a form's text has."""


def key_of(gate: Mapping[str, Any]) -> str:
    """Return the name of the question. It has the hash of what the gate shows: an answer to something else is no answer."""
    return f"gate-{gate['shown_hash']}"


def words_of(gate: Mapping[str, Any]) -> str:
    """Return the question as the person reads it: what it is about, of which run, and what it shows."""
    title = gate["title"] or gate["proposed_action"] or gate["reason"]
    shown = msgspec.json.format(msgspec.json.encode(gate["shown"]), indent=2).decode()
    if len(shown) > _MAX_SHOWN:
        shown = f"{shown[:_MAX_SHOWN]}\n… {len(shown) - _MAX_SHOWN} more characters: holdfast gates show {gate['gate_id']}"
    parts = [title, f"Workflow {gate['workflow']}, run {gate['run_id']}", shown]
    nexts = ((each["decision"], ", ".join(each["nodes"])) for each in gate["consequences"])
    parts += [f"{decision}: the run goes on to {nodes}" for decision, nodes in nexts if nodes]
    return "\n\n".join(parts)


def form_of(gate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the form."""
    properties: dict[str, Any] = {_DECISION: {"type": "string", "enum": list(gate["allowed"]), "title": "Decision"}}
    fields = _fields_of(gate)
    if fields is None:
        expected = "a text, or JSON" if gate["form"] is None else f"JSON that fits {_shortened(gate['form'])}"
        properties[_DATA] = {"type": "string", "title": "Data", "description": f"What the decision brings: {expected}."}
    else:
        properties |= fields
    properties[_REASON] = {"type": "string", "title": "Reason", "description": "Kept in the history; may be empty."}
    return {"type": "object", "properties": properties, "required": [_DECISION]}


def decision_of(gate: Mapping[str, Any], content: Mapping[str, Any]) -> Decide:
    """Return the decision of a filled form, about what the gate showed. Raises InvalidInput."""
    decision = content.get(_DECISION)
    if not isinstance(decision, str):
        raise InvalidInput("The form has no decision. The gate is still open.")
    fields = _fields_of(gate)
    data: Any = msgspec.UNSET
    if fields is None:
        if text := content.get(_DATA):
            data = _data_of(gate, text)
    elif given := {name: content[name] for name in fields if content.get(name) not in (None, "")}:
        data = given
    if decision == "reject":
        data = msgspec.UNSET
    reason = content.get(_REASON)
    return Decide(gate["gate_id"], decision, data, reason if isinstance(reason, str) and reason else None, gate["shown_hash"])


def _fields_of(gate: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of the gate's own form; none if it asks for no data, None if a flat form cannot have them."""
    form = gate["form"]
    if form is None:
        return None if {"answer", "edit"} & {*gate["allowed"]} else {}
    properties = form.get("properties") if isinstance(form, Mapping) else None
    if not isinstance(properties, Mapping) or {_DECISION, _REASON} & properties.keys():
        return None
    if any(not isinstance(each, Mapping) or each.get("type") not in _FLAT for each in properties.values()):
        return None
    return {name: dict(each) for name, each in properties.items()}


def _data_of(gate: Mapping[str, Any], text: Any) -> Any:
    """Return the data that a person has written as text: JSON, or a text if the gate takes anything. Raises InvalidInput."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, TypeError) as problem:
        if gate["form"] is None and isinstance(text, str):
            return text
        raise InvalidInput(f"The data is not JSON: {problem}. The gate is still open.") from None


def _shortened(form: Any) -> str:
    return msgspec.json.encode(form).decode()[:_MAX_SHOWN]
