"""Interface for adverts in discovery: verifies those of others, and gives this cluster's own."""

from typing import Protocol

from liqod.discovery.sightings import AdvertContent
from liqod.errors import LiqodError
from liqod.plugins.providers import Announcement


class Adverts(Protocol):
    """How adverts are signed and verified.

    The daemon's (``advertsigner``) knows the handshake, and is in a layer above: this one must not
    name it.
    """

    @property
    def key(self) -> str:
        """SHA-256 of this cluster's public key, in hex; empty while it is not known."""
        ...

    def announcement(self) -> Announcement | None:
        """This cluster's announcement to others; None for none."""
        ...

    def read(self, advert: str) -> AdvertContent:
        """The verified content of an advert. Raises LiqodError where its signature is not valid."""
        ...


class NoAdverts:
    """Those of a daemon that takes no handshake: nothing is announced, and nothing verified."""

    key = ""

    def announcement(self) -> Announcement | None:
        """Nothing."""
        return None

    def read(self, advert: str) -> AdvertContent:
        """Raises LiqodError."""
        raise LiqodError("this daemon verifies no adverts")
