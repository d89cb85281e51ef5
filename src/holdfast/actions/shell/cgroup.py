"""The places for control groups on this machine, and the settings that hold a script there to its memory and cores.

A group is made beneath this process's own, or beside it where systemd has handed the unit over (`Delegate=yes` with
`DelegateSubgroup=`). It is never made in a tree that systemd keeps for itself. Linux has two kinds: one tree for everything,
or, older, a tree for each controller. Source: the kernel's admin-guide, cgroup-v2.rst and cgroup-v1/memory.rst,
scheduler/sched-bwc.rst.

Never here: making a script's group, putting it in, taking it away (supervisor); how much a job asks for.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

_log = logging.getLogger(__name__)

Controller = Literal["memory", "cpu"]
_PERIOD_US: Final = 100_000
"""In which a script may use its cores; the kernel's own default."""
_SHORTEST_US: Final = 1_000
"""The kernel takes no quota below."""
_SYSTEMD: Final = Path("/run/systemd/system")
_DELEGATED: Final = ("trusted.delegate", "user.delegate")
"""What systemd writes on the folder of a unit that it has handed over."""


class Place(NamedTuple):
    """A folder in which groups can be made that hold to one thing."""

    controller: Controller
    folder: Path
    is_unified: bool


def limits(memory_mb: int, cpu_m: int) -> list[tuple[str, dict[str, str]]]:
    """Return the folders in which a script's group is to be made, and what is to be written into its files there, without
    limits that the machine does not enforce. 0 is no limit."""
    amounts: dict[Controller, int] = {"memory": memory_mb, "cpu": cpu_m}
    if not any(amounts.values()):
        return []
    found: dict[str, dict[str, str]] = {}
    for place in places():
        if amount := amounts[place.controller]:
            found.setdefault(str(place.folder), {}).update(_settings(place, amount))
    return list(found.items())


@lru_cache(maxsize=1)
def places() -> tuple[Place, ...]:
    """Return the places of this machine, which are looked for once. The log names once what the machine does not allow."""
    found = tuple(place for controller in ("memory", "cpu") if (place := _usable(controller)) is not None)
    missing = {"memory", "cpu"} - {place.controller for place in found}
    if missing:
        _log.info(
            "what jobs ask for of %s is reserved and not enforced: this process may make no control group for it. In a"
            " systemd unit, Delegate=yes and DelegateSubgroup=worker let it.",
            " and ".join(sorted(missing)),
        )
    return found


def _usable(controller: Controller) -> Place | None:
    """The first place where a group for it has really been made."""
    for place in _candidates(controller):
        probe = place.folder / f"holdfast-probe-{os.getpid()}"
        try:
            if place.is_unified:
                _enable(place)
            probe.mkdir()
        except OSError:
            continue
        try:
            for name, value in _settings(place, 1_000).items():
                if not _is_about_swap(name) or (probe / name).exists():
                    (probe / name).write_text(value)
        except OSError:
            continue
        else:
            _tidy(place.folder)
            return place
        finally:
            probe.rmdir()
    return None


def _tidy(folder: Path) -> None:
    """Take away what supervisors that were killed have left: groups with nothing in them."""
    for left in folder.glob("holdfast-*"):
        if not Path("/proc", left.name.rpartition("-")[2]).exists():
            with contextlib.suppress(OSError):  # what cannot be ended is still in it
                left.rmdir()


def _candidates(controller: Controller) -> Iterator[Place]:
    for mounted, is_unified in _trees(controller):
        own = next((path for name, path in _own() if (name == "" if is_unified else controller in name.split(","))), None)
        if own is None or ".." in own:
            continue  # its group is not to be seen from here
        folder = mounted / own.lstrip("/")
        # A group of the one tree with processes in it, like its own, can have none beneath it: so the one beside comes first.
        for each in (folder.parent, folder) if is_unified and folder != mounted else (folder,):
            if _is_ours(each):
                yield Place(controller, each, is_unified)


def _trees(controller: Controller) -> Iterator[tuple[Path, bool]]:
    """Yield the mount points of the trees that know the controller. The flag is True for the one tree for everything."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(",")):
            yield Path(before.split()[4]), kind == "cgroup2"


def _own() -> list[tuple[str, str]]:
    """(controllers, path) of this process's group in each tree."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return [(names, path) for _, names, path in (line.split(":", 2) for line in lines)]


def _is_ours(folder: Path) -> bool:
    """Return True if nothing else manages the folder. systemd wants to be the only manager, except of what it has handed
    over."""
    if not _SYSTEMD.exists():
        return True
    try:
        return any(os.getxattr(folder, name) == b"1" for name in _DELEGATED if name in os.listxattr(folder))
    except OSError:
        return False


def _enable(place: Place) -> None:
    """Let groups in it have the controller."""
    control = place.folder / "cgroup.subtree_control"
    if place.controller not in control.read_text().split():
        control.write_text(f"+{place.controller}")


def _settings(place: Place, amount: int) -> dict[str, str]:
    """Return the settings that hold a group to an amount in MiB, or in thousandths of a core."""
    if place.controller == "memory":
        size = str(amount * 1024 * 1024)
        if place.is_unified:
            return {"memory.max": size, "memory.swap.max": "0"}
        return {"memory.limit_in_bytes": size, "memory.memsw.limit_in_bytes": size}
    quota = max(amount * _PERIOD_US // 1000, _SHORTEST_US)
    if place.is_unified:
        return {"cpu.max": f"{quota} {_PERIOD_US}"}
    return {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(quota)}


def _is_about_swap(name: str) -> bool:
    """A kernel that does not count swap has no such file."""
    return "sw" in name
