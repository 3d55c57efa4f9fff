"""The path from pods here to pods of a peer, as it was tried last, and its text on a Connection."""

from typing import Final, Literal, get_args

import msgspec

State = Literal["", "trying", "reached", "untried", "failed"]
"""Nobody tries the path; it is being tried; a packet came back; it cannot be tried; none did."""
SEPARATOR: Final = ": "


class PodPath(msgspec.Struct, frozen=True):
    """A path from a pod's address here to one of the peer's, and back.

    Attributes:
        state: what came of trying it last.
        why: of one that cannot be tried, or by which nothing comes back, the reason.
    """

    state: State = ""
    why: str = ""

    @property
    def text(self) -> str:
        """The value of the annotation :data:`liqod.apimachinery.labels.PODS` that says it."""
        return f"{self.state}{SEPARATOR}{self.why}" if self.why else self.state

    @property
    def open(self) -> bool:
        """True if another trial may end otherwise: one is under way, or nothing came back."""
        return self.state in ("trying", "failed")


NOT_TRIED: Final = PodPath()


def read(annotation: str) -> PodPath:
    """The path that an annotation says; of a state that is not known, as if nobody tried."""
    word, _, why = annotation.partition(SEPARATOR)
    for state in get_args(State):
        if word == state:
            return PodPath(state, why)
    return NOT_TRIED
