"""The mutants are usable: each still applies, names tests that exist, and a few are hunted down from start to end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutants.__main__ import hunt
from tests.mutants.mutant import PATCHES, ROOT, Unusable, all_mutants, apply, copy, name_of, named_tests, read, run

FEWEST = 30
SECURITY = ROOT / "docs" / "maintainers" / "security.md"
HUNTED = ("join-counts-skipped", "gate-decided-twice", "effect-key-means-another-request")


def test_there_are_enough_of_them() -> None:
    assert len(all_mutants()) >= FEWEST


def test_every_patch_applies_to_the_code_as_it_is(tmp_path: Path) -> None:
    for mutant in all_mutants():
        touched = [
            line.removeprefix("+++ b/").strip() for line in mutant.patch.read_text().splitlines() if line.startswith("+++ b/")
        ]
        assert touched, mutant.name
        assert all(name.startswith("src/") for name in touched), f"{mutant.name} breaks something else than Holdfast"
        tree = tmp_path / mutant.name
        for name in touched:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
        apply(mutant, tree)
        assert any((tree / name).read_bytes() != (ROOT / name).read_bytes() for name in touched), mutant.name


def test_every_killer_is_a_test() -> None:
    source = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for mutant in all_mutants():
        for killer in mutant.killers:
            path, *_, name = killer.split("::")
            assert (ROOT / path).is_file(), f"{mutant.name}: {killer}"
            assert f"def {name.partition('[')[0]}(" in source, f"{mutant.name}: {killer}"


def test_each_guard_that_the_security_page_names_has_a_mutant() -> None:
    """What a line of a table says stands in the way can be taken away, and a test that the line names is to notice."""
    killers = {name_of(killer) for mutant in all_mutants() for killer in mutant.killers}
    rows = [row for row in SECURITY.read_text().splitlines() if re.match(r"\| (?!threat|-)", row)]
    assert len(rows) >= FEWEST
    assert [row for row in rows if not named_tests(row) & killers] == []


@pytest.mark.parametrize("name", [HUNTED[0], *(pytest.param(name, marks=pytest.mark.long) for name in HUNTED[1:])])
def test_a_mutant_is_noticed(name: str, tmp_path: Path) -> None:
    mutant = read(PATCHES / f"{name}.patch")
    assert hunt(mutant, tmp_path) in mutant.killers


def test_a_patch_that_no_longer_applies_is_reported(tmp_path: Path) -> None:
    gone = tmp_path / "gone.patch"
    gone.write_text("# tests/x.py::test_y\n--- a/src/gone.py\n+++ b/src/gone.py\n@@ -1 +1 @@\n-a\n+b\n")
    with pytest.raises(Unusable, match="no longer applies"):
        apply(read(gone), tmp_path)


def test_a_patch_that_names_no_test_is_reported(tmp_path: Path) -> None:
    (tmp_path / "none.patch").write_text("# what\n--- a/x\n")
    with pytest.raises(Unusable, match="which test kills it"):
        read(tmp_path / "none.patch")


@pytest.mark.long
def test_what_breaks_nothing_is_not_noticed(tmp_path: Path) -> None:
    """The hunt can fail."""
    killers = [killer for name in HUNTED for killer in read(PATCHES / f"{name}.patch").killers]
    assert not run(copy(tmp_path / "as-it-is"), *killers).killed
