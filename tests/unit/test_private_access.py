"""Tests ask of the product what is public: nothing private of ``liqod`` is named by them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("tests", "simulator", "benchmarks")
OF_TUPLES: Final = {"_replace", "_asdict", "_fields", "_make"}
"""Public methods of named tuples, which begin so that no field has their name."""
EXCEPTIONS: Final = {
    "tests/stateful/test_mutants.py": "each test takes out one safeguard from within",
}
"""Files that reach into something private, and why nothing public does."""
NAMED: Final = re.compile(r"(?<!\bself\.)(?<!\bcls\.)(?<!\bdef )(?<!\bclass )\b_\w+")
"""Names that may be private ones of something else."""


def private(name: str) -> bool:
    """True for the name of something private."""
    return name[:1] == "_" and name != "_" and name[:2] != "__" and name not in OF_TUPLES


def definitions(tree: ast.Module) -> Iterator[str]:
    """The private names that a module defines: functions, classes, values, fields of ``self``."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def accesses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The private names that a module uses of something else than ``self``, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                continue
            case ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("liqod"):
                yield from ((node.lineno, each.name) for each in names)
            case ast.Call(args=[_, ast.Constant(value=str(name)), *_]):  # getattr, setattr
                yield node.lineno, name


def found(text: str, product: frozenset[str]) -> Iterator[tuple[int, str]]:
    """The accesses of a module to what is private in the product, and not its own."""
    # Most name nothing of it but after `self`, and to parse one takes much longer than this.
    if product.isdisjoint(NAMED.findall(text)):
        return
    tree = ast.parse(text)
    own = frozenset(definitions(tree))
    for line, name in accesses(tree):
        if private(name) and name in product - own:
            yield line, name


@pytest.fixture(scope="module")
def product() -> frozenset[str]:
    """The private names of the product."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "liqod").rglob("*.py"))
    return frozenset(name for tree in trees for name in definitions(tree) if private(name))


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_private_is_reached_into(package: str, product: frozenset[str]):
    every = {
        str(path.relative_to(ROOT)): list(found(path.read_text(), product))
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    where = {name for name, reached in every.items() if reached}
    wrong = [
        f"{file}:{line}: {name}"
        for file in sorted(where - EXCEPTIONS.keys())
        for line, name in every[file]
    ]
    assert not wrong, "\n".join(wrong)
    needless = {name for name in EXCEPTIONS if name.startswith(f"{package}/")} - where
    assert not needless, "these reach into nothing private any more"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("queue._heap", ["_heap"]),
        ("self._heap", []),
        ("self.queue._heap.clear()", ["_heap"]),
        ("def _heap(): ...\nqueue._heap()", []),
        ("class A:\n    def __init__(self): self._heap = 1\nqueue._heap", []),
        ("super()._heap", []),
        ("from liqod.kube.queue import _heap", ["_heap"]),
        ("monkeypatch.setattr(queue, '_heap', [])", ["_heap"]),
        ("row._replace(a=1), row.__class__", []),
    ],
)
def test_what_reaches_into_something_private_is_found(text: str, names: list[str]):
    product = frozenset({"_heap", "_replace", "__class__"})
    assert [name for _, name in found(text, product)] == names
