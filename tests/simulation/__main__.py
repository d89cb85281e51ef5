"""`python -m tests.simulation`: runs many seeds, says how far it is, and how to repeat what it found.

Never here: what a simulation is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

from tests.simulation import lines
from tests.simulation.prefix import from_every_prefix
from tests.simulation.report import Report
from tests.simulation.simulation import Kind, Mode, Outcome, simulate

T = TypeVar("T")

_TOGETHER: Final = 20
"""Seeds that a process takes at once."""
_EVERY_S: Final = 5.0
_MAX_SHOWN: Final = 10


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.seed is not None:
        return _one(asked.seed, asked.mode, asked.made_of)
    if asked.lines:
        return _lines(range(asked.first, asked.first + asked.seeds), asked.mode, asked.made_of)
    seeds = range(asked.first, asked.first + asked.seeds)
    if asked.prefixes:
        return _prefixes(seeds, asked.jobs)
    report = Report()
    began_s = told_s = time.monotonic()
    for outcome in _outcomes(seeds, asked.mode, asked.made_of, asked.jobs):
        report.add(outcome)
        if outcome.violations and len(report.failed) <= _MAX_SHOWN:
            _show(outcome)
        if time.monotonic() - told_s > _EVERY_S:
            told_s = time.monotonic()
            rate = report.programs / (told_s - began_s)
            _say(f"{report.programs} of {len(seeds)} programs, {rate:.0f} a second, {len(report.failed)} broke a promise")
    for line in report.text():
        _say(line)
    took_s = time.monotonic() - began_s
    _say(f"{len(report.failed)} of {report.programs} programs broke a promise; {took_s:.1f} s")
    weak = asked.mode is None and asked.made_of is None and report.should_have_seen()
    if weak:
        _say(f"the generator is too weak, no program has seen: {', '.join(weak)}")
    return 1 if report.failed or weak else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many programs to run")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seed", type=int, help="run only this seed, and show its history")
    parser.add_argument("--mode", choices=("safety", "progress"), help="undeclared, each seed decides")
    parser.add_argument("--made-of", choices=("python", "talk", "file", "flow"), help="undeclared, each seed decides")
    parser.add_argument(
        "--prefixes", action="store_true", help="run flows without other faults, each killed after every one of its commits"
    )
    parser.add_argument("--lines", action="store_true", help="only say which lines of the engine the seeds reach")
    parser.add_argument("--jobs", type=int, default=1, help="processes to run them in")
    return parser


def _prefixes(seeds: range, jobs: int) -> int:
    began_s = told_s = time.monotonic()
    kills = failed = 0
    for number, outcomes in enumerate(_mapped(_killed, seeds, jobs), 1):
        for commit, outcome in enumerate(outcomes, 1):
            kills += 1
            failed += bool(outcome.violations)
            if outcome.violations and failed <= _MAX_SHOWN:
                _say(f"seed {outcome.seed}, killed after commit {commit}, broke a promise: {outcome.violations[0]}")
                for line in outcome.latest[-15:]:
                    _say(f"    {line}")
        if time.monotonic() - told_s > _EVERY_S:
            told_s = time.monotonic()
            _say(f"{number} of {len(seeds)} flows, {kills} kills, {failed} broke a promise")
    _say(f"{len(seeds)} flows, {kills} kills, {failed} broke a promise; {time.monotonic() - began_s:.1f} s")
    return 1 if failed else 0


def _killed(seed: int) -> list[Outcome]:
    return [*from_every_prefix(seed)]


def _mapped(function: Callable[[T], list[Outcome]], given: Sequence[T], jobs: int) -> Iterator[list[Outcome]]:
    if jobs <= 1:
        yield from map(function, given)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(function, given)


def _outcomes(seeds: range, mode: Mode | None, made_of: Kind | None, jobs: int) -> Iterator[Outcome]:
    batches = [(seeds[start : start + _TOGETHER], mode, made_of) for start in range(0, len(seeds), _TOGETHER)]
    return chain.from_iterable(_mapped(_batch, batches, jobs))


def _batch(batch: tuple[range, Mode | None, Kind | None]) -> list[Outcome]:
    seeds, mode, made_of = batch
    return [simulate(seed, mode, made_of=made_of) for seed in seeds]


def _one(seed: int, mode: Mode | None, made_of: Kind | None) -> int:
    outcome = simulate(seed, mode, made_of=made_of, tells=True)
    for line in outcome.latest:
        _say(line)
    for violation in outcome.violations:
        _say(violation)
    _say(f"seed {seed} ({outcome.mode}): {outcome.status}, {outcome.steps} steps, history {outcome.history[:16]}")
    return 1 if outcome.violations else 0


def _lines(seeds: range, mode: Mode | None, made_of: Kind | None) -> int:
    with lines.watched() as ran:
        for seed in seeds:
            simulate(seed, mode, made_of=made_of)
    for line in lines.told(ran):
        _say(line)
    return 0


def _show(outcome: Outcome) -> None:
    _say(f"seed {outcome.seed} broke a promise: {outcome.violations[0]}")
    for line in outcome.latest[-15:]:
        _say(f"    {line}")
    asked = f"--seed {outcome.seed} --mode {outcome.mode} --made-of {outcome.made_of}"
    _say(f"  again: python -m tests.simulation {asked}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
