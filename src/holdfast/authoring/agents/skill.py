"""A skill: a folder with a `SKILL.md`, from which a model learns on demand how something is done.

The format is that of Agent Skills (agentskills.io): a head with name and description, which a model always sees, a body, which
it asks for, and files beside it. All of it is read once, where the skill is made, and known by its hash.

Never here: telling a model of it (engine.steps.execution); running what is in the folder.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.authoring.tool import Tool, tool
from holdfast.errors import UsageError

HEAD_FILE: Final = "SKILL.md"
LOAD: Final = "load_skill"
READ: Final = "read_skill_file"
MAX_SKILLS: Final = 32
"""That a model is offered."""
MAX_FILES: Final = 200
MAX_BYTES: Final = 2_000_000
"""Of a folder with all that is in it."""
MAX_READ: Final = 60_000
"""Characters of a file that a model is given."""
_MAX_HEAD: Final = 16_384
_MAX_DESCRIPTION: Final = 1024
_NAME: Final = re.compile(r"(?!.{65})[a-z0-9]+(-[a-z0-9]+)*")
_HEAD: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


class Skill(NamedTuple):
    """Instructions that a model may learn. `files` are those beside `SKILL.md`, by their path in the folder; `allowed_tools`
    are those that the skill counts on. It never has a tool that its node has not."""

    name: str
    description: str
    body: str
    files: dict[str, bytes]
    allowed_tools: tuple[str, ...]
    hash: str

    @classmethod
    def read(cls, folder: str | Path) -> Skill:
        """The skill in a folder, as it is now. Raises UsageError for what is none: no `SKILL.md`, a head that says too little,
        a link anywhere in the folder, more than it may hold."""
        root = Path(folder)
        files = {path: _content(root / path) for path in _paths(root)}
        if HEAD_FILE not in files:
            raise UsageError(f"{root} is no skill: there is no {HEAD_FILE} in it.")
        said, body = _parsed(root, files[HEAD_FILE])
        name, description = said.get("name"), said.get("description")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name != root.resolve().name:
            raise UsageError(
                f"The skill in {root} is called {name!r:.80}: the name is that of its folder, 1 to 64 small letters, figures"
                " and single hyphens."
            )
        if not isinstance(description, str) or not 0 < len(description.strip()) <= _MAX_DESCRIPTION:
            raise UsageError(f"The skill {name!r} needs a description of 1 to {_MAX_DESCRIPTION} characters.")
        tools = said.get("allowed-tools") or ""
        named = tools.split() if isinstance(tools, str) else [str(each) for each in tools]
        others = {path: content for path, content in files.items() if path != HEAD_FILE}
        return cls(name, " ".join(description.split()), body, others, tuple(named), _hash_of(files))


SkillSource: TypeAlias = Skill | str | Path
"""A skill, or the folder that it is in."""


def skills_of(skills: Sequence[SkillSource]) -> tuple[Skill, ...]:
    """The skills that a node names. Raises UsageError for what is none, for too many, and where two have one name."""
    if isinstance(skills, str | Path | Skill):
        raise UsageError(f"skills={skills!r:.80}: give a list of folders.")
    if len(skills) > MAX_SKILLS:
        raise UsageError(f"{len(skills)} skills are more than a model can choose among; {MAX_SKILLS} at most.")
    found = tuple(each if isinstance(each, Skill) else Skill.read(each) for each in skills)
    names = [each.name for each in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"There are two skills called {twice!r}; a model could not say which it means.")
    return found


def tools_of(skills: Sequence[Skill]) -> tuple[Tool, ...]:
    """Return the tools with which a model asks for a skill; none where there are no skills."""
    if not skills:
        return ()
    by_name = {skill.name: skill for skill in skills}

    def find_skill(name: str) -> Skill:
        if name not in by_name:
            raise ValueError(f"there is no skill {name!r}; the skills are {', '.join(by_name)}")
        return by_name[name]

    @tool(name=LOAD, effect="read")
    def load_skill(name: str) -> str:
        """The instructions of a skill, and the files that go with it."""
        skill = find_skill(name)
        listed = "\n".join(f"- {path}" for path in sorted(skill.files))
        said = f"{skill.name}, sha256 {skill.hash}\n\n{skill.body}"
        return f"{said}\n\nFiles, for {READ}:\n{listed}" if listed else said

    @tool(name=READ, effect="read")
    def read_skill_file(name: str, path: str) -> str:
        """A file that goes with a skill."""
        skill = find_skill(name)
        if path not in skill.files:
            raise ValueError(f"the skill {name!r} has no file {path!r}; it has {', '.join(sorted(skill.files)) or 'none'}")
        try:
            text = skill.files[path].decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path!r} is no text") from None
        return text if len(text) <= MAX_READ else f"{text[:MAX_READ]}\n[cut here: {len(text)} characters]"

    return load_skill, read_skill_file


def introduced(skills: Sequence[Skill]) -> str:
    """Return the text about its skills that a model gets at the beginning; empty where it has none."""
    if not skills:
        return ""
    listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
    return f"Skills say how something is done. Where one fits, first ask for it with {LOAD}.\n{listed}"


def _paths(root: Path) -> list[str]:
    """The files of a folder, by their paths in it. Raises UsageError for a link, and for more than it may hold."""
    if not root.is_dir() or root.is_symlink():
        raise UsageError(f"{root} is no skill: it is no folder{', but a link' if root.is_symlink() else ''}.")
    found: list[str] = []
    size = 0
    for where, folders, names in os.walk(root, onerror=_raise):
        for name in [*folders, *names]:
            path = Path(where, name)
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise UsageError(
                    f"{path} is a link, or no file: a skill is what is in its folder, and nothing else. Nothing was read."
                )
        found += [str(Path(where, name).relative_to(root)) for name in names]
        size += sum(Path(where, name).stat().st_size for name in names)
        if len(found) > MAX_FILES or size > MAX_BYTES:
            raise UsageError(f"{root} holds too much for a skill: {MAX_FILES} files and {MAX_BYTES:,} bytes at most.")
    return sorted(found)


def _raise(problem: OSError) -> None:
    raise UsageError(f"The skill cannot be read: {problem}.") from problem


def _content(path: Path) -> bytes:
    """Raises UsageError. A link that has come to stand there since is not followed."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except OSError as problem:
        raise UsageError(f"The skill cannot be read: {problem}.") from problem


def _parsed(root: Path, content: bytes) -> tuple[dict[str, Any], str]:
    """The head of a `SKILL.md`, and its body. Raises UsageError."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - for those who have skills
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415
    from ruamel.yaml.events import AliasEvent  # noqa: PLC0415

    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{root / HEAD_FILE} is no UTF-8 text.") from None
    head = _HEAD.match(text)
    if head is None or len(head[1]) > _MAX_HEAD:
        raise UsageError(
            f"{root / HEAD_FILE} has to begin with a head between two lines of `---`, with a name and a description."
        )
    try:
        reader = YAML(typ="safe", pure=True)
        if any(isinstance(each, AliasEvent) for each in reader.parse(head[1])):
            raise UsageError(
                f"Write out what the head of {root / HEAD_FILE} names by an alias (*): a few lines of them may stand for more"
                " than fits into memory."
            )
        said = reader.load(head[1])
    except YAMLError as problem:
        raise UsageError(f"The head of {root / HEAD_FILE} is no YAML: {' '.join(str(problem).split())[:300]}") from None
    if not isinstance(said, dict):
        raise UsageError(f"The head of {root / HEAD_FILE} has to name things, like `name: {root.name}`.")
    return said, text[head.end() :].strip()


def _hash_of(files: dict[str, bytes]) -> str:
    """SHA-256 of all files, with their paths."""
    whole = hashlib.sha256()
    for path, content in sorted(files.items()):
        whole.update(hashlib.sha256(path.encode()).digest() + hashlib.sha256(content).digest())
    return whole.hexdigest()
