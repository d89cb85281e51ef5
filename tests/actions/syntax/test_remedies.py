"""What a mistake advises is right when it is pasted: the file is, and the shell does what it did with the text that GitHub pastes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.actions.binding import PREFIX
from holdfast.actions.syntax.load import load
from holdfast.actions.syntax.mistake import Mistake
from holdfast.errors import InvalidFile
from tests.actions.test_binding import ATTACKS, HERE, REFUSED, TAKEN

GIVEN = {"name": "Ada", "n": "3", "ref": "main", "list": "a b", "path": "/bin", "other-name": "Bob"}
"""What the run is given, and what `env` has (as NAME, N, …): nothing that a shell would read as more than words."""


def file(script: str, env: dict[str, str], shell: str | None = None) -> dict[str, Any]:
    step: dict[str, Any] = {"run": script, "env": {**own(), **env}} | ({"shell": shell} if shell else {})
    return {"jobs": {"work": {"runs-on": "any", "steps": [step]}}}


def own() -> dict[str, str]:
    return {"FLAGS": "-n x", "CARGO": "printf", "WORD": "w"}


def mistakes(script: str, env: dict[str, str], shell: str | None = None) -> tuple[Mistake, ...]:
    try:
        load(yaml.safe_dump(file(script, env, shell), width=10**6), "file")
    except InvalidFile as invalid:
        return tuple(invalid.mistakes)
    return ()


def applied(script: str, example: str) -> tuple[str, dict[str, str]]:
    """The script with the advised line in the place of its like, and the advised variables."""
    advised = yaml.safe_load(example)
    lines = [line for line in advised["run"].splitlines() if not line.startswith("# ")]
    *checks, line = lines
    fitting = [n for n, old in enumerate(script.splitlines()) if "${{" in old and is_like(old.strip(), line)]
    assert fitting, (script, example)
    replaced = script.splitlines()
    replaced[fitting[0]] = line
    return "\n".join([*checks, *replaced]), advised.get("env", {})


def is_like(old: str, new: str) -> bool:
    """Whether what stands outside of the expressions of a line is there in the other, in its order."""
    at = 0
    for part in plain_parts(old):
        at = new.find(part, at)
        if at < 0:
            return False
    return True


def plain_parts(line: str) -> list[str]:
    first, *rest = line.split("${{")
    return [part.strip("'") for part in (first, *(each.partition("}}")[2] for each in rest))]


def mended(script: str, shell: str | None = None) -> tuple[str, dict[str, str]]:
    """The script after all advice was followed, in turn, and its variables as expressions."""
    env: dict[str, str] = {}
    for _ in range(20):
        found = [each for each in mistakes(script, env, shell) if each.path.endswith(".run")]
        if not found:
            return script, env
        assert found[0].example is not None, (script, found[0].message)
        script, more = applied(script, found[0].example)
        env |= more
    raise AssertionError(f"advice without end: {script}")


def evaluated(text: str) -> str:
    """The value of an expression of these tests, pasted as GitHub does."""
    for name, value in GIVEN.items():
        text = text.replace(f"${{{{ inputs.{name} }}}}", value)
    for name, value in own().items():
        text = text.replace(f"${{{{ env.{name} }}}}", value)
    return text


def ran(script: str, env: dict[str, str], folder: Path, shell: str = "bash") -> tuple[int, bytes]:
    done = subprocess.run(
        [shell, "-e", "-c", script],
        env={"PATH": os.environ["PATH"], **own(), **env},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    return done.returncode, done.stdout


ADVISED = [
    "echo '${{ inputs.name }}'",
    "echo 'a ${{ inputs.name }} b'",
    "echo 'a ${{ inputs.name }}${{ inputs.ref }}'\necho b",
    "echo $'a\\t${{ inputs.name }}\\tb'",
    'printf \'%s-\' \'{"a": "${{ inputs.name }}", "b": ${{ inputs.n }}}\' "${{ inputs.ref }}"',
    "echo x\necho 'a' '${{ inputs.name }}' \\\n  'b ${{ inputs.ref }}'\necho y",
    "${{ env.CARGO }} '%s,' build ${{ env.FLAGS }}",
    "${{ env.CARGO }} '%s,' 'x ${{ env.WORD }}' ${{ env.FLAGS }}",
    "$CARGO '%s,' ${{ inputs.list }} x",
    '"$CARGO" \'%s,\' ${{ inputs.list }} "${{ inputs.name }}"',
    'for x in ${{ inputs.list }}; do echo "<$x>"; done',
    'for x in ${{ env.FLAGS }} z; do echo "<$x>"; done',
    "export X=${{ inputs.name }}; echo $X",
    'f() { local x="${{ inputs.list }}"; echo "$x"; }; f',
    "set -- ${{ inputs.list }}; echo $#",
    "A=(${{ inputs.list }} c); echo ${#A[@]}",
    "echo $((${{ inputs.n }} + 1))",
    'echo "$(( 2 * ${{ inputs.n }}0 ))"',
    "(( ${{ inputs.n }} > 2 )) && echo more",
    "[[ ${{ inputs.n }} -eq 3 ]] && echo three",
    '[[ 4 -gt "${{ inputs.n }}" && a == a ]] && echo less',
    "echo ${X:-${{ inputs.name }}}",
    'echo "${X:-a ${{ inputs.name }} b}"',
    "while read x; do echo $x; done < ${{ inputs.path }}/../etc/hostname >/dev/null",
    "NAME=mine; echo '${{ inputs.name }}' $NAME",
    "echo '${{ inputs.path }}' '${{ inputs.other-name }}' '${{ inputs.name }}'",
    "true ${{ inputs.list }}; echo ok",
]


@pytest.mark.parametrize("script", ADVISED, ids=[script[:40] for script in ADVISED])
def test_what_is_advised_is_right_and_does_what_the_pasted_text_did(tmp_path: Path, script: str) -> None:
    assert mistakes(script, {}), "it was bound"
    right, env = mended(script)
    bound = load(yaml.safe_dump(file(right, env), width=10**6), "file").jobs[0].steps[0].script
    values = {each.name: evaluated(f"${{{{ {each.value.text.strip()} }}}}") for each in bound.bindings}
    given = {name: evaluated(value) for name, value in env.items()}
    assert ran(bound.text, given | values, tmp_path) == ran(evaluated(script), {}, tmp_path)


@pytest.mark.parametrize("script", [*(script for script, _ in REFUSED), *TAKEN], ids=lambda script: script[:40])
def test_no_advice_has_a_value_run(tmp_path: Path, script: str) -> None:
    """Whatever is refused: where lines are advised, hostile values in them are data, and the file has that mistake no more."""
    written = script.replace(HERE, "${{ inputs.name }}")
    env: dict[str, str] = {}
    for _ in range(20):
        found = [each for each in mistakes(written, env) if each.path.endswith(".run") and each.example]
        if not found:
            break
        written, more = applied(written, found[0].example or "")
        env |= more
    assert not [each for each in mistakes(written, env) if each.example]
    for value in ATTACKS if env else []:
        ran(written.replace("${{ inputs.name }}", f'"${PREFIX}1"'), dict.fromkeys([*env, f"{PREFIX}1"], value), tmp_path)
        assert not (tmp_path / "pwned").exists()


WORDS = [
    ("echo '${{ github.ref }}'", "'github' is not there"),
    ("${{ inputs.name }} --help", "as the command itself"),
    ("eval echo ${{ inputs.name }}", "behind 'eval'"),
    ("sh -c 'echo ${{ inputs.name }}'", "inside single quotes"),
    ("[[ -v ${{ inputs.name }} ]]", "behind '[['"),
    ("unset ${{ inputs.name }}", "behind 'unset'"),
    ("printf ${{ inputs.name }}", "as the format of 'printf'"),
    ("A[${{ inputs.n }}]=1", "as the command itself"),
    ("echo ${A[${{ inputs.n }}]}", "inside ${ }"),
    ("echo ${A:${{ inputs.n }}}", "inside ${ }"),
    ("cat <<'E'\n${{ inputs.name }}\nE", "in a heredoc whose end mark is quoted"),
    ("echo '${{ inputs.name }}' `ls ${{ inputs.name }}`", "inside backquotes"),
]


@pytest.mark.parametrize(("script", "where"), WORDS, ids=[script[:40] for script, _ in WORDS])
def test_where_no_line_is_right_none_is_shown(script: str, where: str) -> None:
    found = mistakes(script, {})
    assert any(where in each.message for each in found)
    assert [each.example for each in found] == [None] * len(found)
    assert not any(each.message.endswith(":") for each in found)


def test_the_advice_for_a_variable_of_the_environment_is_the_variable() -> None:
    found, beside = mistakes("${{ env.CARGO }} build ${{ env.FLAGS }}", {})
    assert beside.example == found.example
    assert found.message.endswith("It is in the script's environment already, as $CARGO:")
    assert found.example is not None
    assert found.example.splitlines()[-1] == "  $CARGO build $FLAGS"
    assert "splits it at blanks" in found.example
    assert "env:" not in found.example


def test_advice_names_no_variable_that_steers_or_that_the_script_knows() -> None:
    for script, name in [
        ("echo '${{ inputs.path }}'", "VALUE_OF_PATH"),
        ("echo '${{ inputs.name }}' $NAME", "VALUE_OF_NAME"),
        ("VALUE_OF_NAME=1; echo '${{ inputs.name }}' $NAME", "VALUE_2"),
        ("echo '${{ inputs.run.user }}'", "VALUE_OF_USER"),
        ("echo '${{ inputs[inputs.x] }}'", "X"),
    ]:
        (found,) = mistakes(script, {})
        assert f"\n  {name}: " in f"{found.example}", script


def test_advice_is_yaml_whatever_the_expression_is() -> None:
    right, env = mended("echo '${{ format(''{0}: # {1}'', inputs.name, '' x'') }}'".replace("''", "'"))
    assert right == 'echo "$NAME"'
    assert env == {"NAME": "${{ format('{0}: # {1}', inputs.name, ' x') }}"}
