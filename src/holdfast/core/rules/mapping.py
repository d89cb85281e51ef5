"""The rules of maps: which items begin, when enough of them are done, and when no longer enough can be.

An item is a step like any other; only its timing is here. Never here: the list itself, reading the results of the items.
"""

from __future__ import annotations

import msgspec

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import MAP, OPEN_STEPS, Map, Step
from holdfast.core.rules import endings
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.fence import intends, match_operation
from holdfast.core.values.ids import NodeName, is_item, map_name, map_of, node_of
from holdfast.core.values.policies import JOIN, ErrorRecord
from holdfast.errors import Conflict


def map_items(d: Decision, c: commands.MapItems) -> None:
    """Open a map. Raises Conflict for one of a step that undoes the run or cleans up: no item begins while it is ending."""
    if node_of(c.step) == COMPENSATE:
        raise Conflict(f"Undo what run {d.state.run} did call by call: no item begins while the run is ending.")
    if d.state.cleans_up(c.step):
        raise Conflict(f"Clean up call by call: run {d.state.run} is being cancelled, and no item begins.")
    step = intends(d, c, c.path, MAP, c.name, c.args_hash)
    if c.path in step.journal:
        return
    d.record(c.step, c.values)
    name = node_of(c.step)
    node = d.graph.nodes.get(name)
    each = node.each if node is not None else None
    # The first map of a map node is called as the node; with other code it is another, and so is a second one.
    is_other = each is None or step.generation or map_name(name, None) in step.maps
    map_ = map_name(name, step.named(c.path) if is_other else None)
    demand = d.graph.demand_of(each) if each is not None else c.demand
    d.emit(
        ev.ItemsMapped(
            c.step,
            c.attempt,
            c.path,
            map_,
            c.name,
            c.args_hash,
            c.count,
            c.max_parallel,
            c.enough,
            c.tolerated,
            c.timeout_ms,
            c.settles,
            c.retry if each is None else each.retry,
            demand,
            c.keys,
            c.pages,
            c.starts,
            c.is_call,
            c.demands,
            c.fail_fast,
        )
    )
    go_on(d, map_)


def go_on(d: Decision, name: str) -> None:
    """Begin as many items of a map as may be under way, or end it."""
    map_ = d.state.maps.get(name)
    if map_ is None or map_.ended or d.state.phase or not _is_wanted(d, map_):
        return
    opened = map_.opened
    if map_.stopping:
        _stop(d, map_)
        return
    if map_.completed >= opened.enough or (map_.next == opened.count and not map_.items and not map_.stuck):
        _end(d, map_)
        return
    room = max(0, opened.max_parallel - len(map_.items))
    for item in [*map_.again][:room]:
        _try_again(d, item)
        room -= 1
    for index in range(map_.next, min(opened.count, map_.next + room)):
        d.ready[map_.name_of(index)] = None


def _stop(d: Decision, map_: Map) -> None:
    """Let what is active of a map end, and nothing else begin."""
    for name in [name for name in d.ready if is_item(name) and map_of(name) == map_.opened.map]:
        del d.ready[name]
    for name in [name for name in map_.items if d.state.steps[name].status != "active"]:
        endings.call_off(d, d.state.steps[name], f"another item of {map_.opened.map!r} has failed")
    if not map_.items:
        _end(d, map_)


def _is_wanted(d: Decision, map_: Map) -> bool:
    step = d.state.step(map_.opened.step)
    return step is not None and step.status in OPEN_STEPS


def tolerates(d: Decision, item: NodeName) -> bool:
    """True if an item may fail without its map failing."""
    map_ = d.state.maps[map_of(item)]
    return map_.failed < map_.opened.tolerated


def fail(d: Decision, item: NodeName, error: ErrorRecord) -> None:
    """More have failed than may."""
    map_ = d.state.maps[map_of(item)]
    if map_.opened.is_call:
        _end(d, map_, msgspec.structs.replace(error, node=node_of(map_.opened.step)))
        return
    may = map_.opened.tolerated
    many = f"{map_.failed + 1} of {map_.opened.count} items of {map_.opened.map!r} have failed, and {may or 'none'} may: "
    _end(d, map_, d.error(node_of(map_.opened.step), JOIN, f"{many}{item}: {error.message}"))


def _end(d: Decision, map_: Map, error: ErrorRecord | None = None) -> None:
    """Nothing more of a map is waited for."""
    if map_.ended:
        return
    opened = map_.opened
    step = d.state.steps[node_of(opened.step)]
    why = f"{opened.map!r} has what it needs" if error is None else f"{opened.map!r} has failed"
    endings.call_items_off(d, step, why, only=opened.map)
    d.emit(ev.MapEnded(opened.step, opened.path, opened.map, error))


def attend(d: Decision) -> None:
    """End the maps whose time is up, and let the others go on."""
    for name, map_ in list(d.state.maps.items()):
        if map_.due_at_ms is None or map_.due_at_ms > d.now_ms or map_.ended or d.state.phase:
            go_on(d, name)
        elif _is_wanted(d, map_):
            _end(d, map_, None if map_.opened.settles else _too_late(d, map_))


def _too_late(d: Decision, map_: Map) -> ErrorRecord:
    timeout_s = (map_.opened.timeout_ms or 0) / 1000
    done = f"{map_.completed} of {map_.opened.count} items of {map_.opened.map!r} were done in {timeout_s:g} s"
    return d.error(node_of(map_.opened.step), JOIN, f"{done}, and {map_.opened.enough} are needed.")


def expect_results(step: Step, value: commands.Value) -> None:
    """Raises Conflict for results of a map whose items have not done enough, or whose results are known."""
    op = match_operation(step, value.path, MAP, value.name, value.args_hash)
    if op is None or op.status != "reopened":
        raise Conflict(f"The map at {value.path} of step {step.id} has no results to be gathered. Nothing was recorded.")


def resume(d: Decision, step: Step) -> None:
    """A step is tried again: those items of its maps that came to nothing are too, as many at once as may be under way."""
    for name in step.maps:
        map_ = d.state.maps[name]
        if map_.ended == "met" and not map_.provisional:
            continue
        again = *map_.stuck, *map_.provisional
        if map_.ended or again or map_.due_at_ms is not None:
            d.emit(ev.MapReopened(map_.opened.step, map_.opened.path, name, again))
        go_on(d, name)


def _try_again(d: Decision, item: NodeName) -> None:
    step = d.state.steps[item]
    d.emit(ev.StepReplayed(step.id, step.failed_path if step.status == "failed" else None))
    d.touch(item)
    resume(d, step)
