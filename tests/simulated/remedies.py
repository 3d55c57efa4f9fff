"""Commands that are printed as what to do next, taken from the text as a reader copies them."""

import re

PUT_IN = "x"
"""Placeholder in a form for the words that the program puts in."""


def taken(text: str, form: str, **read: str) -> list[str]:
    """The words of a command that a text prints, without the program's name.

    Args:
        text: what was printed.
        form: the command, as :mod:`tests.unit.test_printed_commands` finds it in the program; each
            form is to be taken, and run, by a test in the state in which it is printed.
        read: what a reader puts in the place of a word in capitals.
    """
    words = (r"([^`\s]+)" if each == PUT_IN else re.escape(each) for each in form.split())
    found = re.search(rf"`liqod {' '.join(words)}`", " ".join(text.split()))
    assert found is not None, f"nothing of the form {form!r} in: {text}"
    return [read.get(each, each) for each in found.group().strip("`").split()[1:]]
