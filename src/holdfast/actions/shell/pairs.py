"""The files that a script writes. Those of GitHub's have its form: outputs and environment as pairs, folders for later steps'
PATH line by line, and a summary as it is. Its use of pools it writes as POOL=AMOUNT, line by line.

    NAME=value           split at the first `=`, nothing trimmed
    NAME<<DELIMITER      the lines up to the one that is exactly DELIMITER, without the last newline

Empty lines mean nothing. Everything before a mistake counts. Never here: what the pairs are for.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from typing import Final

from holdfast.core.values.demand import MAX_AMOUNT

FILES: Final = {
    "GITHUB_OUTPUT": "output",
    "GITHUB_ENV": "environment",
    "GITHUB_PATH": "path",
    "GITHUB_STEP_SUMMARY": "summary",
    "HOLDFAST_USAGE": "usage",
}
"""The variables that name them, and what people call them."""
MAX_FILE_BYTES: Final = 1024 * 1024
MAX_SUMMARY_CHARACTERS: Final = 64 * 1024
"""It is for people, and travels with what became of the script."""
MAX_USAGE_BYTES: Final = 64 * 1024
_MAX_TOLD: Final = 10
"""Of lines that do not count: one may stand there for each call that was made."""
_AMOUNT: Final = re.compile(r"[0-9]{1,13}")
_SHOWN_CHARACTERS: Final = 80


class MalformedFile(Exception):
    """A file that does not keep to the form, or is none. `why` has a place for each of the file's words that it shows."""

    def __init__(self, reason: str, *words: str) -> None:
        super().__init__(reason, *words)
        self._why = reason
        self._words = words

    def describe(self, redact: Callable[[str], str]) -> str:
        """In a sentence. The file's words are masked before they are cut, so that no cut halves a secret."""
        return self._why.format(*(_quote(redact(word)) for word in self._words))


def read(path: str, most_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The file's content; nothing if the script removed it. Raises Malformed if it put something else in its place."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as problem:
        raise MalformedFile(f"it cannot be read: {problem.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MalformedFile("the script put something in its place that is no plain file")
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise MalformedFile(
            f"it is larger than {most_bytes} bytes; none of it counts. Write large results to a file or a store"
            " and pass its name"
        )
    return content


def folders(content: bytes) -> tuple[str, ...]:
    """Return the lines of a path file, in its order. Raises Malformed for a line that no PATH can hold."""
    lines = [line for line in content.decode("utf-8-sig", errors="replace").split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            raise MalformedFile(f"line {number}: it contains NUL, which no variable can hold")
    return tuple(lines)


def summary(content: bytes, redact: Callable[[str], str]) -> str:
    """The text for people, masked and cut."""
    text = redact(content.decode("utf-8-sig", errors="replace").replace("\0", "\ufffd")).rstrip("\n")
    cut = len(text) - MAX_SUMMARY_CHARACTERS
    return text if cut <= 0 else f"{text[:MAX_SUMMARY_CHARACTERS]}\n({cut} characters of this summary were cut.)"


def usage(content: bytes, pools: Collection[str]) -> tuple[list[tuple[str, int]], list[MalformedFile]]:
    """Return the amounts used of `pools`, line by line, and the lines that do not count."""
    found: list[tuple[str, int]] = []
    problems: list[MalformedFile] = []
    unsaid = 0
    for number, line in enumerate(content.decode("utf-8-sig", errors="replace").split("\n"), 1):
        if not line.strip():
            continue
        pool, equals, amount = (part.strip() for part in line.rpartition("="))
        if not (equals and _AMOUNT.fullmatch(amount) and int(amount) <= MAX_AMOUNT):
            why = f"line {number}: {{}} is not POOL=AMOUNT, with a whole number up to {MAX_AMOUNT}"
            problem = MalformedFile(why, line)
        elif pool not in pools:
            problem = MalformedFile(f"line {number}: {{}} is no pool that the job takes of", pool)
        else:
            found.append((pool, int(amount)))
            continue
        if len(problems) < _MAX_TOLD:
            problems.append(problem)
        else:
            unsaid += 1
    return found, [*problems, *([MalformedFile(f"{unsaid} more lines are like these")] if unsaid else [])]


def pairs(content: bytes) -> Iterator[tuple[str, str]]:
    """Name and value of each pair, in order. Raises Malformed where a mistake stands, after what is before it."""
    lines = content.decode("utf-8-sig", errors="replace").split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line:
            continue
        name, delimiter = _opening(line, number)
        if delimiter is None:
            yield _storable(name, line[len(name) + 1 :], number)
            continue
        try:
            end = lines.index(delimiter, number)
        except ValueError:
            raise MalformedFile(
                f"line {number}: {{}} opens a text that ends with a line {{}}, which does not come", name, delimiter
            ) from None
        yield _storable(name, "\n".join(lines[number:end]), number)
        number = end + 1


def _opening(line: str, number: int) -> tuple[str, str | None]:
    """The name that a line begins with and, where it opens a text of several lines, the delimiter."""
    name, equals, _ = line.partition("=")
    before, opens, delimiter = line.partition("<<")
    if opens and len(before) < len(name):
        if not before or not delimiter:
            raise MalformedFile(f"line {number}: {{}} needs a name before << and a delimiter after it", line)
        return before, delimiter
    if not equals:
        raise MalformedFile(f"line {number}: {{}} is neither NAME=value nor NAME<<DELIMITER", line)
    if not name:
        raise MalformedFile(f"line {number}: {{}} has no name before =", line)
    return name, None


def _storable(name: str, value: str, number: int) -> tuple[str, str]:
    if "\0" in name or "\0" in value:
        raise MalformedFile(f"line {number}: there is a NUL in the name or the value, which no variable can hold")
    return name, value


def _quote(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")
