"""No modules of a component import each other in a circle, imports for types included."""

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def imports(folder: str) -> dict[str, set[str]]:
    """The modules of a folder, and those of the same folder that each imports."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in (ROOT / "liqod" / folder).rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        nodes = ast.walk(ast.parse(path.read_text()))
        named = [
            (node.module or "", alias.name)
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ]
        wanted = {f"{parent}.{name}" for parent, name in named} | {parent for parent, _ in named}
        found[module] = (wanted & files.keys()) - {module}
    return found


@pytest.mark.parametrize("folder", ["consumer", "peers", "reflection"])
def test_modules_import_each_other_in_no_circle(folder: str) -> None:
    graph = imports(folder)
    assert len(graph) > 2
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, with the circle
