"""Scripts in real control groups: held to what their jobs ask for, all their processes together, and nothing left of them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.actions.shell import Limits, Script, ScriptEnd, cgroup, run
from holdfast.platform.machine import MachineClock

ONE_TREE = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line]


def place(controller: str) -> cgroup.Place:
    """Where this machine holds scripts to it."""
    found = [place for place in cgroup.places() if place.controller == controller]
    if not found:
        pytest.skip(f"this process may make no control group for {controller} here")
    return found[0]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    folders = {place.folder for place in cgroup.places()}
    assert [left for folder in folders for left in folder.glob("holdfast-*") if _is_ours(left)] == []


def _is_ours(group: Path) -> bool:
    """Whether no other test of this machine may be using it: its supervisor has ended, and it is still there."""
    return not Path("/proc", group.name.rpartition("-")[2]).exists() and group.exists()


async def ended(text: str, memory_mb: int = 0, cpu_m: int = 0) -> tuple[ScriptEnd, list[str]]:
    lines: list[str] = []

    async def on_line(line: str) -> None:
        lines.append(line)

    script = Script(
        text=text,
        run="r-1",
        job="build",
        step="test#1",
        idempotency_key="k-1",
        folder="/",
        memory_mb=memory_mb,
        cpu_m=cpu_m,
        env={"PYTHON": sys.executable},
    )
    limits = Limits(timeout_s=60.0, grace_s=0.3, linger_s=0.3)
    return await run(script, limits, clock=MachineClock(), on_line=on_line), lines


FILL = "import signal, sys; held = b'x' * (int(sys.argv[1]) << 20); print('held', flush=True); sys.argv[2:] and signal.pause()"


async def test_processes_that_exceed_their_jobs_memory_together_are_ended_with_a_reason() -> None:
    """Each of the two has less than all of it. Which of them the kernel ends is its affair."""
    place("memory")
    keep = f'"$PYTHON" -c "{FILL}" 60 until-ended'
    together = f"{keep} & {keep} & wait -n || exit 3"
    ending, _ = await ended(together, memory_mb=90)
    assert ending.starved >= 1
    assert ending.exit_code == 3
    assert str(ending).endswith(
        "It ended with exit code 3. Its processes had used all of the memory that its job asks for (resources: memory)."
    )


async def test_a_script_that_asks_for_none_is_held_to_none() -> None:
    place("memory")
    ending, lines = await ended(f'"$PYTHON" -c "{FILL}" 120; grep -c holdfast- /proc/self/cgroup || true')
    assert (ending.starved, lines) == (0, ["held", "0"])


async def test_a_script_is_held_to_its_part_of_a_core() -> None:
    """It works until the kernel says that it has been made to wait."""
    folder = place("cpu").folder
    until = f"until grep -q 'nr_throttled [1-9]' {folder}/holdfast-$PPID/cpu.stat; do :; done"
    ending, _ = await ended(until, cpu_m=200)
    assert ending.succeeded


@pytest.mark.skipif(not ONE_TREE or not os.access(ONE_TREE[0], os.W_OK), reason="no cgroup v2 tree can be written here")
async def test_a_script_is_put_into_a_group_of_the_one_tree_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "limits", lambda *_: [(str(ONE_TREE[0]), {})])
    ending, lines = await ended("grep ^0:: /proc/self/cgroup; echo $PPID", memory_mb=90)
    assert ending.succeeded
    assert lines[0].endswith(f"/holdfast-{lines[1]}")
    assert not (ONE_TREE[0] / f"holdfast-{lines[1]}").exists()


async def test_an_impossible_group_is_reported_and_nothing_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cgroup, "limits", lambda *_: [(str(tmp_path / "gone"), {})])
    with pytest.raises(Exception, match=r"its control group .* could not be made: No such file or directory"):
        await ended(f"touch {tmp_path}/ran", memory_mb=90)
    assert list(tmp_path.iterdir()) == []


def test_a_group_whose_supervisor_was_killed_is_taken_away() -> None:
    left = place("memory").folder / "holdfast-99999999"
    left.mkdir()
    cgroup.places.__wrapped__()
    assert not left.exists()


def test_where_systemd_keeps_the_groups_none_is_made_unless_the_unit_was_handed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own would be torn down, or the limits of others with them."""
    monkeypatch.setattr(cgroup, "_SYSTEMD", tmp_path)
    with caplog.at_level(logging.INFO):
        assert cgroup.places.__wrapped__() == ()
    assert "what jobs ask for of cpu and memory is reserved and not enforced" in caplog.text
    unit = tmp_path / "unit"
    unit.mkdir()
    assert not cgroup._is_ours(unit)
    try:
        os.setxattr(unit, "user.delegate", b"1")
    except OSError as problem:
        pytest.skip(f"no extended attributes here: {problem}")
    assert cgroup._is_ours(unit)


def test_what_a_group_of_each_kind_is_shown(tmp_path: Path) -> None:
    one, older = (cgroup.Place("memory", tmp_path, is_unified=True), cgroup.Place("cpu", tmp_path, is_unified=False))
    assert cgroup._settings(one, 64) == {"memory.max": "67108864", "memory.swap.max": "0"}
    assert cgroup._settings(older, 1500) == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}
    assert cgroup._settings(one._replace(controller="cpu"), 1) == {"cpu.max": "1000 100000"}
