"""The size of what a reader has to hold in mind: files and functions stay small, modules say what
they are for. A file aims at 400 lines and a function at 60. One whole reads better than two halves,
so a few may be longer; there is an end to that too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES, FILE_END = 400, 600
"""What a file aims at, and what none may have."""
FUNCTION_LINES, FUNCTION_END = 60, 120
FEW = 0.02
"""How many of all files, and of all functions, may be longer than they aim at."""
FOLDERS = ("liqod", "tui", "simulator", "tests", "benchmarks")

FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def sizes(tree: ast.AST) -> dict[str, int]:
    """The lines of each function of a module."""
    return {
        f"{node.name}, line {node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in functions(tree)
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_has_an_end_and_says_what_it_is_for(path: Path) -> None:
    source = path.read_text()
    lines = source.count("\n")
    assert lines <= FILE_END, f"{lines} lines: split it"
    tree = ast.parse(source)
    assert not tree.body or ast.get_docstring(tree), "no module docstring"
    long = {name: size for name, size in sizes(tree).items() if size > FUNCTION_END}
    assert not long, f"functions over {FUNCTION_END} lines: {long}"


def test_few_are_longer_than_they_aim_at() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in FILES}
    files = [name for name, text in texts.items() if text.count("\n") > FILE_LINES]
    assert len(files) <= FEW * len(texts), f"over {FILE_LINES} lines: {files}"
    every = [
        (f"{name}: {function}", size)
        for name, text in texts.items()
        for function, size in sizes(ast.parse(text)).items()
    ]
    long = [name for name, size in every if size > FUNCTION_LINES]
    assert len(long) <= FEW * len(every), f"functions over {FUNCTION_LINES} lines: {long}"
