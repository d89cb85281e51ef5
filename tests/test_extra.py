"""What is not installed is named, with the command that installs it; nothing ends in a traceback."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast import task
from holdfast.errors import MissingExtra, UsageError
from holdfast.platform.extra import needs

ROOT = Path(__file__).parents[1]
WORDS = "import sys; from holdfast.cli.app import invoke; sys.exit(invoke(sys.argv[1:]))"


@pytest.mark.parametrize(
    ("module", "extra", "code", "words"),
    [
        ("prometheus_client", "fleet", WORDS, ["serve", "--store", "postgresql://127.0.0.1:1/x"]),
        ("asyncpg", "fleet", WORDS, ["runs", "list", "--store", "postgresql://127.0.0.1:1/x"]),
        ("grpc", "fleet", WORDS, ["serve", "--yaml", "--grpc", "127.0.0.1:0"]),
        ("aiosmtpd", "testing", "import runpy; runpy.run_module('holdfast.testing.mail_sink', run_name='__main__')", []),
    ],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    module: str, extra: str, code: str, words: list[str], tmp_path: Path
) -> None:
    program = f"import sys; sys.modules[{module!r}] = None\n{code}"
    ended = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == (2 if code == WORDS else 1)
    assert f"needs {module}, which is not installed" in ended.stderr
    assert f"pip install '.[{extra}]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_broken_module_of_our_own_is_no_missing_package() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"holdfast\.nowhere"), needs("fleet", "It"):
        import holdfast.nowhere  # type: ignore[import-not-found]  # noqa: F401
    with pytest.raises(MissingExtra, match="It needs nowhere_at_all") as missing, needs("fleet", "It"):
        import nowhere_at_all  # type: ignore[import-not-found]  # noqa: F401
    assert (missing.value.extra, missing.value.module) == ("fleet", "nowhere_at_all")
    assert isinstance(missing.value, UsageError)


def test_every_hint_names_an_existing_extra_and_no_unpublished_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    places = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    for place in places:
        text = place.read_text()
        assert "holdfast[" not in text, place
        for hint in text.split("pip install '.[")[1:]:
            for name in hint.split("]")[0].split(","):
                assert name in extras or name == "{extra}", place
        for hint in text.split('needs("')[1:]:
            assert hint.split('"')[0] in extras, place


@pytest.mark.parametrize("retry", ["3", 0, -1, 2.5, True, {"max_attempts": 3}])
def test_a_retry_is_a_number_or_a_policy(retry: object) -> None:
    with pytest.raises(UsageError, match="a number of attempts, like retry=3, or a RetryPolicy"):
        task(retry=retry)(lambda state: None)  # type: ignore[call-overload]
