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
REACHED: Final = (
    re.compile(r"\.(?<!\bself\.)(?<!\bcls\.)\s*(_\w+)"),
    re.compile(r"[\"'](_\w+)[\"']"),
)
"""Names that may be private ones of something else: of an attribute, or of a text."""
IMPORTED: Final = re.compile(r"\bfrom\s+liqod[\w.]*\s+import\s+(\([^)]*\)|.*)")
"""The names that are imported of the product."""


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


def suspected(text: str) -> frozenset[str]:
    """The private names that a module may reach: all of :func:`accesses`, and some more. To parse
    it would take much longer."""
    reached = {name for pattern in REACHED for name in pattern.findall(text)}
    imported = {name for names in IMPORTED.findall(text) for name in re.findall(r"\b_\w+", names)}
    return frozenset(filter(private, reached | imported))


def found(text: str, product: frozenset[str]) -> Iterator[tuple[int, str]]:
    """The accesses of a module to what is private in the product, and not its own."""
    if product.isdisjoint(suspected(text)):
        return
    tree = ast.parse(text)
    own = frozenset(definitions(tree))
    for line, name in accesses(tree):
        if private(name) and name in product - own:
            yield line, name


def product(names: frozenset[str]) -> frozenset[str]:
    """Those of these names that the product defines."""
    texts = (path.read_text() for path in (ROOT / "liqod").rglob("*.py"))
    trees = (ast.parse(text) for text in texts if not names.isdisjoint(re.findall(r"\b_\w+", text)))
    return names & {name for tree in trees for name in definitions(tree)}


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_private_is_reached_into(package: str):
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    its = product(frozenset[str]().union(*map(suspected, texts.values())))
    every = {name: list(found(text, its)) for name, text in texts.items()}
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
    its = frozenset({"_heap", "_replace", "__class__"})
    assert [name for _, name in found(text, its)] == names
