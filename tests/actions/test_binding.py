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

from holdfast.actions.binding import PREFIX, Bound, bind

HERE = "@@"
"""Where an expression stands in the scripts of these tests."""


def bound(script: str, shell: str = "sh") -> Bound:
    """As it is handed to this shell."""
    first, *others = script.split(HERE)
    pieces: list[str | None] = [first]
    for other in others:
        pieces += [None, other]
    return bind(pieces, is_bash=shell == "bash")


def run(script: str, value: str, shell: str, home: Path) -> bytes:
    """What the bound script prints when each of its expressions has this value."""
    names = {f"{PREFIX}{number}": value for number in range(1, script.count(HERE) + 1)}
    done = subprocess.run(
        [shell, "-c", bound(script, shell).text],
        env={b"PATH": os.environb[b"PATH"]}
        | {name.encode(): text.encode("utf-8", "surrogateescape") for name, text in names.items()},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
    )
    assert done.returncode == 0, (script, value, done.stderr)
    return done.stdout


POSITIONS = [
    ("printf '%s\\0' @@", "{}"),
    ("printf '%s\\0' \"@@\"", "{}"),
    ("printf '%s\\0' a@@b", "a{}b"),
    ("printf '%s\\0' \"a @@ b\"", "a {} b"),
    ("printf '%s\\0' --name=@@", "--name={}"),
    ("X=@@; printf '%s\\0' \"$X\"", "{}"),
    ('Z=@@ sh -c \'printf "%s\\0" "$Z"\'', "{}"),
    ("printf '%s\\0' \"$(printf '%s' @@; printf x)\"", "{}x"),
    ("printf '%s\\0' \"$(printf '%s' \"@@\"; printf x)\"", "{}x"),
    ("cat <<EOF\n@@\nEOF\nprintf '\\0'", "{}\n"),
    ("cat <<-EOF\n\t\"@@\" $(printf '%s' @@; printf x)\n\tEOF\nprintf '\\0'", '"{}" {}x\n'),
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
    ("case a in a) printf '%s\\0' @@;; (b) ;; esac", "{}"),
    ("if [ 1 -eq 1 ]; then case - in -) printf '%s\\0' \"@@\";; esac; fi", "{}"),
    ("X=a; X=$X@@ Y=@@; printf '%s\\0' \"$X$Y\"", "a{}{}"),
    ("f () { printf '%s\\0' \"$1\"; }\nf @@", "{}"),
    ("if [ -n x@@ -a x@@ = \"x@@\" ] && test @@ = @@; then printf 'same\\0'; fi", "same"),
    ("case @@ in 'no such value') ;; *) printf '%s\\0' \"@@\";; esac", "{}"),
    ("case x\"@@\"y in xy) printf '\\0';; x*y) printf '%s\\0' @@;; esac", "{}"),
]
"""A script that prints, with a NUL behind, what its expression came to be."""

ONLY_BASH = [
    ("if [[ @@ == \"@@\" ]]; then printf 'same\\0'; fi", "same"),
    ('if [[ "@@" != x@@ && ( x@@y = "x@@y" ) ]]; then printf \'same\\0\'; fi', "same"),
    ("if [[ -z x@@ || -n x@@ ]] && [[ ! -e ./no/@@ ]]; then printf 'same\\0'; fi", "same"),
    ("if [[ x@@ =~ ^x(.*)$ || 1 -eq 1 ]]; then printf 'same\\0'; fi", "same"),
    ("if [[ x@@ ]]\nthen printf 'same\\0'; fi", "same"),
    ("if [[ 1 -eq 1 && x@@ != x ||\n 2 -gt 1 ]]; then printf 'same\\0'; fi", "same"),
    ("if [[ (a == a && b > a) ]]; then printf '%s\\0' @@; fi", "{}"),
    ("cat <<< @@; printf '\\0'", "{}\n"),
    ("cat <(printf '%s\\0' @@)", "{}"),
    ("printf '%s\\0' @@ |& cat", "{}"),
]

HOSTILE = [
    "",
    " ",
    "-n",
    "-rf /",
    "--",
    "it's",
    '"',
    "'; touch pwned; '",
    '"; touch pwned; "',
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "\ntouch pwned\n",
    "& touch pwned &",
    "| touch pwned",
    "${IFS}",
    "$HOME",
    "*",
    "?",
    "[a-z]*",
    "~",
    "#",
    "!",
    "\\",
    "\\\\",
    "\\n",
    "EOF",
    "\nEOF\ntouch pwned\n",
    "a b  c",
    "\t",
    "\n\n",
    "a[$(touch pwned)]",
    "<(touch pwned)",
    "\x01\x7f",
    "é\u2028",
    "%s%n",
    "{a,b}",
    "))",
    "}",
    "esac",
    "*) touch pwned;;",
    "$'\\x41'",
]

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
    for script, _ in POSITIONS:
        assert bound(script).refusals == (), script
    for script, _ in POSITIONS + ONLY_BASH:
        assert bound(script, "bash").refusals == (), script


@pytest.mark.parametrize("shell", SHELLS)
def test_hostile_values_come_out_as_data_in_every_position(home: Path, shell: str) -> None:
    script, printed = everything(shell)
    for value in HOSTILE:
        assert run(script, value, shell, home) == printed.replace("{}", value).encode(), value
    assert [path.name for path in home.iterdir()] == ["a file"]


_TEXT = st.text(
    st.one_of(
        st.sampled_from("'\"`$(){}[]<>|&;*?~#!\\ \t\n=-%^,:@/abEOF019"),
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
    ),
    max_size=40,
)


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
    ("cat << @@\nx\n@@", "behind a '<<' without an end mark"),
    ("@@ --help", "as the command itself"),
    ("cd x && @@", "as the command itself"),
    ("if @@; then echo; fi", "as the command itself"),
    ("X=$(@@)", "as the command itself"),
    ("$(echo @@) x", "as the command itself"),
    ("> @@ eval x", "as the command itself"),
    ("A[@@]=1", "as the command itself"),
    ("case a in\n@@) echo;; esac", "as the command itself"),
    ("$SHELL -c @@", "behind '$SHELL'"),
    ("S=sh; $S -c @@", "behind '$S'"),
    ("{sh,-c} @@", "behind '{sh,-c}'"),
    ("$(which sh) -c @@", "behind '$(which sh)'"),
    ("$SUDO eval @@", "behind '$SUDO'"),
    ('"$TOOL" @@', "behind '\"$TOOL\"'"),
    ("x=1 >log 2>&1 \\eval @@", "behind '\\\\eval'"),
    ("'eval' @@", "behind \"'eval'\""),
    ("ev\\\nal @@", "behind 'ev"),
    ("time -p eval @@", "behind '-p'"),
    ("{log}>file eval @@", "behind '{log}'"),
    ("echo &> log eval @@", "behind '&>'"),
    ("eval echo @@", "behind 'eval'"),
    ("eval \\\n  @@", "behind 'eval'"),
    ("2>log eval @@", "behind 'eval'"),
    ("X=1 eval @@", "behind 'eval'"),
    ('eval "echo @@"', "behind 'eval'"),
    ('eval "$(cat @@)"', "behind 'eval'"),
    ('eval "$(cat <<EOF\n@@\nEOF\n)"', "behind 'eval'"),
    ("if true; then ! eval @@; fi", "behind 'eval'"),
    ("case a in a) eval @@;; esac", "behind 'eval'"),
    ("case a in (a) eval @@;; esac", "behind 'eval'"),
    ("f() { eval @@; }", "behind 'eval'"),
    ("echo a |& eval @@", "behind 'eval'"),
    ("command let @@", "behind 'command'"),
    ("builtin eval @@", "behind 'builtin'"),
    ("exec @@", "behind 'exec'"),
    ("function f { eval @@; }", "behind 'function'"),
    ("coproc eval @@", "behind 'coproc'"),
    ("let X=@@", "behind 'let'"),
    ("trap 'x' @@", "behind 'trap'"),
    ("alias x=@@", "behind 'alias'"),
    (". @@", "behind '.'"),
    ("source <(echo @@)", "behind 'source'"),
    ("source /dev/stdin <<EOF\n@@\nEOF", "behind 'source'"),
    ("read @@", "behind 'read'"),
    ("read X <<< @@", "behind 'read'"),
    ("unset @@", "behind 'unset'"),
    ("export X=@@", "behind 'export'"),
    ("declare -n r=@@", "behind 'declare'"),
    ("local x=@@", "behind 'local'"),
    ("for x in @@; do echo; done", "behind 'for'"),
    ("case a @@ in a) echo;; esac", "behind 'case'"),
    ("case a in b|@@) echo;; esac", "as the command itself"),
    ("while read x; do echo; done < @@", "behind 'done'"),
    ("[[ @@ -eq 3 ]]", "behind '[['"),
    ("[[ -n a && b -eq @@ ]]", "behind '[['"),
    ("[[ -n a\n&& ( b -eq @@ ) ]]", "behind '[['"),
    ('[[ -v "@@" ]]', "behind '[['"),
    ("[[ -n x\necho @@", "behind '[['"),
    ('[[ -R "@@" ]]', "behind '[['"),
    ("[[ ! -v @@ ]]", "behind '[['"),
    ("[[ -o @@ ]]", "behind '[['"),
    ("[[ -t @@ ]]", "behind '[['"),
    ("[[ @@ -lt 3 ]]", "behind '[['"),
    ("[[ a@@ -gt 3 || x == y ]]", "behind '[['"),
    ("[[ 3 -ne x@@ ]]", "behind '[['"),
    ("[[ a =~ @@ ]]", "behind '[['"),
    ("[[ a =~ ^(b|@@)$ ]]", "in the brackets of an array or a pattern"),
    ("[[ a =~ (b) && @@ == a ]]", "behind '[['"),
    ("[[ a == @(b|@@) ]]", "in the brackets of an array or a pattern"),
    ("[[ a < @@ ]]", "behind '[['"),
    ("[[ @@ > a ]]", "behind '[['"),
    ("[[ $(echo @@) -eq 1 ]]", "behind '[['"),
    ('[[ "$(echo @@)" -eq 1 ]]', "behind '[['"),
    ("[[ eval @@ ]]", "behind '[['"),
    ("[[ a == a\n@@ ]]", "behind '[['"),
    ("[[ a; @@ ]]", "behind '[['"),
    ("[[ @@ ]", "behind '[['"),
    ("[[ -v\n@@ ]]", "behind '[['"),
    ("[[ @@ $OP 3 ]]", "behind '[['"),
    ("[[ -n @@ -eq 3 ]]", "behind '[['"),
    ("[[ a || @@ == b ]]", "behind '[[' and '|', where sh would begin another command"),
    ("[[ a && @@ ]]", "behind '[[' and '&', where sh would begin another command"),
    ("X=1 [[ a || @@ ]]", "behind a '[[' that is no test"),
    (">log [[ a || @@ ]]", "behind a '[[' that is no test"),
    ("2>log [[ a || @@ ]]", "behind a '[[' that is no test"),
    ("cat <<E [[ a\nE\nX=1 then [[ a || @@ ]]", "behind a '[[' that is no test"),
    ("case x in\n[[) @@ ]] ;; esac", "as the command itself"),
    ("case x in\n[[ ) @@ ]] ;; esac", "behind '[['"),
    ("exit $((@@))", "inside $(( )), where the shell computes"),
    ("exit ${@@}", "inside ${ }"),
    ("RANDOM=@@", "in an assignment to RANDOM"),
    ("OPTIND=@@", "in an assignment to OPTIND"),
    ("SECONDS=$(echo @@)", "in an assignment to SECONDS"),
    ('declare "-i" N; N=@@', "in an assignment of a script that declares integers"),
    ("declare $F N; N=@@", "in an assignment of a script that declares integers"),
    ("declare \\\n  -i N; N=@@", "in an assignment of a script that declares integers"),
    ("PATH=@@ x", "in an assignment to PATH"),
    ("PS4=@@", "in an assignment to PS4"),
    ("LD_AUDIT=@@ ls", "in an assignment to LD_AUDIT"),
    ("IFS+=@@", "in an assignment to IFS"),
    ('PATH="$(echo @@)"', "in an assignment to PATH"),
    ("declare -i N\nN=@@", "in an assignment of a script that declares integers"),
    ("local -r -n N=x; N=@@", "in an assignment of a script that declares integers"),
    ("A=(@@)", "in the brackets of an array or a pattern"),
    ("A+=([@@]=1)", "in the brackets of an array or a pattern"),
    ("echo ?(@@)", "in the brackets of an array or a pattern"),
    ("[ -v @@ ]", "where '[' may take it"),
    ("test @@ @@", "where 'test' may take it"),
    ('[ @@ "$X" ]', "where '[' may take it"),
    ("[ x = y -o -R @@ ]", "where '[' may take it"),
    ("printf @@ x", "as the format of 'printf'"),
    ("printf -v @@ x", "as the format of 'printf'"),
    ("printf -v X %s @@", "as the format of 'printf'"),
    ('printf "-v" @@', "as the format of 'printf'"),
    ("printf {-v,x} @@", "as the format of 'printf'"),
    ("printf $F @@", "as the format of 'printf'"),
    ("echo x >& @@", "behind '>&'"),
    ("echo `ls @@`", "inside backquotes"),
    ('echo "`ls @@`"', "inside backquotes"),
    ("echo ${X:-@@}", "inside ${ }"),
    ('echo "${X#@@}"', "inside ${ }"),
    ("echo $((@@ + 1))", "inside $(( )), where the shell computes"),
    ('echo "$((@@ + 1))"', "inside $(( )), where the shell computes"),
    ("((@@ > 1)) && echo", "between (( and ))"),
    ("for ((i = 0; i < @@; i++)); do echo; done", "between (( and ))"),
    ("echo $[@@]", "inside $[ ]"),
    ("echo \\@@", "right behind a backslash"),
    ('echo "\\@@"', "right behind a backslash"),
    ("echo $@@", "right behind a '$'"),
    ('echo "$@@"', "right behind a '$'"),
    ('echo "unclosed @@', "behind a bracket or quote that is not closed"),
    ("echo 'unclosed\necho @@", "inside single quotes"),
    ("(echo @@", "behind a bracket or quote that is not closed"),
    ("echo $(echo @@", "behind a bracket or quote that is not closed"),
    ("echo $(case a in a) eval @@;; esac)", "behind a 'case' in brackets"),
    ("cat <<EOF\n@@", "in a heredoc of which the end mark 'EOF' is missing"),
    ("$(" * 60 + "echo @@" + ")" * 60, "inside more than 40 quotes and brackets"),
]


@pytest.mark.parametrize(("script", "where"), REFUSED, ids=[script[:40] for script, _ in REFUSED])
def test_what_cannot_be_handed_over_is_refused(script: str, where: str) -> None:
    refusals = bound(script).refusals
    assert refusals, "it was bound"
    assert refusals[0].where.startswith(where)


TAKEN = [
    "echo @@ | grep bash",
    "echo @@ | python process.py",
    "python process.py @@",
    "bash script.sh @@",
    "sed -n -e 1p @@",
    "awk -v x=@@ '{print x}' file",
    "timeout 5 curl @@",
    "xargs -n1 echo < @@",
    "find . -name @@",
    "docker run -e A=@@ @@",
    "declare -i N; echo @@",
    "[ -z @@ ] && [ -f @@ ]",
    "[ @@ ]",
    "[ ! @@ -gt 3 ]",
    "env A=@@ program",
    "printf '%s' @@ > @@ 2>&1 &",
    "x=$(( 1 + (2) )) y=@@",
    "echo ${X:-'}'} @@",
    "case a in (a) echo @@;; b|c) ;; esac; echo @@",
    "echo a#@@",
    "echo $# @@",
    "diff <(sort a) @@",
    "jq --arg v @@ '.a = $v' file",
    'git commit -m "@@"',
    'echo "costs \\$@@"',
    "for x in a; do :; done; echo @@",
    "A=(a ')' \"$(echo ')')\") B=@@",
    "[[ $x =~ ^(a|b)$ ]] && echo @@",
    "(( x > 1 )) && echo @@",
    "cd @@ && ./run @@",
    "f() { :; }; f @@",
    "exit @@",
    'exit "@@"',
    "f() { return @@; }",
    "[ 1 = 1 ] || exit @@",
    "if [[ @@ == main ]]; then echo; fi",
    "[[ -n @@ ]] && echo",
    '[[ "@@" = "@@" ]]',
    "[[ @@ != x ]] && [[ @@ != y ]]",
    '! [[ -z "@@" ]] || exit 1',
    "while [[ @@ == *.txt ]]; do break; done",
    "[[ @@ =~ ^(a|b)$ ]]",
    "[[ -f @@ ]]",
    "[[ ! @@ ]]",
    '[[ "a @@" == x* ]]',
    "case @@ in\n a) echo;; esac",
    "export A; B=@@",
    "local x=$1; y=@@",
    'local "x=1"; y=@@',
    "NODE_VERSION=@@ node x",
    "GIT_SHA=@@; echo",
    "echo x &> log; echo @@",
    "~/bin/tool @@",
    "cat <<A <<'B' > @@\n@@\nA\n)'\nB\necho @@",
    "while read x; do echo @@; done < list",
]


@pytest.mark.parametrize("script", TAKEN)
def test_what_is_safe_is_not_refused(script: str) -> None:
    assert bound(script).refusals == ()


OWN_AFFAIR = [
    "flock x -c @@",
    "rbash -c @@",
    "taskset 1 sh -c @@",
    "setpriv sh -c @@",
    "prlimit sh -c @@",
    "time sh -c @@",
    'sh -c "echo @@"',
    "make X=@@",
    "awk @@",
    "git -c @@ log",
    "ssh host @@",
    "xargs @@",
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", OWN_AFFAIR)
def test_a_program_gets_a_bound_value_as_one_argument(tmp_path: Path, script: str, shell: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("flock", "rbash", "taskset", "setpriv", "prlimit", "time", "sh", "make", "awk", "git", "ssh", "xargs"):
        (folder / name).write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
        (folder / name).chmod(0o755)
    program = shutil.which(shell)
    assert program is not None
    value = "'; touch pwned; $(touch pwned)\n\"`touch pwned`"
    done = subprocess.run(
        [program, "-c", bound(script).text], env={"PATH": str(folder), f"{PREFIX}1": value}, cwd=tmp_path, capture_output=True
    )
    assert bound(script).refusals == ()
    assert any(value in argument for argument in done.stdout.decode().split("\0"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bin"]


REALLY_DANGEROUS = [
    '[[ "$V" -eq 0 ]]',
    "N=$((V))",
    "declare -i N; N=$V",
    '[[ -v "$V" ]]',
    'test -v "$V"',
    'printf -v "$V" x',
    'A=(1); unset "$V"',
    'read "$V" <<< x',
    "A=(); A[$V]=1",
    'let "N = V"',
    'declare -n R="$V"; echo $R',
    'PS4="$V"; set -x; :',
    'BASH_ENV="$V" bash -c :',
]


@pytest.mark.parametrize("script", REALLY_DANGEROUS)
def test_quoting_does_not_help_where_bash_computes(tmp_path: Path, script: str) -> None:
    """Why these places are refused: bash runs what stands in the brackets of a name, in quotes or not."""
    subprocess.run(["bash", "-c", script], env=os.environ | {"V": "A[$(touch pwned)]"}, cwd=tmp_path, capture_output=True)
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
    HERE,
    f'"{HERE}"',
    "'",
    '"',
    "$(",
    "`",
    ")",
    "(",
    "[[",
    "]]",
    "((",
    "))",
    "-eq",
    "=",
    "echo",
    "eval",
    "X=",
    "$X",
    "if",
    "then",
    "fi",
    "case",
    "in",
    "esac",
    ";;",
    ";",
    "|",
    "&&",
    "\n",
    "<<EOF\n",
    "\nEOF\n",
    "<<<",
    "-c",
    "printf",
    "'%s'",
    "{",
    "}",
    "for",
    "do",
    "done",
    "a[",
    "]",
    "declare",
    "-i",
    "-n",
    "test",
    "-v",
    "[",
    "let",
    "\\",
    "$",
    "$((",
    "${X:-",
    "read",
    "unset",
    "#",
    "x",
    "true",
    "export",
    "||",
    "==",
    "!=",
    "=~",
    "-z",
    "!",
    "exit",
    "return",
    "RANDOM=",
    "OPTIND=",
    "\n[[",
    "[[ a ||",
    "]] &&",
    "<",
    "<(",
    ">",
    "/dev/null",
    "cat",
    "f()",
    "!",
    "time",
    "-p",
    "command",
    "trap",
    "A=(",
    "&>",
    "2>",
    "&",
    "EXIT",
    "set",
    "-x",
    "PS4=",
    "|&",
    "function",
    ".",
    "source",
    "exec",
    "env",
    "?(",
    "\\\n",
    "-o",
    "cd",
    "coproc",
    "{log}>",
    f"Y={HERE}",
    f"x{HERE}",
]
ATTACKS = [
    "$(touch pwned)",
    "a[$(touch pwned)]",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "touch pwned",
    "\nEOF\ntouch pwned\n",
    "s/x/x/;e touch pwned",
    "import os;os.system('touch pwned')",
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    st.lists(st.sampled_from(SNIPPETS), min_size=1, max_size=5),
    st.lists(st.sampled_from(SNIPPETS), max_size=3),
    st.sampled_from(ATTACKS),
    st.sampled_from(SHELLS),
)
def test_no_value_is_run_by_a_script_that_was_taken(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], behind: list[str], attack: str, shell: str
) -> None:
    """Scripts of any shape, most of them nonsense, of what shells carry out themselves: what is taken runs no value.

    What is taken for any shell is given to bash too.
    """
    script = " ".join([*before, HERE, *behind])
    for is_for, reader in {(shell, shell), ("sh", "bash")}:
        found = bound(script, is_for)
        if found.refusals:
            continue
        home = tmp_path_factory.mktemp("home")
        variables = {f"{PREFIX}{number}": attack for number in range(1, script.count(HERE) + 1)}
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [reader, "-c", found.text],
                env={"PATH": os.environ["PATH"]} | variables,
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=5,
            )
        assert not (home / "pwned").exists()


def test_no_variable_of_bash_runs_what_a_script_may_assign_to_it(tmp_path: Path) -> None:
    """Bash computes what is assigned to some variables of its own: none of them may be assigned a value."""
    listed = subprocess.run(["bash", "-c", "compgen -v"], env={}, capture_output=True, text=True, check=True).stdout
    known = {*listed.split(), *BASH_COMPUTES} - {"_", "BASH_VERSINFO"}
    attack = "a[$(touch pwned)]"
    for name in sorted(known):
        found = bound(f"{name}=@@; : ${name}; exit 0", "bash")
        if not found.refusals:
            subprocess.run(
                ["bash", "-c", found.text],
                env={"PATH": os.environ["PATH"], f"{PREFIX}1": attack},
                cwd=tmp_path,
                capture_output=True,
                check=False,
            )
            assert not (tmp_path / "pwned").exists(), name
    for name in BASH_COMPUTES:
        assert bound(f"{name}=@@", "bash").refusals, name


BASH_COMPUTES = [
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "HISTCMD",
    "OPTIND",
    "BASHPID",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "PPID",
    "UID",
    "EUID",
]
"""In this version or another."""


EXITS = [
    ("0", 0),
    ("7", 7),
    ("255", 255),
    ("", 2),
    ("a[$(touch pwned)]", 2),
    ("$(touch pwned)", 2),
    ("1; touch pwned", 2),
    ("--help", 2),
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("value", "code"), EXITS)
def test_a_script_exits_with_the_number_that_it_is_given_and_nothing_else_is_one(
    tmp_path: Path, shell: str, value: str, code: int
) -> None:
    done = subprocess.run(
        [shell, "-e", "-c", f"{bound('exit @@', shell).text}\ntouch went-on"],
        env={"PATH": os.environ["PATH"], f"{PREFIX}1": value},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == code
    assert [*tmp_path.iterdir()] == []
