"""The size of what a reader has to hold in mind: files and functions stay small, modules say what
they are for. A file aims at 400 lines and a function at 60. One whole reads better than two halves,
so a few may be longer; there is an end to that too."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES, FILE_END = 400, 600
"""Lines that a file aims at, and lines that none may exceed."""
FUNCTION_LINES, FUNCTION_END = 60, 120
FEW = 0.02
"""How many of all files, and of all functions, may be longer than they aim at."""
FOLDERS = ("liqod", "tui", "simulator", "tests", "benchmarks")

BEGINS = re.compile(r"^( *)(?:((?:async )?def)\b|class\b|@)", re.MULTILINE)
"""The line by which a function, another thing with a body, or its decorators begin."""
TEXT = re.compile(r'"""(.*?)"""', re.DOTALL)

FILES = {folder: sorted((ROOT / folder).rglob("*.py")) for folder in FOLDERS}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module. They are statements: no expression has any within."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from functions(node)


class Module(NamedTuple):
    """The sizes of a module: its lines, its docstring, the lines of each function."""

    lines: int
    says: str | None
    sizes: dict[str, int]


def bounds(source: str) -> dict[str, int]:
    """The most lines that each function may have: it ends before the next that begins as far left
    as it does, or with the module."""
    begins = [
        (source.count("\n", 0, each.start()), len(each[1]), each[2])
        for each in BEGINS.finditer(source)
    ]
    end = source.count("\n")
    return {
        f"line {line + 1}": next((at for at, left, _ in begins[number:] if left <= indent), end)
        - line
        for number, (line, indent, function) in enumerate(begins, start=1)
        if function
    }


@functools.cache
def read(path: Path) -> Module:
    """A module; one without a statement says nothing and need not."""
    source = path.read_text()
    # To parse a module takes ten times as long, and few may have a function that is long.
    most = {} if any(map(BEGINS.search, TEXT.findall(source))) else bounds(source)
    if most and max(most.values()) <= FUNCTION_LINES and source.startswith('"""'):
        return Module(source.count("\n"), source, most)
    tree = ast.parse(source)
    sizes = {
        f"{node.name}, line {node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in functions(tree)
    }
    return Module(source.count("\n"), ast.get_docstring(tree) if tree.body else "", sizes)


def wrong(module: Module) -> list[str]:
    """The faults of a module."""
    long = {name: size for name, size in module.sizes.items() if size > FUNCTION_END}
    found = {
        f"{module.lines} lines: split it": module.lines > FILE_END,
        "no module docstring": module.says is None,
        f"functions over {FUNCTION_END} lines: {long}": bool(long),
    }
    return [complaint for complaint, holds in found.items() if holds]


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_file_has_an_end_and_says_what_it_is_for(folder: str) -> None:
    assert FILES[folder]
    found = {str(path.relative_to(ROOT)): wrong(read(path)) for path in FILES[folder]}
    assert {name: complaints for name, complaints in found.items() if complaints} == {}


def test_a_function_has_no_more_lines_than_its_bound() -> None:
    source = Path(__file__).read_text()
    sizes = {
        f"line {node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in functions(ast.parse(source))
    }
    most = bounds(source)
    assert sizes.keys() == most.keys()
    assert all(size <= most[line] for line, size in sizes.items())


def test_few_are_longer_than_they_aim_at() -> None:
    found = {str(path.relative_to(ROOT)): read(path) for path in chain(*FILES.values())}
    files = [name for name, module in found.items() if module.lines > FILE_LINES]
    assert len(files) <= FEW * len(found), f"over {FILE_LINES} lines: {files}"
    every = [
        (f"{name}: {function}", size)
        for name, module in found.items()
        for function, size in module.sizes.items()
    ]
    long = [name for name, size in every if size > FUNCTION_LINES]
    assert len(long) <= FEW * len(every), f"functions over {FUNCTION_LINES} lines: {long}"
