"""State of the admission policies that restrict consumers, for the controllers that lend."""

from collections.abc import Mapping


class GuestPolicies:
    """Result of the check of these policies; before the first check no problem is seen.

    Attributes:
        missing: names of the policies that are gone, or deny nothing any more.
        known: whether that is checked now.
        bounds: on what consumers may make of packages' kinds in a namespace, as was granted here.
    """

    def __init__(self) -> None:
        self.missing: tuple[str, ...] = ()
        self.known = False
        self.bounds: Mapping[str, str] = {}

    @property
    def problem(self) -> str:
        """Why nothing new is lent, one sentence; empty where nothing is in the way."""
        if not self.missing:
            return ""
        return (
            f"the admission policies that hold guests are missing here ({', '.join(self.missing)}):"
            " nothing new is lent until the provider's administrator runs `liqod install` again"
        )
