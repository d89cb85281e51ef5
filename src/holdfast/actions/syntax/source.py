"""The text of a file as a tree of values with their places: YAML 1.2 as GitHub reads it, within bounds.

The tree is built from the parser's events, so that every bound is checked before anything grows: size, depth, number of
values. An alias stands for the value that it names, which is not copied, but counts as if it were written out: so a bomb is
told before it is lit. Tags are refused, and so are merges, keys that are no text, and keys that stand twice.
Never here: what the values mean.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import msgspec
from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scanner import Scanner, ScannerError

from holdfast.actions.syntax.mistake import Mistakes, Position, quoted

MAX_BYTES: Final = 1024 * 1024
"""A file is read by people and models; what is larger is data and belongs elsewhere."""
MAX_DEPTH: Final = 32
"""The format itself needs eight levels; the rest is for the values of a matrix."""
MAX_VALUES: Final = 50_000
"""Keys and values in all: seconds of reading at the most."""
_MAX_DIGITS: Final = 300
"""A number has no more; what is longer is a text."""

Plain = str | int | float | bool | None


class Scalar(msgspec.Struct, frozen=True):
    """A single value, and the text that stands for it."""

    at: Position
    text: str
    """As the parser reads it: unfolded, without quotes."""
    value: Plain
    """What the text means: the same text, or a number, a boolean, or null where it is written plainly."""
    span: tuple[int, int]
    """From where to where it stands in the source."""


class Sequence(msgspec.Struct, frozen=True):
    at: Position
    items: tuple[Node, ...]


class Entry(msgspec.Struct, frozen=True):
    """A key with its value."""

    key: str
    at: Position
    """Where the key stands."""
    value: Node


class Mapping(msgspec.Struct, frozen=True):
    at: Position
    entries: tuple[Entry, ...]

    def get(self, key: str) -> Node | None:
        return next((entry.value for entry in self.entries if entry.key == key), None)


Node = Scalar | Sequence | Mapping


class Source:
    """A file's text, and what its places are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._line_ends = [match.start() for match in re.finditer("\n", text)]

    def position(self, index: int) -> Position:
        """The place of the `index`-th character, counting from 0."""
        line = bisect.bisect_left(self._line_ends, index)
        return Position(line + 1, index - (self._line_ends[line - 1] if line else -1))

    def place(self, scalar: Scalar, offset: int) -> Position:
        """Return the position in the file of the `offset`-th character of a scalar's text: exact from a `${{` to its line's
        end.

        Unfolding moves characters about, but it leaves every `${{` as it is and in order: the same one is looked for.
        """
        begin, end = scalar.span
        opening = scalar.text.rfind("${{", 0, offset + 3)
        if opening < 0:
            begin += self.text[begin : begin + 1] in ("'", '"')
            is_literal = self.text.startswith(scalar.text, begin)
            return self.position(begin + offset) if is_literal else scalar.at
        place = begin
        for _ in range(scalar.text.count("${{", 0, opening) + 1):
            place = self.text.find("${{", place, end) + 3
            if place < 3:
                return scalar.at
        return self.position(place + offset - opening - 3)


def read(source: Source, mistakes: Mistakes) -> Mapping | None:
    """Return the tree, or None if the text is no YAML within the bounds. Mistakes that can be named are in `mistakes`."""
    text = source.text
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        mistakes.add(
            Position(1, 1),
            "",
            f"the file has more than {MAX_BYTES:,} bytes, the maximum. Move large data into"
            " files or tables that the steps read.",
        )
        return None
    try:
        root = _Builder(source, mistakes).build()
    except _GaveUp:
        return None
    except MarkedYAMLError as problem:
        _broken(problem, mistakes)
        return None
    except ReaderError as problem:
        found = ascii(chr(problem.character) if isinstance(problem.character, int) else problem.character)
        mistakes.add(
            source.position(problem.position),
            "",
            f"the character {found} stands here, which YAML does not allow. Remove it,"
            " or write it with a backslash in double quotes.",
        )
        return None
    except (YAMLError, ValueError, OverflowError) as problem:
        mistakes.add(Position(1, 1), "", f"this is no YAML: {' '.join(str(problem).split())}.")
        return None
    if root is None:
        mistakes.add(Position(1, 1), "", "the file is empty; it needs 'jobs'.", EXAMPLE)
    elif not isinstance(root, Mapping):
        mistakes.add(root.at, "", "a workflow is a mapping of keys such as 'name' and 'jobs'.", EXAMPLE)
    else:
        return root
    return None


EXAMPLE: Final = "name: hello\njobs:\n  greet:\n    runs-on: any\n    steps:\n      - run: echo hello"


class _GaveUp(Exception):
    """A bound was passed; it has been reported."""


class _Open(msgspec.Struct):
    """A collection that is being read."""

    at: Position
    items: list[Node] | None
    """None in a mapping."""
    entries: dict[str, Entry] = {}
    key: tuple[str, Position] | None = None
    path: str = ""
    anchor: str | None = None
    values: int = 0
    """The number of items before it, and of characters."""
    characters: int = 0
    depth: int = 1
    """Its own, with what is in it so far."""


class _Anchored(msgspec.Struct, frozen=True):
    """A value with a name, and what it comes to where it is written out."""

    node: Node
    values: int
    characters: int
    depth: int


class _Builder:
    def __init__(self, source: Source, mistakes: Mistakes) -> None:
        self._source = source
        self._text = source.text
        self._mistakes = mistakes
        self._open: list[_Open] = []
        self._values = 0
        self._characters = 0
        self._anchors: dict[str, _Anchored] = {}
        self._root: Node | None = None
        self._documents = 0

    def build(self) -> Node | None:
        for event in _events(self._text):
            self._take(event)
        return self._root

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._give_up(
                    _position_of(event), "a second document begins here; a file holds one workflow. Remove the '---'."
                )
        elif isinstance(event, events.AliasEvent):
            self._alias(str(event.anchor), _position_of(event))
        elif isinstance(event, events.ScalarEvent):
            self._tag(event)
            self._put(_scalar(event), event.anchor)
        elif isinstance(event, events.CollectionStartEvent):
            self._tag(event)
            self._begin(event)
        elif isinstance(event, events.CollectionEndEvent):
            self._end()

    def _alias(self, name: str, position: Position) -> None:
        """Put the value that is named in the place of its alias. It is counted first, so that nothing grows."""
        known = self._anchors.get(name)
        if known is None:
            inside = any(each.anchor == name for each in self._open)
            why = "it stands inside the value that it names" if inside else "no value before it has that name"
            self._give_up(position, f"write out what {quoted(f'*{name}')} is to stand for, because {why}.")
            return
        self._values += known.values
        self._characters += known.characters
        if self._values > MAX_VALUES or self._characters > MAX_BYTES:
            self._give_up(
                position,
                f"use fewer aliases: with {quoted(f'*{name}')} written out the file has more than {MAX_VALUES:,} keys"
                f" and values, or {MAX_BYTES:,} characters.",
            )
        if len(self._open) + known.depth > MAX_DEPTH:
            self._open = []
            self._give_up(
                position,
                f"with {quoted(f'*{name}')} written out this is nested more than {MAX_DEPTH} levels deep; use fewer levels.",
            )
        self._mistakes.aliases[self._path()] = (name, position)
        inner = self._open[-1] if self._open else None
        if inner is not None and inner.items is None and inner.key is None and isinstance(known.node, Scalar):
            self._key(inner, msgspec.structs.replace(known.node, at=position))
        else:
            self._attach(known.node, known.depth)

    def _name(self, anchor: object, scope: _Anchored) -> None:
        if anchor is not None:
            self._anchors[str(anchor)] = scope

    def _tag(self, event: events.NodeEvent) -> None:
        tag = str(getattr(event, "ctag", None) or getattr(event, "tag", None) or "")
        if not tag or tag == "None":
            return
        told = f"{quoted(tag)} is a YAML tag, which is not allowed."
        if not tag.startswith("!"):
            self._mistakes.add(_position_of(event), self._path(), f"{told} Remove it; texts are written in quotes.")
            return
        # What follows is an anchor to the parser if it begins with '&', and its place that of the whole.
        end = event.end_mark.index
        begin = self._text.rfind(tag, 0, end)
        whole = " ".join(self._text[begin:end].split()) if begin >= 0 else tag
        self._mistakes.add(
            self._source.position(begin) if begin >= 0 else _position_of(event),
            self._path(),
            f"{told} An expression that begins with '!' stands in ${{{{ }}}} or in quotes.",
            self._as_expression(whole),
        )

    def _as_expression(self, text: str) -> str | None:
        """`if: ${{ !cancelled() }}`, where that is short."""
        key = self._open[-1].key if self._open else None
        if len(text) >= _LONGEST_TAG:
            return None
        return f"{key[0]}: ${{{{ {text} }}}}" if key is not None else f"${{{{ {text} }}}}"

    def _begin(self, event: events.CollectionStartEvent) -> None:
        if len(self._open) >= MAX_DEPTH:
            self._open = []  # its path would be as deep
            self._give_up(_position_of(event), f"this is nested more than {MAX_DEPTH} levels deep; use fewer levels.")
        self._count(event)
        mapping = isinstance(event, events.MappingStartEvent)
        anchor = None if event.anchor is None else str(event.anchor)
        self._open.append(
            _Open(
                _position_of(event),
                None if mapping else [],
                {},
                path=self._path(),
                anchor=anchor,
                values=self._values - 1,
                characters=self._characters,
            )
        )

    def _end(self) -> None:
        done = self._open.pop()
        node = Mapping(done.at, tuple(done.entries.values())) if done.items is None else Sequence(done.at, tuple(done.items))
        self._name(done.anchor, _Anchored(node, self._values - done.values, self._characters - done.characters, done.depth))
        self._attach(node, done.depth)

    def _put(self, scalar: Scalar, anchor: object) -> None:
        self._count(scalar)
        self._characters += len(scalar.text)
        self._name(anchor, _Anchored(scalar, 1, len(scalar.text), 0))
        unfit = _UNFIT.search(scalar.text)
        if unfit is not None:
            self._mistakes.add(
                scalar.at, self._path(), f"the text holds {unfit[0]!a}, which no file and no variable can hold; remove it."
            )
        inner = self._open[-1] if self._open else None
        if inner is not None and inner.items is None and inner.key is None:
            self._key(inner, scalar)
        else:
            self._attach(scalar, 0)

    def _key(self, inner: _Open, scalar: Scalar) -> None:
        if scalar.text == "<<":
            self._mistakes.add(
                scalar.at, self._path(), "write the keys out: '<<' merges mappings, which is not allowed, here as on GitHub."
            )
        elif not isinstance(scalar.value, str):
            self._mistakes.add(
                scalar.at,
                self._path(),
                f"the key {scalar.text!r} is a {kind(scalar)}, but keys are texts; put it in quotes.",
                f"'{scalar.text}':",
            )
        inner.key = (scalar.text, scalar.at)

    def _attach(self, node: Node, depth: int) -> None:
        if not self._open:
            self._root = node
            return
        inner = self._open[-1]
        inner.depth = max(inner.depth, depth + 1)
        if inner.items is not None:
            inner.items.append(node)
        elif inner.key is None:
            self._mistakes.add(node.at, self._path(), f"a key is a text, not a {kind(node)}.")
            inner.key = ("?", node.at)
        else:
            key, at = inner.key
            inner.key = None
            # As GitHub has it, keys that differ in case only are the same.
            first = inner.entries.setdefault(key.lower(), Entry(key, at, node))
            if first.at != at:
                self._mistakes.add(
                    at,
                    below(inner.path, key),
                    f"the key {quoted(key)} stands twice, first in line {first.at.line}; remove one or give it another name.",
                )

    def _count(self, node: Scalar | events.Event) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            at = node.at if isinstance(node, Scalar) else _position_of(node)
            self._give_up(
                at,
                f"the file has more than {MAX_VALUES:,} keys and values. Split it into several workflows, or use a"
                " matrix instead of many jobs that are alike.",
            )

    def _path(self) -> str:
        if not self._open:
            return ""
        inner = self._open[-1]
        if inner.items is not None:
            return f"{inner.path}[{len(inner.items)}]"
        return below(inner.path, inner.key[0]) if inner.key is not None else inner.path

    def _give_up(self, position: Position, message: str) -> None:
        self._mistakes.add(position, self._path(), message)
        raise _GaveUp


def below(path: str, key: str) -> str:
    """The path of a key in what stands at `path`."""
    return f"{path}.{key}" if path else key


def kind(node: Node) -> str:
    """Return the kind of a value, in a word."""
    if isinstance(node, Mapping):
        return "mapping"
    if isinstance(node, Sequence):
        return "list"
    match node.value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case None:
            return "null"
        case _:
            return "text"


def data(node: Node) -> object:
    """The value as JSON has it."""
    if isinstance(node, Mapping):
        return {entry.key: data(entry.value) for entry in node.entries}
    return [data(item) for item in node.items] if isinstance(node, Sequence) else node.value


_UNFIT: Final = re.compile("[\0\ud800-\udfff]")
"""NUL, and halves of characters: they can be written in double quotes, and nowhere else."""
_LONGEST_TAG: Final = 200


class _Scanner(Scanner):
    """Refuses early what is refused anyway, and would take the scanner quadratic time: directives and endless tags."""

    def scan_tag(self) -> Any:
        ahead = self.reader.prefix(_LONGEST_TAG)
        if len(ahead) == _LONGEST_TAG and not re.search(r"\s", ahead):
            self._refuse(f"a tag of more than {_LONGEST_TAG} characters")
        return super().scan_tag()

    def scan_directive(self) -> Any:
        return self._refuse("a directive, which is not allowed; remove the line that begins with '%'")

    def _refuse(self, problem: str) -> NoReturn:
        raise ScannerError(None, None, f"found {problem}", self.reader.get_mark())


def _events(text: str) -> Iterator[events.Event]:
    parser = YAML(typ="safe", pure=True)
    parser.Scanner = _Scanner
    yield from parser.parse(text)


def _position_of(event: events.Event) -> Position:
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)


def _scalar(event: events.ScalarEvent) -> Scalar:
    plain = event.style is None or event.style == ""
    value = _resolve_scalar(event.value) if plain else event.value
    return Scalar(_position_of(event), event.value, value, (event.start_mark.index, event.end_mark.index))


_NULL: Final = {"", "~", "null", "Null", "NULL"}
_BOOLEAN: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+\Z|0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_INFINITE: Final = re.compile(r"([-+]?)\.(inf|Inf|INF)\Z")
_NO_NUMBER: Final = {".nan", ".NaN", ".NAN"}


def _resolve_scalar(text: str) -> Plain:
    """The core schema of YAML 1.2: `on`, `yes` and `no` are texts, `010` is ten."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if len(text) > _MAX_DIGITS:
        return text
    if _INTEGER.match(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.match(text):
        return float(text)
    if found := _INFINITE.match(text):
        return math.copysign(math.inf, -1.0 if found[1] == "-" else 1.0)
    return math.nan if text in _NO_NUMBER else text


_HINTS: Final = (
    ("found character '\\t'", "YAML is indented with spaces; replace the tab."),
    ("mapping values are not allowed here", "A text with ': ' in it stands in quotes or below a '|'."),
    ("found unknown escape character", "In double quotes a backslash is written '\\\\'; in single quotes it stands alone."),
    ("while scanning an anchor", "A text that begins with '&' or '*' stands in quotes."),
    ("while scanning an alias", "A text that begins with '&' or '*' stands in quotes."),
    ("found character '@'", "A text that begins with '@' or '`' stands in quotes."),
    ("found character '`'", "A text that begins with '@' or '`' stands in quotes."),
    ("found unexpected end of stream", "A quote is not closed."),
    ("expected ',' or", "A '[' or '{' is not closed, or a text with special characters needs quotes."),
    ("expected <block end>", "The lines of one mapping or list are indented alike."),
    ("could not find expected ':'", "A key is followed by ': '; a text of several lines stands below a '|'."),
)


def _broken(problem: MarkedYAMLError, mistakes: Mistakes) -> None:
    mark = problem.problem_mark or problem.context_mark
    at = Position(mark.line + 1, mark.column + 1) if mark is not None else Position(1, 1)
    said = "; ".join(" ".join(str(part).split()) for part in (problem.context, problem.problem) if part)
    hint = next((f" {hint}" for part, hint in _HINTS if part in said), "")
    mistakes.add(at, "", f"this is no YAML: {said}.{hint}")
