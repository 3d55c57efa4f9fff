"""The documentation names what there is: every setting, every variable, every right,
every test."""

import functools
import re
from pathlib import Path

import msgspec
import pytest

from liqod import config
from liqod.install import __main__ as rights
from liqod.plugins import declared

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
DEVELOPERS = {"CONTRIBUTING", "architecture", "security", "performance"}
"""Pages that name tests, as what shows that they are right, or prints their figures."""
USERS = [each for each in PAGES if each.stem not in DEVELOPERS]
READ = [page for page in PAGES if page.parent.name in ("start", "how-to")]
PLAIN = {
    *("Borrow, lend", "Channel", "Doctor", "Invitation", "Layer", "Link", "Mapped namespace"),
    *("Peer", "Policy", "Relay", "Return", "Words"),
}
"""Words of the glossary that these pages use in their plain sense, too, or at every turn."""
LISTS = {"peers": config.PeerSettings, "policies": config.PeerPolicy}


def test_every_setting_is_documented_under_its_table():
    text = (DOCS / "reference" / "configuration.md").read_text()
    sections = {
        name: section
        for section in text.split("\n## ")[1:]
        for name in re.findall(r"`\[+([a-z_]+)\]+`", section.splitlines()[0])
    }
    for table in msgspec.structs.fields(config.Config):
        struct = LISTS.get(table.name, table.type)
        documented = set(re.findall(r"^\| `([a-z_]+)` ", sections[table.name], re.M))
        names = {field.name for field in msgspec.structs.fields(struct)}
        if struct is config.GuestSettings:
            names ^= {"opt_ins", *(each.setting for each, _ in declared.opt_ins())}
        assert names <= documented, table.name


def test_every_variable_is_documented():
    text = (DOCS / "reference" / "configuration.md").read_text()
    assert set(config.ENVIRONMENT) <= set(re.findall(r"`(LIQOD_[A-Z_]+)`", text))


def test_rights_are_those_of_the_installation():
    assert rights.FILE.read_text() == rights.render(), "run `python -m liqod.install`"


def without_blocks(page: Path) -> str:
    """The text of a page without its blocks of code, which are examples."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """The anchors that a page offers to links: its headings without marks, in small letters."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path):
    for target in re.findall(r"\]\((?!https?:)([^)]*)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_a_page_names_are_there(page: Path):
    text = without_blocks(page)
    functions, modules = names_of_tests()
    named = {*re.findall(r"\btest_\w+", re.sub(r"[\w/]+/(?=test_)", "", text))}
    assert named <= functions | modules
    paths = {each.rstrip(".") for each in re.findall(r"\btests/[\w./-]*\w", text)}
    assert not [each for each in paths if not is_there(each)]


@pytest.mark.parametrize("page", USERS, ids=lambda page: page.name)
def test_a_page_for_users_names_no_test(page: Path):
    assert not re.findall(r"\btests?/[\w./-]+|\btest_\w+", without_blocks(page))


def test_a_word_of_the_glossary_is_in_its_place_and_linked_where_it_is_used():
    glossary = DOCS / "reference" / "glossary.md"
    words = re.findall(r"^## (.*)", glossary.read_text(), re.M)
    assert words == sorted(words, key=str.lower)
    others = " ".join(page.read_text() for page in PAGES if page != glossary)
    linked = {*re.findall(r"glossary\.md#([\w-]+)", others)}
    assert anchors(glossary) - {"glossary"} == linked


def sentences(page: Path) -> str:
    """The words of a page, without headings, commands, code and links."""
    apart = (
        r"^ *```(?:.|\n)*?^ *```",
        r"^#.*",
        r"(?<=\n\n)(?: {4}.*\n)+",
        r"`[^`]*`",
        r"\[[^\]]*\]\([^)]*\)",
    )
    return re.sub("|".join(apart), " ", page.read_text(), flags=re.M)


def uses(page: Path, word: str) -> bool:
    """True if a sentence of a page has a word of the glossary."""
    apart = {"Gateway": r"Envoy\s+Gateway|Gateway\s+API", "Tenant": r"tenant\s+namespace"}.get(
        word, "$^"
    )
    text = re.sub(apart, "", sentences(page), flags=re.I)
    return bool(re.search(rf"(?<![\w/.-]){word}s?(?![\w-])", text, re.I))


@pytest.mark.parametrize("page", READ, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_a_page_links_each_word_of_the_glossary_that_it_uses(page: Path):
    glossary = DOCS / "reference" / "glossary.md"
    words = {*re.findall(r"^## (.*)", glossary.read_text(), re.M)} - PLAIN
    linked = {*re.findall(r"glossary\.md#([\w-]+)", page.read_text())}
    used = {word for word in words if uses(page, word)}
    assert {word for word in used if word.lower().replace(" ", "-") not in linked} == set()


@functools.cache
def names_of_tests() -> tuple[set[str], set[str]]:
    """Names of all functions that are tests, and of the modules that have them."""
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("simulator/suites/*.py")]
    functions = {
        name
        for file in files
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(), re.M)
    }
    return functions, {file.stem for file in files}


def is_there(path: str) -> bool:
    """True if a path of the tree is that of a file, with or without its ending, or of a folder."""
    return (ROOT / path).exists() or (ROOT / f"{path}.py").exists()
