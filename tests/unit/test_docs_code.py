"""Files and functions that the pages for newcomers name are where these pages say."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIQOD = ROOT / "liqod"
WAYS = (
    "One pod's event",
    "One custom resource's event",
    "A stream to a pod",
    "A packet's path: from ranges to a rule",
    "Who may borrow: kubeconfig, Tenant, slice",
    "A new fact: from where it is known to every interface",
)
"""Sections of architecture.md in which every name in backticks is in a file of the section."""
PLACE = re.compile(r"\.?[\w-][\w./-]*(?:\.py|/)")
DOCSTRINGS = "The first line of a docstring"
"""The section of architecture.md that is checked row by row."""
NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)(?:\([^()]*\))?")


def sections() -> dict[str, str]:
    """The sections of architecture.md by their headings, without blocks of code."""
    text = re.sub(
        r"^```.*?^```",
        "",
        (ROOT / "docs/background/architecture.md").read_text(),
        flags=re.M | re.S,
    )
    parts = [each.partition("\n") for each in text.split("\n## ")[1:]]
    return {heading: body for heading, _, body in parts}


def rows() -> dict[str, str]:
    """The rows of CONTRIBUTING's table of where to begin, by their first cells."""
    table = (ROOT / "CONTRIBUTING.md").read_text().split("\n## Where to begin\n")[1]
    lines = [each for each in table.splitlines() if each.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines[2:]}


def tree() -> set[str]:
    """The paths of the folders and files in CONTRIBUTING's tree, by its indentation."""
    block = (ROOT / "CONTRIBUTING.md").read_text().split("\n## The tree\n")[1].split("\n## ")[0]
    found, above = set(), [""] * 8
    for line in block.splitlines():
        if not line.startswith("    "):
            continue
        depth = (len(line) - len(line.lstrip()) - 4) // 2
        for name in re.match(r"((?:[\w.]+(?:/|\.py) *)+)", line.strip())[0].split():  # type: ignore[index]
            above[depth] = "".join(above[:depth][-1:]) + name
            found.add(above[depth])
    return found


def test_the_tree_names_what_is_there_and_each_package_of_liqod() -> None:
    named = tree()
    assert not [each for each in named if not (ROOT / each).exists()]
    packages = {f"liqod/{each.parent.name}/" for each in LIQOD.glob("*/__init__.py")}
    assert packages <= named


def parts() -> Iterator[tuple[str, str]]:
    """The texts to check: each section, each row."""
    yield from sections().items()
    yield from rows().items()


def quoted(text: str) -> list[str]:
    """The texts in backticks."""
    return re.findall(r"`([^`]+)`", text.replace("\n", " "))


def places(text: str) -> dict[str, list[Path]]:
    """The paths that each name of a file or folder may mean.

    A name is that of a path from the root, from ``liqod/``, or from a folder that the same text
    names, itself or by one of its files.
    """
    named = [each for each in quoted(text) if PLACE.fullmatch(each)]
    bases = [ROOT, LIQOD]
    found: dict[str, list[Path]] = {}
    for name in sorted(named, key=lambda each: each.rstrip("/").count("/"), reverse=True):
        found[name] = [base / name for base in bases if (base / name).exists()]
        bases += [path if path.is_dir() else path.parent for path in found[name]]
    return found


@functools.cache
def defined(file: Path) -> frozenset[str]:
    """The names that a module defines, members of classes behind their class."""
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        names |= own_names(node)
        if isinstance(node, ast.ClassDef):
            members = set().union(*map(own_names, node.body), fields(node))
            names |= {f"{node.name}.{member}" for member in members}
    return frozenset(names)


def own_names(node: ast.AST) -> set[str]:
    """The names that a statement binds."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Assign():
            targets = node.targets
        case ast.AnnAssign():
            targets = [node.target]
        case _:
            return set()
    flat = [each for target in targets for each in getattr(target, "elts", [target])]
    return {each.id for each in flat if isinstance(each, ast.Name)}


def fields(found: ast.ClassDef) -> set[str]:
    """The attributes that a class sets on ``self``."""
    return {
        node.attr
        for node in ast.walk(found)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if isinstance(node.value, ast.Name) and node.value.id == "self"
    }


def docstrings(file: Path) -> dict[str, str]:
    """The docstrings of a module, by name: of itself (empty), of what it defines, of members."""
    tree = ast.parse(file.read_text())
    found = {"": ast.get_docstring(tree) or ""} | of_body(tree.body, "")
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found |= of_body(node.body, f"{node.name}.")
    return {name: " ".join(text.split()) for name, text in found.items()}


def of_body(body: list[ast.stmt], prefix: str) -> dict[str, str]:
    """The docstrings of statements; that of an assignment is the string behind it."""
    found: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        match node, after:
            case ((ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef()), _):
                found[prefix + node.name] = ast.get_docstring(node) or ""
            case ((ast.Assign() | ast.AnnAssign()), ast.Expr(ast.Constant(str(text)))):
                found |= {prefix + name: text for name in own_names(node)}
    return found


def examples() -> dict[str, tuple[str, str]]:
    """The rule's examples: what each is of, and its first lines before and now."""
    table = sections()[DOCSTRINGS].split("| --- | --- | --- |\n")[1]
    cells = [line.strip("| ").split(" | ") for line in table.strip().splitlines()]
    return {of: (before, now) for of, before, now in cells}


def named_in(text: str) -> list[str]:
    """The names of code that a text has in backticks."""
    found = [NAME.fullmatch(each) for each in quoted(text) if not PLACE.fullmatch(each)]
    return [each[1] for each in found if each is not None]


def missing(text: str) -> list[str]:
    """The names that no file has which the text names."""
    paths = [path for found in places(text).values() for path in found]
    files = {
        file
        for path in paths
        for file in (path.glob("*.py") if path.is_dir() else [path])
        if file.suffix == ".py"
    }
    known = frozenset[str]().union(*map(defined, files))
    return [each for each in named_in(text) if each not in known]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in parts()])
def test_files_and_folders_that_are_named_are_there(text: str):
    assert not [name for name, found in places(text).items() if not found]


@pytest.mark.parametrize("heading", WAYS)
def test_functions_of_a_way_are_in_the_files_that_it_names(heading: str):
    text = sections()[heading]
    assert named_in(text)
    assert not missing(text)


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in rows().items()])
def test_functions_of_a_row_are_in_the_files_that_it_names(row: str):
    assert not missing(row)


def test_members_of_classes_that_are_named_anywhere_are_there():
    dotted = {each for _, text in parts() for each in named_in(text) if "." in each}
    named = {each for each in dotted if each[0].isupper()}
    assert named
    # Others are not parsed, which would take much longer than to look for the words.
    classes = re.compile(rf"\bclass (?:{'|'.join({each.split('.')[0] for each in named})})\b")
    files = [each for each in LIQOD.rglob("*.py") if classes.search(each.read_text())]
    everywhere = frozenset[str]().union(*map(defined, files))
    assert named <= everywhere


def test_a_name_that_moved_is_found_missing():
    text = (
        "`Gone.answer` and `judge` (`handshake/requests/policies.py`),"
        " `Prober.run` (`network/probing/conncheck.py`)"
    )
    assert missing(text) == ["Gone.answer"]
    assert places("`handshake/nowhere.py`, `handshake/requests/`, `policies.py`") == {
        "handshake/nowhere.py": [],
        "handshake/requests/": [LIQOD / "handshake/requests"],
        "policies.py": [LIQOD / "handshake/requests/policies.py"],
    }


def test_the_rule_of_docstrings_has_ten_examples():
    assert len(examples()) == 10


@pytest.mark.parametrize("of", examples())
def test_an_example_of_the_rule_of_docstrings_stands_in_the_code(of: str):
    before, now = examples()[of]
    ((path,),) = places(of).values()
    (text,) = [docstrings(path)[name] for name in named_in(of) or [""]]
    assert text.startswith(now)
    asking = re.compile(r"(?:^|[.:;] )(?:What|Whether|Who|Whose)\b")
    assert asking.search(before)
    assert not asking.search(text)
