"""The names of things, as types; how a name is built from its parts.

Never here: making a new random id or reading a clock (that is the Ids port).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NewType

MAX_NAME_BYTES: Final = 256
"""How long a name may be that people give, in UTF-8. Two of them with all their signs escaped are one key of an index, and
PostgreSQL's hold 2,700 bytes."""

_MAX_REMEMBERED: Final = 4096
"""Names of steps taken apart: each is asked for a dozen times while its step is under way."""

ROW_SIGN: Final = "-"
"""In a path between how many operations its task had called off, and the number of the operation since."""

_MEANS_SOMETHING: Final = re.compile(r"[\x00-\x20\x7f%#:/>\[\]]")
_AFTER_A_ROOT: Final = re.compile(r"[/\[]")

RunId = NewType("RunId", str)
"""A UUIDv7 in its text form: its time is the run's start."""
SessionId = NewType("SessionId", str)
AppendId = NewType("AppendId", str)
NodeName = NewType("NodeName", str)
"""What a step is a visit of: a node of the graph, or an item of a map, `review[3]`; in a flow `flow/2[3]`, 2 being the path of
the map."""
StepId = NewType("StepId", str)
"""`node#visit`, visits counted from 1."""
Path = NewType("Path", str)
"""The position of an operation in its step: `0`, `1`, and `2.0.1` inside the branches of a gather. By the second NAMING also
`~0.1` in a task, `~0.@1` for a timer of it, and `~0.2-1` in a row of its own, after the task had called two operations off."""
CallId = NewType("CallId", str)
"""`run:step:path:try`: one sending of an operation; a repeat is another call."""
GateId = NewType("GateId", str)
"""`run:step:path` for a gate a step opened, `run:!reason.n` for one the engine opened about the run."""
EffectKey = NewType("EffectKey", str)
Seq = NewType("Seq", int)
NAMING: Final = 2
"""By which rule the operations of new runs' flows are named; a run keeps its rule for life.

- 1: one row of places for all that a flow does
- 2: a row for each task: `~0.1` is the second operation of the first task that the flow makes
"""
Unique = Literal["run", "tenant"]
"""How far the name reaches that a caller gives to an effect."""


def step_id(node: str, visit: int) -> StepId:
    return StepId(f"{node}#{visit}")


@lru_cache(_MAX_REMEMBERED)
def node_of(step: StepId) -> NodeName:
    return NodeName(step.rpartition("#")[0])


@lru_cache(_MAX_REMEMBERED)
def visit_of(step: StepId) -> int:
    return int(step.rpartition("#")[2])


def map_name(node: NodeName, path: Path | None) -> str:
    """Return the name of a map: its node's, or the place at which a step of `node` asked for it."""
    return node if path is None else f"{node}/{path}"


def item_name(map_: str, key: str) -> NodeName:
    """An item of a map. What has a meaning in names is escaped in its key."""
    return NodeName(f"{map_}[{_MEANS_SOMETHING.sub(_escaped, key)}]")


def _escaped(sign: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in sign[0].encode(errors="replace"))


def is_item(name: NodeName) -> bool:
    return name[-1:] == "]"


def map_of(item: NodeName) -> str:
    """The map that an item is of."""
    return item.rpartition("[")[0]


def root_of(name: NodeName) -> NodeName:
    """The node of the graph under which an item was mapped, however deep; a node itself."""
    return NodeName(_AFTER_A_ROOT.split(name, 1)[0]) if is_item(name) else name


def root_step(step: StepId) -> StepId:
    """The step of the graph for whose sake an item is done: it has its visit; a step of the graph itself."""
    return step_id(root_of(node_of(step)), visit_of(step))


def comes_from(path: Path, first: Path) -> bool:
    """True if the operation at `path` is the one at `first`, a part of it, or a later one. Branches of a gather and named
    places are beside each other."""
    is_branch = False
    for mine, other in zip(path.split("."), first.split("."), strict=False):
        place = _place_in_row(mine)
        if mine != other:
            there = _place_in_row(other)
            return not is_branch and place is not None and there is not None and place > there
        is_branch = place is not None and not is_branch
    return len(path) >= len(first)


def _place_in_row(part: str) -> tuple[int, int] | None:
    """Return how many operations were called off before it in its row, and its number since; None for one that stands in no
    row."""
    called_off, sign, number = part.rpartition(ROW_SIGN)
    if not number.isdecimal() or (sign and not called_off.isdecimal()):
        return None
    return int(called_off or 0), int(number)


def gathers_around(path: Path) -> Iterator[Path]:
    """The places of the gathers in whose branches `path` is."""
    parts, is_branch = path.split("."), False
    for depth, part in enumerate(parts):
        is_place = _place_in_row(part) is not None
        if is_branch and is_place:
            yield Path(".".join(parts[:depth]))
        is_branch = is_place and not is_branch


def numbered(path: Path, generation: int) -> Path:
    """Return the name of what is asked for at `path` when so much of its journal was dropped before."""
    return Path(f"{path}~{generation}") if generation else path


def place_of(name: Path) -> Path:
    """Return the path in such a name."""
    path, _, generation = name.rpartition("~")
    return Path(path) if path and generation.isdecimal() else name


def approval_at(path: Path) -> Path:
    """Return the path of the approval of the call at `path`."""
    return Path(f"{path}.approval")


def refused_at(path: Path) -> Path:
    """Return where it stands when the operation at `path` was refused beside others, of which nothing else is recorded."""
    return Path(f"{path}.refused")


def message_at(path: Path, index: int) -> Path:
    """Return the path of the messages that the model call at `path` is the first to get."""
    return Path(f"{path}.message.{index}")


def left_at(path: Path) -> Path:
    """Return the path of the remaining limits that the model call at `path` was given."""
    return Path(f"{path}.left")


def summary_at(path: Path) -> Path:
    """Return the path of the summary of what the model call at `path` does not get word for word."""
    return Path(f"{path}.summary")


def call_id(run: RunId, step: StepId, path: Path, number: int) -> CallId:
    return CallId(f"{run}:{step}:{path}:{number}")


def gate_id(run: RunId, step: StepId, path: Path) -> GateId:
    return GateId(f"{run}:{step}:{path}")


def engine_gate_id(run: RunId, reason: str, number: int) -> GateId:
    return GateId(f"{run}:!{reason}.{number}")


def run_of(id_: CallId | GateId) -> RunId:
    return RunId(id_.partition(":")[0])


def step_of(id_: CallId) -> StepId:
    return StepId(id_.split(":", 2)[1])


def effect_key(tenant: str, run: RunId, step: StepId, path: Path, tool: str) -> EffectKey:
    """The key of an unnamed effect: the same for every attempt and every try of one operation."""
    return EffectKey(_digest(tenant, run, step, path, tool))


def named_effect_key(tenant: str, run: RunId, name: str, tool: str) -> EffectKey:
    """The key of an effect that the caller named by what it is, unique in the run."""
    return EffectKey(_digest(tenant, run, "named", name, tool))


def tenant_effect_key(tenant: str, name: str, tool: str) -> EffectKey:
    """The key of an effect that the caller named by what it is, unique in the tenant: every run has the same."""
    return EffectKey(_digest(tenant, "tenant-wide", name, tool))


def _digest(*parts: str) -> str:
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode()).hexdigest()
