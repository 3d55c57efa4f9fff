"""The hooks: few, synchronous, and each returns descriptions of what a plugin provides.

A plugin is a module or object with any of these functions, each marked ``@hookimpl``, named by an
entry point of the group ``liqod.plugins``. Hooks are called once, when the daemon starts; they
must not do I/O. See ``docs/reference/plugins.md``.
"""

from collections.abc import Sequence

import pluggy

from liqod.plugins.contracts import Reflector
from liqod.plugins.diagnosis import Check
from liqod.plugins.providers import DiscoveryProvider, TunnelProvider

PROJECT = "liqod"
"""The name that pluggy's markers share."""
ENTRY_POINTS = "liqod.plugins"
"""The group of entry points that plugins are found by."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def liqod_reflectors() -> Sequence[Reflector]:
    """The reflectors that this plugin brings: one for each local kind, as a rule."""
    return ()


@hookspec
def liqod_discovery() -> Sequence[DiscoveryProvider]:
    """The discovery sources that this plugin brings."""
    return ()


@hookspec
def liqod_checks() -> Sequence[Check]:
    """The layers that this plugin has the doctor look at."""
    return ()


@hookspec
def liqod_network() -> Sequence[TunnelProvider]:
    """The tunnel backends that this plugin brings."""
    return ()
