"""The contracts of plugins as test suites: derive a class, name your plugin, and pytest tries it.

Suites of reflectors, discovery plugins, checks and tunnels find what the engine relies on, and what
the daemon would park. They need pytest with pytest-trio; those of tunnels root as well.
"""

from simulator.suites.providers import CheckContract, DiscoveryContract
from simulator.suites.reflectors import NAMES, NOW, ReflectorContract, StaticView
from simulator.suites.tunnels import TunnelContract

__all__ = [
    "NAMES",
    "NOW",
    "CheckContract",
    "DiscoveryContract",
    "ReflectorContract",
    "StaticView",
    "TunnelContract",
]
