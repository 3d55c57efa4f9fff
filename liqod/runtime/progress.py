"""The steps that a procedure names as it goes on, for the display."""

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with a few words about the awaited step, or with a :class:`Step`, which has details."""


class Step(str):
    """A step with details: the text ``name: detail``, of the same step as ``name``.

    To be sent or kept it has to be made a plain ``str``: msgspec encodes no class of its own.

    Args:
        name: the step.
        detail: the news of it; empty for none.
    """

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str, detail: str = "") -> "Step":
        """The text of a step with its detail."""
        made = super().__new__(cls, f"{name}: {detail}" if detail else name)
        made.name = name
        return made


def name_of(step: str) -> str:
    """The step that a text is of: two texts of one are the same step."""
    return step.name if isinstance(step, Step) else step
