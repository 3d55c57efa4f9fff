"""A check for liqod's doctor: each peer's Kubernetes is new enough."""

from liqod.plugins.diagnosis import Check
from liqod.plugins.hookspecs import hookimpl

from .plugin import CHECK


@hookimpl
def liqod_checks() -> list[Check]:
    """The checks of this package."""
    return [CHECK]
