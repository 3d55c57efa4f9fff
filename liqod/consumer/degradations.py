"""Degradations of a peer whose API server answers, reported by the parts that notice them.

A server that answers a small probe may still answer nothing else.
"""

import logging
from collections.abc import Callable

import msgspec

log = logging.getLogger(__name__)


class Degradation(msgspec.Struct, frozen=True):
    """A fault at a peer that answers.

    Attributes:
        text: the fault and its reason, in one clause.
        grave: whether pods cannot be run there because of it.
        blind: whether the pods there cannot be seen because of it.
    """

    text: str
    grave: bool
    blind: bool = False


class Degradations:
    """The degradations of one peer.

    Args:
        changed: called after a change.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._found: dict[str, Degradation] = {}
        self._changed = changed

    def __bool__(self) -> bool:
        return bool(self._found)

    def __str__(self) -> str:
        return "; ".join(each.text for _, each in sorted(self._found.items()))

    @property
    def grave(self) -> bool:
        """True if one of them is grave."""
        return any(each.grave for each in self._found.values())

    @property
    def blind(self) -> bool:
        """True if one of them hides the pods there."""
        return any(each.blind for each in self._found.values())

    def report(self, component: str, degradation: Degradation | None) -> None:
        """Set the degradation that one part observes at the peer; None clears it."""
        if self._found.get(component) == degradation:
            return
        before = bool(self._found)
        self._found.pop(component, None)
        if degradation is not None:
            self._found[component] = degradation
        if self._found and not before:
            log.warning("the peer's API server does not do all that it should: %s", self)
        elif before and not self._found:
            log.info("the peer's API server does all that it should again")
        self._changed()
