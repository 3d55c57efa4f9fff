"""Interface for adverts in discovery: verifies those of others, and gives this cluster's own."""

from typing import Protocol

from liqod.discovery.sightings import AdvertContent
from liqod.errors import LiqodError
from liqod.plugins.providers import Announcement


class Adverts(Protocol):
    """The interface that signs and verifies adverts.

    The daemon's implementation (``advertsigner``) uses the handshake, and is in a layer above: this
    one must not import it.
    """

    @property
    def key(self) -> str:
        """SHA-256 of this cluster's public key, in hex; empty while unknown."""
        ...

    def announcement(self) -> Announcement | None:
        """This cluster's announcement to others; None for none."""
        ...

    def read(self, advert: str) -> AdvertContent:
        """The verified content of an advert. Raises LiqodError if its signature is invalid."""
        ...


class NoAdverts:
    """The adverts of a daemon without handshake: nothing is announced, and nothing verified."""

    key = ""

    def announcement(self) -> Announcement | None:
        """None: nothing is announced."""
        return None

    def read(self, advert: str) -> AdvertContent:
        """Raise LiqodError."""
        raise LiqodError("this daemon verifies no adverts")
