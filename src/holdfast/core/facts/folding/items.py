"""The fold of maps and the ends of their items. An item that has ended leaves the state, but for its place in the history.

Never here: which items there are to begin (core.rules.mapping).
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.folding.moves import Folds, forget_deferred, mark, move, note_moved, operation, wake
from holdfast.core.facts.state import MAP, MAX_FAILURES_KEPT, Map, State, Step
from holdfast.core.values.ids import NodeName, Path, map_of, node_of


def _items_mapped(s: State, e: ev.ItemsMapped, at_ms: int) -> None:
    operation(s, e.step, e.path, MAP, e.name, e.args_hash, at_ms)
    s.maps[e.map] = Map(e, s.seq, None if e.timeout_ms is None else at_ms + e.timeout_ms)
    s.steps[node_of(e.step)].maps[e.map] = None


def _map_ended(s: State, e: ev.MapEnded, at_ms: int) -> None:
    map_, step = s.maps[e.map], s.steps[node_of(e.step)]
    op = step.journal[e.path]
    map_.ended, map_.due_at_ms = ("met", None) if e.error is None else ("failed", None)
    map_.again = {}
    op.error = e.error
    mark(s, step, e.path, op, "reopened" if e.error is None else "failed")  # met, its results are to be gathered
    note_moved(s, node_of(e.step))
    if e.error is None and not map_.provisional:
        _remove(s, map_)
    wake(s, step)


def _map_reopened(s: State, e: ev.MapReopened, at_ms: int) -> None:
    map_, step = s.maps[e.map], s.steps[node_of(e.step)]
    timeout_ms = map_.opened.timeout_ms
    map_.ended, map_.due_at_ms = "", None if timeout_ms is None else at_ms + timeout_ms
    map_.stopping = False
    map_.again = dict.fromkeys(e.again)
    for name in e.again:
        if (index := map_.provisional.pop(name, None)) is not None:
            map_.stuck[name] = index
            _take_back(map_, index)
    op = step.journal[e.path]
    op.error = None
    mark(s, step, e.path, op, "open")


def gathered(s: State, step: Step, path: Path) -> None:
    """The results of the map at `path` stand in the journal now: where they came from is of no use any more."""
    for name in step.maps:
        if (map_ := s.maps[name]).opened.path == path and map_.ended == "met" and not map_.provisional:
            _strip(map_)


def _strip(map_: Map) -> None:
    map_.opened = msgspec.structs.replace(map_.opened, keys=(), pages=(), starts=(), demands=())
    map_.results = []


def set_aside(s: State, name: NodeName) -> None:
    """An item has failed, or was called off; it may be tried again."""
    map_ = s.maps[map_of(name)]
    if (index := map_.items.pop(name, None)) is not None:
        map_.stuck[name] = index


def take_up(s: State, name: NodeName) -> None:
    """It is."""
    map_ = s.maps[map_of(name)]
    map_.again.pop(name, None)
    index = map_.stuck.pop(name, None)
    if index is None and (index := map_.provisional.pop(name, None)) is not None:
        _take_back(map_, index)
    if index is not None:
        map_.items[name] = index


def _take_back(map_: Map, index: int) -> None:
    """Remove the recorded result of an item."""
    map_.results[index] = 0
    map_.completed -= 1


def end_item(s: State, name: NodeName, step: Step, *, failed: bool = False) -> None:
    """An item has its result, or has failed and may: it is no step any more, unless its result tells of a failure."""
    map_ = s.maps[map_of(name)]
    index = map_.items.pop(name, None)
    if index is None:
        index = map_.stuck.pop(name)
        map_.again.pop(name, None)
    map_.results += [0] * (index + 1 - len(map_.results))
    map_.results[index] = -s.seq if failed else s.seq
    if not failed:
        map_.completed += 1
    else:
        map_.failed += 1
        if len(map_.failures) < MAX_FAILURES_KEPT:
            map_.failures.append(s.seq)
    if step.provisional:
        map_.provisional[name] = index
        map_.stopping = map_.opened.fail_fast
    else:
        _leave(s, name, step)


def end_maps(s: State, step: Step) -> None:
    """A step has ended: of its maps is left how many items they had."""
    for name in step.maps:
        _remove(s, s.maps[name])
        _strip(s.maps[name])


def drop_maps(s: State, step: Step, paths: frozenset[Path] | None = None) -> None:
    """Forget the maps of a step that counts no more; or those that it asked for at these places."""
    for name in [*step.maps]:
        if paths is None or s.maps[name].opened.path in paths:
            _remove(s, s.maps.pop(name))
            del step.maps[name]


def _remove(s: State, map_: Map) -> None:
    """None of its items is a step any more."""
    for name in (*map_.items, *map_.stuck, *map_.provisional):
        step = s.steps[name]
        if name in s.unfinished:
            forget_deferred(s, step.id)
            move(s, name, step, "cancelled", s.at_ms)
        _leave(s, name, step)
    map_.items, map_.stuck, map_.provisional, map_.again = {}, {}, {}, {}


def _leave(s: State, name: NodeName, step: Step) -> None:
    drop_maps(s, step)
    del s.steps[name]


FOLDS: Final[Folds] = {ev.ItemsMapped: _items_mapped, ev.MapEnded: _map_ended, ev.MapReopened: _map_reopened}
