"""One script, from its file to what became of it.

    run ── private folder: script, output file, environment file
        ── supervisor (a process) ── the script, in a session of its own
        ── the log, line by line to its listener
        ── what the files say, when nothing that the script started is left

Whatever happens here - an exception, a cancellation, a kill of this very process - closes the socket to the supervisor, which
then ends everything and removes the folder. Never here: what a failed step means for its job.
"""

from __future__ import annotations

import asyncio
import logging
import marshal
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final, NamedTuple, NoReturn

import msgspec

from holdfast.actions.shell import cgroup
from holdfast.actions.shell import supervisor as supervisor_program
from holdfast.actions.shell.command import filled, find
from holdfast.actions.shell.devices import VISIBLE, device_variables
from holdfast.actions.shell.environment import DEFAULT_PATH, encoded, environment_of
from holdfast.actions.shell.log import Log, LogBounds, LogCounts
from holdfast.actions.shell.pairs import FILES, MAX_USAGE_BYTES, MalformedFile, folders, pairs, read, summary, usage
from holdfast.actions.shell.supervisor import KILL, KILL_LIMIT_S, LENGTH_BYTES, STOP
from holdfast.core.values.demand import variable_of
from holdfast.errors import InvalidInput, OutcomeUnknown, ToolFailed
from holdfast.ports import Clock

MAX_SCRIPT_BYTES: Final = 1024 * 1024
MAX_DURATION_S: Final = 30 * 24 * 3600

_SUPERVISOR: Final = supervisor_program.__file__
_SLACK_S: Final = 5.0
"""How much longer than it may take a supervisor is waited for: one that a script has stopped never answers."""
_DRAIN_LIMIT_S: Final = 10.0
"""How long the log is read on when everything has ended: the callback may be slow, or a stranger may hold the log open."""
_REMOVAL_LIMIT_S: Final = 30.0
_REAP_LIMIT_S: Final = 1.0
_CHUNK_BYTES: Final = 64 * 1024
_LIMITS: Final = {"SIGXCPU": ", at its limit of processor time", "SIGXFSZ": ", at its limit of a file's size"}
_REPORT_BYTES: Final = 8 * 1024

_log = logging.getLogger(__name__)


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A script to run, where to run it, and for which step.

    `env` is what the workflow gives it; `path` are directories that come before those of its PATH. `folder` is where it starts.
    `shell` is as in the workflow, None if unset. `pools` is what it has of pools. `gpus` is the number of the worker's GPUs
    that are its own. `memory_mb` (MiB) and `cpu_m` (thousandths of a core) limit all its processes together where the machine
    allows; 0 is no limit.
    """

    text: str
    run: str
    job: str
    step: str
    idempotency_key: str
    folder: str
    shell: str | None = None
    env: Mapping[str, str] = {}
    path: tuple[str, ...] = ()
    pools: Mapping[str, int] = {}
    gpus: int = 0
    memory_mb: int = 0
    cpu_m: int = 0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a script.

    When `timeout_s` is over or it is cancelled, everything that it started gets SIGTERM and, `grace_s` later, SIGKILL.
    Processes left when the script itself has ended have `linger_s` to end by themselves, and are then ended likewise.
    `memory_bytes`, `cpu_s` and `file_bytes` hold for each process by itself. `processes` counts all processes of the account,
    by whatever process they were started, and Linux does not hold root to it.
    """

    timeout_s: float
    grace_s: float = 5.0
    linger_s: float = 1.0
    memory_bytes: int | None = None
    cpu_s: int | None = None
    file_bytes: int | None = None
    processes: int | None = None
    log: LogBounds = LogBounds()

    def __post_init__(self) -> None:
        """Raises InvalidInput for a time that is none, or no end."""
        for name in ("timeout_s", "grace_s", "linger_s"):
            duration_s = getattr(self, name)
            if not 0 <= duration_s <= MAX_DURATION_S:
                raise InvalidInput(f"{name} is {duration_s}; it must be from 0 to {MAX_DURATION_S} seconds (30 days).")


class ScriptEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The ending of a script.

    Exactly one of `exit_code` and `signal` is set, unless the script itself could not be ended; then neither. `outputs`,
    `environment`, `path` and `summary` are the contents of its files, also if it failed. If names differ in case only, an
    output keeps the first name and the last value. `file_problems` are mistakes in the files. `usage` is its own report of what
    it used of its pools, part by part. `usage_problems` name the parts that do not count, which fails nothing. `left_over`
    processes had to be ended after the script; `survivors` could not be. `starved` were ended by the kernel because all
    together had used the script's memory.
    """

    exit_code: int | None
    signal: str | None
    timed_out: bool
    outputs: Mapping[str, str]
    environment: Mapping[str, str]
    path: tuple[str, ...] = ()
    summary: str = ""
    file_problems: tuple[str, ...]
    usage: tuple[tuple[str, int], ...] = ()
    usage_problems: tuple[str, ...] = ()
    log_tail: str
    log: LogCounts
    left_over: int
    survivors: int
    duration_s: float
    starved: int = 0

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.timed_out and not self.file_problems

    def __str__(self) -> str:
        """In a sentence, for a person."""
        if self.timed_out:
            said = "It did not end within its time and was ended."
        elif self.signal is not None:
            said = f"It was ended by {self.signal}{_LIMITS.get(self.signal, '')}."
        elif self.exit_code is None:
            said = "It could not be ended."
        else:
            said = f"It ended with exit code {self.exit_code}."
        if self.starved:
            said += " Its processes had used all of the memory that its job asks for (resources: memory)."
        return " ".join((said, *self.file_problems))


async def nowhere(_: str) -> None:
    """For who wants no lines."""


async def run(
    script: Script,
    limits: Limits,
    *,
    clock: Clock,
    on_line: Callable[[str], Awaitable[None]] = nowhere,
    redact: Callable[[str], str] = str,
    worker: Mapping[str, str] | None = None,
) -> ScriptEnd:
    """Run `script` to its end. `on_line` gets each line of its log, masked by `redact`; while it takes its time, the
    script waits to print more. `worker` is the environment of which a few variables are passed on (os.environ).

    Cancelled, it stops the script as a time-out does; cancelled again, it kills it; either way it returns when nothing is
    left. Raises InvalidInput for a script, shell or variable that cannot be used and ToolFailed if it could not be
    started (nothing was run in both cases), OutcomeUnknown if its supervisor was killed, and whatever `on_line` raises.
    """
    one = _Run(script, limits, redact, on_line, clock)
    task = asyncio.ensure_future(one.run(os.environ if worker is None else worker))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _wait_for_end(task, one)
        raise


async def _wait_for_end(task: asyncio.Future[ScriptEnd], one: _Run) -> None:
    """Wait for `task`, which is asked to stop; each further cancellation asks for more haste."""
    one.ask(STOP)
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            one.ask(KILL)
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.warning("a script that was cancelled ended with: %s", problem)


def _storable(text: str) -> bytes:
    if "\0" in text:
        raise InvalidInput("The script contains NUL, at which a shell would stop reading. Nothing was run.")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("The script is no Unicode text: it contains a lone surrogate. Nothing was run.") from None
    if len(data) > MAX_SCRIPT_BYTES:
        raise InvalidInput(
            f"The script is {len(data)} bytes; at most {MAX_SCRIPT_BYTES} are run. Nothing was run."
            " Put it into a file where the job runs and call that."
        )
    return data


class _Prepared(NamedTuple):
    """The command that the supervisor starts, its environment, and the folder of its files."""

    private: Path
    command: list[str]
    environment: dict[str, str]


def _prepare(script: Script, worker: Mapping[str, str], devices: Mapping[str, str]) -> _Prepared:
    """Check everything, then make the private folder with its files."""
    if sys.platform != "linux":
        raise ToolFailed("Scripts are run on Linux only: what ends them needs its kernel. Nothing was run.")
    text = _storable(script.text)
    own = {
        "HOLDFAST_RUN": script.run,
        "HOLDFAST_JOB": script.job,
        "HOLDFAST_STEP": script.step,
        "HOLDFAST_IDEMPOTENCY_KEY": script.idempotency_key,
        **{variable_of(pool): str(amount) for pool, amount in script.pools.items()},
        **devices,
    }
    environment = environment_of(worker, script.env, own)
    command = find(script.shell, worker.get("PATH", DEFAULT_PATH), script.folder)
    environment["PATH"] = ":".join((*script.path, environment["PATH"]))
    private = Path(tempfile.mkdtemp(prefix="holdfast-step-"))
    file, files = private / "script", {name: private / name.lower() for name in FILES}
    try:
        file.write_bytes(text)
        for each in files.values():
            each.touch()
    except OSError as problem:
        shutil.rmtree(private)
        raise ToolFailed(f"The script could not be written to {file}: {problem.strerror}. Nothing was run.") from None
    environment |= {name: str(each) for name, each in files.items()}
    return _Prepared(private, filled(command, str(file)), environment)


class _Report(NamedTuple):
    """The supervisor's final report; see supervisor.Supervisor.run."""

    status: int | None
    timed_out: bool
    left_over: int
    survivors: int
    starved: int


class _Run:
    """One run of one script."""

    def __init__(
        self,
        script: Script,
        limits: Limits,
        redact: Callable[[str], str],
        on_line: Callable[[str], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._script = script
        self._limits = limits
        self._redact = redact
        self._log = Log(limits.log, redact)
        self._on_line = on_line
        self._clock = clock
        self._to_supervisor: asyncio.StreamWriter | None = None
        self._asked = b""
        self._group: int | None = None

    def ask(self, command: bytes) -> None:
        """Stop or kill; kept for a supervisor that is not there yet."""
        self._asked += command
        if self._to_supervisor is not None:
            self._to_supervisor.write(command)

    async def run(self, worker: Mapping[str, str]) -> ScriptEnd:
        began_s = self._clock.monotonic_s()
        with ExitStack() as open_:
            devices = open_.enter_context(device_variables(self._script.gpus, worker.get(VISIBLE)))
            prepared = _prepare(self._script, worker, devices)
            # Nothing is awaited between the folder and its supervisor, so a process always removes it.
            process, control, printed = _start_supervisor(prepared.private)
            open_.callback(control.close)
            open_.enter_context(printed)
            answers, self._to_supervisor = await asyncio.open_connection(sock=control, limit=_REPORT_BYTES)
            # Before the socket: closed later, it would take another file with the socket's number off the loop.
            open_.callback(self._to_supervisor.close)
            self._to_supervisor.write(_order(prepared, self._script, self._limits) + self._asked)
            printing = asyncio.ensure_future(self._print(printed))
            try:
                report = await self._report(answers, printing, process)
                unread = await self._printed(printing)
                said = _files(prepared.environment, self._redact, self._script.pools)
            finally:
                printing.cancel()
                await _removed(self._to_supervisor, answers, process, prepared.private)
        return ScriptEnd(
            exit_code=None if report.status is None or os.WIFSIGNALED(report.status) else os.WEXITSTATUS(report.status),
            signal=_signal_name(report.status),
            timed_out=report.timed_out,
            outputs=said.outputs,
            environment=said.environment,
            path=said.path,
            summary=said.summary,
            file_problems=said.problems,
            usage=said.usage,
            usage_problems=said.usage_problems,
            log_tail=self._log.tail,
            log=self._log.counts(unread=unread),
            left_over=report.left_over,
            survivors=report.survivors,
            starved=report.starved,
            duration_s=self._clock.monotonic_s() - began_s,
        )

    async def _report(
        self, answers: asyncio.StreamReader, printing: asyncio.Future[None], process: subprocess.Popen[bytes]
    ) -> _Report:
        """Return the supervisor's final report. Raises what `on_line` raised, whereupon everything is ended."""
        limits = self._limits
        patience = asyncio.timeout(limits.timeout_s + limits.linger_s + limits.grace_s + KILL_LIMIT_S + _SLACK_S)
        listening = asyncio.ensure_future(self._listen(answers))
        try:
            async with patience:
                await asyncio.wait((listening, printing), return_when=asyncio.FIRST_COMPLETED)
                if not listening.done():
                    await printing  # it failed; or the script has closed its output and goes on
                report = await listening
        except TimeoutError:
            if not patience.expired():
                raise
            report = None
        finally:
            listening.cancel()
            await asyncio.wait((listening,))  # no other process may read the answers before
        if report is None:
            self._end_without_supervisor(process)
        return report

    async def _listen(self, answers: asyncio.StreamReader) -> _Report | None:
        """None if the supervisor ended without having said what became of the script."""
        try:
            while report := (await answers.readline()).decode().rstrip("\n"):
                word, _, rest = report.partition(" ")
                if word == "failed":
                    raise ToolFailed(f"The script could not be started: {rest}. Nothing was run.")
                if word == "ended":
                    status, timed_out, *counts = rest.split()
                    return _Report(None if status == "-" else int(status), timed_out == "1", *map(int, counts))
                self._group = int(rest)
        except ConnectionResetError:
            return None
        return None

    def _end_without_supervisor(self, process: subprocess.Popen[bytes]) -> NoReturn:
        process.kill()  # the kernel then kills the script itself
        if self._group is not None:
            try:
                os.killpg(self._group, signal.SIGKILL)
            except ProcessLookupError:
                _log.debug("the group of the script had ended already")
        raise OutcomeUnknown(
            "The process that looks after the script was killed or stopped, so it is unknown how far the script came."
            " Its group of processes was killed; what had left that group may still run. A script must leave its parent"
            " process alone."
        )

    async def _print(self, printed: IO[bytes]) -> None:
        reader = asyncio.StreamReader(_CHUNK_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), printed)
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                for line in self._log.add(chunk):
                    await self._on_line(line)
        finally:
            transport.close()

    async def _printed(self, printing: asyncio.Future[None]) -> bool:
        """Wait for the end of the log, but not for ever. Whether something was left unread."""
        patience = asyncio.timeout(_DRAIN_LIMIT_S)
        try:
            async with patience:
                await printing
                for line in self._log.end():
                    await self._on_line(line)
        except TimeoutError:
            if not patience.expired():
                raise
            return True
        return False


def _start_supervisor(private: Path) -> tuple[subprocess.Popen[bytes], socket.socket, IO[bytes]]:
    """The supervisor, our end of the socket to it, and the log."""
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    printed = os.fdopen(reading, "rb", buffering=0)
    command = [sys.executable, "-I", "-S", _SUPERVISOR, str(private)]
    try:
        process = subprocess.Popen(
            command,
            stdin=theirs.fileno(),
            stdout=writing,
            stderr=writing,
            cwd="/",
            env={"PATH": DEFAULT_PATH},
            start_new_session=True,
        )
    except OSError as problem:
        ours.close()
        printed.close()
        shutil.rmtree(private)
        raise ToolFailed(f"No process could be started: {problem.strerror}. Nothing was run.") from None
    finally:
        theirs.close()
        os.close(writing)
    return process, ours, printed


def _order(prepared: _Prepared, script: Script, limits: Limits) -> bytes:
    order = {
        "command": [encoded(word) for word in prepared.command],
        "environment": {encoded(name): encoded(value) for name, value in prepared.environment.items()},
        "folder": encoded(script.folder),
        "timeout_s": limits.timeout_s,
        "grace_s": limits.grace_s,
        "linger_s": limits.linger_s,
        "limits": list(_resource_limits(limits)),
        "groups": cgroup.limits(script.memory_mb, script.cpu_m),
    }
    data = marshal.dumps(order)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def _resource_limits(limits: Limits) -> Iterator[tuple[int, int, int]]:
    """(resource, soft, hard). A core file would hold whatever secrets the script was given: there is never one."""
    yield resource.RLIMIT_CORE, 0, 0
    if limits.cpu_s is not None:
        yield resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1  # SIGXCPU first, which says why
    for which, most in (
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_AS, limits.memory_bytes),  # last, for setting the others takes memory too
    ):
        if most is not None:
            yield which, most, most


class _ScriptFiles(NamedTuple):
    """The contents of a script's files, and the mistakes in them."""

    outputs: dict[str, str]
    environment: dict[str, str]
    path: tuple[str, ...]
    summary: str
    problems: tuple[str, ...]
    usage: tuple[tuple[str, int], ...]
    usage_problems: tuple[str, ...]


def _files(paths: Mapping[str, str], redact: Callable[[str], str], pools: Collection[str]) -> _ScriptFiles:
    outputs: dict[str, str] = {}
    spelling: dict[str, str] = {}
    environment: dict[str, str] = {}
    path: tuple[str, ...] = ()
    shown = ""
    problems: list[str] = []
    used: list[tuple[str, int]] = []
    unused: list[MalformedFile] = []
    for name, what in FILES.items():
        try:
            if name == "HOLDFAST_USAGE":
                used, unused = usage(read(paths[name], MAX_USAGE_BYTES), pools)
                continue
            content = read(paths[name])
            if name == "GITHUB_OUTPUT":
                for each, value in pairs(content):
                    outputs[spelling.setdefault(each.lower(), each)] = value
            elif name == "GITHUB_ENV":
                for each, value in pairs(content):
                    environment[each] = value  # noqa: PERF403 - what stands before a mistake counts
            elif name == "GITHUB_PATH":
                path = folders(content)
            else:
                shown = summary(content, redact)
        except MalformedFile as problem:
            told = f"The {what} file ({name}) is wrong: {problem.describe(redact)}."
            if what == "summary":
                shown = told  # it is for people, and fails nothing
            elif what == "usage":
                unused = [problem]
            else:
                problems.append(told)
    ignored = [f"Of the usage file (HOLDFAST_USAGE) does not count: {each.describe(redact)}." for each in unused]
    return _ScriptFiles(outputs, environment, path, shown, tuple(problems), tuple(used), tuple(ignored))


def _signal_name(status: int | None) -> str | None:
    if status is None or not os.WIFSIGNALED(status):
        return None
    number = os.WTERMSIG(status)
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # one of the real-time signals


async def _removed(
    to_supervisor: asyncio.StreamWriter, answers: asyncio.StreamReader, process: subprocess.Popen[bytes], private: Path
) -> None:
    """Let the supervisor end whatever is left and remove the folder, and reap it."""
    try:
        async with asyncio.timeout(KILL_LIMIT_S + _REMOVAL_LIMIT_S):
            to_supervisor.write_eof()
            await answers.read()
    except (TimeoutError, ConnectionResetError):
        process.kill()
    try:
        process.wait(_REAP_LIMIT_S)  # it has closed its last descriptor: what remains to be done is the kernel's
    except subprocess.TimeoutExpired:
        _log.warning("process %d does not end, although it was killed", process.pid)
    await _remove_without_supervisor(private)


async def _remove_without_supervisor(private: Path) -> None:
    """Remove the folder that a killed supervisor has left. `rm` copes with folders of any depth."""
    if not _exists(private):
        return
    removal = await asyncio.create_subprocess_exec("rm", "-rf", "--", str(private), stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(_REMOVAL_LIMIT_S):
            await removal.wait()
    except TimeoutError:
        removal.kill()
    if _exists(private):
        _log.warning("%s could not be removed; remove it by hand", private)


def _exists(private: Path) -> bool:
    return private.exists()
