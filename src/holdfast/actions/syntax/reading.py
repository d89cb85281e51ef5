"""The tree of a file read by the table of keys: values where it is right, a mistake for everything that is not.

A wrong value is reported and left out; reading goes on, so that all mistakes are found at once. Never here: what one part of
the file says about another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping as Lookup
from typing import Any, Final, assert_never

import msgspec

from holdfast.actions.expressions import Condition, ExpressionError, Names, Template, to_text
from holdfast.actions.expressions.function import STATUS
from holdfast.actions.syntax.keys import (
    ABSENT,
    BESIDE_USES,
    RUNNING,
    USES,
    Boolean,
    Choice,
    Data,
    Either,
    Field,
    If,
    Kind,
    ListOf,
    MapOf,
    Number,
    Object,
    Text,
)
from holdfast.actions.syntax.mistake import Mistakes, Position, listed, quoted, suggestion
from holdfast.actions.syntax.source import Entry, Mapping, Node, Scalar, Sequence, Source, kind

_STATUS: Final = frozenset(function.name for function in STATUS)
_UNIT: Final = re.compile(r"([0-9]{1,12})\s*([A-Za-z]{1,3})\Z")

Path = tuple[str | int, ...]


class NamedEntry(msgspec.Struct, frozen=True):
    """An entry of a mapping whose keys are the user's own."""

    name: str
    at: Position
    value: Any


class Use(msgspec.Struct, frozen=True):
    """The names that the expressions of one text read, and the place of the text."""

    names: Names
    scalar: Scalar
    path: Path


class Section:
    """A mapping with known keys that has been read: what was right of it."""

    def __init__(self, node: Mapping, path: Path, values: Lookup[str, Any]) -> None:
        self.node = node
        self.path = path
        self._values = values

    def get(self, key: str, otherwise: Any = None) -> Any:
        found = self._values.get(key)
        return otherwise if found is None else found

    def at(self, key: str) -> Position:
        """Return the position of the key, or of the section's beginning if the key is not there."""
        return next((entry.at for entry in self.node.entries if entry.key == key), self.node.at)

    def value_at(self, key: str) -> Position:
        """Return the position of the key's value, or of the section's beginning if there is none."""
        found = self.node.get(key)
        return self.node.at if found is None else found.at


def dotted(path: Path) -> str:
    """`jobs.build.steps[2].run`"""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".")


class EntryReader:
    """One file being read."""

    def __init__(self, source: Source, mistakes: Mistakes) -> None:
        self.source = source
        self.mistakes = mistakes
        self.uses: list[Use] = []

    def wrong(self, position: Position, path: Path, message: str, example: str | None = None, kind: str = "") -> None:
        self.mistakes.add(position, dotted(path), message, example, kind)

    def read(self, schema: Kind, node: Node, path: Path) -> Any:
        """Return the value as the table reads it; None if it is wrong, which is then reported."""
        match schema:
            case Text():
                return self._text(schema, node, path)
            case If():
                return self._condition(schema, node, path)
            case Number():
                return self._number(schema, node, path)
            case Boolean():
                return self._boolean(schema, node, path)
            case Choice():
                return self._choice(schema, node, path)
            case ListOf():
                return self._list(schema, node, path)
            case MapOf():
                return self._map(schema, node, path)
            case Object():
                return self._object(schema, node, path)
            case Either():
                return self.read(schema.mapping if isinstance(node, Mapping) else schema.scalar, node, path)
            case Data():
                return self._data(schema, node, path)
            case _ as never:
                assert_never(never)

    # --- Single values --------------------------------------------------------------------------------------------

    def _text(self, schema: Text, node: Node, path: Path) -> Template | None:
        if not isinstance(node, Scalar):
            self._other(node, path, schema.words)
            return None
        text = to_text(node.value)
        if not text.strip() and not schema.may_be_empty:
            self._other(node, path, schema.words if schema.pattern else f"{schema.words} that is not empty")
            return None
        template = self._template(node, text, path, schema.contexts)
        if template is None or template.expressions or schema.pattern is None:
            return template
        if not re.fullmatch(schema.pattern, text):
            self._other(node, path, schema.words)
            return None
        return template

    def _template(self, node: Scalar, text: str, path: Path, contexts: tuple[str, ...]) -> Template | None:
        """The text with its expressions, each of which reads only what is known at this place."""
        try:
            template = Template.parse(text)
        except ExpressionError as problem:
            self.wrong(self.source.place(node, problem.offset), path, problem.message)
            return None
        if template.expressions and not contexts:
            self.wrong(
                self.source.place(node, text.find("${{")),
                path,
                f"an expression stands here, in {quoted(text)}; write the value itself, because it must be known before"
                " anything runs.",
            )
            return None
        self._check_names(template.names, node, path, contexts)
        return template

    def _check_names(self, names: Names, node: Scalar, path: Path, contexts: tuple[str, ...], *, status: bool = False) -> None:
        """Tell what is read or called here and is not there."""
        for reading in names.readings:
            name = reading.context.lower()
            if name in contexts:
                continue
            at = self.source.place(node, reading.offset)
            if name in ABSENT:
                self.wrong(
                    at,
                    path,
                    f"{reading.context!r} is not there: {ABSENT[name]}. There is: {listed(contexts)}.",
                    kind=f"context {name}",
                )
            elif name not in RUNNING:
                self.wrong(
                    at,
                    path,
                    f"{quoted(reading.context)} is no context.{suggestion(name, RUNNING)} Here an expression may read"
                    f" {listed(contexts)}; texts stand in single quotes.",
                )
            else:
                self.wrong(at, path, f"{reading.context!r} is not known here; an expression may read {listed(contexts)}.")
        for call in names.calls:
            if call.function in _STATUS and not status:
                self.wrong(
                    self.source.place(node, call.offset),
                    path,
                    f"{call.function}() may be called in 'if' only; here, ask for a result: needs.JOB.result, or"
                    " steps.ID.outcome.",
                )
        if names.readings:
            self.uses.append(Use(names, node, path))

    def _condition(self, schema: If, node: Node, path: Path) -> Condition | None:
        if not isinstance(node, Scalar):
            self._other(node, path, "a condition", "if: needs.build.result == 'success'")
            return None
        try:
            # Not what a text says: `null`, however it is written, is no condition, and `True` is true.
            plain = node.value is None or isinstance(node.value, bool)
            condition = Condition.parse(to_text(node.value) if plain else node.text)
        except ExpressionError as problem:
            self.wrong(self.source.place(node, problem.offset), path, problem.message)
            return None
        if condition.is_text:
            whole = " ".join(node.text.replace("${{", " ").replace("}}", " ").split())
            self.wrong(
                node.at,
                path,
                f"{quoted(node.text)} is a text with an expression in it, and a text is always true. Write the whole"
                " condition as one expression.",
                f"if: {whole}",
            )
            return None
        self._check_names(condition.names, node, path, schema.contexts, status=True)
        return condition

    def _number(self, schema: Number, node: Node, path: Path) -> int | float | str | Template | None:
        words = _number_words(schema)
        if not isinstance(node, Scalar):
            self._other(node, path, words)
            return None
        if schema.contexts and "${{" in node.text:
            return self._single(node, path, schema.contexts)
        if schema.word is not None and node.text == schema.word:
            return schema.word
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._with_unit(schema, node, path, words)
            return None
        whole = isinstance(value, int) or (math.isfinite(value) and value == int(value))
        inside = schema.minimum < value if schema.is_above else schema.minimum <= value
        if (schema.is_whole and not whole) or not inside or not value <= schema.maximum:
            self._other(node, path, words)
            return None
        return int(value) if schema.is_whole else value

    def _with_unit(self, schema: Number, node: Scalar, path: Path, words: str) -> None:
        """`2000m`, `8GB`, `10m`: what its writer meant is plain."""
        found = _UNIT.match(node.text)
        factor = dict(schema.units).get(found[2].lower()) if found else None
        if found is None or factor is None:
            self._other(node, path, words)
        else:
            self._other(node, path, f"{words}, without a unit", f"{path[-1]}: {int(found[1]) * factor}")

    def _boolean(self, schema: Boolean, node: Node, path: Path) -> bool | Template | None:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        if isinstance(node, Scalar) and schema.contexts and "${{" in node.text:
            return self._single(node, path, schema.contexts)
        self._other(node, path, f"true or false{', or an expression' if schema.contexts else ''}")
        return None

    def _single(self, node: Scalar, path: Path, contexts: tuple[str, ...]) -> Template | None:
        template = self._template(node, node.text, path, contexts)
        if template is not None and not template.is_single:
            self._other(node, path, "one expression and nothing beside it", f"{path[-1]}: ${{{{ inputs.{path[-1]} }}}}")
            return None
        return template

    def _choice(self, schema: Choice, node: Node, path: Path) -> str | None:
        words = " or ".join(f"'{word}'" for word in schema.words)
        if not isinstance(node, Scalar):
            self._other(node, path, words)
            return None
        if node.text not in schema.words:
            self._other(node, path, f"{words}{'.' if (near := suggestion(node.text, schema.words)) else ''}{near.rstrip('.')}")
            return None
        return node.text

    # --- Collections ----------------------------------------------------------------------------------------------

    def _list(self, schema: ListOf, node: Node, path: Path) -> tuple[Any, ...] | None:
        if schema.takes_one and isinstance(node, Scalar):
            one = self.read(schema.item, node, path)
            return None if one is None else (one,)
        if isinstance(node, Mapping) and schema.no_mapping:
            self.wrong(node.at, path, f"a mapping is not supported here: {schema.no_mapping}.")
            return None
        if not isinstance(node, Sequence):
            self._other(node, path, "a list" if not schema.takes_one else "a text or a list of texts")
            return None
        if not node.items:
            self._other(node, path, "a list that is not empty")
            return None
        if len(node.items) > schema.most:
            self.wrong(node.at, path, f"the list has {len(node.items):,} entries; {schema.most:,} are allowed.")
        found = (self.read(schema.item, item, (*path, number)) for number, item in enumerate(node.items[: schema.most]))
        return tuple(item for item in found if item is not None)

    def _map(self, schema: MapOf, node: Node, path: Path) -> tuple[NamedEntry, ...] | None:
        if not isinstance(node, Mapping):
            self._other(node, path, f"a mapping of names, each with {_short(schema.value)}", schema.example)
            return None
        if not node.entries:
            self._other(node, path, "a mapping that is not empty", schema.example)
            return None
        if len(node.entries) > schema.most:
            self.wrong(
                node.at,
                path,
                f"there are {len(node.entries):,} entries; {schema.most:,} are allowed. Use a matrix for what is"
                " alike, or several workflows.",
            )
        found = []
        for entry in node.entries[: schema.most]:
            inner = (*path, entry.key)
            if not re.fullmatch(schema.pattern, entry.key):
                near = re.sub(r"[^A-Za-z0-9_]", "_", entry.key)[:100]
                near = near if re.match(r"[A-Za-z_]", near) else f"_{near}"
                self.wrong(
                    entry.at,
                    inner,
                    f"{quoted(entry.key)} cannot be the name of {schema.what}; such a name {schema.words}.",
                    f"{near}:" if re.fullmatch(schema.pattern, near) else None,
                )
            value = self.read(schema.value, entry.value, inner)
            if value is not None:
                found.append(NamedEntry(entry.key, entry.at, value))
        return tuple(found)

    def _object(self, schema: Object, node: Node, path: Path) -> Section | None:
        if not isinstance(node, Mapping):
            self._other(node, path, f"{schema.what}: a mapping with {listed(each.key for each in schema.fields)}")
            return None
        values: dict[str, Any] = {}
        known = {each.key: each for each in schema.fields}
        present = {entry.key for entry in node.entries}
        # A step with 'uses' lacks 'run', and has 'with', because its writer knows GitHub: one thing to mend, not three.
        refused = present & set(schema.refused) & {USES}
        for entry in node.entries:
            if entry.key in known:
                values[entry.key] = self.read(known[entry.key].kind, entry.value, (*path, entry.key))
            elif not (refused and entry.key in BESIDE_USES):
                self._unknown(schema, entry, (*path, entry.key))
        for each in schema.fields:
            if each.is_required and each.key not in present and not refused:
                self._missing(schema, each, node, path)
        return Section(node, path, values)

    def _unknown(self, schema: Object, entry: Entry, path: Path) -> None:
        known = [each.key for each in schema.fields]
        why = schema.refused.get(entry.key)
        if why is not None:
            self.wrong(entry.at, path, f"{entry.key!r} is not supported: {why}.")
        elif entry.key.lower() == "true" and "on" in schema.refused:
            self.wrong(entry.at, path, f"'on' is not supported: {schema.refused['on']}.")
        else:
            self.wrong(
                entry.at,
                path,
                f"{quoted(entry.key)} is no key of {schema.what}.{suggestion(entry.key, known)} It has {listed(known)}.",
            )

    def _missing(self, schema: Object, each: Field, node: Mapping, path: Path) -> None:
        self.wrong(node.at, path, f"{schema.what} needs {each.key!r}.", each.example)

    def _data(self, schema: Data, node: Node, path: Path) -> Any:
        """JSON data, with a template in the place of each text that has an expression in it."""
        if isinstance(node, Mapping):
            return {entry.key: self._data(schema, entry.value, (*path, entry.key)) for entry in node.entries}
        if isinstance(node, Sequence):
            return [self._data(schema, item, (*path, number)) for number, item in enumerate(node.items)]
        if "${{" in node.text:
            return self._template(node, node.text, path, schema.contexts)
        if isinstance(node.value, float) and not math.isfinite(node.value):
            return Template.parse(f"${{{{ {to_text(node.value)} }}}}")  # JSON has no such number; expressions have
        return node.value

    def _other(self, node: Node, path: Path, words: str, example: str | None = None) -> None:
        """Tell what was found and what is allowed."""
        if isinstance(node, Scalar):
            found = f"the {kind(node)} {quoted(node.text)}" if node.text else "nothing"
        else:
            found = f"a {kind(node)}"
        self.wrong(node.at, path, f"found {found}; allowed is {words}.", example or None)


def _number_words(schema: Number) -> str:
    bounds = f"above {schema.minimum:,} up" if schema.is_above else f"from {schema.minimum:,}"
    word = f" or {schema.word!r}" if schema.word is not None else ""
    expression = f"{word} or an expression" if schema.contexts else word
    return f"a {'whole ' if schema.is_whole else ''}number {bounds} to {schema.maximum:,}{expression}"


def _short(schema: Kind) -> str:
    match schema:
        case Object():
            return f"{listed(each.key for each in schema.fields)}"
        case Number():
            return "a number"
        case _:
            return "a value"
