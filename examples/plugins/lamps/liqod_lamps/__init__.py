"""A reflector for liqod: objects of the kind Lamp follow their namespace."""

from liqod.plugins.contracts import Reflector
from liqod.plugins.hookspecs import hookimpl

from .plugin import REFLECTOR


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """The reflectors of this package."""
    return [REFLECTOR]
