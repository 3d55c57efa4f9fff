"""The plugins of this daemon, and the calls of them, as components that call plugins get them."""

from typing import Any

from liqod.plugins.callguard import ORDINARY, CallGuard, CallGuards, CallGuardTimings
from liqod.plugins.loader import Plugins


class PluginHost:
    """Has the plugins that were loaded, and what their calls have cost and come to.

    Args:
        loaded: the loaded plugins, and those left out.
        timings: the limits of their calls.

    Attributes:
        loaded: the same.
        calls: the gauges of all of them.
    """

    def __init__(self, loaded: Plugins, timings: CallGuardTimings = ORDINARY) -> None:
        self.loaded = loaded
        self.calls = CallGuards(timings)

    def gauge(self, kind: str, name: str) -> CallGuard:
        """The wall around the calls of one plugin; a ``probe`` is a check's."""
        brought = "check" if kind == "probe" else kind
        return self.calls.of(kind, name, own=(brought, name) in self.loaded.own)

    def settings(self, kind: str, name: str) -> Any:
        """The settings of a plugin, as its own type has them; None where there are none."""
        return self.loaded.settings.get((kind, name))
