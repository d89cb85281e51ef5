"""What the metrics of a process cost it: microseconds of processor time a step, and a scrape.

    python bench/metrics.py [STEPS]

A `Meter` is notified of the commits of a run of tasks, in each of which a step ends and the next begins, and of those of a run
whose every step calls a model, as an engine notifies its observers. The same loop without an observer is subtracted. Prints the
least and the median of nine rounds, and the cost of a scrape with as many series as there can be.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State, Step
from holdfast.core.values.ids import CallId, NodeName, Path, SessionId, StepId
from holdfast.core.values.payload import NULL
from holdfast.engine.runs.observing import Observers
from holdfast.observe.health import prometheus_text
from holdfast.observe.meter import Meter
from holdfast.ports.observer import AppendsFlushed

ROUNDS = 9


def commits(steps: int, *, calls: bool) -> list[tuple[list[Any], State]]:
    """The commits of one run: as in bench/steps.py, a step ends in the commit in which the next begins."""
    found = []
    state = State(workflow="bench", tenant="acme", at_ms=1_000)
    for number in range(steps):
        node = NodeName(f"n{number % 100}")
        step, call = StepId(f"{node}#1"), CallId(f"{node}#1/0/1")
        state.steps[node] = Step(step, began_ms=900)
        if calls:
            found.append(([ev.ModelCallHeld(call, step, 1, Path("0"), "claude", "", 10)], state))
            found.append(([ev.ModelCallSettled(call, 7, 100, 225, NULL)], state))
        found.append(([ev.StepCompleted(step, 1, NULL), ev.StepStarted(step, 1, SessionId("s"))], state))
    return found


def processor_us(steps: int, told: Sequence[tuple[list[Any], State]], observers: Observers | None) -> float:
    began_ns = time.process_time_ns()
    for events, state in told:
        if observers is not None:
            observers.committed(events, state, own=True)
    return (time.process_time_ns() - began_ns) / 1_000 / steps


def rounds(measure: Callable[[], float]) -> tuple[float, float]:
    found = [measure() for _ in range(ROUNDS)]
    return min(found), statistics.median(found)


def main(steps: int) -> None:
    meter = Meter()
    for words, told in {"plain": commits(steps, calls=False), "with a model call": commits(steps, calls=True)}.items():
        observed = Observers([meter])
        nothing = min(processor_us(steps, told, None) for _ in range(ROUNDS))
        least, median = rounds(lambda told=told, observed=observed: processor_us(steps, told, observed))  # type: ignore[misc]
        print(f"a step, {words}: {least - nothing:.2f} µs at least, {median - nothing:.2f} µs in the median")  # noqa: T201
    observed = Observers([meter])
    flushed = [AppendsFlushed(8, 8, 0.003)] * steps

    def flush() -> float:
        began_ns = time.process_time_ns()
        for each in flushed:
            observed.notify(each)
        return (time.process_time_ns() - began_ns) / 1_000 / steps

    print("a commit (of several steps): {:.2f} µs at least, {:.2f} µs in the median".format(*rounds(flush)))  # noqa: T201
    for number in range(2_000):
        state = State(workflow=f"w{number}", tenant=f"t{number}", at_ms=1_000)
        observed.committed([ev.RunCompleted()], state, own=True)
        held = ev.ModelCallHeld(CallId(str(number)), StepId("n#1"), 1, Path("0"), f"m{number % 60}", "", 10)
        observed.committed([held, ev.ModelCallSettled(held.call, 7, 3, 2, NULL)], state, own=True)
    began_ns = time.process_time_ns()
    text = prometheus_text(meter.samples())
    took_ms = (time.process_time_ns() - began_ns) / 1e6
    print(f"a scrape: {took_ms:.0f} ms, {len(text.splitlines())} lines, {len(text) / 1e3:.0f} kB")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
