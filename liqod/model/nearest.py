"""Suggests the known name that is nearest to an unknown one. Pure."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The suggestion for an unknown name, as the end of a sentence.

    Args:
        name: the unknown name.
        known: the existing names.
        otherwise: the text where none is similar.
    """
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else otherwise
