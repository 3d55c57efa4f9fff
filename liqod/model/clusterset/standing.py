"""The treatment of a peer's endpoints while nothing gets through to it. Pure."""

from enum import Enum
from typing import Final

LEASE: Final = 300.0
"""Seconds of silence after which the endpoints of a peer are removed."""


class Standing(Enum):
    """The treatment of a peer's endpoints, by the link to it."""

    REACHED = "reached"
    """Their conditions are those that the peer tells."""
    SILENT = "silent"
    """None is ready, but they stay."""
    LAPSED = "lapsed"
    """They are removed; the exports still count until the peer says that they have ended."""


def standing(silence: float | None, lease: float = LEASE) -> Standing:
    """The treatment of a peer's endpoints after seconds of silence; None while the link is up."""
    if silence is None:
        return Standing.REACHED
    return Standing.LAPSED if silence >= lease else Standing.SILENT
