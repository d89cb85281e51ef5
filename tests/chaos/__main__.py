"""`make chaos SEED=… MINUTES=…`: each fault alone, and then all of them at random for some minutes.

The faults and their order follow from the seed; which instruction of a process they meet is the machine's choice.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos import faults
from tests.chaos.trial import Verdict, at_random, scene, trial


def say(line: str) -> None:
    print(line, flush=True)


async def try_everything(seed: int, minutes: float, only: list[str], directory: Path) -> list[Verdict]:
    verdicts: list[Verdict] = []
    async with scene(directory, standby=True) as on:
        there = faults.possible(on.fleet)
        for name in faults.EVERY:
            if only and name not in only:
                continue
            if name not in there:
                say(f"{name:20} left out: it needs the right to mount a disk")
                continue
            verdicts.append(await trial(on, name, iter([name]), seed=seed, starts_per_s=5))
            say(str(verdicts[-1]))
        if minutes:
            chosen = at_random(on.fleet, seed=seed, within_s=minutes * 60)
            if only:
                count = max(1, int(minutes * 10))
                chosen = itertools.islice(itertools.cycle(only), count)
            verdicts.append(await trial(on, "at random", chosen, seed=seed, starts_per_s=5, say=say))
            say(str(verdicts[-1]))
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--only", nargs="*", default=[], choices=faults.EVERY, metavar="FAULT")
    asked = parser.parse_args()
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1_000_000)
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    say(f"seed {seed}; the same again: make chaos SEED={seed} MINUTES={asked.minutes:g}")
    directory = Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    verdicts = asyncio.run(try_everything(seed, asked.minutes, asked.only, directory))
    refused_s, seconds = sum(each.refused_s for each in verdicts), sum(each.seconds for each in verdicts)
    if seconds:
        say(f"starts or decisions were refused in {refused_s} of {seconds} s ({100 * refused_s / seconds:.1f} %)")
    wrong = [f"{each.name}: {problem}" for each in verdicts for problem in each.wrong]
    for problem in wrong:
        say(problem)
    say(f"{len(wrong)} promises broken; journals and logs are in {directory}; seed {seed}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
