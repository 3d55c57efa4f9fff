"""Gadgets (``example.com/v1``): a reflector, a way of seeing clusters, a check.

An example of a third-party package; the documentation quotes it.
"""

from liqod.plugins.contracts import Reflector
from liqod.plugins.diagnosis import Check
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import DiscoveryProvider

from .check import CHECK
from .hosts import HOSTS
from .reflector import GADGETS as GADGETS
from .reflector import REFLECTOR


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """Gadgets follow their namespace; how they fare over there comes back."""
    return [REFLECTOR]


@hookimpl
def liqod_discovery() -> list[DiscoveryProvider]:
    """Clusters that a file names."""
    return [HOSTS]


@hookimpl
def liqod_checks() -> list[Check]:
    """Checks that a peer knows the kind Gadget."""
    return [CHECK]
