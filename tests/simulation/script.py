"""The scripts of random workflow files, which no shell runs: each takes its time, and ends as chance has it.

What a script leaves names the one time that it ran, so that whoever reads it later can be asked where he has it from.
Never here: which scripts there are (file), what their endings mean (job_auditor).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from holdfast.actions.shell import Limits, LogCounts, Script, ScriptEnd
from holdfast.errors import OutcomeUnknown, ToolFailed
from holdfast.ports import Clock
from tests.simulation.chance import spread_s
from tests.simulation.world import Execution, Sending, World, here

_NOTHING: Final = LogCounts(lines=1, bytes=1, dropped_lines=0, dropped_bytes=0)
_KILLED: Final = "SIGKILL"
_MAX_TO_END_S: Final = 4.0
"""How long a script that is told to end may take for it."""


async def run(
    script: Script, limits: Limits, *, clock: Clock, on_line: Callable[[str], Awaitable[None]], redact: Callable[[str], str]
) -> ScriptEnd:
    """What `shell.run` is to a machine. Keeps actions.jobs.runner.Shell."""
    world = here()
    execution = world.begin(script)
    outputs, environment = _left(world.chance.stream("script/left").random(), execution.token)
    how, *once = script.text.removeprefix("succeed ").split()
    sending = _send(world, script, execution, {"outputs": outputs, "environment": environment}) if once else None
    try:
        await on_line(execution.token)
        ending = await _ending(world, float(how), limits, sending)
    except asyncio.CancelledError:
        world.end(execution, "cancelled")
        await asyncio.sleep(spread_s(world.chance.stream("script/end"), 0.001, _MAX_TO_END_S))
        raise
    except (ToolFailed, OutcomeUnknown):
        world.end(execution, "unknown")
        raise
    if ending.signal != _KILLED:
        ending = msgspec.structs.replace(ending, outputs=outputs, environment=environment)
    execution.outputs, execution.environment = ending.outputs, ending.environment
    world.end(execution, "succeeded" if ending.succeeded else "failed")
    return ending


def _send(world: World, script: Script, execution: Execution, answer: dict[str, Any]) -> Sending:
    """What a step that runs once does to the world, under the key that its script is given."""
    shown: dict[str, Any] = {"job": script.job, "step": script.step, "script": script.text}
    if execution.combination is not None:
        shown["matrix"] = json.loads(execution.combination)
    sending = world.send(f"{script.job}.{script.step}", "once", script.idempotency_key, shown)
    sending.answer = answer
    return sending


async def _ending(world: World, likely: float, limits: Limits, sending: Sending | None) -> ScriptEnd:
    stream, faults = world.chance.stream("script"), world.faults
    takes_s, acts, fails = spread_s(stream, 0.01, 60.0), stream.random(), stream.random() >= likely
    half = stream.random() < 0.5
    cannot_begin = faults.strikes("script_cannot_begin")
    crashes = not cannot_begin and faults.kills("crash_while_sending")
    is_killed, is_lost = faults.strikes("script_killed"), faults.strikes("script_supervisor_killed")
    if faults.strikes("script_hangs"):
        takes_s = 2 * limits.timeout_s
    if sending is not None:
        if cannot_begin:
            sending.happens, sending.said = False, "no"
        elif is_lost or crashes:
            sending.happens = half
        world.loop.later(acts * min(takes_s, limits.timeout_s), world.arrive, sending)
    if cannot_begin:
        raise ToolFailed("There is no such shell here. Nothing was run.")
    if crashes:
        await world.process().die_here()
    await asyncio.sleep(min(takes_s, limits.timeout_s))
    if is_lost:
        if sending is not None:
            sending.said = "unknown"
        raise OutcomeUnknown("its supervisor was killed, so nobody knows how it ended.")
    if sending is not None:
        sending.said = "done"
    if takes_s > limits.timeout_s or is_killed:
        return _ended(None, _KILLED if is_killed else "SIGTERM", limits.timeout_s, timed_out=not is_killed)
    problems = ("Its output file makes no sense.",) if faults.strikes("script_writes_nonsense") else ()
    return _ended(int(fails), None, takes_s, problems)


def _left(drawn: float, token: str) -> tuple[dict[str, str], dict[str, str]]:
    """What it writes into its output file and its environment file: perhaps nothing."""
    outputs = {} if drawn < 0.2 else {"v": token}
    if drawn > 0.4:
        outputs["numbers"] = json.dumps(list(range(1, 2 + int(3 * drawn))))
    return outputs, {"LEFT": token} if drawn > 0.6 else {}


def _ended(
    exit_code: int | None, signal: str | None, duration_s: float, problems: tuple[str, ...] = (), *, timed_out: bool = False
) -> ScriptEnd:
    return ScriptEnd(
        exit_code=exit_code,
        signal=signal,
        timed_out=timed_out,
        outputs={},
        environment={},
        file_problems=problems,
        log_tail="",
        log=_NOTHING,
        left_over=0,
        survivors=0,
        duration_s=duration_s,
    )
