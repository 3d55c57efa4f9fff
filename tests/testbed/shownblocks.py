"""The commands that the pages of start and how-to show, and the tests that type each.

A test types the commands of sections by :func:`commands`, those of a whole page by :func:`whole`.
``python -m tests.testbed.shownblocks`` lists each block with the tests that do.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
TYPED: Final = frozenset(
    (
        *("cd", "export", "helm", "journalctl", "kubectl", "liqoctl", "liqod", "make", "man"),
        *("mkdir", "openssl", "pip", "pipx", "podman", "python", "python3", "rm", "sha256sum"),
        *("skopeo", "sudo", "systemctl", "tar"),
    )
)
"""Programs by which a block is known to be one of commands."""
ASKING: Final = (
    *("drain", "migrate", "peer 'liqod://", "revoke", "rotate key"),
    *("uninstall", "unoffload", "unpeer"),
)
"""Commands that ask, which ``--yes`` answers."""
_PROMPT: Final = re.compile(r"(?:(rome|milan)\$ |\$ )")
_COMMENT: Final = re.compile(r"(?:^|  +)#.*")
_VARIABLE: Final = re.compile(r"[A-Z_]+=\S* ")


class Shown(NamedTuple):
    """A command of a page.

    Attributes:
        at: the cluster whose prompt is before it; empty for none.
        line: the command, without prompt and comment.
    """

    at: str
    line: str


class Block(NamedTuple):
    """A block of commands: its page, such as ``how-to/nat``, its heading, and the commands."""

    page: str
    heading: str
    commands: tuple[Shown, ...]


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """All blocks of commands of a page, in their order."""
    found = []
    for heading, lines in _texts((DOCS / f"{page}.md").read_text()):
        if read := _commands(lines):
            found.append(Block(page, heading, read))
    return tuple(found)


def pages() -> list[str]:
    """The pages that are held to it."""
    folders = (DOCS / "start", DOCS / "how-to")
    return [f"{each.name}/{path.stem}" for each in folders for path in sorted(each.glob("*.md"))]


def commands(page: str, *headings: str, only: str = "") -> list[Shown]:
    """The commands of sections of a page.

    Args:
        page: such as ``how-to/nat``.
        headings: of the sections, in the order in which they are to be typed.
        only: the program that the commands begin with; empty for all.
    """
    every = [each for heading in headings for each in blocks(page) if each.heading == heading]
    assert {each.heading for each in every} == set(headings), f"{page} has not all of {headings}"
    found = [each for block in every for each in block.commands]
    return [each for each in found if _VARIABLE.sub("", each.line).startswith(only)]


def parted(shown: Sequence[Shown], first: str) -> tuple[list[Shown], list[Shown]]:
    """Commands before the first one that begins with some words, and those from that one on."""
    place = next(number for number, each in enumerate(shown) if each.line.startswith(first))
    return [*shown[:place]], [*shown[place:]]


def answered(shown: Shown) -> Shown:
    """A command, with the answer to what it asks."""
    asks = any(shown.line.startswith(f"liqod {each}") for each in ASKING)
    wants = asks and not shown.line.endswith("--dry-run")
    return shown._replace(line=f"{shown.line} --yes") if wants else shown


def whole(page: str) -> str:
    """The text of a page all of whose commands a test types."""
    return (DOCS / f"{page}.md").read_text()


def typed() -> dict[tuple[str, str, str], set[str]]:
    """The files of tests that type each command, by page, heading and line."""
    found: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "shownblocks." not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            for page, heading, line in _chosen(node):
                found[page, heading, line].add(str(path.relative_to(ROOT)))
    return found


def _chosen(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """The commands that a call of :func:`commands` or :func:`whole` in a test is about."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    owner, called = node.func.value, node.func.attr
    if not isinstance(owner, ast.Name) or owner.id != "shownblocks":
        return
    if called not in ("whole", "commands"):
        return
    page, *headings = [ast.literal_eval(each) for each in node.args]
    more = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
    if called == "whole":
        headings = [each.heading for each in blocks(page)]
    for heading in headings:
        yield from ((page, heading, each.line) for each in commands(page, heading, **more))


def _texts(page: str) -> Iterator[tuple[str, list[str]]]:
    """The headings and lines of blocks that are indented, or fenced as a console's or nothing's."""
    heading, fence, apart = "", "", True
    lines: list[str] = []
    for line in [*page.splitlines(), "## "]:
        if (fenced := re.match(r" *```(\w*)", line)) is not None:
            if fence in ("", "console", "none"):
                yield heading, lines
            fence, lines = ("" if fence else fenced[1] or "none"), []
        elif fence or (line.startswith("    ") and (apart or lines)):
            lines.append(line)
        elif line or not lines:
            if lines:
                yield heading, lines
            lines = []
            heading = line.removeprefix("## ") if line.startswith("## ") else heading
        apart = not line.strip()


def _commands(lines: list[str]) -> tuple[Shown, ...]:
    joined = re.sub(r"\\\n *", "", "\n".join(lines)).splitlines()
    stripped = [each.strip() for each in joined if each.strip()]
    prompted = any(_PROMPT.match(each) for each in stripped)
    found = []
    for line in stripped:
        prompt = _PROMPT.match(line)
        if prompt is None and prompted:
            continue  # output
        text = _COMMENT.sub("", line[prompt.end() :] if prompt else line)
        found.append(Shown((prompt and prompt[1]) or "", re.sub(" {2,}", " ", text)))
    first = _VARIABLE.sub("", found[0].line).split()[0] if found else ""
    return tuple(found) if prompted or first.rpartition("/")[2] in TYPED else ()


def table() -> Iterator[tuple[str, str, str, str]]:
    """Each command by page, heading and line, and the tests that type it."""
    found = typed()
    for page in pages():
        for block in blocks(page):
            for _, line in block.commands:
                tests = sorted(found.get((page, block.heading, line), ()))
                yield page, block.heading, line, ", ".join(tests)


if __name__ == "__main__":
    print("\n".join(" | ".join(each) for each in table()))
