"""A test waits for what it needs to see, with a bound, and never for a length of time to see something happen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PLACES = {"simulation": "time is virtual", "chaos": "chance decides how long", "fixtures": "written once, long ago"}
"""Rooms in which nobody waits for an effect so, and why."""
MOST = 54
"""How often a test sleeps once, and not until something is so. These see that nothing happens, or let a lease pass; none may wait
for an effect. This only falls: where you need one more, look for what there is to be seen."""


def sleeps(tree: ast.AST, *, waits: bool = False) -> Iterator[int]:
    """The lines of those in tests, but for those in loops, which look again, for turns of the event loop, and for what the
    functions in a test do, which is the work that it watches."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from sleeps(child, waits=getattr(child, "name", "").startswith("test_"))
        elif isinstance(child, ast.While | ast.For | ast.AsyncFor):
            yield from sleeps(child)
        else:
            if waits and _is_sleep(child):
                yield child.lineno  # type: ignore[attr-defined]
            yield from sleeps(child, waits=waits)


def _is_sleep(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name | ast.Attribute)
        and ast.unparse(node.func) in ("asyncio.sleep", "time.sleep", "sleep")
        and not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    )


def test_no_more_tests_sleep_for_a_fixed_time() -> None:
    found = [
        f"{file.relative_to(TESTS)}:{line}"
        for file in sorted(TESTS.rglob("*.py"))
        if file.relative_to(TESTS).parts[0] not in PLACES
        if "sleep(" in (text := file.read_text())
        for line in sleeps(ast.parse(text))
    ]
    assert len(found) <= MOST, f"{len(found)} of {MOST}; say what is waited for instead: {found}"


def test_what_looks_again_and_what_is_watched_are_none_of_them() -> None:
    code = """
async def test_it():
    while not seen():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    with something:
        await asyncio.sleep(1)
    async def work():
        await asyncio.sleep(0.1)
    time.sleep(MOMENT_S)
"""
    assert list(sleeps(ast.parse(code))) == [7, 10]
