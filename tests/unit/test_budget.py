"""The size of what a reader has to hold in mind: files and functions stay small, modules say what
they are for. The figures are the project's own rules, not a matter of taste in each review."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES = 400
FUNCTION_LINES = 60
FOLDERS = ("liqod", "tui", "tests", "benchmarks")

FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_is_small_and_says_what_it_is_for(path: Path) -> None:
    source = path.read_text()
    lines = source.count("\n")
    assert lines <= FILE_LINES, f"{lines} lines: split it"
    tree = ast.parse(source)
    assert not tree.body or ast.get_docstring(tree), "no module docstring"
    long = {
        f"{node.name}, line {node.lineno}": size
        for node in functions(tree)
        if (size := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert not long, f"functions over {FUNCTION_LINES} lines: {long}"
