"""Hunts mutants: each is Holdfast with one rule broken, and every one must be noticed.

    python -m tests.mutants [NAME ...] [--page docs/maintainers/security.md] [--jobs 2]

For each mutant the test that is expected to notice is run first, then the quick suite, then the simulation. Before that
all these tests are run against the code as it is, where they must pass. Ends with 1 when a mutant survives.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.mutants.mutant import LONGEST_S, Mutant, Unusable, all_mutants, apply, copy, name_of, named_tests, run, run_command

QUICK = ("tests/core", "tests/engine", "tests/stores", "tests/blobs", "tests/models")
SEEDS = 500


def hunt(mutant: Mutant, scratch: Path) -> str:
    """Who killed `mutant`; empty if it survived. Raises Unusable."""
    tree = copy(scratch / mutant.name)
    apply(mutant, tree)
    found = run(tree, *mutant.killers)
    if found.killed:
        return found.failed
    found = run(tree, *QUICK, workers=2)
    if found.killed:
        return f"not its killer, but {found.failed}"
    found = run_command(tree, sys.executable, "-m", "tests.simulation", "--seeds", str(SEEDS))
    return "not its killer, but the simulation" if found.killed else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these; all unless any is named")
    parser.add_argument("--page", type=Path, help="those that a test which this page names is to notice")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    mutants = [mutant for mutant in all_mutants() if not asked.names or mutant.name in asked.names]
    if asked.page is not None:
        named = named_tests(asked.page.read_text())
        mutants = [mutant for mutant in mutants if named & {name_of(killer) for killer in mutant.killers}]
    unknown = set(asked.names) - {mutant.name for mutant in mutants}
    if unknown or not mutants:
        parser.error(f"there is no mutant {', '.join(sorted(unknown)) or 'at all'}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        scratch = Path(folder)
        killers = sorted({killer for mutant in mutants for killer in mutant.killers})
        print(f"{len(mutants)} mutants; first, their {len(killers)} killers against the code as it is", flush=True)
        sound = run(copy(scratch / "as-it-is"), *killers, workers=asked.jobs, longest_s=LONGEST_S * 6)
        if sound.killed:
            print(f"{sound.failed} fails without any mutant:\n{sound.output[-3000:]}")
            return 1
        bad = 0
        with ThreadPoolExecutor(asked.jobs) as pool:
            hunts = {pool.submit(hunt, mutant, scratch): mutant for mutant in mutants}
            for number, done in enumerate(as_completed(hunts), 1):
                mutant = hunts[done]
                try:
                    killer = done.result()
                except Unusable as problem:
                    killer, bad = f"UNUSABLE: {problem}", bad + 1
                else:
                    bad += not killer
                print(f"{number:>3}/{len(mutants)}  {mutant.name}: {killer or f'SURVIVED ({mutant.what})'}", flush=True)
    print(f"{len(mutants) - bad} of {len(mutants)} mutants were noticed, in {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
