"""The program between a worker and a script: it starts the script, and ends it with everything that it has started.

It is run by its path in an interpreter of its own (`python -I -S supervisor.py FOLDER`), for three reasons. What the
script's children leave behind becomes this process's child (PR_SET_CHILD_SUBREAPER), also when it has left the script's
group, so it can be found and ended. A worker that is killed closes the socket to here, and then everything ends and the
script's private folder goes. And what must be set between fork and exec is set where that is safe: in a process with
one thread.

Over the socket on descriptor 0 comes an order, then `s` (stop: SIGTERM, a grace, SIGKILL), `k` (kill at once) or the number of
a signal, as a byte, for the script's group; the reports `started GROUP`, `failed WHY` and `ended STATUS TIMED_OUT LEFT_OVER
SURVIVORS STARVED` go back. When the worker closes its side, this process becomes the `rm` that removes the folder.

Never here: anything of Holdfast, and any import that is not needed: each costs every script milliseconds.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STOP: Final = b"s"
KILL: Final = b"k"
KILL_LIMIT_S: Final = 5.0
"""How long it is tried to end what does not die of SIGKILL: a process in the kernel's hands, or of another account."""

_KILL_AGAIN_S: Final = 0.02
_LONGEST_POLL_S: Final = 3600.0
"""poll() counts milliseconds in 31 bits, which is 24 days."""

LENGTH_BYTES: Final = 4
"""An order begins with its length, so long."""

_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER
_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
_ASKED_TO_END: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NOT_STARTED: Final = 127

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> NoReturn:
    folder = sys.argv[1]
    control = os.dup(0)  # not inherited by the script
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    order = _order(control)
    if order is not None:
        _libc.prctl(_SUBREAPER, 1)
        woken = _signals()
        groups, why = _make_groups(order["groups"])
        script = None
        if not why:
            script, why = _start(order, groups, control)
        if script is None:
            _remove_groups(groups)
            _say(control, f"failed {why}")
        else:
            ended = Supervisor(script, order, control, woken).run()
            starved = _remove_groups(groups)
            os.dup2(0, 1)  # the reader of the log sees its end
            os.dup2(0, 2)
            _say(control, f"ended {ended} {starved}")
        while _read(control, 64):
            pass  # the worker still reads the script's files
    os.set_inheritable(control, True)  # it closes when the folder is gone
    os.execvp("rm", ["rm", "-rf", "--", folder])


class Supervisor:
    """One script and everything that it has started, until all of it has ended."""

    def __init__(self, script: int, order: dict[str, Any], control: int, woken: int) -> None:
        self._script = script
        self._linger_s: float = order["linger_s"]
        self._grace_s: float = order["grace_s"]
        self._control = control
        self._woken = woken
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(woken, select.POLLIN)
        self._phase = "running"
        self._until_s: float = time.monotonic() + order["timeout_s"]
        self._status: int | None = None
        self._timed_out = False
        self._left_over = 0

    def run(self) -> str:
        """Returns when nothing is left, or what is left cannot be ended: `STATUS TIMED_OUT LEFT_OVER SURVIVORS`."""
        while self._reap():
            if self._phase == "running" and self._status is not None:
                self._enter("lingering", min(self._linger_s, self._until_s - time.monotonic()))
            if time.monotonic() >= self._until_s and not self._next():
                break
            self._wait()
        status = "-" if self._status is None else self._status
        return f"{status} {int(self._timed_out)} {self._left_over} {len(_descendants())}"

    def _reap(self) -> bool:
        """Take note of what has ended. Whether anything is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._script:
                self._status = status

    def _next(self) -> bool:
        """The time of this phase is up. False when nothing more can be done."""
        if self._phase == "running":
            self._timed_out = True
            self._stop()
        elif self._phase == "lingering":
            self._left_over = len(_descendants())
            self._stop()
        elif self._phase == "stopping":
            self._enter("killing", KILL_LIMIT_S)
        else:
            return False
        return True

    def _enter(self, phase: str, duration_s: float) -> None:
        self._phase = phase
        self._until_s = time.monotonic() + duration_s

    def _stop(self) -> None:
        self._enter("stopping", self._grace_s)
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)  # one that is stopped cannot end in peace

    def _wait(self) -> None:
        """Until a child ends, the worker says something or this phase's time is up."""
        duration_s = min(self._until_s - time.monotonic(), _LONGEST_POLL_S)
        if self._phase == "killing":
            self._send(signal.SIGKILL)  # again and again: who was just being born was not hit
            duration_s = min(duration_s, _KILL_AGAIN_S)
        for descriptor, _ in self._poll.poll(max(0.0, duration_s) * 1000):
            self._on_message(descriptor, _read(descriptor, 64))

    def _on_message(self, descriptor: int, message: bytes) -> None:
        if descriptor == self._woken:
            asked = any(each in message for each in _ASKED_TO_END)
            if asked and self._phase in ("running", "lingering"):
                self._stop()
            return
        if not message:
            self._poll.unregister(self._control)
        if not message or KILL in message:  # a worker that is gone leaves nothing behind
            if self._phase != "killing":
                self._enter("killing", KILL_LIMIT_S)
        elif STOP in message and self._phase in ("running", "lingering"):
            self._stop()
        for number in message:
            if number in signal.valid_signals():  # a letter is none
                _signal(os.killpg, self._script, number)

    def _send(self, signal_: signal.Signals) -> None:
        """To everything below: to the script's group as one, so that one that forks all the time is hit whole."""
        found = _descendants()
        if any(group == self._script for group in found.values()):
            _signal(os.killpg, self._script, signal_)
        for pid in found:
            _signal(os.kill, pid, signal_)


def _order(control: int) -> dict[str, Any] | None:
    """Return the worker's order; None if the worker was gone before it had sent all of it."""
    length = _exactly(control, LENGTH_BYTES)
    data = None if length is None else _exactly(control, int.from_bytes(length, "big"))
    return None if data is None else marshal.loads(data)


def _exactly(control: int, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        piece = _read(control, count - len(data))
        if not piece:
            return None
        data += piece
    return data


def _read(descriptor: int, count: int) -> bytes:
    """Return the bytes that have come. Return nothing if the other side is closed, even if it had not read everything."""
    try:
        return os.read(descriptor, count)
    except ConnectionResetError:
        return b""


def _signals() -> int:
    """A descriptor that can be read when a child has ended, or when this process is asked to end."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for each in (signal.SIGCHLD, *_ASKED_TO_END):
        signal.signal(each, lambda *_: None)
    return read


def _make_groups(groups: list[tuple[str, dict[str, str]]]) -> tuple[list[str], str]:
    """The control groups in which the script is to be, with their limits; and why there is one less, if so."""
    made: list[str] = []
    for parent, settings in groups:
        group = f"{parent}/holdfast-{os.getpid()}"
        try:
            os.mkdir(group)  # noqa: PTH102 - pathlib costs more than all of this
            made.append(group)
            for name, value in settings.items():
                if os.path.exists(f"{group}/{name}"):  # noqa: PTH110 - one without swap has no file for it
                    _write(f"{group}/{name}", value)
        except OSError as problem:
            return made, f"its control group {group} could not be made: {problem.strerror}"
    return made, ""


def _remove_groups(groups: list[str]) -> int:
    """Remove the groups. Return the number of their processes that the kernel ended because together they had used all of their
    memory."""
    starved = 0
    for group in groups:
        for name in ("memory.events", "memory.oom_control"):
            try:
                with open(f"{group}/{name}") as file:  # noqa: PTH123 - see above
                    counts = dict(line.split() for line in file)
            except OSError:
                continue  # of the other kind, or of another controller
            starved += int(counts.get("oom_kill", 0))
        _remove_group(group)
    return starved


def _remove_group(group: str) -> None:
    try:
        os.rmdir(group)  # noqa: PTH106 - pathlib costs more than all of this
    except OSError:
        return  # something in it could not be ended, and is counted as a survivor


def _write(path: str, value: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123 - see above
        file.write(value)


def _start(order: dict[str, Any], groups: list[str], control: int) -> tuple[int | None, str]:
    """The script's process, or why there is none."""
    said, say = os.pipe()
    supervisor = os.getpid()
    try:
        script = os.fork()
    except OSError as problem:
        return None, f"no process could be started: {problem.strerror}"
    if script == 0:
        _become(order, groups, control, supervisor, say)
    os.close(say)
    why = os.read(said, 4096)  # nothing if it has become the script, which closes it
    os.close(said)
    if not why:
        return script, ""
    os.waitpid(script, 0)
    return None, why.decode(errors="replace").replace("\n", " ")


def _become(order: dict[str, Any], groups: list[str], control: int, supervisor: int, say: int) -> NoReturn:
    """Turn this child into the script. What goes wrong is said, never raised: this is a copy of the supervisor."""
    command: list[bytes] = order["command"]
    try:
        os.setsid()
        _say(control, f"started {os.getpid()}")  # not the supervisor, which the script may kill in its first moment
        _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == supervisor:
            os.chdir(order["folder"])
            if "stdin" in order:
                os.dup2(order["stdin"], 0)
                os.close(order["stdin"])
            signal.set_wakeup_fd(-1)
            for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(each, signal.SIG_DFL)  # Python ignores SIGPIPE and SIGXFSZ, and that would be inherited
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for group in groups:
                _write(f"{group}/cgroup.procs", "0")  # whatever it starts is born in it
            for which, soft, hard in order["limits"]:
                _limit(which, soft, hard)
            os.execve(order.get("file", command[0]), command, order["environment"])
    except Exception as problem:  # noqa: BLE001 - see above
        reason = getattr(problem, "strerror", None) or repr(problem)
        what = os.fsdecode(getattr(problem, "filename", None) or command[0])
        os.write(say, f"{what}: {reason}".encode(errors="replace")[:4096])
    finally:
        os._exit(_NOT_STARTED)


def _limit(limit: int, soft: int, hard: int) -> None:
    """Set a limit, or leave the one that is there where it is lower already."""
    _, most = resource.getrlimit(limit)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(limit, (soft, hard))


def _say(control: int, report: str) -> None:
    try:
        os.write(control, f"{report}\n".encode())
    except (BrokenPipeError, ConnectionResetError):
        return  # the worker is gone, which is found out when it is listened to


def _signal(send: Callable[[int, int], None], pid: int, signal_: int) -> None:
    try:
        send(pid, signal_)
    except (ProcessLookupError, PermissionError):
        return  # ended meanwhile; or of another account: then it is counted as a survivor


def _descendants() -> dict[int, int]:
    """Every living process below this one, with its group."""
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs more than all of this
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - see above
                stat = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
        state, parent, group = stat[stat.rindex(b")") + 2 :].split(None, 3)[:3]  # the name before may be anything
        if state not in b"ZX":
            children.setdefault(int(parent), []).append((int(name), int(group)))
    found: dict[int, int] = {}
    parents = [os.getpid()]
    while parents:
        below = children.pop(parents.pop(), [])
        found.update(below)
        parents += [pid for pid, _ in below]
    return found


if __name__ == "__main__":
    main()
