"""Docstrings begin as a manual does: a rule of ``docs/background/architecture.md``, held."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("liqod", "simulator", "tui")
WORDS = r"(?:What|Whatever|Whether|Who|Whoever|Whom|Whose|Which|Whichever)\b"
ASKS = re.compile(rf"(?:^|[.!?]\s+|\n\s*\n\s*)({WORDS})")
"""The beginning of a sentence that asks; a sentence ends at a stop, or with its paragraph."""


def asking(text: str) -> list[str]:
    """The words by which sentences of a docstring ask."""
    return ASKS.findall(text.strip())


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every docstring of a module with its line, those of its values and fields, too."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        before: ast.stmt | None = None
        for statement in node.body:
            documents = before is None or isinstance(before, ast.Assign | ast.AnnAssign)
            before = statement
            if documents and isinstance(statement, ast.Expr):
                value = statement.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield statement.lineno, value.value


@pytest.mark.parametrize("package", PACKAGES)
def test_no_sentence_of_a_docstring_asks(package: str):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {' '.join(text.split())[:80]}"
        for path in sorted((ROOT / package).rglob("*.py"))
        # To parse a module takes much longer than to look for the words.
        if re.search(WORDS, source := path.read_text())
        for line, text in docstrings(ast.parse(source))
        if asking(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Whether a pod may go there.", ["Whether"]),
        ("A slice.\n\nWho asks for it is refused.", ["Who"]),
        ("True if it may. What it may is not said.", ["What"]),
        ("The peer whose node it is; what it has lent.", []),
        ("Whole numbers of bytes. Whence they come is said.", []),
    ],
)
def test_sentences_that_ask_are_found(text: str, words: list[str]):
    assert asking(text) == words


REFERENCE = re.compile(r":(?:mod|class|func|meth|data|attr):`~?(\.+[\w.]+|liqod[\w.]*)`")


@cache
def names(path: Path) -> set[str]:
    """The names that a module has at its top."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Assign):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def leads(reference: str, module: Path) -> bool:
    """True if what a docstring of a module refers to is there."""
    words = reference.lstrip(".").split(".")
    if words[0] in names(module):
        return True
    place = ROOT
    if reference.startswith("."):
        place = module.parents[len(reference) - len(reference.lstrip(".")) - 1]
    for number, word in enumerate(words):
        if (place / word).is_dir():
            place /= word
            continue
        file = place / f"{word}.py"
        if file.exists():
            return number + 1 == len(words) or words[number + 1] in names(file)
        return word in names(place / "__init__.py")
    return True


@pytest.mark.parametrize("package", PACKAGES)
def test_what_docstrings_refer_to_is_there(package: str):
    missing = [
        f"{path.relative_to(ROOT)}: {reference}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for reference in REFERENCE.findall(path.read_text())
        if not leads(reference, path)
    ]
    assert not missing, "\n".join(missing)
