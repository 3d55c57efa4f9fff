"""Every command that a page of start or how-to shows is typed by a test."""

import pytest

from tests.testbed import shownblocks
from tests.testbed.shownblocks import Block, Shown, commands


@pytest.mark.parametrize("page", shownblocks.pages())
def test_each_command_of_a_page_is_typed(page: str) -> None:
    rows = [each for each in TABLE if each[0] == page]
    assert [(heading, line) for _, heading, line, where in rows if not where] == []


def test_blocks_are_read_from_a_page(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = """\
# A page

    make all      # of it

## Both

- a list
    that is no block

  1. with one:

       milan$ liqod invite \\
           --cpu 4
       liqod://…

```console
$ LIQOD_LOG=debug liqod status
all is well
```

    [Service]
    User=liqod

## Last

```
rewrite name exact
```
"""
    (tmp_path / "page.md").write_text(page)
    monkeypatch.setattr(shownblocks, "DOCS", tmp_path)
    assert shownblocks.blocks("page") == (
        Block("page", "", (Shown("", "make all"),)),
        Block("page", "Both", (Shown("milan", "liqod invite --cpu 4"),)),
        Block("page", "Both", (Shown("", "LIQOD_LOG=debug liqod status"),)),
    )
    assert commands("page", "Both", only="liqod status") == [
        Shown("", "LIQOD_LOG=debug liqod status")
    ]
    with pytest.raises(AssertionError, match="has not all of"):
        commands("page", "Neither")


def test_what_asks_is_answered() -> None:
    lines = ("liqod unpeer milan", "liqod rotate key --dry-run", "liqod peer milan")
    told = [shownblocks.answered(Shown("", each)).line for each in lines]
    assert told == ["liqod unpeer milan --yes", *lines[1:]]


TABLE = list(shownblocks.table())
