"""A noun of the command line, as data: its list, its sheet and its verbs, whose options are the fields of a command or query.

    KEYS = Noun("keys")
    KEYS.list(query.Keys, Column("name", 10), Column("made", of=lambda row: row["made_at"][:10]))
    KEYS.verb("revoke", command.RevokeKey, says="Revoked key {name}.")

A field's name, type and default make the option, and its description the help. A verb that takes more than its fields stays a
function of its own, in the noun's `app`. Never here: a word about one noun.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import typer

from holdfast.cli import completion, option, reference
from holdfast.cli.connect import backend, listing, typed
from holdfast.cli.group import Group
from holdfast.cli.page import moment, table, terminal
from holdfast.cli.page.table import Column
from holdfast.cli.page.typed_input import json_value, resolve_actor
from holdfast.errors import InvalidInput, UsageError
from holdfast.service.declarations import field, query
from holdfast.service.declarations.declaration import Answer, declaration_of

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend
    from holdfast.service.declarations.query import View
    from holdfast.service.principal import Principal

_SHARED: Final[Mapping[Any, Any]] = {
    field.Tenant: option.Tenant,
    field.OfTenant: option.OfTenant,
    field.Cursor: option.After,
    field.Limit: option.PageLimit,
    field.Reason: option.Reason,
    field.Agent: option.Agent,
    field.TeamBudget: option.TeamBudget,
}
"""Options of fields that many commands have, in the words of the command line."""
_FIND: Final = {
    "run": reference.run_id,
    "evaluation": reference.evaluation,
    "letter": reference.letter,
    "approval": reference.approval,
    "delivery": reference.delivery,
}
"""Fields that a person may give by the beginning of an id."""
_AFTER: Final[Mapping[Any, Any]] = {
    **dict.fromkeys((query.Gates, query.Effects, query.DeadLetters), reference.after),
    query.Deliveries: reference.delivery,
}
"""Lists that go on after an id whose beginning is enough."""
_OF_UNIT: Final = {"usd": "USD", "s": "SECONDS", "ms": "TIME", "tokens": "N"}
_UNIX_MS: Final = "in Unix milliseconds"
_A_TIME: Final = "like 2026-11-21, or 3d for three days ago"

_OFFERED: Final = {"run": completion.runs, "gate": completion.gates}
"""Fields of which a shell completes the ids."""


class Caller(NamedTuple):
    """The caller of a command, the store it is for, and whether the answer is JSON."""

    by: Principal
    store: str | None
    as_json: bool


def _caller(by: str | None, as_json: bool, store: str | None, role: Sequence[str] | None = None) -> Caller:
    return Caller(resolve_actor(by, role), store, as_json)


_EXTRAS: Final[Mapping[str, Any]] = {"by": option.Who, "role": option.Roles, "dry_run": option.DryRun}
"""Options of verbs that are no fields."""
_BY: Final = {"by": (option.Who, None)}
_ANSWER: Final = {"as_json": (option.AsJson, False), "store": (option.Store, None)}
Signed: TypeAlias = Annotated[Caller, Group(_caller, **_BY, **_ANSWER)]
"""The caller of a command that is signed."""
SignedInRoles: TypeAlias = Annotated[Caller, Group(_caller, **_BY, role=(option.Roles, None), **_ANSWER)]
"""The same where roles count."""


Show: TypeAlias = Callable[[Any], None]
Deed: TypeAlias = "Callable[[Any, Caller], Awaitable[View]]"


class ArgumentSpec(NamedTuple):
    """The form in which a field is typed: an argument (`NAME`) or an option (`--input/-i JSON`), from the `least` to the `most`
    number. `read` makes the field's value of what was typed, a text or a `kind`; `help` replaces the field's description. One
    that is `needed` has to be typed, though the field has a default; or else `absent`, a flag and its help, in its place."""

    spelt: str = ""
    least: float | None = None
    most: float | None = None
    kind: Any = None
    read: Callable[[str], Any] | None = None
    help: str = ""
    needed: bool = False
    absent: tuple[str, str] | None = None


MANY: Final = ArgumentSpec("--limit N", 1, 10_000, help="Maximum number of rows.")
"""How much is listed at most where rows are small: several pages of the service."""


class Noun:
    """The commands of one noun. A verb without an answer of its own answers with the row of the query `row`, on `sheet`."""

    def __init__(self, name: str, row: Any = None, sheet: Show | None = None) -> None:
        self.name = name
        self.app = typer.Typer(no_args_is_help=True)
        self._row = row
        self._sheet: Show = sheet or _nothing

    def list(
        self,
        kind: Any,
        *columns: Column,
        name: str = "list",
        words: Mapping[str, str | ArgumentSpec] = {},
        every: bool = False,
        only: str = "",
        about: str = "",
        sparse: bool = False,
        without: str = "",
    ) -> None:
        """Add a command that prints rows: as many as `--limit` says and how to go on, or with `every` all of them. With `only`,
        the JSON of a row is that field. Where rows are `sparse`, the columns that are empty in all of them are left out;
        `without` is the sentence for no row."""
        taken = fields_of(kind, {**words, **({"cursor": "", "limit": ""} if every else {})})

        def run(as_json: bool, store: str | None, **value: Any) -> None:
            page = asyncio.run(_list(kind, taken, value, every, store))
            if as_json:
                terminal.emit([row[only] for row in page.rows] if only else page.rows)
            elif without and not page.rows:
                terminal.say(without)
            else:
                rows = page.rows
                full = [each for each in columns if not sparse or any(each.cell(row) != "-" for row in rows)]
                table.show_rows(full, rows)
            if page.cursor is not None:
                again = [each for one in taken for each in one.retyped(value[one.name])]
                terminal.say(f"There are more: {typed(self.name, name, *again, '--after', page.cursor, store=store)}")

        self._add(name, about or kind, run, taken)

    def show(
        self,
        name: str = "show",
        kind: Any = None,
        sheet: Show | None = None,
        *,
        words: Mapping[str, str | ArgumentSpec] = {},
        about: str = "",
    ) -> None:
        """Add a command that shows the row of a query on a sheet; by default the noun's."""
        kind = kind or self._row
        taken = fields_of(kind, words)

        def run(as_json: bool, store: str | None, **value: Any) -> None:
            self.print(asyncio.run(_row(kind, taken, value, store)), as_json, sheet)

        self._add(name, about or kind, run, taken)

    def verb(
        self,
        name: str,
        kind: Any,
        *,
        words: Mapping[str, str | ArgumentSpec] = {},
        about: str = "",
        says: str | Show | None = None,
        done: str = "",
        signed: bool = False,
        roles: bool = False,
        make: bool = False,
        deed: Deed | None = None,
        quotes: bool = False,
        negative: bool = False,
    ) -> None:
        """Add a command that does something, `signed` by who says it, and says so: a sentence with fields of its row, or all of
        the row. Without a row it is `done`. One that may come before the first run can `make` the store. A `deed` does it in
        place of the service. One that `quotes` has a dry run, of the run that its field `run` names; with `negative` an
        argument may be -1, which is no option."""
        taken = fields_of(kind, words)
        wanted = {"by": signed, "role": roles, "dry_run": quotes}
        extras = {name: _EXTRAS[name] for name, is_wanted in wanted.items() if is_wanted}

        def run(
            as_json: bool,
            store: str | None,
            by: str | None = None,
            role: Sequence[str] = (),
            dry_run: bool = False,
            **value: Any,
        ) -> None:
            caller = Caller(resolve_actor(by, role), store, as_json)
            if dry_run:
                asyncio.run(_quote(kind, name, taken, value, caller))
                return
            work = _do(kind, taken, value, None if done else self._row, caller, make=make, deed=deed)
            try:
                found = asyncio.run(work)
            except InvalidInput as problem:
                raise _in_options(problem, taken) from None
            self.print({**found, done: True} if done else found, as_json, says)

        self._add(name, about or kind, run, taken, extras, negative=negative)

    def print(self, rows: Any, as_json: bool, says: str | Show | None = None) -> None:
        """Print a row as JSON or for people: on its sheet, or in a sentence."""
        if as_json:
            terminal.emit(rows)
        elif isinstance(says, str):
            terminal.say(says.format_map(rows))
        else:
            (says or self._sheet)(rows)

    def _add(
        self,
        name: str,
        about: Any,
        run: Any,
        parameters: Sequence[_FieldArgument],
        extras: Mapping[str, Any] = {},
        *,
        negative: bool = False,
    ) -> None:
        named = [parameter for each in parameters for parameter in each.parameters()]
        named += [_parameter(each, hint, False if hint is option.DryRun else None) for each, hint in extras.items()]
        named += [_parameter("as_json", option.AsJson, False), _parameter("store", option.Store, None)]
        run.__annotations__ = {}
        run.__signature__ = inspect.Signature(named)
        run.__name__ = f"{name}_{self.name}"
        run.__doc__ = about if isinstance(about, str) else inspect.getdoc(about)
        self.app.command(name, context_settings={"ignore_unknown_options": True} if negative else None)(run)


class _FieldArgument:
    """A field of a command or query, as the command line takes it."""

    def __init__(self, info: Any, hint: Any, word: ArgumentSpec, flags: Mapping[str, str]) -> None:
        self.name: str = info.name
        self._field, self._word, self._hint = info, word, hint
        self._type = _type_of(hint)
        flag, _, self._metavar = (word.spelt or flags[self.name]).partition(" ")
        self.flag = flag.partition("/")[0]
        self._names = flag.split("/")
        self._flags = flags

    @property
    def _is_plain(self) -> bool:
        return self._type in (int, float, bool) or get_origin(self._type) is Literal

    @property
    def is_option(self) -> bool:
        return self.flag.startswith("-")

    def parameters(self) -> list[inspect.Parameter]:
        """Return the parameters of which typer makes an argument or option, and the flag that may stand in its place."""
        if self._word.absent is None:
            return [self._parameter()]
        flag, text = self._word.absent
        return [self._parameter(), _parameter(f"no_{self.name}", Annotated[bool, typer.Option(flag, help=text)], False)]

    def expect_either(self, arguments: Mapping[str, Any]) -> None:
        """Raise UsageError unless either the value or the flag in its place was typed, where there is one."""
        if self._word.absent is not None and (arguments[self.name] is None) != arguments[f"no_{self.name}"]:
            raise UsageError(f"Pass either {self.flag} or {self._word.absent[0]}. Nothing was done.")

    def _parameter(self) -> inspect.Parameter:
        default = inspect.Parameter.empty if self._field.required or self._word.needed else self._default()
        if self._hint in _SHARED and not self._word.spelt:
            return _parameter(self.name, _SHARED[self._hint], default)
        said: dict[str, Any] = {"help": self._help(), "min": self._word.least, "max": self._word.most}
        if self.name in _OFFERED:
            said["autocompletion"] = _OFFERED[self.name]
        if not self.is_option:
            info = typer.Argument(metavar=self.flag, **said)
        else:
            info = typer.Option(*self._names, metavar=self._metavar or self._usual_metavar(), **said)
        return _parameter(self.name, Annotated[self._typed(default), info], default)

    def value(self, argument: Any) -> Any:
        """Return what was typed as the field takes it. Raises UsageError."""
        read = self._word.read or ((lambda text: json_value(text, self.flag)) if self._type is Any else _same)
        if not isinstance(argument, list):
            return read(argument)
        return get_origin(self._type)(map(read, argument))

    def retyped(self, value: Any) -> list[str]:
        """Return the words that give the same again; none for what was not given, or where a list goes on."""
        if self.name in ("cursor", "limit") or value in (None, False) or self._is_default(value):
            return []
        if value is True:
            return [self.flag]
        flag = [self.flag] if self.is_option else []
        return [word for each in (value if isinstance(value, list) else [value]) for word in (*flag, str(each))]

    def _is_default(self, value: Any) -> bool:
        return self.is_option and not self._field.required and value == self._default()

    def _typed(self, default: Any) -> Any:
        kind: Any = self._word.kind or self._type
        if get_origin(kind) in (tuple, list, dict):
            kind = list[str]
        elif self._word.kind is None and (self._word.read or self.name.endswith("_ms") or not self._is_plain):
            kind = str
        return kind | None if default is None else kind

    def _usual_metavar(self) -> str | None:
        if self._word.kind or self._type is bool or get_origin(self._type) is Literal:
            return None
        unit = _OF_UNIT.get(self.name.rpartition("_")[2])
        return unit or {Any: "JSON", int: "N", float: "N"}.get(self._type, "NAME")

    def _default(self) -> Any:
        default = self._field.default
        if self._word.read is not None or not isinstance(default, str | int | float) or default == "":
            return None
        return default

    def _help(self) -> str:
        """Return the word's help, or the field's description with options for fields and times as people write them."""
        text = self._word.help or _description(self._hint).replace(_UNIX_MS, _A_TIME)
        text = re.sub(r"`(\w+)`", lambda found: f"`{self._flags.get(found[1], found[1])}`", text)
        if self._type is bool:
            text = text.removeprefix("True to ")
        if self.name in _FIND:
            text += " The beginning of an id is enough."
        if self._type is Any:
            text += " Give JSON, @FILE, or @- for stdin."
        if get_origin(self._type) in (tuple, list, dict) and "repeated" not in text:
            text += " May be repeated."
        return text[:1].upper() + text[1:]


def fields_of(kind: Any, words: Mapping[str, str | ArgumentSpec]) -> list[_FieldArgument]:
    """Return the fields that are typed, in their order: not those whose word is empty."""
    hints = get_type_hints(kind, include_extras=True)
    fields = [each for each in msgspec.structs.fields(kind) if words.get(each.name) != ""]
    spelt = {name: ArgumentSpec(word) if isinstance(word, str) else word for name, word in words.items()}
    flags = {}
    for each in fields:
        usual = each.name.upper() if each.required else f"--{each.name.removesuffix('_ms').replace('_', '-')}"
        flags[each.name] = (spelt[each.name].spelt if each.name in spelt else "").partition(" ")[0].partition("/")[0] or usual
    return [_FieldArgument(each, hints[each.name], spelt.get(each.name, ArgumentSpec()), flags) for each in fields]


def group_of(kind: Any, words: Mapping[str, str | ArgumentSpec]) -> Group:
    """Return the fields as options of any command, those with a word first: their values by their names, as far as typed."""
    order = {name: place for place, name in enumerate(words)}
    taken = sorted(fields_of(kind, words), key=lambda each: order.get(each.name, len(order)))
    options = {each.name: (each.annotation, each.default) for field_ in taken for each in field_.parameters()}
    return Group(lambda **given: _values(taken, given), **options)


def _type_of(hint: Any) -> Any:
    """Return the type of a field without what describes it, and without what stands for nothing."""
    if get_origin(hint) is Annotated:
        return _type_of(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        rest = [each for each in get_args(hint) if each not in (NoneType, msgspec.UnsetType)]
        return _type_of(rest[0]) if len(rest) == 1 else str
    return hint


def _description(hint: Any) -> str:
    return next((each.description for each in getattr(hint, "__metadata__", ()) if getattr(each, "description", "")), "")


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _same(value: Any) -> Any:
    return value


def _nothing(_: Any) -> None:
    pass


async def build_message(kind: Any, values: Mapping[str, Any], asking: QueryBackend) -> Any:
    """Return the command or query; times and beginnings of ids are read where the clock and the lists are."""
    found = dict(values)
    for name, value in values.items():
        if name in _FIND:
            found[name] = await _FIND[name](asking, value)
        elif name == "cursor" and kind in _AFTER:
            found[name] = await _AFTER[kind](asking, value)
        elif name.endswith("_ms"):
            found[name] = moment.parse_time(value, f"--{name.removesuffix('_ms')}", asking.now_ms())
    return kind(**found)


def _in_options(problem: InvalidInput, parameters: Sequence[_FieldArgument]) -> InvalidInput:
    """Return an error that begins with a field in the words of the command line: with its option."""
    name, _, rest = problem.message.partition(" ")
    flag = next((each.flag for each in parameters if each.name == name and each.is_option), None)
    return problem if flag is None else InvalidInput(f"{flag} {rest}", field=problem.field, misfits=problem.misfits)


def _values(parameters: Sequence[_FieldArgument], arguments: Mapping[str, Any]) -> dict[str, Any]:
    for each in parameters:
        each.expect_either(arguments)
    return {each.name: each.value(value) for each in parameters if (value := arguments.get(each.name)) is not None}


async def _list(
    kind: Any, parameters: Sequence[_FieldArgument], arguments: Mapping[str, Any], every: bool, store: str | None
) -> Any:
    from holdfast.cli.backend import LISTS

    values = _values(parameters, arguments)
    async with (listing if kind in LISTS else backend)(store, resolve_actor(None)) as asking:
        asked = await build_message(kind, values, asking)
        return await asking.page(asked, None if every else arguments["limit"])


async def _row(kind: Any, parameters: Sequence[_FieldArgument], arguments: Mapping[str, Any], store: str | None) -> View:
    values = _values(parameters, arguments)
    async with backend(store, resolve_actor(None)) as service:
        return await service.row(await build_message(kind, values, service))


async def _quote(
    kind: Any, name: str, parameters: Sequence[_FieldArgument], arguments: Mapping[str, Any], caller: Caller
) -> None:
    from holdfast.cli.dry_run import tell_one

    values = _values(parameters, arguments)
    await tell_one(name, values.pop("run"), [lambda run: kind(run=run, **values)], *caller)


async def _do(
    kind: Any,
    parameters: Sequence[_FieldArgument],
    arguments: Mapping[str, Any],
    row: Any,
    caller: Caller,
    *,
    make: bool,
    deed: Deed | None,
) -> Any:
    """Do it; its answer, or the row of what it is about as that stands afterwards, or without one its required fields."""
    values = _values(parameters, arguments)
    if deed is not None:
        return await deed(kind(**values), caller)
    answers = declaration_of(kind).answers
    async with backend(caller.store, caller.by, make=make) as service:
        wish = await build_message(kind, values, service)
        if answers is Answer.PAGE:
            return (await service.execute_many(wish)).rows
        told = await service.execute(wish)
        if answers is not Answer.NOTHING:
            return told
        if row is None:
            return {each.name: getattr(wish, each.name) for each in msgspec.structs.fields(kind) if each.required}
        return await service.row(row(**{each: getattr(wish, each) for each in row.__struct_fields__}))
