"""The path from local pods to pods of a peer, as last tried, and its text on a Connection."""

from typing import Final, Literal, get_args

import msgspec

State = Literal["", "trying", "reached", "untried", "failed"]
"""The path is not tried; is being tried; a packet came back; it cannot be tried; none came back."""
SEPARATOR: Final = ": "


class PodPath(msgspec.Struct, frozen=True):
    """A path from the address of a local pod to one of the peer's, and back.

    Attributes:
        state: the result of the last trial.
        why: the reason of a path that cannot be tried, or by which nothing comes back.
    """

    state: State = ""
    why: str = ""

    @property
    def text(self) -> str:
        """The path as the value of the annotation :data:`liqod.apimachinery.labels.PODS`."""
        return f"{self.state}{SEPARATOR}{self.why}" if self.why else self.state

    @property
    def open(self) -> bool:
        """True if another trial may end otherwise: one is under way, or nothing came back."""
        return self.state in ("trying", "failed")


NOT_TRIED: Final = PodPath()


def read(annotation: str) -> PodPath:
    """The path in an annotation; one of an unknown state is a path that is not tried."""
    word, _, why = annotation.partition(SEPARATOR)
    for state in get_args(State):
        if word == state:
            return PodPath(state, why)
    return NOT_TRIED
