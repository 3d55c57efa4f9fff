"""The site is made of the pages as they are: by their parts, with what they link to."""

from pathlib import Path

import pytest

from deploy import site
from deploy.outcome import Unbuildable

README = "# shop\n\n[how](docs/how-to/sell.md), [files](examples/two), [no](https://example.org)\n"
SELL = "# Sell `it`\n\n[up](../../README.md#shop) and [one](../../examples/two/one.yaml)\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small repository."""
    texts = {
        "README.md": README,
        "CHANGELOG.md": "# Changes\n",
        "docs/how-to/sell.md": SELL,
        "docs/background/why.md": "# Why\n",
        "examples/two/one.yaml": "{}\n",
    }
    for name, text in texts.items():
        file = tmp_path / "repository" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "repository"


def test_pages_lie_as_in_the_repository_with_all_that_they_link_to(root: Path, tmp_path: Path):
    into = tmp_path / "pages"
    site.lay_out(root, into)
    assert (
        "[how](docs/how-to/sell.md), [files](examples/two/index.md)"
        in (into / "index.md").read_text()
    )
    sell = (into / "docs/how-to/sell.md").read_text()
    assert "[up](../../index.md#shop) and [one](../../examples/two/one.yaml)" in sell
    assert (into / "examples/two/one.yaml").exists()
    assert "[one.yaml](one.yaml)" in (into / "examples/two/index.md").read_text()


def test_a_part_that_a_page_links_to_has_a_page_that_names_all_of_it(root: Path, tmp_path: Path):
    (root / "README.md").write_text("# shop\n\n[all](docs/how-to/)\n")
    into = tmp_path / "pages"
    site.lay_out(root, into)
    assert "[all](docs/how-to/index.md)" in (into / "index.md").read_text()
    assert (into / "docs/how-to/index.md").read_text() == "# How to\n\n- [Sell it](sell.md)"
    listed = '{"How to" = ["docs/how-to/index.md", {"Sell it" = "docs/how-to/sell.md"}]}'
    assert listed in site.navigation(into)


def test_the_tree_has_the_parts_in_their_order_and_none_that_is_empty(root: Path, tmp_path: Path):
    into = tmp_path / "pages"
    site.lay_out(root, into)
    assert site.navigation(into) == (
        '[{"liqod" = "index.md"}, {"How to" = [{"Sell it" = "docs/how-to/sell.md"}]},'
        ' {"Background" = [{"Why" = "docs/background/why.md"}]},'
        ' {"About" = [{"Changes" = "CHANGELOG.md"}]}]'
    )


def test_pages_are_in_the_order_in_which_their_part_names_them(root: Path, tmp_path: Path):
    links = "[b](buy.md), [w](../background/why.md)\n\n## Later\n\n- [s](sell.md), [b](buy.md)\n"
    for name, text in (("README", f"# How to\n\n{links}"), ("buy", "# Buy"), ("ask", "# Ask")):
        (root / f"docs/how-to/{name}.md").write_text(text)
    (root / "docs/background/why.md").write_text("# Why\n\n[how](../how-to/README.md)\n")
    into = tmp_path / "pages"
    site.lay_out(root, into)
    assert "[how](../how-to/index.md)" in (into / "docs/background/why.md").read_text()
    assert (
        ' {"How to" = ["docs/how-to/index.md", {"Buy" = "docs/how-to/buy.md"},'
        ' {"Later" = [{"Sell it" = "docs/how-to/sell.md"}]}, {"Ask" = "docs/how-to/ask.md"}]},'
    ) in site.navigation(into)


def test_without_a_page_of_its_own_a_part_is_in_the_order_of_the_first_one(
    root: Path, tmp_path: Path
):
    readme = f"{README}\n## Read\n\n[why](docs/background/why.md), [but](docs/background/but.md)\n"
    (root / "README.md").write_text(readme)
    (root / "docs/background/but.md").write_text("# But\n")
    into = tmp_path / "pages"
    site.lay_out(root, into)
    assert (
        '{"Background" = [{"Why" = "docs/background/why.md"}, {"But" = "docs/background/but.md"}]}'
    ) in site.navigation(into)


@pytest.mark.parametrize("part", site.PARTS)
def test_each_page_is_named_where_its_part_is_listed(part: str):
    folder = site.ROOT / "docs" / part
    own = folder / "README.md"
    start = own if own.exists() else site.ROOT / "README.md"
    named = {(start.parent / link).resolve() for _, link in site.LINK.findall(start.read_text())}
    assert {*folder.glob("*.md")} - {own} - named == set()


def test_what_belongs_to_an_item_is_four_columns_in():
    text = "1. One\n\n   more\n\n       code\n- Two\n  more\n\nNo item.\n\n    code\n"
    assert site.indented(text) == (
        "1. One\n\n    more\n\n        code\n- Two\n    more\n\nNo item.\n\n    code\n"
    )


def test_a_block_of_code_stays_as_it_is():
    text = "- One\n\n```yaml\n- a:\n  b: 1\n```\n"
    assert site.indented(text) == text


@pytest.mark.long
def test_a_link_that_leads_nowhere_is_an_error(root: Path, tmp_path: Path):
    (root / "docs/background/why.md").write_text("# Why\n\n[nowhere](because.md)\n")
    with pytest.raises(Unbuildable, match="does not exist"):
        site.build(root, tmp_path / "site")
    assert not (tmp_path / "site").exists()
