"""The troubleshooting page quotes what liqod really says, and each of its rows is tested."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "troubleshooting.md"
ANY = "…"
HEADER = ["symptom", "what it says", "what it means", "what to do"]


def rows() -> list[tuple[str, list[str]]]:
    """Each row of the tables: the first sentence that it quotes, and all cells."""
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells != HEADER and set(cells[0]) != {"-"}:
            found.append((cells[1], cells))
    return found


def quoted() -> list[str]:
    """The sentences that are quoted as what liqod says."""
    spans = (re.findall(r"`([^`]+)`", said) for said, _ in rows())
    return sorted({text for each in spans for text in each if " " in text})


@cache
def sources() -> dict[Path, str]:
    """The text of every module of the program."""
    return {path: path.read_text() for path in sorted((ROOT / "liqod").rglob("*.py"))}


@cache
def texts(path: Path) -> frozenset[str]:
    """Every text in a module, with the mark where it puts something in."""
    return frozenset(_texts(ast.parse(sources()[path])))


def spoken(words: list[str]) -> Iterator[str]:
    """The texts of the modules that have all of these words; to parse one takes much longer than
    to look for them."""
    for path, source in sources().items():
        if all(word in source for word in words):
            yield from texts(path)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else ANY for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[sd]|%\.\d+f", ANY, node.value)


@pytest.mark.parametrize("sentence", quoted())
def test_what_is_quoted_is_what_is_said(sentence: str):
    wanted = sentence.strip(ANY).strip()
    parts = wanted.split(ANY)
    pattern = re.compile(r".*".join(map(re.escape, parts)), re.DOTALL)
    words = [word for part in parts for word in part.split()]
    assert any(pattern.search(text) for text in spoken(words)), f"nobody says {sentence!r}"


REASONS = {
    "… could not make the namespace …": "CreationLoopBackOff",
    "… had ended, and runs again in a pod that was made anew at the peer": "RESTARTED",
    "… on this cluster's own nodes, though its strategy is Remote": "stayed",
    "… is the name of …; delete this VirtualNode, or that Node": "NameTaken",
    "a pod named … exists here and is not this ShadowPod's": "NameTaken",
    "failed, and is tried again": "failed, and is tried again",
    "namespace … is no longer offloaded to …": "OffloadingAborted",
    "namespace … is not offloaded to …": "OffloadingBackOff",
    "namespace name … has … characters; … are allowed": "NameTooLong",
    "negative quantities: …": "negative",
    "the mapping is immutable: … is asked for, … stays": "MappingImmutable",
    "the pod ran and is gone, and nobody saw how it ended": "PodLost",
    "the server has gone back in time": "test_a_server_restored_from_a_backup_is_listed_again",
    "the slice of … is cordoned": '"reason", "Cordoned"',
    "the status from … is refused here: …": "StatusRefused",
    "the tenant is cordoned: it gets nothing for new slices": "Cordoned",
    "this pod cannot be offloaded: …": "OffloadingUnsupported",
}
"""Texts that tests look for in place of the sentence itself: its reason, mostly."""


@cache
def suite() -> str:
    """The text of every test."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return "\n".join(each.read_text() for each in files if each != Path(__file__))


@pytest.mark.parametrize("sentence", quoted())
def test_what_is_quoted_is_tested(sentence: str):
    """Some test looks for a good part of each sentence, or for the reason it comes with."""
    if sentence in REASONS:
        assert REASONS[sentence] in suite()
        return
    longest = max((part.strip(" ,:;") for part in sentence.split(ANY)), key=len)
    words = longest.split()
    spans = (" ".join(words[at : at + 4]) for at in range(max(1, len(words) - 3)))
    assert any(span in suite() for span in spans), f"no test looks for {longest!r}"


def test_every_row_says_what_it_means_and_what_to_do():
    assert len(rows()) > 30
    for said, cells in rows():
        assert len(cells) == len(HEADER), cells
        assert said, cells
        assert all(cells[1:]), cells
