"""The linter of prose counts words as a reader does, and looks at no code."""

from pathlib import Path

import pytest

from tests.testbed import prose

WORD = "word "


def long(text: str) -> list[tuple[int, str, int]]:
    """What is found too long in a page, without the text itself."""
    return [(each.line, each.what, each.words) for each in prose.looked_through(text)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("one, two - three.", 3),
        ("`liqod peer --cpu 4` is code", 3),
        ("[a link](docs/a-page.md#there) has words", 4),
        ("peer's 1,024 bytes", 3),
        ("", 0),
    ],
)
def test_words_are_counted_as_they_are_shown(text: str, count: int):
    assert prose.words(text) == count


def test_a_sentence_is_too_long_by_one_word():
    text = f"A {WORD * (prose.SENTENCE - 1)}.\n"
    assert long(text) == []
    assert long(text.replace("A", "A one")) == [(1, "sentence", prose.SENTENCE + 1)]


def test_each_sentence_of_a_paragraph_counts_by_itself_over_all_of_its_lines():
    half = WORD * (prose.SENTENCE // 2 + 1)
    assert long(f"# Head\n\nA {half}\n{half}.\nShort. (A short one.) `code` is short.\n") == [
        (3, "sentence", 2 * (prose.SENTENCE // 2 + 1) + 1)
    ]
    assert long(f"A {half}. `x` {half}.\nThe {half}. **The** {half}.\n") == []


def test_an_item_of_a_list_is_a_text_of_its_own():
    half = WORD * (prose.SENTENCE // 2 + 1)
    assert long(f"- a {half}\n- a {half}\n1. a {half}\n") == []


def test_code_and_headings_are_not_looked_at():
    much = WORD * (prose.SENTENCE + 1)
    assert long(f"# {much}\n\n```\n{much}\n```\n\n    {much}\n\n<!-- {much} -->\n") == []


def test_a_cell_has_a_bound_of_its_own():
    most, more = WORD * prose.CELL, WORD * (prose.CELL + 1)
    row = f"| a | {most}|\n| b | {more}|\n| c \\| {WORD}| d |\n"
    assert long(f"| x | y |\n| --- | --- |\n{row}") == [(4, "cell", prose.CELL + 1)]


def test_what_is_printed_names_page_line_and_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = tmp_path / "page.md"
    page.write_text(f"\nIt is {WORD * 40}.\n")
    prose.main([str(page)])
    shown = f"It is {WORD * 10}".strip()
    assert capsys.readouterr().out == f"{page}:2: sentence of 42 words: {shown} …\n"


def test_the_sum_is_one_line(capsys: pytest.CaptureFixture[str]):
    prose.main(["--sum"])
    assert capsys.readouterr().out.startswith("in all: ")
