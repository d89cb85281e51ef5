"""`holdfast shared`: what the runs and agents of a tenant know together.

Never here: what becomes of a write.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from holdfast.cli.connect import backend
from holdfast.cli.noun import ArgumentSpec, Caller, Noun
from holdfast.cli.page import moment
from holdfast.cli.page.table import Column
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.service.declarations.command import WriteSharedValue
    from holdfast.service.declarations.query import View


def _at(row: View) -> str:
    return moment.second(row["at"])


def _value(row: View) -> str:
    return json.dumps(row["value"], ensure_ascii=False)


async def _write(message: WriteSharedValue, caller: Caller) -> View:
    async with backend(caller.store, caller.by, make=True) as service:
        await service.execute(message)
        versions = await service.rows(query.SharedVersions(message.space, message.key, message.tenant))
        return {"space": message.space, "key": message.key, **versions[-1]}


SHARED: Final = Noun("shared")
app = SHARED.app

SHARED.list(
    query.SharedValues,
    Column("space", 10),
    Column("key", 12),
    Column("version", goes=2),
    Column("by", 10, goes=1),
    Column("at", goes=3, of=_at),
    Column("value", 20, of=_value),
    words={"space": "SPACE"},
)
SHARED.list(
    query.SharedVersions,
    Column("version"),
    Column("by", 10),
    Column("at", goes=1, of=_at),
    Column("value", 20, of=_value),
    name="show",
    every=True,
)
SHARED.verb(
    "write",
    command.WriteSharedValue,
    words={
        "value": ArgumentSpec("--value JSON", needed=True),
        "expected_version": ArgumentSpec("--expected-version N", least=0),
    },
    says="{key} of {space} is at version {version}.",
    signed=True,
    deed=_write,
)
SHARED.verb("forget", command.ForgetCachedAnswer, done="forgotten", says="Removed {key} from {space}.", signed=True)


EXAMPLES: Final = {
    "list": "board",
    "show": "board case-7",
    "write": "board case-7 --value '{\"open\": true}'",
    "forget": "'!cache/answers' 4f1d2c",
}
