"""The count of words that plain English avoids finds them, and its ceilings hold."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.words.__main__ import RIGHT_NAMES, ROOT, USER_PAGES, in_comments, in_module, problems, user_pages

MODULE = """
def ends():
    \"\"\"Whether it ends.

    Nobody is told.\"\"\"
    return f"Nobody has {1}."

class Run:
    \"\"\"A run.\"\"\"
    names = ("nobody", "said")
    _COMMON: frozenset = "any anybody are"
    at: int
    \"\"\"When somebody came.\"\"\"
"""


def test_beginnings_and_words_are_found_where_a_reader_meets_them() -> None:
    found = [*in_module(Path("a.py"), "core", ast.parse(MODULE))]
    assert [(each.kind, each.text) for each in found] == [
        ("relative docstrings", "Whether it ends."),
        ("relative docstrings of attributes", "When somebody came."),
        ("unspoken words", "Nobody has "),
    ]


def test_names_that_are_a_bare_participle_are_found() -> None:
    text = "class Told:\n    def _heard(self, asked: int, *made: int, reply: int, **given: int) -> None: ...\ndef shown_hash(): ..."
    found = [*in_module(Path("a.py"), "core", ast.parse(text))]
    assert {each.kind for each in found} == {"bare participles"}
    assert [each.text for each in found] == ["Told", "_heard", "asked", "made", "given"]


def test_a_bare_name_that_is_right_is_still_there() -> None:
    text = "def why(met: int): ..."
    found = [*in_module(ROOT / "src/holdfast/cli/nouns/queue.py", "cli", ast.parse(text))]
    assert [each.text for each in found] == ["met"]
    for place in RIGHT_NAMES:
        file, _, name = place.partition(": ")
        assert name in (ROOT / "src/holdfast" / file).read_text("utf-8")


def test_comments_and_docstrings_with_words_nobody_speaks_are_found() -> None:
    text = 'x = "nobody"  # whoever\ndef f():\n    """Return it.\n\n    As was said.\n    """\n    return "said"\n'
    found = [*in_comments(Path("a.py"), "core", text)]
    assert [(each.line, each.text) for each in found] == [(1, "# whoever"), (5, "As was said.")]


def test_a_count_that_is_not_its_ceiling_is_a_problem() -> None:
    assert problems({"a: x": 2, "b: y": 1}, {"a: x": 2, "b: y": 1}) == []
    (rising,) = problems({"a: x": 3}, {"a: x": 2})
    (falling,) = problems({}, {"a: x": 2})
    assert "more than the 2 before" in rising
    assert "--lower" in falling


def test_a_page_for_users_that_grows_is_a_problem(tmp_path: Path) -> None:
    for page in ("README", "docs/a", "docs/howto/b", "docs/design", "docs/maintainers/c", "docs/reference/events"):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{page}.md").write_text(f"# {page}\n\n```sh\nholdfast run\n```\n", "utf-8")
    (tmp_path / "docs/a.md").write_text("# A page\n", "utf-8")
    before = user_pages(tmp_path)
    assert before == {"README.md": 6, "docs/howto/b.md": 6, "docs/a.md": 3}
    (tmp_path / "docs/a.md").write_text("# A longer page\n", "utf-8")
    (grown,) = problems({USER_PAGES: sum(user_pages(tmp_path).values())}, {USER_PAGES: sum(before.values())})
    assert "16, more than the 15 before: cut 1 words from the page that grew" in grown
