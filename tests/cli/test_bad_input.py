"""What a person types that cannot be used, or a file that cannot be imported: one clear paragraph, and nothing is done."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shell, spelled

NOTHING = ("Nothing was done.", "No run was started.")


def refused(said: object, told: str) -> None:
    code, out, err = said  # type: ignore[misc]
    assert (code, out) == (2, "")
    assert told in err
    assert err.rstrip().endswith(NOTHING)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "--input is not JSON"),
        ("not json", "A text needs its quotes"),
        ('{"customer": "Ada"', "--input is not JSON: Expecting ',' delimiter"),
        ("NaN", "NaN is not a number in JSON"),
        ('{"customer": "Ada", "pieces": -Infinity}', "-Infinity is not a number in JSON"),
        ("[1]", "does not fit Order"),
        ('{"customer": 1}', "customer: Input should be a valid string"),
        ('{"customer": "\\ud800"}', "the value['customer'] contains half of a surrogate pair"),
        ('{"customer": "\udcff"}', "is not valid UTF-8"),
        ("@", "'@', which names no file, cannot be read"),
        ("@.", ". cannot be read: Is a directory"),
        ("@-", "stdin is not JSON"),
        ("@latin.json", "latin.json cannot be read: it is not UTF-8 text"),
        ("@nul.json", "nul.json is not JSON: Invalid control character"),
        ("@empty.json", "empty.json is not JSON"),
        ("@deep.json", "deep.json is not JSON"),
        ("@digits.json", "digits.json is not JSON"),
    ],
)
def test_an_input_that_cannot_be_used_starts_nothing(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch, given: str, told: str
) -> None:
    (home / "latin.json").write_bytes(b'{"customer": "\xff\xfe"}')
    (home / "nul.json").write_bytes(b'{"customer": "a\0b"}')
    (home / "empty.json").touch()
    (home / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    (home / "digits.json").write_text("9" * 5000)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    refused(shell("run", "flow:greet", "-i", given), told)
    assert not (home / "holdfast.db").exists() or shell("runs", "list", "--json").data == []


@pytest.mark.long
def test_fifty_megabytes_are_an_input_whose_run_ends_as_any_other(shell: Shell, home: Path) -> None:
    large = "x" * (50 * 1024 * 1024)
    (home / "large.json").write_text(json.dumps({"customer": large}))
    said = shell("run", "flow:greet", "-i", "@large.json")
    assert said.code == 0
    assert said.out == f"Dear {large}\n"


def test_a_file_may_begin_with_the_mark_of_its_encoding(shell: Shell, home: Path) -> None:
    (home / "marked.json").write_bytes(b'\xef\xbb\xbf{"customer": "Ada"}')
    assert shell("run", "flow:greet", "-i", "@marked.json").out == "Dear Ada\n"


@pytest.mark.parametrize(("bytes_", "told"), [(b'"\xff"', "it is not UTF-8 text"), (None, "it is closed")])
def test_what_comes_from_stdin_is_utf8_whatever_the_locale(home: Path, bytes_: bytes | None, told: str) -> None:
    words = [sys.executable, "-m", "holdfast", "run", spelled("flow:greet"), "-i", "@-"]
    if bytes_ is None:
        words = ["sh", "-c", 'exec "$@" <&-', "sh", *words]
    done = subprocess.run(words, input=bytes_, capture_output=True, env=os.environ | {"LC_ALL": "C"})
    refused((done.returncode, done.stdout.decode(), done.stderr.decode()), f"stdin cannot be read: {told}")


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "show", "\udcff"),
        ("run", "flow:greet", "--tenant", "\udcff"),
        ("run", "\udcff.py"),
        ("run", "flow:greet", "--store", "\udcff.db"),
        ("gates", "reject", "x", "--reason", "\udcff"),
    ],
)
def test_an_argument_that_is_no_text_is_refused_by_every_command(home: Path, shell: Shell, words: tuple[str, ...]) -> None:
    refused(shell(*words), "'\\udcff")
    assert [*home.iterdir()] == []


def test_data_that_cannot_be_used_leaves_the_gate_and_the_signal_as_they_were(shell: Shell) -> None:
    gate = shell("run", "flow:letter", "-i", '{"customer": "Ada"}', "--json").data["waiting_for"][0]["id"]
    waiting = shell("run", "flow:patient", "--json").data["run_id"]
    for data in ("NaN", "{", '"\\ud800"', '{"edited_body": "\\ud800"}'):
        for words in (("gates", "edit", gate), ("runs", "signal", waiting, "go")):
            said = shell(*words, "--data", data)
            assert (said.code, said.out) == (2, "")
    assert [each["gate_id"] for each in shell("gates", "list", "--json").data] == [gate]
    assert shell("runs", "show", waiting, "--json").data["waiting_for"][0]["reason"] == "go"
    assert shell("gates", "approve", gate, "--as", "ann").code == 0
    assert shell("runs", "signal", waiting, "go", "--data", "1").code == 0


# --- Files that do not import -----------------------------------------------------------------------------------------


def imported(home: Path, shell: Shell, text: str, *words: str) -> tuple[list[str], str]:
    """The lines of the traceback, and what stands below it."""
    (home / "mine.py").write_text(text)
    said = shell(*(words or ("run", "mine.py:wf")))
    assert (said.code, said.out) == (2, "")
    *trace, last = said.err.rstrip().splitlines()
    assert last.startswith("Error: mine.py could not be imported: ")
    assert last.endswith(". Nothing was done.")
    assert ".. " not in last
    return trace, last


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("from holdfast import Workflow\nwf = Workflow('x'\n", "SyntaxError: '(' was never closed"),
        ("import nothing_of_that_name\n", "No module named 'nothing_of_that_name'"),
        ("from holdfast import Workflow\nWorkflow('x').edge()\n", "missing 2 required positional arguments"),
        ("class Odd(BaseException): ...\nraise Odd('why')\n", "Odd: why"),
        ("\0", "null bytes"),
    ],
)
def test_whatever_a_file_raises_is_reported_as_its_own(home: Path, shell: Shell, text: str, problem: str) -> None:
    trace, last = imported(home, shell, text)
    assert problem in last
    places = [line for line in trace if line.lstrip().startswith("File ")]
    assert all("mine.py" in place for place in places)


@pytest.mark.parametrize("command", ["run", "worker", "validate", "graph"])
def test_a_traceback_ends_where_the_users_own_code_does(home: Path, shell: Shell, command: str) -> None:
    text = "import json\n\ndef read():\n    return json.loads('{')\n\nread()\n"
    trace, _ = imported(home, shell, text, command, "mine.py")
    places = [line.strip().partition(", ")[2] for line in trace if line.lstrip().startswith("File ")]
    assert places == ["line 6, in <module>", "line 4, in read"]


def test_every_part_of_a_group_of_errors_is_shortened(home: Path, shell: Shell) -> None:
    text = (
        "import json\ntry:\n    json.loads('{')\nexcept ValueError as problem:\n"
        "    raise ExceptionGroup('several', [problem])\n"
    )
    trace, last = imported(home, shell, text)
    assert "several" in last
    assert not [line for line in trace if "json/" in line]
