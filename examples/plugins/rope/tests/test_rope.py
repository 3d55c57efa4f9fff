"""The contract of tunnels, by real packets between network namespaces: as root."""

from liqod_rope.plugin import TUNNEL

from simulator.suites import TunnelContract


class TestRope(TunnelContract):
    provider = TUNNEL
