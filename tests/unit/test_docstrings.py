"""Docstrings begin as a manual does: the rule in ``docs/architecture.md``, held for the product."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("liqod", "simulator", "tui")
ASKS = re.compile(
    r"(?:^|[.!?]\s+|\n\s*\n\s*)((?:What|Whatever|Whether|Who|Whoever|Whom|Whose|Which|Whichever)\b)"
)
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
        for line, text in docstrings(ast.parse(path.read_text()))
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
