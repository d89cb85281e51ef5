"""No value becomes code: hostile values in every position of a script, read by real shells."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.authoring.yaml.binding import PREFIX, Bound, bind

HERE = "@@"
"""Where an expression stands in the scripts of these tests."""


def bound(script: str) -> Bound:
    first, *others = script.split(HERE)
    pieces: list[str | None] = [first]
    for other in others:
        pieces += [None, other]
    return bind(pieces)


def run(script: str, value: str, shell: str, home: Path) -> bytes:
    """What the bound script prints when each of its expressions has this value."""
    names = {f"{PREFIX}{number}": value for number in range(1, script.count(HERE) + 1)}
    done = subprocess.run(
        [shell, "-c", bound(script).text], env={b"PATH": os.environb[b"PATH"]} | {
            name.encode(): text.encode("utf-8", "surrogateescape") for name, text in names.items()
        }, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, timeout=20,
    )  # fmt: skip
    assert done.returncode == 0, (script, value, done.stderr)
    return done.stdout


POSITIONS = [
    ("printf '%s\\0' @@", "{}"),
    ("printf '%s\\0' \"@@\"", "{}"),
    ("printf '%s\\0' a@@b", "a{}b"),
    ("printf '%s\\0' \"a @@ b\"", "a {} b"),
    ("printf '%s\\0' --name=@@", "--name={}"),
    ("X=@@; printf '%s\\0' \"$X\"", "{}"),
    ('export Y="@@"; printf \'%s\\0\' "$Y"', "{}"),
    ('Z=@@ sh -c \'printf "%s\\0" "$Z"\'', "{}"),
    ("printf '%s\\0' \"$(printf '%s' @@; printf x)\"", "{}x"),
    ("printf '%s\\0' \"$(printf '%s' \"@@\"; printf x)\"", "{}x"),
    ("cat <<EOF\n@@\nEOF\nprintf '\\0'", "{}\n"),
    ("cat <<-EOF\n\t\"@@\" $(printf '%s' @@; printf x)\n\tEOF\nprintf '\\0'", '"{}" {}x\n'),
    ("for x in @@; do printf '%s\\0' \"$x\"; done", "{}"),
    ("case @@ in @@) printf 'same\\0';; *) printf 'other\\0';; esac", "same"),
    ("if [ x@@ = \"x@@\" ]; then printf 'same\\0'; fi", "same"),
    ("printf '%s\\0' @@ | cat", "{}"),
    ("(printf '%s\\0' @@)", "{}"),
    ("{ printf '%s\\0' \"@@\"; }", "{}"),
    ("f() { printf '%s\\0' \"$1\"; }; f @@", "{}"),
    ("while :; do printf '%s\\0' @@; break; done", "{}"),
    ("true && ! false || printf no; printf '%s\\0' @@", "{}"),
    ("printf 'x\\0' # a comment with @@ in it", "x"),
    ('sh -c \'printf "%s\\0" "$1"\' _ @@', "{}"),
    ("printf '%s\\0' 'a'@@\"b\"", "a{}b"),
    ("printf '%s\\0' \\\n  @@", "{}"),
    ("printf '%s\\0' \"$(case a in a) printf '%s' @@;; (b) ;; esac; printf x)\"", "{}x"),
    ("if [ 1 -eq 1 ]; then case @@ in -) printf '%s\\0' -;; *) printf '%s\\0' \"@@\";; esac; fi", "{}"),
]
"""A script that prints, with a NUL behind, what its expression came to be."""

ONLY_BASH = [
    ("if [[ \"@@\" == @@ && -n x@@ ]]; then printf 'same\\0'; fi", "same"),
    ("cat <<< @@; printf '\\0'", "{}\n"),
    ('A=(@@ "@@"); printf \'%s\\0\' "${A[0]}${A[1]}"', "{}{}"),
    ("cat <(printf '%s\\0' @@)", "{}"),
    ("local_() { local v=@@; printf '%s\\0' \"$v\"; }; local_", "{}"),
    ("printf '%s\\0' @@ |& cat", "{}"),
]

HOSTILE = [
    "", " ", "-n", "-rf /", "--", "it's", '"', "'; touch pwned; '", '"; touch pwned; "', "$(touch pwned)", "`touch pwned`",
    "; touch pwned", "\ntouch pwned\n", "& touch pwned &", "| touch pwned", "${IFS}", "$HOME", "*", "?", "[a-z]*", "~", "#", "!",
    "\\", "\\\\", "\\n", "EOF", "\nEOF\ntouch pwned\n", "a b  c", "\t", "\n\n", "a[$(touch pwned)]", "<(touch pwned)",
    "\x01\x7f", "é\u2028", "%s%n", "{a,b}", "))", "}", "esac", "*) touch pwned;;", "$'\\x41'",
]  # fmt: skip

SHELLS = [shell for shell in ("bash", "sh") if shutil.which(shell)]


def everything(shell: str) -> tuple[str, str]:
    """All positions as one script, and what it prints."""
    cases = POSITIONS + (ONLY_BASH if shell == "bash" else [])
    return "\n".join(script for script, _ in cases), "".join(f"{printed}\0" for _, printed in cases)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = tmp_path_factory.mktemp("home")
    (there / "a file").touch()
    return there


def test_every_position_can_be_bound() -> None:
    assert "bash" in SHELLS
    for script, _ in POSITIONS + ONLY_BASH:
        assert bound(script).refusals == (), script


@pytest.mark.parametrize("shell", SHELLS)
def test_hostile_values_come_out_as_data_in_every_position(home: Path, shell: str) -> None:
    script, printed = everything(shell)
    for value in HOSTILE:
        assert run(script, value, shell, home) == printed.replace("{}", value).encode(), value
    assert [path.name for path in home.iterdir()] == ["a file"]


_TEXT = st.text(
    st.one_of(st.sampled_from("'\"`$(){}[]<>|&;*?~#!\\ \t\n=-%^,:@/abEOF019"), st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    max_size=40,
)  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_TEXT)
@example("\nEOF\ntouch pwned\n")
def test_any_value_comes_out_as_data_in_every_position(home: Path, shell: str, value: str) -> None:
    script, printed = everything(shell)
    assert run(script, value, shell, home) == printed.replace("{}", value).encode()
    assert [path.name for path in home.iterdir()] == ["a file"]


REFUSED = [
    ("echo '@@'", "inside single quotes"),
    ('curl -d \'{"a": "@@"}\' url', "inside single quotes"),
    ("echo $'a @@'", "inside single quotes"),
    ("cat <<'EOF'\n@@\nEOF", "in a heredoc whose end mark is quoted"),
    ('cat <<"EOF"\n@@\nEOF', "in a heredoc whose end mark is quoted"),
    ("cat <<\\EOF\n@@\nEOF", "in a heredoc whose end mark is quoted"),
    ("cat << @@\nx\n@@", "in the end mark of a heredoc"),
    ("@@ --help", "as the command itself"),
    ("cd x && @@", "as the command itself"),
    ("if @@; then echo; fi", "as the command itself"),
    ("X=$(@@)", "as the command itself"),
    ("sudo @@", "behind 'sudo', where it would choose the command"),
    ("find . -exec @@ {} +", "behind '-exec', where it would choose the command"),
    ("env A=1 @@", "behind 'A=1', where it would choose the command"),
    ("timeout 5 @@ x", "behind '5', where it would choose the command"),
    ("xargs -n1 @@", "behind '-n1', where it would choose the command"),
    ("eval echo @@", "behind 'eval'"),
    ("command let @@", "behind 'let'"),
    ("$SUDO eval @@", "behind 'eval'"),
    ("echo @@ | $SUDO bash", "in the input of 'bash', which runs it"),
    ("time -p eval @@", "behind 'eval'"),
    ("function f { eval @@; }", "behind 'eval'"),
    ("function f() { eval @@; }", "behind 'eval'"),
    ("x=1 >log 2>&1 \\eval @@", "behind 'eval'"),
    ("command 'eval' @@", "behind 'eval'"),
    ("if true; then ! eval @@; fi", "behind 'eval'"),
    ("case a in a) eval @@;; esac", "behind 'eval'"),
    ("echo $(case a in a) eval @@;; esac)", "behind 'eval'"),
    ("PS4=@@", "in a variable whose value shells run"),
    ("export BASH_ENV=@@", "in a variable whose value shells run"),
    ("declare -n r=@@", "as the name of a variable behind 'declare'"),
    ('eval "echo @@"', "behind 'eval'"),
    ('eval "$(cat @@)"', "behind 'eval'"),
    ("trap 'x' @@", "behind 'trap'"),
    (". @@", "behind '.'"),
    ("source <(echo @@)", "behind 'source'"),
    ('ssh host "ls @@"', "behind 'ssh'"),
    ('bash -c "echo @@"', "in the program that 'bash' runs"),
    ('sudo -u x bash -ec "echo @@"', "in the program that 'bash' runs"),
    ('bash -o pipefail -c "echo @@"', "in the program that 'bash' runs"),
    ('find . -exec sh -c "echo @@" \\;', "in the program that 'sh' runs"),
    ('python3 -c "print(@@)"', "in the program that 'python3' runs"),
    ("node --eval=@@", "in the program that 'node' runs"),
    ("perl -e 'print 1;' -e @@", "in the program that 'perl' runs"),
    ("bash -o pipefail -e @@", "in the program that 'bash' runs"),
    ("sh -c -i @@", "in the program that 'sh' runs"),
    ("python -W ignore @@", "in the program that 'python' runs"),
    ("python @@", "in the program that 'python' runs"),
    ('awk "{print @@}" file', "in the program that 'awk' runs"),
    ('sed -i "s/a/@@/" file', "in the program that 'sed' runs"),
    ("sed -n -e 1p -e @@ file", "in the program that 'sed' runs"),
    ("bash <<EOF\necho @@\nEOF", "in the input of 'bash', which runs it"),
    ("python - <<EOF\nprint(@@)\nEOF", "in the input of 'python', which runs it"),
    ("cat <<EOF | sh -s\necho @@\nEOF", "in the input of 'sh', which runs it"),
    ("echo @@ | bash", "in the input of 'bash', which runs it"),
    ("{ echo 1; echo @@; } | bash", "in the input of 'bash', which runs it"),
    ("(echo @@) | tee log | bash", "in the input of 'bash', which runs it"),
    ("bash <<< @@", "in the input of 'bash', which runs it"),
    ('echo @@ | xargs -I{} sh -c "echo {}"', "in the input of 'sh', which runs it"),
    ("ssh host <<EOF\n@@\nEOF", "in the input of 'ssh', which runs it"),
    ("echo `ls @@`", "inside backquotes"),
    ('echo "`ls @@`"', "inside backquotes"),
    ("echo ${X:-@@}", "inside ${ }"),
    ('echo "${X#@@}"', "inside ${ }"),
    ("echo $((@@ + 1))", "inside $(( )), where the shell computes"),
    ('echo "$((@@ + 1))"', "inside $(( )), where the shell computes"),
    ("((@@ > 1)) && echo", "between (( and ))"),
    ("for ((i = 0; i < @@; i++)); do echo; done", "between (( and ))"),
    ("echo $[@@]", "inside $[ ]"),
    ("[[ @@ -eq 3 ]]", "beside '-eq' between [[ and ]]"),
    ('[[ -v "@@" ]]', "beside '-v' between [[ and ]]"),
    ("[ -v @@ ]", "where '[' would take it"),
    ("test @@ @@", "where 'test' would take it"),
    ("A[@@]=1", "in the brackets of a variable"),
    ("A=([@@]=1)", "in the brackets of an array"),
    ("read @@", "as the name of a variable behind 'read'"),
    ("unset @@", "as the name of a variable behind 'unset'"),
    ("export @@", "as the name of a variable behind 'export'"),
    ("printf @@ x", "as the format of 'printf'"),
    ("printf -v @@ x", "as the format of 'printf'"),
    ("declare -i N\nN=@@", "in an assignment of a script that declares integers"),
    ("echo \\@@", "right behind a backslash"),
    ('echo "\\@@"', "right behind a backslash"),
    ("echo $@@", "right behind a '$'"),
    ('echo "$@@"', "right behind a '$'"),
    ("echo ?(@@)", "in the brackets of a pattern"),
    ('echo "unclosed @@', "inside double quotes that are not closed"),
    ("echo 'unclosed\necho @@", "inside single quotes"),
    ("(echo @@", "behind a bracket or quote that is not closed"),
    ("echo $(echo @@", "behind a bracket or quote that is not closed"),
    ("cat <<EOF\n@@", "in a heredoc of which the end mark 'EOF' is missing"),
    ("[[ -n x\necho @@", "between [[ and ]]"),
    ("$(" * 60 + "echo @@" + ")" * 60, "inside more than 40 quotes and brackets"),
]


@pytest.mark.parametrize(("script", "where"), REFUSED, ids=[script[:40] for script, _ in REFUSED])
def test_what_cannot_be_handed_over_is_refused(script: str, where: str) -> None:
    refusals = bound(script).refusals
    assert refusals, "it was bound"
    assert refusals[0].where.startswith(where)


TAKEN = [
    "echo @@ | grep bash", "echo @@ | python process.py", "python process.py @@", "bash script.sh @@", "$TOOL @@", "$SUDO \"$TOOL\" --name @@", "python train.py -c @@ -e @@", "node tool.js -p @@", "sed -n -e 1p @@", "bash -o pipefail run.sh @@", "sed s/a/b/ @@",
    "awk -v x=@@ '{print x}' file", "timeout 5 curl @@", "xargs -n1 echo < @@", "echo bash -c @@", "find . -name @@", "find @@ -type f", "docker run -e A=@@ @@",
    "command -v @@", "declare -i N; echo @@", "[ -z @@ ] && [ -f @@ ]", "env A=@@ program", "printf '%s' @@ > @@ 2>&1 &",
    "x=$(( 1 + (2) )) y=@@", "echo ${X:-'}'} @@", "case a in (a) echo @@;; b|c) ;; esac; echo @@", "echo a#@@", "echo $# @@",
    "diff <(sort a) @@", "jq --arg v @@ '.a = $v' file", "git commit -m \"@@\"", "echo \"costs \\$@@\"", "for x in a; do :; done; echo @@",
]  # fmt: skip


@pytest.mark.parametrize("script", TAKEN)
def test_what_is_safe_is_not_refused(script: str) -> None:
    assert bound(script).refusals == ()


REALLY_DANGEROUS = [
    '[[ "$V" -eq 0 ]]', "N=$((V))", "declare -i N; N=$V", '[[ -v "$V" ]]', 'test -v "$V"', 'printf -v "$V" x', 'A=(1); unset "$V"',
    'read "$V" <<< x', "A=(); A[$V]=1", 'let "N = V"', 'declare -n R="$V"; echo $R', 'PS4="$V"; set -x; :', 'BASH_ENV="$V" bash -c :',
]  # fmt: skip


@pytest.mark.parametrize("script", REALLY_DANGEROUS)
def test_quoting_does_not_help_where_bash_computes(tmp_path: Path, script: str) -> None:
    """Why these places are refused: bash runs what stands in the brackets of a name, in quotes or not."""
    subprocess.run(
        ["bash", "-c", script], env=os.environ | {"V": "A[$(touch pwned)]"}, cwd=tmp_path, capture_output=True
    )
    assert (tmp_path / "pwned").exists()


@given(st.text(st.sampled_from("@ab'\"`$(){}[]<>|&;#\\ \n=-!EOF10"), max_size=60))
@settings(max_examples=300, deadline=None)
def test_reading_a_script_ends_and_changes_nothing_but_the_expressions(script: str) -> None:
    found = bound(script)
    text = found.text
    for number in range(script.count(HERE), 0, -1):
        for reference in (f'"${PREFIX}{number}"', f"${{{PREFIX}{number}}}", f"{PREFIX}{number}"):
            text = text.replace(reference, HERE, 1) if reference in text else text
    assert len(found.refusals) <= script.count(HERE)
    if not found.refusals:
        assert text == script


SNIPPETS = [
    HERE, f'"{HERE}"', "'", '"', "$(", "`", ")", "(", "[[", "]]", "((", "))", "-eq", "=", "echo", "eval", "X=", "$X", "if", "then",
    "fi", "case", "in", "esac", ";;", ";", "|", "&&", "\n", "<<EOF\n", "\nEOF\n", "<<<", "bash", "sh", "-c", "printf", "'%s'", "{",
    "}", "for", "do", "done", "a[", "]", "declare", "-i", "-n", "test", "-v", "[", "let", "\\", "$", "$((", "${X:-", "read", "unset",
    "#", "x", "true", "export", "<(", ">", "/dev/null", "cat", "f()", "!", "time", "-p", "command", "sed", "python3", "xargs", "trap",
    "EXIT", "set", "-x", "PS4=", "|&", "function",
]  # fmt: skip
ATTACKS = [
    "$(touch pwned)", "a[$(touch pwned)]", "'; touch pwned; '", '"; touch pwned; "', "touch pwned", "\nEOF\ntouch pwned\n",
    "s/x/x/;e touch pwned", "import os;os.system('touch pwned')",
]  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    st.lists(st.sampled_from(SNIPPETS), min_size=1, max_size=5),
    st.lists(st.sampled_from(SNIPPETS), max_size=3),
    st.sampled_from(ATTACKS),
)
def test_no_value_is_run_by_a_script_that_was_taken(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], behind: list[str], attack: str
) -> None:
    """Scripts of any shape, most of them nonsense: what is taken runs nothing that only a value says."""
    script = " ".join([*before, HERE, *behind])
    found = bound(script)
    if found.refusals:
        return
    home = tmp_path_factory.mktemp("home")
    variables = {f"{PREFIX}{number}": attack for number in range(1, script.count(HERE) + 1)}
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            ["bash", "-c", found.text], env={"PATH": os.environ["PATH"]} | variables, cwd=home, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=5,
        )  # fmt: skip
    assert not (home / "pwned").exists()
