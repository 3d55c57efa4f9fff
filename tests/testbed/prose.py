"""Warnings about prose that is long: sentences and cells of tables, page by page.

``python -m tests.testbed.prose`` prints how many each page has; given pages, it prints each of
these with its line. `make lint` prints the sum. Nothing fails by it: some long sentence is right.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
SENTENCE: Final = 35
"""Words that a sentence has at the most."""
CELL: Final = 50
"""Words that a cell of a table has at the most."""
SHOWN: Final = 12
"""Words of a text that is too long which are printed."""

_MARK: Final = re.compile(r"^ *(?:[-*]|\d+\.) +")
_END: Final = re.compile(r"(?<=[.!?])[)*]*\s+(?=[\[`*\"'(]*[A-Z0-9`])")
_GENERATED: Final = "<!-- Made by"


class Long(NamedTuple):
    """A text that is too long.

    Attributes:
        line: the line at which it, or its paragraph, begins.
        what: ``sentence`` or ``cell``.
        words: how many it has.
        text: the text.
    """

    line: int
    what: str
    words: int
    text: str


def looked_through(text: str) -> Iterator[Long]:
    """What is too long in a page; code and headings are not looked at."""
    for line, paragraph in _paragraphs(text):
        for each in _END.split(paragraph):
            if (count := words(each)) > SENTENCE:
                yield Long(line, "sentence", count, each)
    for line, row in _lines(text):
        if row.startswith("|"):
            for each in re.split(r"(?<!\\)\|", row):
                if (count := words(each)) > CELL:
                    yield Long(line, "cell", count, each.strip())


def words(text: str) -> int:
    """How many words a text has; code is one word, a link has those that are shown."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
    return len(re.findall(r"[\w'’.,-]*\w[\w'’.,-]*", shown))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside of code, numbered."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and items of lists as one line each, with the number of their first."""
    first, found = 0, list[str]()
    for number, line in [*_lines(text), (0, "")]:
        ends = not line.strip() or line.startswith(("|", "#", "<!--"))
        if found and (ends or _MARK.match(line)):
            yield first, " ".join(found)
            found = []
        if ends or (not found and line.startswith("    ") and not _MARK.match(line)):
            continue
        first = first if found else number
        found.append(_MARK.sub("", line).strip())


def pages() -> list[Path]:
    """All pages that people write."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [each for each in found if _GENERATED not in each.read_text()]


def summary(found: Sequence[Long]) -> str:
    """How many texts are too long, in words."""
    sentences = sum(each.what == "sentence" for each in found)
    cells = len(found) - sentences
    return f"{sentences} sentences of more than {SENTENCE} words, {cells} cells of more than {CELL}"


def main(words: Sequence[str]) -> None:
    """Print the warnings: of pages that are named each, else how many, or the sum alone."""
    if words and words != ["--sum"]:
        for name in words:
            for each in looked_through(Path(name).read_text()):
                shown = " ".join(each.text.split()[:SHOWN])
                print(f"{name}:{each.line}: {each.what} of {each.words} words: {shown} …")
        return
    found = {page: list(looked_through(page.read_text())) for page in pages()}
    if not words:
        for page, those in found.items():
            if those:
                print(f"{page.relative_to(ROOT)}: {summary(those)}")
    print(f"in all: {summary([each for those in found.values() for each in those])}")


if __name__ == "__main__":
    main(sys.argv[1:])
