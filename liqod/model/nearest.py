"""The name that somebody may have meant who wrote one that nobody knows. Pure."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """What may have been meant, as the end of a sentence.

    Args:
        name: what was written.
        known: the names that there are.
        otherwise: said where none is like it.
    """
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else otherwise
