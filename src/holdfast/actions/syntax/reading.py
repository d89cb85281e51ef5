"""The tree of a file read by the table of keys: values where it is right, a mistake for everything that is not.

A value that is wrong is told and left out; reading goes on, so that all mistakes are found at once.
Never here: what one part of the file says about another.
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
from holdfast.actions.syntax.mistake import Mistakes, Position, listed, meant, quoted
from holdfast.actions.syntax.source import Entry, Mapping, Node, Scalar, Sequence, Source, kind

_STATUS: Final = frozenset(function.name for function in STATUS)
_UNIT: Final = re.compile(r"([0-9]{1,12})\s*([A-Za-z]{1,3})\Z")

Path = tuple[str | int, ...]


class Named(msgspec.Struct, frozen=True):
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


class Reading:
    """One file being read."""

    def __init__(self, source: Source, mistakes: Mistakes) -> None:
        self.source = source
        self.mistakes = mistakes
        self.uses: list[Use] = []

    def wrong(self, at: Position, path: Path, message: str, example: str | None = None, kind: str = "") -> None:
        self.mistakes.add(at, dotted(path), message, example, kind)

    def read(self, wanted: Kind, node: Node, path: Path) -> Any:
        """Return the value as the table reads it; None if it is wrong, which is then reported."""
        match wanted:
            case Text():
                return self._text(wanted, node, path)
            case If():
                return self._condition(wanted, node, path)
            case Number():
                return self._number(wanted, node, path)
            case Boolean():
                return self._boolean(wanted, node, path)
            case Choice():
                return self._choice(wanted, node, path)
            case ListOf():
                return self._list(wanted, node, path)
            case MapOf():
                return self._map(wanted, node, path)
            case Object():
                return self._object(wanted, node, path)
            case Either():
                return self.read(wanted.mapping if isinstance(node, Mapping) else wanted.scalar, node, path)
            case Data():
                return self._data(wanted, node, path)
            case _ as never:
                assert_never(never)

    # --- Single values --------------------------------------------------------------------------------------------

    def _text(self, wanted: Text, node: Node, path: Path) -> Template | None:
        if not isinstance(node, Scalar):
            self._other(node, path, wanted.words)
            return None
        text = to_text(node.value)
        if not text.strip() and not wanted.may_be_empty:
            self._other(node, path, wanted.words if wanted.pattern else f"{wanted.words} that is not empty")
            return None
        template = self._template(node, text, path, wanted.contexts)
        if template is None or template.expressions or wanted.pattern is None:
            return template
        if not re.fullmatch(wanted.pattern, text):
            self._other(node, path, wanted.words)
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
                    f"{quoted(reading.context)} is no context.{meant(name, RUNNING)} Here an expression may read"
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

    def _condition(self, wanted: If, node: Node, path: Path) -> Condition | None:
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
        self._check_names(condition.names, node, path, wanted.contexts, status=True)
        return condition

    def _number(self, wanted: Number, node: Node, path: Path) -> int | float | str | Template | None:
        words = _number_words(wanted)
        if not isinstance(node, Scalar):
            self._other(node, path, words)
            return None
        if wanted.contexts and "${{" in node.text:
            return self._single(node, path, wanted.contexts)
        if wanted.word is not None and node.text == wanted.word:
            return wanted.word
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._with_unit(wanted, node, path, words)
            return None
        whole = isinstance(value, int) or (math.isfinite(value) and value == int(value))
        inside = wanted.minimum < value if wanted.is_above else wanted.minimum <= value
        if (wanted.is_whole and not whole) or not inside or not value <= wanted.maximum:
            self._other(node, path, words)
            return None
        return int(value) if wanted.is_whole else value

    def _with_unit(self, wanted: Number, node: Scalar, path: Path, words: str) -> None:
        """`2000m`, `8GB`, `10m`: what its writer meant is plain."""
        found = _UNIT.match(node.text)
        factor = dict(wanted.units).get(found[2].lower()) if found else None
        if found is None or factor is None:
            self._other(node, path, words)
        else:
            self._other(node, path, f"{words}, without a unit", f"{path[-1]}: {int(found[1]) * factor}")

    def _boolean(self, wanted: Boolean, node: Node, path: Path) -> bool | Template | None:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        if isinstance(node, Scalar) and wanted.contexts and "${{" in node.text:
            return self._single(node, path, wanted.contexts)
        self._other(node, path, f"true or false{', or an expression' if wanted.contexts else ''}")
        return None

    def _single(self, node: Scalar, path: Path, contexts: tuple[str, ...]) -> Template | None:
        template = self._template(node, node.text, path, contexts)
        if template is not None and not template.is_single:
            self._other(node, path, "one expression and nothing beside it", f"{path[-1]}: ${{{{ inputs.{path[-1]} }}}}")
            return None
        return template

    def _choice(self, wanted: Choice, node: Node, path: Path) -> str | None:
        words = " or ".join(f"'{word}'" for word in wanted.words)
        if not isinstance(node, Scalar):
            self._other(node, path, words)
            return None
        if node.text not in wanted.words:
            self._other(node, path, f"{words}{'.' if (near := meant(node.text, wanted.words)) else ''}{near.rstrip('.')}")
            return None
        return node.text

    # --- Collections ----------------------------------------------------------------------------------------------

    def _list(self, wanted: ListOf, node: Node, path: Path) -> tuple[Any, ...] | None:
        if wanted.takes_one and isinstance(node, Scalar):
            one = self.read(wanted.item, node, path)
            return None if one is None else (one,)
        if isinstance(node, Mapping) and wanted.no_mapping:
            self.wrong(node.at, path, f"a mapping is not supported here: {wanted.no_mapping}.")
            return None
        if not isinstance(node, Sequence):
            self._other(node, path, "a list" if not wanted.takes_one else "a text or a list of texts")
            return None
        if not node.items:
            self._other(node, path, "a list that is not empty")
            return None
        if len(node.items) > wanted.most:
            self.wrong(node.at, path, f"the list has {len(node.items):,} entries; {wanted.most:,} are allowed.")
        found = (self.read(wanted.item, item, (*path, number)) for number, item in enumerate(node.items[: wanted.most]))
        return tuple(item for item in found if item is not None)

    def _map(self, wanted: MapOf, node: Node, path: Path) -> tuple[Named, ...] | None:
        if not isinstance(node, Mapping):
            self._other(node, path, f"a mapping of names, each with {_short(wanted.value)}", wanted.example)
            return None
        if not node.entries:
            self._other(node, path, "a mapping that is not empty", wanted.example)
            return None
        if len(node.entries) > wanted.most:
            self.wrong(
                node.at,
                path,
                f"there are {len(node.entries):,} entries; {wanted.most:,} are allowed. Use a matrix for what is"
                " alike, or several workflows.",
            )
        found = []
        for entry in node.entries[: wanted.most]:
            inner = (*path, entry.key)
            if not re.fullmatch(wanted.pattern, entry.key):
                near = re.sub(r"[^A-Za-z0-9_]", "_", entry.key)[:100]
                near = near if re.match(r"[A-Za-z_]", near) else f"_{near}"
                self.wrong(
                    entry.at,
                    inner,
                    f"{quoted(entry.key)} cannot be the name of {wanted.what}; such a name {wanted.words}.",
                    f"{near}:" if re.fullmatch(wanted.pattern, near) else None,
                )
            value = self.read(wanted.value, entry.value, inner)
            if value is not None:
                found.append(Named(entry.key, entry.at, value))
        return tuple(found)

    def _object(self, wanted: Object, node: Node, path: Path) -> Section | None:
        if not isinstance(node, Mapping):
            self._other(node, path, f"{wanted.what}: a mapping with {listed(each.key for each in wanted.fields)}")
            return None
        values: dict[str, Any] = {}
        known = {each.key: each for each in wanted.fields}
        present = {entry.key for entry in node.entries}
        # A step with 'uses' lacks 'run', and has 'with', because its writer knows GitHub: one thing to mend, not three.
        refused = present & set(wanted.refused) & {USES}
        for entry in node.entries:
            if entry.key in known:
                values[entry.key] = self.read(known[entry.key].kind, entry.value, (*path, entry.key))
            elif not (refused and entry.key in BESIDE_USES):
                self._unknown(wanted, entry, (*path, entry.key))
        for each in wanted.fields:
            if each.is_required and each.key not in present and not refused:
                self._missing(wanted, each, node, path)
        return Section(node, path, values)

    def _unknown(self, wanted: Object, entry: Entry, path: Path) -> None:
        known = [each.key for each in wanted.fields]
        why = wanted.refused.get(entry.key)
        if why is not None:
            self.wrong(entry.at, path, f"{entry.key!r} is not supported: {why}.")
        elif entry.key.lower() == "true" and "on" in wanted.refused:
            self.wrong(entry.at, path, f"'on' is not supported: {wanted.refused['on']}.")
        else:
            self.wrong(
                entry.at,
                path,
                f"{quoted(entry.key)} is no key of {wanted.what}.{meant(entry.key, known)} It has {listed(known)}.",
            )

    def _missing(self, wanted: Object, each: Field, node: Mapping, path: Path) -> None:
        self.wrong(node.at, path, f"{wanted.what} needs {each.key!r}.", each.example)

    def _data(self, wanted: Data, node: Node, path: Path) -> Any:
        """JSON data, with a template in the place of each text that has an expression in it."""
        if isinstance(node, Mapping):
            return {entry.key: self._data(wanted, entry.value, (*path, entry.key)) for entry in node.entries}
        if isinstance(node, Sequence):
            return [self._data(wanted, item, (*path, number)) for number, item in enumerate(node.items)]
        if "${{" in node.text:
            return self._template(node, node.text, path, wanted.contexts)
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


def _number_words(wanted: Number) -> str:
    bounds = f"above {wanted.minimum:,} up" if wanted.is_above else f"from {wanted.minimum:,}"
    word = f" or {wanted.word!r}" if wanted.word is not None else ""
    expression = f"{word} or an expression" if wanted.contexts else word
    return f"a {'whole ' if wanted.is_whole else ''}number {bounds} to {wanted.maximum:,}{expression}"


def _short(wanted: Kind) -> str:
    match wanted:
        case Object():
            return f"{listed(each.key for each in wanted.fields)}"
        case Number():
            return "a number"
        case _:
            return "a value"
