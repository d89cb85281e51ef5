"""The reference is written from the program: so every name, option and setting of the program says what it means."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import settings

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_SITE = _DOCS / "site"


def written_by(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"site_{name}", _SITE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = written_by("reference")
COMMANDS = dict(reference.every_command())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_says_what_it_means(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help, f"holdfast {' '.join(path)} has no help"
    silent = [each.name for each in reference.shown(command) if not getattr(each, "help", None)]
    assert silent == [], f"holdfast {' '.join(path)}"


def test_the_reference_has_every_command_with_its_options() -> None:
    page = reference.commands()
    for path, command in COMMANDS.items():
        section = page.partition(f"## holdfast {' '.join(path)}\n")[2].partition("\n## ")[0]
        options = {flag for each in reference.shown(command) for flag in each.opts if flag.startswith("--")}
        assert all(f"`{flag}`" in section for flag in options), path


@pytest.mark.parametrize("name", holdfast.__all__)
def test_every_public_name_says_what_it_means(name: str) -> None:
    assert inspect.getdoc(getattr(holdfast, name)), name
    assert f"::: {getattr(holdfast, name).__module__}.{name}" in reference.python()


def test_every_setting_says_what_it_means() -> None:
    silent = []
    for name, field, meaning in reference.every_setting(settings.Settings):
        model = reference._model_of(field.annotation)
        inner = reference.every_setting(model) if model is not None else [(name, field, meaning)]
        silent += [f"{name}.{each}" for each, _, said in inner if not said]
    assert silent == []
    assert "| `queue` | `HOLDFAST_QUEUE` |" in reference.settings_()


def test_the_site_has_every_page() -> None:
    listed = set(re.findall(r"- (?:[^:\n]+: )?([\w/-]+\.md)$", (_DOCS.parent / "mkdocs.yml").read_text(), re.MULTILINE))
    written = {"index.md", "changelog.md", "reference/python.md", "reference/commands.md", "reference/settings.md"}
    assert listed - written == {str(page.relative_to(_DOCS)) for page in _DOCS.rglob("*.md")}
