"""What pages show can be typed and applied: commands, kinds, targets, settings, manifests."""

import copy
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from liqod.cli import app
from liqod.install.manifests import SHARED_KINDS
from liqod.resources.crdmanifests import crd_manifests, make_crd
from simulator import builtins
from simulator.storage import schema
from tests.testbed.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
WRITTEN = sorted({*(ROOT / "docs").rglob("*.md")} - {REFERENCE / "commands.md"})
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *WRITTEN]
APART = ("run", "node", "top", "demo", "tunnel", "keeper")
"""Programs that have no part in the tree of commands."""
PLACE = "…"
"""What stands in a command for words of the reader's own."""
PREFIX = r"(?:sudo |env |kubectl (?=liqod )|[A-Z_]+=\S* )*"
OPEN = ("Missing", "Option '--", "Usage: ", "Invalid value for 'SHELL'")
"""How it is said that a command wants more: one that a sentence names need not have all of it."""
VALUED = ("-n", "-l", "-o", "-p", "--kubeconfig", "--field-selector", "--raw")
"""Options of kubectl whose next word is their value."""


def block_lines(text: str) -> Iterator[str]:
    """The lines of commands of a page: indented, or in a block that is marked ``console``."""
    language: str | None = None
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if fence := re.match(r" *```(\w*)", line):
            language = fence[1] if language is None else None
        elif language == "console" and line.startswith("$ "):
            yield line[2:]
        elif language is None and line.startswith("    "):
            yield re.sub(r"^ *(?:\w+\$ )?|  +#.*", "", line)


def named(text: str) -> Iterator[str]:
    """The texts in backticks of the sentences of a page."""
    sentences = re.sub(r"^ *```.*?^ *```|^    .*?$", "", text, flags=re.M | re.S)
    return (" ".join(each.split()) for each in re.findall(r"(?<!`)`([^`]+)`(?!`)", sentences))


def commands(line: str, program: str) -> Iterator[list[str]]:
    """The words behind a program's name, for each time that a line calls it."""
    for part in re.split(r" \| |&& | -- |; ", line):
        if called := re.match(rf"{PREFIX}{program} (?!is )([a-z-].*)", part):
            typed = re.sub(r" >>? .*| < .*", "", called[1])
            yield shlex.split(typed)


def mistake(words: list[str]) -> str:
    """What the program says of a command line that is none; empty for a good one."""
    if words[0] in APART:
        return ""
    try:
        _parse(get_command(app.tree(words)), [each for each in words if each != PLACE], None)
    except app.MISTAKE as error:
        return str(error.format_message())
    except RuntimeError:  # it has printed its version
        return ""
    return ""


def _parse(command: Any, words: list[str], above: Any) -> None:
    context = command.make_context(command.name, list(words), parent=above)
    rest = [*getattr(context, "_protected_args", ()), *context.args]
    if rest and hasattr(command, "commands"):
        _, below, more = command.resolve_command(context, rest)
        _parse(below, more, context)


@cache
def kinds() -> frozenset[str]:
    """The names by which kubectl knows kinds, with those of all our definitions."""
    found = [each["spec"]["names"] for each in definitions()]
    ours = {name for each in found for name in (each["plural"], each["singular"])}
    # Kubernetes has a kind of the same name as one of these.
    ours |= {each["metadata"]["name"] for each in definitions()}
    short = {
        name for each in found for key in ("shortNames", "categories") for name in each.get(key, ())
    }
    ordinary = {name for each in builtins.ALL for name in (each.plural, each.kind.lower())}
    abbreviated = {name for each in builtins.ALL for name in each.short_names}
    return frozenset({*ours, *short, *ordinary, *abbreviated})


@cache
def definitions() -> tuple[dict[str, Any], ...]:
    """The definitions of the custom resources that an installation may have."""
    return (*crd_manifests(), *map(make_crd, SHARED_KINDS))


def kinds_in(words: list[str]) -> set[str]:
    """The kinds that a command of kubectl is about."""
    plain = [
        each
        for before, each in zip(["", *words], words, strict=False)
        if not each.startswith("-") and before not in VALUED
    ]
    verbs = ("get", "describe", "delete", "annotate", "label", "patch", "expose", "restart")
    place = next((place for place, each in enumerate(plain) if each in verbs), len(plain))
    return {each.split("/")[0] for named in plain[place + 1 :][:1] for each in named.split(",")}


@pytest.mark.parametrize(
    "page", [each for each in PAGES if each.stem != "upgrade-notes"], ids=lambda page: page.name
)
def test_commands_of_a_page_can_be_typed(page: Path) -> None:
    text = page.read_text()
    typed = chain.from_iterable(commands(each, "liqod") for each in block_lines(text))
    wrong = {" ".join(each): why for each in typed if (why := mistake(each))}
    assert {line: why for line, why in wrong.items() if PLACE not in line} == {}
    inline = chain.from_iterable(commands(each, "liqod") for each in named(text))
    wrong = {" ".join(each): why for each in inline if (why := mistake(each))}
    assert {line: why for line, why in wrong.items() if not why.startswith(OPEN)} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_kinds_that_a_page_has_kubectl_take_are_there(page: Path) -> None:
    text = page.read_text()
    typed = [*block_lines(text), *named(text)]
    called = chain.from_iterable(commands(each, "kubectl") for each in typed)
    assert set().union(*map(kinds_in, called)) - {PLACE} <= kinds()


def test_targets_that_pages_make_are_there() -> None:
    rules = re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), re.M)
    targets = {target for rule in rules for target in rule.split()}
    texts = [page.read_text() for page in PAGES]
    typed = chain.from_iterable([*block_lines(text), *named(text)] for text in texts)
    made = {each[0] for line in typed for each in commands(line, "make")}
    assert "release" in made
    assert made <= targets


@pytest.mark.long
def test_settings_that_pages_show_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {}
    for page in (each for each in PAGES if each.stem != "plugins"):  # of packages of others
        for block in re.findall(r"^( *)```toml\n(.*?)^\1```", page.read_text(), re.M | re.S):
            file = tmp_path / "liqod.toml"
            file.write_text(block[1])
            if app.main(["check", "--config", str(file)]):
                wrong[block[1]] = capsys.readouterr().err
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_manifests_of_our_kinds_on_a_page_fit_their_definitions(page: Path) -> None:
    schemas = {
        (f"{one['spec']['group']}/{each['name']}", one["spec"]["names"]["kind"]): each["schema"]
        for one in definitions()
        for each in one["spec"]["versions"]
    }
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S):
        for shown in filter(None, yaml.safe_load_all(block)):
            key = (shown.get("apiVersion"), shown.get("kind")) if isinstance(shown, dict) else ()
            if key in schemas:
                structure = schemas[key]["openAPIV3Schema"]
                assert schema.prune(copy.deepcopy(shown), structure) == []
                assert schema.validate(shown, structure) == []


def test_the_page_of_commands_names_what_each_is_given() -> None:
    headings = re.findall(r"^## (`liqod .*`)$", (REFERENCE / "commands.md").read_text(), re.M)
    assert "`liqod explain [KIND] [NAME]`" in headings
    assert [each for each in headings if "None" in each or "[[" in each] == []


@pytest.mark.parametrize(
    "line",
    [
        "peer milan --cpus 4",
        "pear milan",
        "test networks",
        "unpeer milan --forget=1",
        "offload shop",
    ],
)
def test_a_command_that_cannot_be_typed_is_found(line: str) -> None:
    assert mistake(line.split())


def test_commands_are_read_from_blocks_and_sentences() -> None:
    line = "kubectl kustomize . | liqod plan -f -"
    text = f"Say `sudo liqod node --clean-all`:\n\n    rome$ {line}   # all\n"
    assert list(block_lines(text)) == [line]
    assert list(commands(line, "liqod")) == [["plan", "-f", "-"]]
    assert [list(commands(each, "liqod")) for each in named(text)] == [[["node", "--clean-all"]]]
    assert kinds_in(["-n", "shop", "get", "outp,ip", "-o", "yaml"]) == {"outp", "ip"}
    assert kinds_in(["rollout", "restart", "deployment", "liqod"]) == {"deployment"}
